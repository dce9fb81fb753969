"""Layout operations at run time: the address arithmetic of the generated code against flydsl-layout.

A kernel evaluates many random layout expressions at the coordinate of its thread; some shapes and strides are
run-time values. Python evaluates the same expressions with the numbers filled in.

``LAYOUTS_ON_DEVICE=200`` runs so many kernels, ``LAYOUTS_ON_DEVICE_SEED`` starts elsewhere.
"""

import functools
import os
import random

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.layout as fl
import flydsl.runtime as rt
from flydsl._mlir import ir
from flydsl._mlir.dialects import fly
from flydsl.layout.text import parse_layout

KERNELS = int(os.environ.get("LAYOUTS_ON_DEVICE", "4"))
SEED = int(os.environ.get("LAYOUTS_ON_DEVICE_SEED", "1"))
CASES, THREADS, VALUES = 24, 64, 16

# An expression is (kind, operand, ...); a number n < 0 in a layout stands for the run-time value number -n - 1.


def flat(x):
    return [y for part in x for y in flat(part)] if isinstance(x, tuple) else [x]


def fill(x, values):
    """An expression's nested tuple with its run-time values in place."""
    if isinstance(x, tuple):
        return tuple(fill(y, values) for y in x)
    return values[-x - 1] if x < 0 else x


@flyc.kernel
def evaluate_kernel(Values: fx.Tensor, Out: fx.Tensor, cases: fx.Constexpr):
    t = fx.thread_idx.x
    values = [Values[i] for i in fx.range_constexpr(VALUES)]

    def layout(operand):
        return fx.make_layout(*(fill(x, values) for x in operand))

    def number(x):
        return fx.Int32(fx.get_scalar(x))

    for i in fx.range_constexpr(len(cases)):
        kind, first, *others = cases[i]
        a = layout(first)
        if fx.const_expr(kind == "at"):
            result = number(fx.crd2idx(t % number(fx.size(a)), a))
        elif fx.const_expr(kind == "coordinate"):
            result = number(fx.crd2idx(fx.idx2crd(t % number(fx.size(a)), a), layout(others[0])))
        elif fx.const_expr(kind == "flat_coordinate"):
            result = number(fx.crd2idx(fx.get_flat_coord(t % number(fx.size(a)), a), layout(others[0])))
        elif fx.const_expr(kind == "linear"):
            result = number(fx.get_1d_coord(t % number(fx.size(a)), a))
        elif fx.const_expr(kind == "composition"):
            b = layout(others[0])
            result = number(fx.crd2idx(t % number(fx.size(b)), fx.composition(a, b)))
        elif fx.const_expr(kind == "divide"):
            divided = fx.logical_divide(a, fx.make_tile(*[layout(o) for o in others]))
            result = number(fx.crd2idx(t % number(fx.size(divided)), divided))
        elif fx.const_expr(kind == "product"):
            product = fx.logical_product(a, layout(others[0]))
            result = number(fx.crd2idx(t % number(fx.size(product)), product))
        elif fx.const_expr(kind == "swizzle"):
            composed = fx.make_composed_layout(fx.static(fx.SwizzleType.get(*others[0])), a)
            result = number(fx.crd2idx(t % number(fx.size(a)), composed))
        else:
            column = a(None, t % number(fx.size(a[1])))
            result = number(fx.crd2idx(t % number(fx.size(a[0])), column)) + t * 0
            result = result + number(fx.crd2idx((0, t % number(fx.size(a[1]))), a))
        Out[i, t] = result


@flyc.jit
def evaluate(Values: fx.Tensor, Out: fx.Tensor, cases: fx.Constexpr, stream: fx.Stream = fx.Stream(None)):
    evaluate_kernel(Values, Out, cases).launch(grid=1, block=THREADS, stream=stream)


def expected(case, values, t):
    """The same expression by flydsl-layout."""
    kind, first, *others = case
    a = fl.Layout(*(fill(x, values) for x in first))

    def other(i):
        return fl.Layout(*(fill(x, values) for x in others[i]))

    if kind == "at":
        return a(t % a.size())
    if kind == "coordinate":
        return fl.crd2idx(fl.idx2crd(t % a.size(), a), other(0))
    if kind == "flat_coordinate":
        return fl.crd2idx(fl.get_flat_coord(t % a.size(), a), other(0))
    if kind == "linear":
        return fl.get_1d_coord(t % a.size(), a)
    if kind in ("composition", "divide", "product"):
        made = inferred(case)
        if made is None:
            raise fl.LayoutError("refused by the dialect")
        return made(t % made.size())
    if kind == "swizzle":
        bits, base, shift = others[0]
        index = a(t % a.size())
        return index ^ ((index & (((1 << bits) - 1) << (base + shift))) >> shift)
    rows, columns = (fl.size(a[i]) for i in (0, 1))
    return fl.crd2idx((t % rows, t % columns), a) + 0


