"""The layout algebra in Python (flydsl-layout) against the one in C++ (type inference of the fly dialect).

Random operands, static and symbolic, go through both.  Where both answer, the answers must be the same text.  With
static operands Python may answer where the divisibility rules of the dialect refuse: compositions across uneven modes,
left inverses of strides that do not nest.  (Its answers are proven exact in packages/flydsl-layout/tests, test_fuzz*.py
and test_exhaustive.py.)  Otherwise both must refuse the same cases.

``LAYOUT_DIFFERENTIAL=20000`` runs so many cases of each operation, ``LAYOUT_DIFFERENTIAL_SEED`` starts elsewhere.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import flydsl.layout as L
from flydsl.layout import Basis, ComposedLayout, CoordSwizzle, Dyn, Layout, LayoutError, Swizzle, Tile

pytestmark = pytest.mark.one_arch

ir = pytest.importorskip("flydsl._mlir.ir")
fly = pytest.importorskip("flydsl._mlir.dialects.fly")

CASES = int(os.environ.get("LAYOUT_DIFFERENTIAL", "300"))
SEED = int(os.environ.get("LAYOUT_DIFFERENTIAL_SEED", "1"))


class Operands:
    """Random operands: half of the cases static, the others with dynamic leaves in some places."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.dynamic = self.rng.random() < 0.5

    def choice(self, *xs: Any) -> Any:
        return self.rng.choice(xs)

    def dyn(self, div: int = 1) -> Dyn:
        return Dyn(self.choice(32, 32, 32, 64), div * self.choice(1, 1, 2, 4, 8))

    def extent(self) -> Any:
        if self.dynamic and self.rng.random() < 0.25:
            return self.dyn()
        return self.choice(1, 1, 2, 2, 3, 4, 4, 5, 6, 8, 8, 12, 16, 32, 64)

    def shape(self, depth: int = 2, rank: int | None = None) -> Any:
        if rank is None and (depth == 0 or self.rng.random() < 0.35):
            return self.extent()
        return tuple(self.shape(depth - 1) for _ in range(rank or self.choice(1, 2, 2, 2, 3)))

    def static_shape(self, depth: int = 1, rank: int | None = None) -> Any:
        keep, self.dynamic = self.dynamic, False
        s = self.shape(depth, rank)
        self.dynamic = keep
        return s

    def fill(self, shape: Any, draw: Callable[[], Any]) -> Any:
        return tuple(self.fill(s, draw) for s in shape) if isinstance(shape, tuple) else draw()

    def stride(self) -> Any:
        if self.dynamic and self.rng.random() < 0.25:
            return self.dyn()
        return self.choice(0, 1, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)

    def layout(self, depth: int = 2, rank: int | None = None) -> Layout:
        shape = self.shape(depth, rank)
        if self.rng.random() < 0.6:
            return self.compact(shape)
        return Layout(shape, self.fill(shape, self.stride))

    def compact(self, shape: Any) -> Layout:
        flat = list(_leaves(shape))
        order = list(range(len(flat)))
        self.rng.shuffle(order)
        strides: list[Any] = [0] * len(flat)
        running: Any = 1
        for i in order:
            if self.rng.random() < 0.15:
                running = L.int_tuple_mul(running, self.choice(2, 3))
            strides[i] = 0 if self.rng.random() < 0.07 else running
            running = L.int_tuple_mul(running, flat[i])
        it = iter(strides)
        return Layout(shape, self.fill(shape, lambda: next(it)))

    def static_layout(self, depth: int = 1, rank: int | None = None) -> Layout:
        keep, self.dynamic = self.dynamic, False
        x = self.layout(depth, rank)
        self.dynamic = keep
        return x

    def small(self) -> Layout:
        shape = self.fill(self.static_shape(1), lambda: self.choice(1, 2, 2, 3, 4, 4, 5, 8))
        keep, self.dynamic = self.dynamic, False
        x = self.compact(shape) if keep or self.rng.random() < 0.8 else Layout(shape, self.fill(shape, self.stride))
        self.dynamic = keep
        return x

    def basis_layout(self) -> Layout:
        shape = self.shape(2, self.choice(1, 2, 2, 3))
        if self.rng.random() < 0.5:
            return L.make_identity_layout(shape)

        def draw() -> Basis:
            # A zero next to dynamic leaves makes irregular modes that are static by themselves: Python answers them.
            value = (
                self.dyn()
                if self.dynamic and self.rng.random() < 0.2
                else self.choice(1, 1, 2, 3, 4, int(self.dynamic))
            )
            return Basis(value, self.choice((0,), (1, 0), (1, 1), (2,)))

        return Layout(shape, self.fill(shape, draw))

    def swizzle(self) -> Swizzle:
        return Swizzle(self.choice(0, 1, 2, 3), self.choice(0, 1, 2, 3, 4), self.choice(1, 2, 3, 4))

    def composed(self) -> ComposedLayout:
        inner = self.swizzle() if self.rng.random() < 0.8 else self.layout()
        offset = self.dyn() if self.dynamic and self.rng.random() < 0.3 else self.choice(0, 0, 0, 8, 16, 24)
        return ComposedLayout(inner, offset, self.layout())

    def some(self) -> Any:
        return self.choice(self.layout(), self.layout(), self.basis_layout(), self.composed())

    def narrow(self) -> Any:
        return self.choice(self.layout(), self.layout(), self.layout(), self.composed())

    def tile(self, rank: int | None = None, none: bool = True, depth: int = 1) -> Tile:
        def entry() -> Any:
            roll = self.rng.random()
            if roll < 0.1 and none:
                return None
            if roll < 0.65:
                return self.choice(1, 2, 3, 4, 5, 8, 16)
            return self.small() if roll < 0.9 or not depth else self.tile(self.choice(1, 2), none, depth - 1)

        return Tile(*(entry() for _ in range(rank or self.choice(1, 2, 2, 3))))

    def leaf(self) -> Any:
        roll = self.rng.random()
        if self.dynamic and roll < 0.4:
            return self.dyn()
        if roll < 0.45:
            return None
        return self.choice(0, 1, 2, 3, 4, 5, 7, 8, 12, 16, 20, 48, -2, 1)

    def tuple(self, depth: int = 2) -> Any:
        if depth == 0 or self.rng.random() < 0.35:
            return self.leaf()
        return tuple(self.tuple(depth - 1) for _ in range(self.choice(1, 2, 2, 3)))

    def like(self, shape: Any, draw: Callable[[], Any], stop: float = 0.2) -> Any:
        if isinstance(shape, tuple) and self.rng.random() >= stop:
            return tuple(self.like(s, draw, stop) for s in shape)
        return draw()

    def coord(self, shape: Any, holes: float = 0.0) -> Any:
        def draw() -> Any:
            if self.rng.random() < holes:
                return None
            return self.dyn() if self.dynamic and self.rng.random() < 0.4 else self.choice(0, 1, 2, 3, 5, 7)

        return self.like(shape, draw)


