"""Copies honour the layouts of their operands or are refused at their line.

Programs are generated over atoms, element types, layouts, strides that are static or known at launch, and sizes that
the tile divides or not. Each must either move every element to its place or be refused with a reason that holds. They
run in processes of their own, one per architecture, with all checks of the simulator on (see `test_generated_on`).
"""

from __future__ import annotations

import os
import random
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from other_architectures import run_on

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.tracing.diagnostics import DSLCompileError

sys.path.insert(0, str(Path(__file__).parent))
from copy_programs import (  # noqa: E402
    ARCH,
    TYPES,
    limits,
    matrix,
    matrix_atoms,
    operand,
    packed,
    poisoned,
    product,
    run_tile,
    small,
    values,
)

HERE = Path(__file__)
CHILD = "FLYDSL_TEST_COPIES"
PROGRAMS = int(os.environ.get("FLYDSL_COPIES_PROGRAMS", "40"))

pytestmark = pytest.mark.usefixtures("device")
in_child = pytest.mark.skipif(CHILD not in os.environ, reason="runs in a process with checks")


def generate(seed: int) -> dict[str, Any]:
    """Parameters of one program."""
    rng = random.Random(seed)
    name = rng.choice(list(TYPES))
    element = TYPES[name][0]
    bits = rng.choice([b for b in (8, 16, 32, 64, 128) if b >= element.width])
    count = bits // element.width
    block = rng.choice([(1, count), (count, 1)])
    threads = rng.choice([(8, 8), (16, 4), (4, 16)])
    covered = tuple(t * b for t, b in zip(threads, block, strict=True))
    tile = tuple(c * rng.choice([1, 1, 2]) for c in covered)
    ragged = rng.random() < 0.5
    shape = tuple(t * rng.choice([1, 2]) - (rng.randrange(t) if ragged else 0) for t in tile)
    return {
        "name": name, "bits": bits, "block": block, "threads": threads, "tile": tile, "shape": shape,
        "space": rng.choice(["buffer", "global"]), "bounds": True if ragged else rng.choice([None, True]),
        "source": rng.choice(["rows", "columns", "padded", "shifted"]), "target": rng.choice(["rows", "columns"]),
        "static": rng.random() < 0.5,
        "stage": rng.choice(["none", "none", "rows", "columns", "padded", "odd", "swizzle0", "swizzle2", "swizzle3"]),
    }


def splits(p: dict[str, Any]) -> bool:
    """Whether the stage in LDS takes the elements of an access apart."""
    count, stage = max(p["block"]), p["stage"]
    if count == 1 or stage == "none":
        return False
    if stage.startswith("swizzle") and 1 << int(stage[-1]) < count:
        return True
    return (p["block"][0] > 1) != (stage == "columns")


def along(kind: str, block: tuple[int, int], static: bool) -> bool:
    """Whether the elements of one access are known to be consecutive in a matrix of this kind."""
    axis = 0 if block[0] > 1 else 1
    return block == (1, 1) or axis == (0 if kind == "columns" else 1)


@in_child
@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_generated_tiles(seed: int) -> None:
    p = generate(seed)
    dtype = TYPES[p["name"]][1]
    data = values(p["shape"], dtype, seed)
    a, b = matrix(data, p["source"]), matrix(poisoned(p["shape"], dtype), p["target"])
    arguments = [flyc.from_dlpack(x) if p["static"] else x for x in (a, b)]
    try:
        run_tile(*arguments, p["shape"], space=p["space"], bits=p["bits"], element=p["name"], threads=p["threads"],
                 block=p["block"], tile=p["tile"], bounds=p["bounds"], stage=p["stage"])
    except DSLCompileError as error:
        assert "consecutive" in str(error), p
        scattered = [kind for kind in (p["source"], p["target"]) if not along(kind, p["block"], p["static"])]
        assert scattered and p["static"] or splits(p), p
    else:
        assert not splits(p), p
        np.testing.assert_array_equal(b, data, err_msg=str(p))


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_generated_on(arch: str) -> None:
    checks = {CHILD: "1", "FLYDSL_SIM_CHECK": "oob,race,uninit"}
    run_on(arch, HERE, select="generated_tiles or products or direct_load", **checks)


