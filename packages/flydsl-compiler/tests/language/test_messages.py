"""What a new user is told: the line, what was given, what is expected."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest

from flydsl.tracing.diagnostics import DSLCompileError

HELPERS = """
import numpy as np

def forgets(x):
    x + 1.0

@flyc.jit
def endless(i):
    return 1 if i <= 0 else i * endless(i - 1)
"""
MISTAKES = {
    "Y[t] = X[t] + np.ones(3)": "NumPy computes while tracing, and its arrays are no operands",
    "Y[t] = np.ones(3) * X[t]": "'numpy.ndarray' and 'Float32': operands are values of the language",
    "Y[t] = np.ones(3)": r"cannot store an array of shape \(3,\), a ndarray",
    "Y[t] = X[t] + 2j": r"'Float32' and 'complex': operands are values of the language, Python and NumPy numbers",
    "Y[t] = X[t] * '2'": "unsupported operand '2', a str",
    "Y[t] = round(X[t])": "doesn't define __round__ method: fx.roundeven",
    "print(f'{X[t]:.3f}')": r"it has no value while tracing; fx.printf\('\{:.3f\}', x\)",
    "Y[t] = np.sqrt(X[t])": "NumPy computes while tracing, .* values have fx.sqrt",
    "Y[t] = fx.expp(X[t])": "module 'flydsl.expr' has no attribute 'expp'; did you mean exp, exp2, expm1",
    "Y[t] = fx.math.sqr(X[t])": "no attribute 'sqr'; did you mean sqrt",
    "fx.atomic_add(Y, t, 1)": r"atomic_add\(\) takes 2 positional arguments but 3 were given",
    "Y[t] = X(t)": r"'Tensor' object is not callable: elements are read with \[...\]",
    "Y[t] = fx.Float32(len(X))": r"has no len\(\): its extents are .shape",
    "Y[t] = X[t, n]": r"coordinate \(\?, \?\) has 2 entries for a tensor of rank 1",
    "Y[t] = X[1.5]": r"cannot use 1.5 \(float\) as an index, extent or stride: integers are expected",
    "Y[t] = X[np.int64(-1)]": "index -1 in -1 is out of range",
    "Y[t] = 1.0 if any([X[t] > 2, t < n]) else 0.0": "`any`, `sorted`, filters of comprehensions",
    'Y[t] = "abc"':
        r"cannot store 'abc', a str, to elements of type f32; expected a number or a DSL value of type Float32",
    "Y[t] = t + 1": r"cannot store an Int32 to elements of type f32; convert it with .to\(\) first",
    "Y[t] = forgets(X[t])": "cannot store None.*does the function that made it return its result",
    "Y[t] = forgets(X[t]) + 1.0": "'NoneType' and 'float'.*A function that has no `return`",
    "Y[t] = X.shap[0]": "a Tensor has no attribute 'shap'; did you mean shape",
    "Y[t] = t.too(fx.Float32)": "an Int32 has no attribute 'too'; did you mean to",
    "Y[t] = X.numel()": r"a Tensor has no attribute 'numel': fx.size\(x\) is the number of elements",
    "Y[t] = X.T[t]": r"a Tensor has no attribute 'T': fx.make_view\(fx.get_iter\(t\), layout\)",
    "Y[t] = t.astype(fx.Float32)": r"an Int32 has no attribute 'astype': .to\(fx.Float16\) converts",
    "Y[t] = X[t].sum()": "a Float32 has no attribute 'sum': it is one number; fx.coop.BlockReduce combines",
    "Y[t] = fx.Float32x4(X[t]).max()": r"has no attribute 'max': x.reduce\('add'\) combines the elements",
    "X.load_tile(0)": "a Tensor has no attribute 'load_tile'",
    "fx.make_rmem_tensor(2, fx.Float32).load()[0] = 1.0":
        r"'Vector' object does not support item assignment: a Vector is a value",
    "Y[fx.thread_idx()] = 1.0": "'Tuple3D' object is not callable: the indices are attributes, fx.thread_idx.x",
    "Y[t] = X.shape[0]": r"cannot store a value of type !fly.int_tuple<\?> .*; take its numbers with .unpack\(\)",
    "Y[t] = fx.Uint32(t)": "cannot store a Uint32 to elements of type f32",
    "fx.atomic_add(X, 1.0)": r"an fx.Pointer or !llvm.ptr expected, got Tensor, .* fx.get_iter\(t\) \+ i",
    "fx.atomic_add(fx.get_iter(X), t)": "atomic_add: an Int32 for a pointer to Float32",
    "fx.make_tiled_mma(fx.UniversalFMA(fx.Float32), fx.make_layout((1, 1, 1), (0, 0, 0)))":
        r"make_tiled_mma expects an MmaAtom, fx.make_mma_atom\(op\), got MmaOpUniversalFMAType",
    "fx.make_tiled_copy(fx.UniversalCopy32b(), fx.make_layout((4, 1), (1, 0)), (4, 1))":
        r"make_tiled_copy expects a CopyAtom, fx.make_copy_atom\(op, elem\), got CopyOpUniversalCopyType",
    "Y[t] = fx.shuffle_xor(X[t], fx.num_warp_threads(), 128)": r"a shuffle stays in its wave, which has \d+ lanes",
    "Y[t] = fx.shuffle_idx(X[t], 64, 64)": r"stays in its wave, which has \d+ lanes here, got lane 64",
    "Y[t] = int(X[t])": r"as Python int: .*x.to\(fx.Int32\) converts it on the device",
    "Y[t] = X[X[t]]": r"must be an integer, got a Float32: convert it with .to\(fx.Int32\)",
    "Y[t] = np.array([1.0, 2.0])[t]": "NumPy is indexed while tracing; pass the array to the kernel as a tensor",
    "Y[t] = 1.0 if 3.0 in X else 0.0": "`in` needs values that are known while tracing",
    "Y[t] = endless(t)": "a helper calls itself for ever while tracing: .*write a loop",
    "Y[t] = 1.0 if t < n and X else 0.0": "Tensor to Boolean conversion is not supported",
    "fx.zipped_divide(X, 16)": r"an iterable of tile modes, got int: one mode is \(16,\)",
    "fx.composition(fx.make_layout(64, 1), (2, 3))": r"by mode, fx.make_tile\(...\)\) must be a Layout or Tile",
    "fx.syncthreads()": r"has no attribute 'syncthreads': fx.barrier\(\)",
    "fx.local_tile(X, (16,), (0,))": r"no attribute 'local_tile': fx.flat_divide\(t, tile\)",
    "fx.make_tiled_copy_tv(fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32), fx.make_layout((4, 16), (16, 1)), "
    "fx.make_layout((1, 1), (1, 1))).get_slice(t).partition_S(X)":
        r"the source has rank 1, .* is partitioned by a tile of 2 modes: fx.make_view\(fx.get_iter\(t\), layout\)",
    "fx.make_tiled_mma(fx.make_mma_atom(fx.UniversalFMA(fx.Float32)), fx.make_layout((8, 8, 1), (1, 8, 0)))"
    ".get_slice(t).partition_C(X)": "the operand has rank 1, .* is partitioned by a tile of 2 modes",
    "fx.Swizzle(3, 2, 3)": r"make one with fx.static\(fx.SwizzleType.get\(3, 2, 3\)\)",
    "fx.Layout((4, 8))": r"Layout wraps a value of a trace, got tuple; new ones come from the fx.make_\* functions",
    "fx.make_tiled_copy_A(None, fx.make_layout(4, 1))": "tiled_mma must be a TiledMma, got Layout",
    "fx.gather(fx.Float32, X, fx.make_rmem_tensor(1, fx.Int32), X)": "copy expects a CopyAtom, TiledCopy or ThrCopy",
    "fx.atom_set_value(X, 'soffset', 1)": "operand must be a CopyAtom or MmaAtom or TiledCopy or TiledMma, got Tensor",
    "fx.get_stride((1, 2))": "get_stride's operand must be a Layout or ComposedLayout or Tensor, got tuple",
    "fx.inttoptr(fx.Float32, fx.Int64(0))": "the type of inttoptr must be a PointerType, got NumericMeta",
    "fx.make_ptr(fx.T.f32, [])": "the type of make_ptr must be a PointerType, got F32Type",
    "fx.memref_alloca(fx.Float32, fx.make_layout(4, 1))": "the type of memref_alloca must be a MemRefType",
    "fx.zeros_like(4)": "expected a Vector or a Tensor to be like, got 4",
    "fx.Vector(fx.Int32x4(0), 4, fx.T.i32)": "a vector's element type is a Numeric class",
    "fx.Int32x4(0).bitcast('i8')": "bitcast expects a Numeric class, got 'i8'",
    "fx.arith.constant(1.0).extf('f64')": "a Numeric class or MLIR type expected, got 'f64'",
    "fx.struct({'a': fx.Int32})": "expected a class whose annotations are the fields, got {'a'",
    "fx.UniversalCopy(32.5)": "the bits of a copy must be a static int, got float",
    "fx.rocdl.BufferCopy32b(1 << 40)": "the cache modifier must have at most 32 bits, got 1099511627776",
    "fx.rocdl.MFMA(16, 16, 16.0, fx.Float16)": "an extent of a matrix instruction must be a static int, got float",
    "fx.rocdl.BufferAtomicPkAdd(fx.Float32)": "adds two Float16 or two BFloat16, got Float32",
    "fx.rocdl.BufferAtomicMax(fx.Uint32x4)": "unsupported buffer atomic max of 'vector<4xi32>'",
    "fx.ctlz(X)": "ctlz is of numbers and vectors of numbers, got !fly.memref",
    "fx.exp(X.shape)": "exp is of numbers and vectors of numbers, got !fly.int_tuple",
    "fx.shrui(1.5, 2)": "shrui needs integers, got <class 'float'>",
    "fx.shrui(X[t], 2)": "shrui needs integers, got Float32",
    "fx.shrui(fx.Float32x4(0), 2)": "shrui needs integers, got Float32",
    "fx.maximumf(t, 3)": "maximumf is of floats, got i32",
    "t.ir_value().addf(1)": "addf is of floats, got i32",
    "X[t].ir_value().addf('1')": "addf of f32: a number or a value of the type is expected, got '1'",
    "t.ir_value() + X": r"unsupported operand type\(s\) for \+: 'ArithValue' and 'Tensor'",
    "fx.Int32x4(1).apply_op(max, 3)": "apply_op takes a binary function of the operator module",
    "fx.Vector.make_type(4, 3)": "a Numeric class or MLIR type expected, got 3",
    "fx.Vector.load(fx.T.f32x4, X, ['0'])": "indices are ints and integer values, got '0'",
    "fx.mma_make_fragment(fx.MmaOperand.A, 3, X)": "tiled_mma must be a TiledMma, got int",
    "fx.index_cast('i32', t)": "index_cast takes an MLIR type first, got str",
    "fx.Basis(1, t)": "Basis modes are a mode number or a list of them, got Int32",
    "fx.SharedAllocator(1.5)": "base_alignment must be an int, got float",
    "fx.group((1, 2, 3), (0, 1), 2)": "mode numbers are ints, got tuple",
    "fx.UniversalAtomicAdd(fx.Float32, 3)": "the scope of an atomic is a string of fx.SyncScope",
    "fx.append((1, 2), 3, n='4')": "'str' object cannot be interpreted as an integer",
    "fx.has_none((1, None))": "has_none's operand must be a IntTuple, got tuple",
    "fx.printf(f'v {n}')": r"'v \?' was made while tracing.*printf\('n is \{\}', n\)",
    "fx.printf('%d', n)": r"0 placeholders in '%d' but 1 arguments: C's %d is \{\} here",
    "fx.printf('{:.3f}')": "1 placeholders in .* but 0 arguments",
    "fx.printf('{:.3f}', t)": r"the format \{:.3f\} does not fit a Int32 value",
    "fx.printf('{:^5d}', t)": r"the format \{:\^5d\} is not supported for run-time values",
    "fx.printf('{x}', t)": "placeholders are filled in order",
    "fx.printf('{}', X)": "its number of elements is only known at run time",
    "fx.logical_divide(fx.make_layout(64, 1), fx.make_layout((3, 5), (1, 7)))":
        r"logical_divide of 64:1 by \(3,5\):\(1,7\): complement of \(3,5\):\(1,7\) up to 64: stride 7 of mode 1",
    "fx.blocked_product(fx.make_layout((4, 6), (1, 5)), fx.make_layout((4, 2), (1, 5)))":
        r"blocked_product of \(4,6\):\(1,5\) by \(4,2\):\(1,5\): complement of \(4,6\):\(1,5\) up to",
    "fx.left_inverse(fx.make_layout((4, (6, 2)), (1, (5, 3))))":
        r"left_inverse of \(4,\(6,2\)\):\(1,\(5,3\)\): stride 3 does not clear",
    "fx.recast_layout(fx.make_layout((8, t), (1, t)), 16, 32)":
        r"recast_layout of \(8,\?\):\(1,\?\): .*2 does not divide",
    "fx.recast_layout(fx.make_layout((4, 8), (1, 5)), 16, 32)":
        r"recast_layout of \(4,8\):\(1,5\): stride 5 and the factor 2 do not divide each other",
}


@pytest.mark.parametrize("statement", MISTAKES)
def test_mistake_is_told_at_its_line(load: Any, kernel_text: Any, statement: str) -> None:
    module = load(kernel_text(statement, HELPERS))
    x = np.zeros(64, np.float32)
    with pytest.raises(DSLCompileError, match="(?s)" + MISTAKES[statement]) as info:
        module.run(x, x.copy(), 1)
    text = str(info.value)
    assert statement in text and "/flydsl/" not in text.replace(module.__file__, "")
    assert not any("/flydsl/" in line for line in info.value._render_traceback_())


def test_an_atom_that_does_not_fit_is_told_once(load: Any, kernel_text: Any) -> None:
    """The call of the atom fails for the reason that the atom gave, which is not said again in other words."""
    statement = ("fx.copy_atom_call(fx.make_copy_atom(fx.rocdl.BufferCopy32b(), fx.Float32), "
                 "fx.slice(fx.logical_divide(X, fx.make_layout(1, 1)), (None, 0)), fx.make_rmem_tensor(1, fx.Float32))")
    x = np.zeros(64, np.float32)
    with pytest.raises(DSLCompileError, match="a buffer copy into registers reads") as info:
        load(kernel_text(statement, HELPERS)).run(x, x.copy(), 1)
    assert "cannot emit" not in str(info.value)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("min(X[t], 5.0)", lambda x: np.minimum(x, 5)),
        ("max(X[t], X[63 - t], 40.0)", lambda x: np.maximum(np.maximum(x, x[::-1]), 40)),
        ("min([X[t], X[63 - t]])", lambda x: np.minimum(x, x[::-1])),
        ("max(t, 7).to(fx.Float32)", lambda x: np.maximum(x, 7)),
        ("max(t, 1.5)", lambda x: np.maximum(x, 1.5)),  # a literal that the class does not hold is not made one
        ("min(t, 2.5, -float('inf'))", lambda x: np.full_like(x, -np.inf)),
        ("max(t.to(fx.Int8), 300).to(fx.Float32)", lambda x: 0 * x + 300),
        ("X[t] * min(2, 3) + max([1, 4])", lambda x: x * 2 + 4),
        ("X[t] + np.float32(2.5)", lambda x: x + 2.5),
        ("X[np.int64(3)] + (fx.get_iter(X) + np.int32(2))[np.uint8(1)]", lambda x: 0 * x + 6),
        ("max(X[i] for i in range(4)) + min(i * X[t] for i in (1, 2))", lambda x: 3 + np.minimum(x, 2 * x)),
    ],
)
def test_min_max_and_numpy_numbers(load: Any, device: None, kernel_text: Any, expression: str, expected: Any) -> None:
    module = load(kernel_text(f"Y[t] = {expression}", "import numpy as np"))
    x, y = np.arange(64, dtype=np.float32), np.full(64, -7, np.float32)
    module.run(x, y, 1)
    np.testing.assert_array_equal(y, expected(x))


def test_min_and_max_of_an_induction_variable(run: Any) -> None:
    out = run("""
    total = fx.Int32(0)
    for i in range(t):
        total = total + max(i, 3) - min(i, t - 2)
    Y[t] = fx.Float32(total)
    """)
    np.testing.assert_array_equal(out, [sum(max(i, 3) - min(i, t - 2) for i in range(t)) for t in range(64)])


def test_numpy_integers_in_layouts_and_ranges(run: Any) -> None:
    out = run("""
    layout = fx.make_layout((np.int64(4), np.int8(2)), (np.int64(2), 1))
    total = fx.Float32(0)
    for i in range(np.int64(1), np.int32(4)):
        total = total + X[layout((i, np.uint16(1)))]
    Y[t] = total
    """, prelude="import numpy as np")
    np.testing.assert_array_equal(out, 3 + 5 + 7)


def test_a_numpy_scalar_is_stored(load: Any, device: None, kernel_text: Any) -> None:
    module = load(kernel_text("Y[t] = np.float64(2.5)", "import numpy as np"))
    y = np.zeros(64, np.float32)
    module.run(y, y, 1)
    assert (y == 2.5).all()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("fx.printf('{:.3f}|{:5d}|{:08x}|{:<4d}|{:+d}', X[t], t, t, t, t)", "3.000|    3|00000003|3   |+3"),
        ("fx.printf('{:.1e} {:g} 100% {}', X[t], X[t], t)", "3.0e+00 3 100% 3"),
        ("fx.printf('{:>6} {:.1f} {}', 'ab', 2.25, fx.Float32)", "    ab 2.2 Float32"),
        ("fx.printf('{:d} {:d}', fx.Uint32(t - 4), fx.Int64(t) << 40)", f"{2**32 - 1} {3 << 40}"),
        ("r = fx.make_rmem_tensor(3, fx.Float32)\n    r.fill(X[t])\n    fx.printf('{} {:.1f}', r, r)",
         "[3.00, 3.00, 3.00] [3.0, 3.0, 3.0]"),
    ],
)
def test_formats(
    load: Any, device: None, kernel_text: Any, capfd: pytest.CaptureFixture[str], call: str, text: str
) -> None:
    module = load(kernel_text(f"if t == 3:\n    {call}"))
    x = np.arange(64, dtype=np.float32)
    module.run(x, x.copy(), 1)
    assert capfd.readouterr().out == text + "\n"


def test_a_missing_folder_of_the_command(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from flydsl.compiler.cli import main

    program = tmp_path / "program.py"
    program.write_text("import flydsl.compiler as flyc\n")
    status = main(["compile", f"{program}:f", "--c", str(tmp_path / "none" / "k")])
    assert status == 2 and "there is no folder" in capsys.readouterr().err


@pytest.mark.parametrize("make", [
    lambda fx: fx.make_layout((4, 2), (1, 4)), lambda fx: fx.Float32x4(1.0, 2.0, 3.0, 4.0),
    lambda fx: fx.thread_idx.x + 1, lambda fx: fx.make_rmem_tensor((4,), fx.Float32),
    lambda fx: fx.Struct["v": fx.Float32x4]([1.0, 2.0, 3.0, 4.0]),
    lambda fx: fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32), lambda fx: fx.rocdl.BufferCopy128b(),
    lambda fx: fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, fx.Float16)), lambda fx: fx.T.f32, lambda fx: fx.barrier(),
], ids=["layout", "vector", "thread", "fragment", "struct", "copy", "buffer-copy", "matrix", "type", "barrier"])
def test_what_needs_a_trace_says_so(make):
    import flydsl.expr as fx

    message = r"exist while a function is traced: .* decorated with @flyc.kernel or @flyc.jit"
    with pytest.raises(RuntimeError, match=message):
        make(fx)


HOST = """
@flyc.kernel
def k(X: fx.Tensor):
    X[fx.thread_idx.x] = 1.0