def _leaves(x: Any) -> Iterator[Any]:
    if isinstance(x, tuple):
        for e in x:
            yield from _leaves(e)
    else:
        yield x


def _paired(o: Operands) -> tuple[Any, Any]:
    a = o.tuple()
    return (a, o.like(a, o.leaf, 0.1)) if o.rng.random() < 0.6 else (a, o.tuple())


def _sliced(o: Operands, holes: float, composed: bool = True) -> tuple[Any, Any]:
    a = o.choice(o.layout(2, 2), o.layout(2, 3), o.composed() if composed else o.layout(2, 2), o.shape(2, 2))
    return a, o.coord(a if isinstance(a, tuple) else a.shape, holes)


def _tiled(o: Operands) -> tuple[Any, Any]:
    a = o.choice(o.layout(2, 2), o.layout(2, 3), o.layout(), o.basis_layout(), o.composed())
    return a, (o.small() if o.rng.random() < 0.4 else o.tile(min(o.choice(1, 2, 3), a.rank)))


def _by_tile(o: Operands) -> tuple[Any, Any]:
    """Tiles without holes and nested tiles only where there are modes for them (zipped and its kin)."""
    a = o.choice(o.layout(2, 2), o.layout(2, 3), o.layout(), o.basis_layout(), o.composed())
    return a, (o.small() if o.rng.random() < 0.3 else o.tile(o.rng.randint(1, a.rank), False, 0))


def _product(o: Operands) -> tuple[Any, Any]:
    a = o.compact(o.shape()) if o.rng.random() < 0.8 else o.narrow()
    return a, o.choice(o.small(), o.small(), o.layout(1))


def _target(o: Operands) -> tuple[Any, Any, Any]:
    rank = o.choice(2, 2, 3)
    a = o.compact(o.shape(1, rank))
    target = tuple(L.int_tuple_mul(L.int_tuple_product(s), o.extent()) for s in a.shape)
    order = list(range(rank))
    o.rng.shuffle(order)
    return a, target, tuple(order)