@in_child
@pytest.mark.parametrize("op", matrix_atoms(), ids=lambda op: "x".join(map(str, op)))
@pytest.mark.parametrize("ragged", [False, True])
def test_products(op: tuple[int, int, int, str], ragged: bool) -> None:
    m, n, k, name = op
    tile = (2 * m, 2 * n, 2 * k)
    shape = (3 * m + 5, n + 3, 3 * k + 1) if ragged else (4 * m, 2 * n, 4 * k)
    (a, exact_a), (b, exact_b) = operand((shape[0], shape[2]), name, 1), operand((shape[1], shape[2]), name, 2)
    c = np.full(shape[:2], -1, np.int32 if name == "i8" else np.float32)
    grid = [-(-s // t) for s, t in zip(shape, tile, strict=True)]
    product(a, b, c, *grid, op, tile, packed(ragged or None))
    np.testing.assert_array_equal(c, exact_a @ exact_b.T)


# --------------------------------------------------------------------------- swizzles


SPLITS = [(0, 32, False), (0, 64, True), (1, 64, False), (1, 128, True), (2, 128, False)]


@pytest.mark.parametrize("base, bits, split", SPLITS)
def test_a_swizzle_must_not_split_an_access(base: int, bits: int, split: bool) -> None:
    data, out = values((16, 32), np.float32, 9), poisoned((16, 32), np.float32)
    changes = small(bits=bits, block=(1, bits // 32), tile=(16, 32), threads=(16, 4), stage=f"swizzle{base}")
    if split:
        with pytest.raises(DSLCompileError, match="the swizzle of .* permutes smaller chunks"):
            run_tile(data, out, data.shape, **changes)
        return
    run_tile(data, out, data.shape, **changes)
    np.testing.assert_array_equal(out, data)


@pytest.mark.parametrize("stage", ["odd+swizzle2", "padded+swizzle2"])
def test_accesses_must_not_straddle_what_a_swizzle_permutes(stage: str) -> None:
    """Rows of 33 elements start at odd places: an access of four lies in two chunks."""
    data, out = values((16, 32), np.float32, 9), poisoned((16, 32), np.float32)
    changes = small(tile=(16, 32), stage=stage)
    if stage.startswith("odd"):
        with pytest.raises(DSLCompileError, match="the stride 33 of .* starts accesses that straddle"):
            run_tile(data, out, data.shape, **changes)
        changes |= {"bits": 32, "block": (1, 1)}
    run_tile(data, out, data.shape, **changes)
    np.testing.assert_array_equal(out, data)


# --------------------------------------------------------------------------- direct loads into LDS


def direct_atoms() -> list[str]:
    """Names of the direct loads of this architecture, with their width in words of 32 bits."""
    if not ARCH.startswith("gfx9"):
        return []
    every = ["BufferCopyLDS32b"]
    if ARCH == "gfx950":
        every += ["BufferCopyLDS128b", "BufferLoadAsyncLDS32b", "BufferLoadAsyncLDS128b", "GlobalLoadAsyncLDS128b"]
    return every


@flyc.kernel
def direct_kernel(A: fx.Tensor, B: fx.Tensor, op: fx.Constexpr[str], place: fx.Constexpr[str],
                  bounds: fx.Constexpr[tuple]):
    t, words = fx.thread_idx.x, 4 if op.endswith("128b") else 1
    if fx.const_expr(op.startswith("Buffer")):
        A = fx.rocdl.make_buffer_tensor(A)
    n = 4 * words
    tile, tv = fx.make_layout_tv(fx.make_layout((16, 4), (4, 1)), fx.make_layout((1, words), (words, 1)))
    atom = fx.make_copy_atom(getattr(fx.rocdl if "Async" not in op else fx.rocdl.cdna4, op)(), fx.Float32)
    strides = {"rows": (n, 1), "columns": (words, 16 * words), "padded": (2 * n, 1), "swizzled": (n, 1)}[place]
    if fx.const_expr(place == "columns"):
        layout = fx.make_layout((16, (words, 4)), (words, (1, 16 * words)))
    else:
        layout = fx.make_layout((16, n), strides)
    if fx.const_expr(place == "swizzled"):
        layout = fx.make_composed_layout(fx.static(fx.SwizzleType.get(2, 2 if words == 4 else 0, 2)), layout)
    shared = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 512, 16]).peek().view(layout)
    thread = fx.make_tiled_copy(atom, tv, tile).get_slice(t)
    fx.copy(atom, thread.partition_S(fx.flat_divide(A, (16, n))[None, None, 0, 0]), thread.partition_D(shared),
            bounds=limits(bounds))
    fx.rocdl.s_waitcnt(0)
    fx.barrier()
    for i in fx.range_constexpr(words):
        B[t // 4, t % 4 * words + i] = shared[t // 4, t % 4 * words + i]


@flyc.jit
def direct(A: fx.Tensor, B: fx.Tensor, op: fx.Constexpr[str], place: fx.Constexpr[str], bounds: fx.Constexpr[tuple]):
    direct_kernel(A, B, op, place, bounds).launch(grid=1, block=64)


@pytest.mark.parametrize("place", ["rows", "columns", "padded", "swizzled"])
@pytest.mark.parametrize("op", direct_atoms())
def test_direct_load(op: str, place: str) -> None:
    shape = (16, 16 if op.endswith("128b") else 4)
    a, b = values(shape, np.float32, 0), poisoned(shape, np.float32)
    if place == "rows":
        direct(a, b, op, place, ())
        np.testing.assert_array_equal(a, b)
        return
    with pytest.raises(DSLCompileError, match="does not have that layout.*thread") as error:
        direct(a, b, op, place, ())
    assert "fx.copy(atom, thread.partition_S(" in str(error.value)


@pytest.mark.skipif(not ARCH.startswith("gfx9"), reason="direct loads are instructions of CDNA")
def test_direct_load_with_bounds() -> None:
    a, b = values((13, 4), np.float32, 0), poisoned((16, 4), np.float32)
    direct(a, b, "BufferCopyLDS32b", "rows", (True,))
    np.testing.assert_array_equal(b, np.concatenate([a, np.zeros((3, 4), np.float32)]))


# --------------------------------------------------------------------------- strides known at launch


@pytest.mark.parametrize("space", ["global", "buffer"])
def test_columns_are_copied_element_by_element(space: str) -> None:
    """The stride between the elements of an access is known at launch only."""
    data = values((32, 48), np.float32, 1)
    out = poisoned(data.shape, np.float32)
    run_tile(np.asfortranarray(data), out, data.shape, **small(space=space))
    np.testing.assert_array_equal(out, data)


def test_static_columns_are_refused() -> None:
    data = np.asfortranarray(values((16, 16), np.float32, 1))
    with pytest.raises(DSLCompileError, match="consecutive"):
        run_tile(flyc.from_dlpack(data), poisoned((16, 16), np.float32), (16, 16), **small())


def test_misaligned_base() -> None:
    data = values((16, 16), np.float32, 2)
    out = poisoned(data.shape, np.float32)
    for space in ("global", "buffer"):
        run_tile(matrix(data, "shifted"), out, data.shape, **small(space=space))
        np.testing.assert_array_equal(out, data)


# --------------------------------------------------------------------------- element types


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int64])
def test_other_types_are_refused(dtype: Any) -> None:
    with pytest.raises((DSLCompileError, ValueError), match="element types mismatch.*recast"):
        run_typed(values((16, 16), np.float32, 3), poisoned((16, 16), dtype))


def test_integers_of_the_same_width_are_bits() -> None:
    a, b = values((16, 16), np.float32, 3), poisoned((16, 16), np.int32)
    run_typed(a, b)
    np.testing.assert_array_equal(a.view(np.int32), b)


def run_typed(a: np.ndarray, b: np.ndarray) -> None:
    run_tile(a, b, (16, 16), **small())


def test_values_of_another_width_are_refused(run: Any) -> None:
    """The atom would move a half of what it is given."""
    body = """
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float16)
    r = fx.make_rmem_tensor(2, fx.Float32)
    fx.copy(atom, fx.make_view(fx.get_iter(X), fx.make_layout(2, 1)), r)
    Y[t] = r[0]
    """
    with pytest.raises(DSLCompileError, match="one call moves 32 bits.*holds 64"):
        run(body)


def test_products_of_other_types_are_refused(run: Any) -> None:
    body = """
    mma = fx.make_mma_atom(fx.UniversalFMA(fx.Float32))
    a, b = fx.make_rmem_tensor(1, fx.Float32), fx.make_rmem_tensor(1, fx.Float64)
    a.fill(1.0)
    b.fill(1.0)
    fx.gemm(mma, a, a, b, a)
    Y[t] = a[0]
    """
    with pytest.raises((DSLCompileError, ValueError), match="operand b is a fragment of 'f64'.*takes 'f32'"):
        run(body)


# --------------------------------------------------------------------------- addresses


@pytest.mark.parametrize("space", ["global", "buffer", "shared"])
@pytest.mark.parametrize("layout", ["fx.make_layout(1, 0)", "fx.make_layout(1, 1)"])
@pytest.mark.parametrize("element", ["Float32", "Int8"])
def test_a_view_of_one_element_is_an_address(run: Any, space: str, layout: str, element: str) -> None:
    """What moves is said by the atom and the registers; the element is the unit of the offset."""
    size = 1 if element == "Int8" else 4
    source, atom = "X", "fx.UniversalCopy128b()"
    if space == "buffer":
        source, atom = "fx.rocdl.make_buffer_tensor(X)", "fx.rocdl.BufferCopy128b()"
    if space == "shared":
        source = "shared"
    body = f"""
    shared = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64, 16]).peek().view(fx.make_layout(64, 1))
    shared[t] = X[t]
    fx.barrier()
    p = fx.get_iter({source})
    if fx.const_expr("{element}" == "Int8"):
        p = fx.recast_iter(fx.PointerType.get(fx.Int8.ir_type, p.type.address_space, 4), p)
    atom = fx.make_copy_atom({atom}, fx.{element})
    r = fx.make_rmem_tensor(4, fx.Float32)
    fx.copy(atom, fx.make_view(fx.add_offset(p, 16 // {size} * (t % 16)), {layout}), r)
    Y[t] = r[0] + 100.0 * r[3]
    """
    got = run(body)
    start = 4 * (np.arange(64) % 16)
    np.testing.assert_array_equal(got, start + 100.0 * (start + 3))


# --------------------------------------------------------------------------- tiles and indices


@pytest.mark.parametrize("rows", [24, 8])
def test_an_overrun_is_refused(rows: int) -> None:
    """24 rows in copies of 16: the second one reaches into the next tile."""
    data = values((rows, 16), np.float32, 4)
    out = poisoned(data.shape, np.float32)
    with pytest.raises(DSLCompileError, match=f"mode 0 of .* has extent {rows}, which the copy takes in tiles of 16"):
        run_tile(data, out, data.shape, **small(tile=(rows, 16)))
    run_tile(data, out, data.shape, **small(tile=(rows, 16), bounds=True))
    np.testing.assert_array_equal(out, data)


@pytest.mark.skipif(not ARCH.startswith("gfx9"), reason="one matrix instruction is enough")
def test_an_overrun_of_a_product_is_refused() -> None:
    """Results of 32 x 16 in a tile of 48 x 16: copies with the MMA's layout overrun as well."""
    (a, _), (b, _) = operand((48, 16), "f16", 1), operand((16, 16), "f16", 2)
    c = np.full((48, 16), -1, np.float32)
    with pytest.raises(DSLCompileError, match="mode 0 of .* has extent 48, which the copy takes in tiles of 32"):
        product(a, b, c, 1, 1, 1, (16, 16, 16, "f16"), (48, 16, 16), ())
    product(a, b, c, 1, 1, 1, (16, 16, 16, "f16"), (48, 16, 16), (True,))
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64).T)