@flyc.kernel
def scaled(X: fx.Tensor, s, b: fx.Boolean):
    X[fx.thread_idx.x] = s

def plain(X):
    pass

@flyc.jit
def run(X: fx.Tensor):
    BODY
"""


@pytest.mark.parametrize(("body", "message"), [
    ("k.launch(X, grid=1)", r"no attribute 'launch': a call is launched, kernel\(...\).launch"),
    ("k[1, 64](X)", "not subscriptable: grid and block are those of the launch"),
    ("scaled(X, 2.0, True).launch()", r"the bare Python value 2.0: wrap it, e.g. fx.Float32\(2.0\)"),
    ("scaled(X, X[0], 1).launch()", r"the bare Python value 1: wrap it, e.g. fx.Boolean\(1\)"),
    ("plain(X).launch(grid=1)", "only kernels are launched, functions that @flyc.kernel decorates"),
])
def test_misused_kernels(load: Any, body: str, message: str) -> None:
    with pytest.raises(DSLCompileError, match=message):
        load(HOST.replace("BODY", body)).run(np.zeros(64, np.float32))


def test_a_call_without_a_launch_is_told(load: Any, device: None) -> None:
    """... once, at its line; one that is launched later is not."""
    x = np.zeros(64, np.float32)
    module = load(HOST.replace("BODY", "k(X)\n    later = k(X)\n    later.launch(grid=1, block=32)"))
    with pytest.warns(UserWarning, match="kernel 'k' is called but not launched, so nothing runs") as told:
        module.run(x)
    (warning,) = told.list
    assert linecache.getline(warning.filename, warning.lineno).strip() == "k(X)"
    assert warning.filename == module.__file__
    assert repr(module.k) == f"<kernel {module.__name__}.k>" and x.sum() == 32


def test_static_numbers_need_no_trace():
    import flydsl.expr as fx

    assert float(fx.Float32(1.0) + fx.Float32(2.0)) == 3.0


def test_a_copy_of_many_calls_is_refused_once(run: Any) -> None:
    """... and says how much of the view is consecutive."""
    with pytest.raises(DSLCompileError) as caught:
        run("""
v = fx.make_view(fx.get_iter(X), fx.make_layout(((2, 2), 4), ((1, 8), 16)))
r = fx.make_rmem_tensor((4, 4), fx.Float32)
fx.copy(fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32), v, r)
""")
    text = str(caught.value)
    assert text.count("moves 128 consecutive bits, but only 2 elements (64 bits) of") == 1, text
    assert text.count("fx.copy(") == 1