def _ordered(o: Operands) -> tuple[Any, Any]:
    shape = o.shape(2, o.choice(2, 3))
    return shape, o.like(shape, lambda: o.choice(0, 1, 2, 3, *([o.dyn()] if o.dynamic else [])), 0.3)


def _appended(o: Operands) -> tuple[Any, Any]:
    a = o.choice(o.layout(), o.shape(), o.composed())
    return a, (o.extent() if isinstance(a, (int, tuple, Dyn)) else o.layout(1))


def _indexed(o: Operands) -> tuple[Any, Any]:
    a = o.choice(o.layout(), o.layout(), o.basis_layout(), o.composed())
    return o.coord(a.shape, 0.05), a


def _swizzled(o: Operands) -> tuple[Any, Any]:
    cs = CoordSwizzle(o.choice(0, 1, 2), o.choice(0, 1), (0,), o.choice(0, 1), (1,))
    value: Any = o.dyn() if o.dynamic else o.choice(0, 5, 90, 1023)
    return (value, o.swizzle()) if o.rng.random() < 0.5 else ((value, o.choice(3, 9, 12)), cs)


def _pattern(o: Operands) -> tuple[Any, Any]:
    a = o.choice(o.layout(), o.basis_layout(), o.composed())

    def go(s: Any) -> Any:
        return tuple(map(go, s[: o.rng.randint(1, len(s))])) if isinstance(s, tuple) and o.rng.random() < 0.7 else 1

    return a, go(a.shape)


Case = tuple[Callable[[Operands], tuple[Any, ...]], Callable[..., Any], Callable[..., Any]]


def _same(name: str, operands: Callable[[Operands], tuple[Any, ...]], ours: str | None = None) -> tuple[str, Case]:
    return name, (operands, getattr(L, ours or name), getattr(fly, name))


OPERATIONS: dict[str, Case] = dict(
    [
        *(_same(f"int_tuple_{n}", _paired) for n in ("add", "sub", "mul", "div", "mod")),
        _same("ceil_div", _paired),
        _same("shape_div", _paired),
        _same("int_tuple_product", lambda o: (o.tuple(),)),
        _same("int_tuple_product_each", lambda o: (o.tuple(),)),
        _same("int_tuple_product_like", lambda o: (a := o.shape(2, 2), o.like(a, lambda: 1, 0.4))),
        *(_same(n, lambda o: (o.some(),)) for n in ("size", "coshape", "cosize", "coprofile")),
        _same("crd2idx", _indexed),
        _same("idx2crd", lambda o: (o.coord(0), o.layout())),
        _same("get_flat_coord", lambda o: (o.coord(0), o.layout())),
        _same("get_1d_coord", lambda o: (o.coord(0), o.layout())),
        _same("slice", lambda o: _sliced(o, 0.5), "slice_"),
        _same("dice", lambda o: _sliced(o, 0.4, composed=False)),  # the op takes plain layouts only
        _same("append", _appended),
        _same("prepend", _appended),
        _same("make_layout_like", lambda o: (o.layout(),)),
        _same("make_ordered_layout", _ordered),
        _same("make_identity_layout", lambda o: (o.shape(),)),
        _same("make_fragment_layout_like", lambda o: (o.static_layout(2) if o.rng.random() < 0.5 else o.layout(),)),
        _same("coalesce", lambda o: (o.some(),)),
        _same("composition", lambda o: (o.some(), o.small() if o.rng.random() < 0.5 else o.layout())),
        _same("complement", lambda o: (o.choice(o.layout(), o.small(), o.compact(o.shape())),)),
        _same("right_inverse", lambda o: (o.layout(),)),
        _same("left_inverse", lambda o: (o.layout(),)),
        _same("logical_divide", _tiled),
        _same("zipped_divide", _by_tile),
        _same("tiled_divide", _by_tile),
        _same("flat_divide", _by_tile),
        *(_same(f"{k}_product", _product) for k in ("logical", "zipped", "tiled", "flat", "blocked", "raked")),
        _same("tile_to_shape", _target),
    ]
)
OPERATIONS["swizzles"] = (_swizzled, L.crd2idx, fly.crd2idx)
OPERATIONS["coalesce_by_profile"] = (_pattern, L.coalesce, lambda a, p: fly.coalesce(a, pattern=p))
OPERATIONS["composition_by_tile"] = (lambda o: (o.some(), o.tile()), L.composition, fly.composition)
OPERATIONS["complement_to_size"] = (
    lambda o: (
        o.choice(o.layout(), o.small(), o.compact(o.shape())),
        o.extent() if o.dynamic else o.choice(7, 64, 240),
    ),
    L.complement,
    lambda a, m: fly.complement(a, codomain_size=m),
)
for _begin, _end in ((0, 1), (0, 2), (1, -1), (1, 2)):
    OPERATIONS[f"take_{_begin}_{_end}"] = (
        lambda o: (o.choice(o.layout(2, 3), o.shape(2, 2), o.composed()),),
        lambda x, b=_begin, e=_end: L.take(x, b, e),
        lambda x, b=_begin, e=_end: fly.take(x, b, e),
    )
    OPERATIONS[f"group_{_begin}_{_end}"] = (
        lambda o: (o.choice(o.layout(2, 3), o.shape(2, 2), o.composed()),),
        lambda x, b=_begin, e=_end: L.group(x, b, e),
        lambda x, b=_begin, e=_end: fly.group(x, b, e),
    )