def test_a_guarded_overrun_is_not(run: Any) -> None:
    """Copies under a predicate or a branch, and the repeats that lie inside, are the author's business."""
    body = """
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    _, tv = fx.make_layout_tv(fx.make_layout(16, 1), fx.make_layout(1, 1))
    tiled = fx.make_tiled_copy(atom, tv, (16,))
    view = lambda v: fx.make_view(fx.get_iter(v), fx.make_layout(24, 1))
    s, d = tiled.get_slice(t).partition_S(view(X)), tiled.get_slice(t).partition_D(view(Y))
    fx.copy(atom, s[None, 0], d[None, 0])
    if t < 8:
        fx.copy(atom, s[None, 1], d[None, 1])
    """
    prelude = ""
    got = run(body, block=16, x=np.arange(64, dtype=np.float32), y=np.full(64, -77, np.float32), prelude=prelude)
    np.testing.assert_array_equal(got[:24], np.arange(24))
    assert (got[24:] == -77).all()


@pytest.mark.parametrize("statement", [
    "Y[t] = r[7]", "r[4] = 1.0", "Y[t] = r[-1]", "Y[t] = m[4, 0]", "Y[t] = m[None, 9].load()[0]", "m[0, 8] = 1.0",
    "Y[t] = s[8]",
])
def test_an_index_beyond_the_extent(run: Any, statement: str) -> None:
    body = f"""
    r = fx.make_rmem_tensor(4, fx.Float32)
    r.fill(1.0)
    m = fx.make_view(fx.get_iter(X), fx.make_layout((4, 8), (8, 1)))
    s = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 8, 16]).peek().view(fx.make_layout(8, 1))
    {statement}
    """
    with pytest.raises((DSLCompileError, ValueError), match=r"index -?\d+ .*is out of range for .*") as error:
        run(body)
    assert statement.split("=")[0].strip() in str(error.value) or error.value.__cause__ is None