@functools.cache
def inferred(case):
    """The layout that the dialect infers from static operands, None if it refuses, for operations that make one.

    Whether that layout is right is the subject of test_layout_differential.py; here it is the code that counts.
    """
    kind, *operands = case
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            types = [fly.LayoutType.get(*x) for x in operands]
            if kind == "divide":
                types[1:] = [fly.TileType.get(types[1:])]
            operation = {"divide": fly.logical_divide, "product": fly.logical_product}.get(kind, fly.composition)
            try:
                result = operation(*(fly.static(t) for t in types))
            except (ir.MLIRError, ValueError):
                return None
        return parse_layout(str(result.type).removeprefix("!fly.layout<").removesuffix(">"))


class Cases:
    """Random expressions that Python accepts."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.values = [self.random.choice((1, 2, 3, 4, 6, 8)) for _ in range(VALUES)]

    def extent(self, dynamic):
        if dynamic and self.random.random() < 0.3:
            return -1 - self.random.randrange(VALUES)
        return self.random.choice((1, 2, 2, 3, 4, 4, 8))

    def shape(self, dynamic, rank=None):
        rank = rank or self.random.randint(1, 3)
        return tuple(
            tuple(self.extent(dynamic) for _ in range(2)) if self.random.random() < 0.3 else self.extent(dynamic)
            for _ in range(rank)
        )

    def strides(self, shape, dynamic):
        if isinstance(shape, tuple):
            return tuple(self.strides(s, dynamic) for s in shape)
        if dynamic and self.random.random() < 0.3:
            return -1 - self.random.randrange(VALUES)
        return self.random.choice((0, 1, 2, 3, 4, 8, 16, 24, 100))

    def layout(self, dynamic=True, rank=None):
        shape = self.shape(dynamic, rank)
        return shape, self.strides(shape, dynamic)

    def compact(self):
        shape = self.shape(False)
        order, stride = flat(shape), 1
        strides = {}
        for leaf in self.random.sample(range(len(order)), len(order)):
            strides[leaf], stride = stride, stride * order[leaf]
        numbers = iter(range(len(order)))

        def place(x):
            return tuple(place(y) for y in x) if isinstance(x, tuple) else strides[next(numbers)]

        return shape, place(shape)

    def one(self):
        kinds = "at at coordinate flat_coordinate linear composition divide product swizzle slice"
        kind = self.random.choice(kinds.split())
        if kind in ("coordinate", "flat_coordinate"):
            a = self.compact()
            shape = a[0] if kind == "coordinate" else tuple(fl.size(s) for s in a[0])
            return kind, a, (shape, self.strides(shape, True))
        if kind == "linear":
            return kind, self.compact()
        if kind == "composition":
            return kind, self.layout(False), self.compact() if self.random.random() < 0.5 else self.layout(False, 1)
        if kind == "divide":
            a = self.layout(False, 2)
            return kind, a, *[((self.random.choice((1, 2, 4)),), (self.random.choice((1, 2)),)) for _ in range(2)]
        if kind == "product":
            return kind, self.compact(), self.compact()
        if kind == "swizzle":
            return kind, self.layout(), (self.random.randint(1, 3), self.random.randint(0, 3), 3)
        return kind, self.layout(rank=2) if kind == "slice" else self.layout()

    def some(self, count):
        found = []
        while len(found) < count:
            case = self.one()
            try:
                expected(case, self.values, 1)
            except fl.LayoutError:
                continue
            found.append(case)
        return tuple(found)


@pytest.mark.parametrize("seed", range(SEED, SEED + KERNELS))
def test_run_time_layouts(seed):
    made = Cases(seed)
    cases = made.some(CASES)
    out = np.full((CASES, THREADS), -7777, np.int32)
    evaluate(np.array(made.values, np.int32), out, cases)
    rt.synchronize()
    for i, case in enumerate(cases):
        want = np.array([expected(case, made.values, t) for t in range(THREADS)])
        wrong = np.flatnonzero(out[i] != want)
        assert not wrong.size, (
            f"seed {seed}: {case} with values {made.values} at t = {wrong[0]}: "
            f"{out[i][wrong[0]]}, expected {want[wrong[0]]}"
        )