for _old, _new in ((16, 32), (32, 8), (16, 24), (8, 64), (4, 16)):
    OPERATIONS[f"recast_{_old}_{_new}"] = (
        lambda o: (o.narrow(),),
        lambda x, o=_old, n=_new: L.recast_layout(x, o, n),
        lambda x, o=_old, n=_new: fly.recast_layout(n, o, x),
    )


class Inference:
    """Result types that the dialect infers."""

    def __init__(self) -> None:
        self.context = ir.Context()
        self.context.load_all_available_dialects()
        self.overflow = False
        with self.context, ir.Location.unknown():
            self.fresh()

    def fresh(self) -> None:
        self.module = ir.Module.create()
        self.count = 0

    def __call__(self, op: Callable[..., Any], operands: tuple[Any, ...]) -> str | None:
        with self.context, ir.Location.unknown():
            self.count += 1
            if self.count % 2000 == 0:
                self.fresh()
            with ir.InsertionPoint(self.module.body):
                values = []
                for x in operands:
                    t = ir.Type.parse(L.to_fly_type(x))
                    values.append(ir.Operation.create("fly.static", results=[t]).result)
                self.overflow = False
                try:
                    return str(op(*values).type)
                except ir.MLIRError as e:
                    self.overflow = "does not fit in 32 bits" in str(e)
                    return None


@pytest.fixture(scope="module")
def inference() -> Inference:
    return Inference()


def wide(x: Any) -> bool:
    """Whether an integer leaves the 32 bits that the dialect stores."""
    if isinstance(x, (Layout, ComposedLayout, Tile)):
        x = str(x)
    return any(len(t) > 9 and not -(2**31) <= int(t) < 2**31 for t in _numbers(str(x)))


def _numbers(text: str) -> list[str]:
    import re

    return re.findall(r"-?\d+", text)


def dynamic(x: Any) -> bool:
    """Whether the part of an operand that the algebra acts on has dynamic leaves (of a chain, the last layout)."""
    return "?" in str(x.linear if isinstance(x, ComposedLayout) else L.to_text(x) if isinstance(x, tuple) else x)


def compare(name: str, seed: int, inference: Inference) -> tuple[str, str] | None:
    """What differs in one case: (kind, text), or None."""
    make, ours, theirs = OPERATIONS[name]
    operands = make(Operands(seed))
    if any(map(wide, operands)):
        return None
    why = ""
    try:
        mine = ours(*operands)
    except LayoutError as e:
        mine, why = None, str(e)
    if mine is not None and wide(mine):
        return None
    try:
        expected = None if why else L.to_fly_type(mine)
    except LayoutError:
        expected = None
    got = inference(theirs, operands)
    if got == expected:
        return None
    shown = ", ".join(L.to_text(x) if isinstance(x, (tuple, type(None))) else str(x) for x in operands)
    if expected is None:
        return "python refuses", f"{name}({shown}): C++ {got}, Python: {why or mine}"
    if inference.overflow:
        return None  # an integer on the way, or inside a dynamic result, leaves the 32 bits of the dialect
    if got is None:
        # Irregular static cases that the divisibility rules refuse and Python decides exactly.
        return None if not any(map(dynamic, operands)) else ("c++ refuses", f"{name}({shown}): Python {expected}")
    return "differs", f"{name}({shown}): C++ {got}, Python {expected}"


@pytest.mark.parametrize("name", OPERATIONS)
def test_python_agrees_with_the_dialect(name: str, inference: Inference) -> None:
    found: dict[str, list[str]] = {}
    for k in range(CASES):
        r = compare(name, SEED * 1_000_003 + k, inference)
        if r is not None:
            found.setdefault(r[0], []).append(r[1])
    assert not found, "\n".join(f"{len(v)} of {CASES}: {kind}, e.g. {x}" for kind, v in found.items() for x in v[:4])