DIRECT = """
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor):
    t = fx.thread_idx.x
    swizzle = fx.static(fx.SwizzleType.get(2, 0, 3))
    lds = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 256, 16]).peek().view({layout})
    one = fx.make_layout(1, 1)
    source = fx.logical_divide(fx.rocdl.make_buffer_tensor(X), one)[None, t]
    atom = fx.make_copy_atom(fx.rocdl.BufferCopyLDS32b(), fx.Float32)
    for i in range(1):
        fx.copy(atom, source, {destination})
    fx.barrier()
    Y[t] = lds[{read}]

@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor):
    k(X, Y).launch(grid=1, block=128)
"""
LANES = {  # layout, destination of a thread, where its element is; whether the hardware writes it there
    "in order": ("fx.make_layout(128, 1)", "fx.logical_divide(lds, one)[None, t]", "t", True),
    "the place of the wave": ("fx.make_layout(128, 1)", "fx.logical_divide(lds, one)[None, t // 64 * 64]", "t", True),
    "of two modes": ("fx.make_layout((16, 8), (1, 16))", "fx.logical_divide(lds, fx.make_tile(1, 1))"
                     "[(None, t % 16), (0, t // 16)]", "t % 16, t // 16", True),
    "waves exchanged": ("fx.make_layout(128, 1)", "fx.logical_divide(lds, one)[None, (t + 64) % 128]",
                        "(t + 64) % 128", True),
    "backwards": ("fx.make_layout(128, 1)", "fx.logical_divide(lds, one)[None, 127 - t]", "127 - t", False),
    "in order, from a place of run time": ("fx.make_layout(128, 1)", "fx.logical_divide(lds, one)[None, i * 4 + t + i]",
                                           "t", True),
    "backwards, from a place of run time": ("fx.make_layout(128, 1)", "fx.logical_divide(lds, one)[None, 127 - t + i]",
                                            "127 - t", False),
    "with gaps": ("fx.make_layout(128, 2)", "fx.logical_divide(lds, one)[None, t]", "t", False),
    "swizzled": ("fx.make_composed_layout(swizzle, fx.make_layout(128, 1))", "fx.logical_divide(lds, one)[None, t]",
                 "t", False),
    "transposed": ("fx.make_layout((16, 8), (8, 1))", "fx.logical_divide(lds, fx.make_tile(1, 1))"
                   "[(None, t % 16), (0, t // 16)]", "t % 16, t // 16", False),
}


@pytest.mark.skipif(not ARCH.startswith("gfx9"), reason="direct loads with an order of lanes are of gfx9")
@pytest.mark.parametrize("name", LANES)
def test_lanes_of_direct_loads(load: Any, name: str) -> None:
    """A destination for each thread is written there, or refused."""
    layout, destination, read, right = LANES[name]
    module = load(DIRECT.format(layout=layout, destination=destination, read=read))
    x, y = np.random.default_rng(0).random(128, np.float32), np.full(128, np.nan, np.float32)
    if right:
        module.run(x, y)
        np.testing.assert_array_equal(y, x)
        return
    with pytest.raises(DSLCompileError, match="writes the lanes of a wave one behind the other, 1 elements each"):
        module.run(x, y)


@pytest.mark.skipif(not ARCH.startswith("gfx9"), reason="direct loads with an order of lanes are of gfx9")
@pytest.mark.parametrize("index", ["X[t].to(fx.Int32)", "(t * i + t)", "fx.Int32(t * X[0].to(fx.Int32))"])
def test_lanes_of_direct_loads_that_only_the_device_knows(load: Any, index: str) -> None:
    """Such a destination may be one that is not written: a warning at the copy."""
    module = load(DIRECT.format(layout="fx.make_layout(128, 1)", read="t",
                                destination=f"fx.logical_divide(lds, one)[None, {index}]"))
    with pytest.warns(UserWarning, match="follow each other is not known: it depends on their indices and on run-time"):
        flyc.compile(module.run, np.zeros(128, np.float32), np.zeros(128, np.float32))


@pytest.mark.skipif(not ARCH.startswith("gfx9"), reason="direct loads with an order of lanes are of gfx9")
def test_the_place_of_a_wave_may_come_from_the_device(load: Any) -> None:
    """What all threads share is no question of order."""
    module = load(DIRECT.format(layout="fx.make_layout(128, 1)", read="t",
                                destination="fx.logical_divide(lds, one)[None, X[0].to(fx.Int32) + t]"))
    x, y = np.zeros(128, np.float32), np.full(128, np.nan, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module.run(x, y)
    np.testing.assert_array_equal(y, x)


BOOLEANS = """
atom = fx.make_copy_atom(fx.UniversalCopy32b(), {value})
r = fx.make_rmem_tensor(4, fx.Boolean)
fx.copy(atom, fx.logical_divide(X, fx.make_layout(4, 1))[None, t], r)
r.store(~r.load())
fx.copy(atom, r, fx.logical_divide(Y, fx.make_layout(4, 1))[None, t])
"""


@pytest.mark.parametrize("value", ["8", "fx.Int8"])
def test_booleans_are_copied_as_bytes(run: Any, value: str) -> None:
    """A copy of four booleans in 32 bits was refused, as 4 bits."""
    x = np.random.default_rng(1).random(256) < 0.5
    np.testing.assert_array_equal(run(BOOLEANS.format(value=value), x=x, y=x.copy()), ~x)


def test_booleans_of_one_bit(run: Any) -> None:
    with pytest.raises(ValueError, match=r"moves 32 bits, but .* only 4; make_copy_atom\(op, 8\) counts a boolean as"):
        run(BOOLEANS.format(value="fx.Boolean"), x=np.zeros(256, bool))


def test_gather_and_scatter_take_offsets_of_one_mode(run: Any) -> None:
    """Offsets whose shape is a number, not a tuple of one, were refused as of another profile."""
    body = """
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Int32)
    offsets, ok = fx.make_rmem_tensor(2, fx.Int32), fx.make_rmem_tensor(2, fx.Boolean)
    values = fx.make_rmem_tensor(fx.make_layout(((1, 2),), ((0, 1),)), fx.Int32)
    values.fill(-5)
    for i in fx.range_constexpr(2):
        offsets[i] = (t * 5 + i) % 64
        ok[i] = (t + i) % 3 != 0
    fx.gather(atom, fx.get_iter(X), offsets, values, pred=ok)
    for i in fx.range_constexpr(2):
        offsets[i] = t + 64 * i
    fx.scatter(atom, values, fx.get_iter(Y), offsets)
    """
    x, t = np.arange(64, dtype=np.int32) * 3, np.arange(64)
    expected = [np.where((t + i) % 3 != 0, x[(t * 5 + i) % 64], -5) for i in range(2)]
    np.testing.assert_array_equal(run(body, x=x, y=np.zeros(128, np.int32)), np.concatenate(expected))
