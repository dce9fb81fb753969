"""Tensors, pointers and copies of every kind, numerically."""
# ruff: noqa: E501 - one case a line

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.runtime.device import get_rocm_arch

I = np.arange(64)  # noqa: E741
dma = pytest.mark.skipif(not get_rocm_arch().startswith("gfx9"), reason="needs LDS DMA")

CASES: dict[str, tuple[str, Any]] = {
    "buffer bounds": (
        "B = fx.rocdl.make_buffer_tensor(X, num_records_bytes=n * 4)\nr = fx.make_rmem_tensor(1, fx.Float32)\n"
        "fx.copy_atom_call(fx.make_copy_atom(fx.rocdl.BufferCopy32b(), fx.Float32),\n"
        "                  fx.slice(fx.logical_divide(B, fx.make_layout(1, 1)), (None, t)), r)\nY[t] = r[0]",
        np.where(I < 40, I, 0)),
    "swizzled pointer": (
        "a = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64, 64]).peek()\n"
        "v = fx.make_view(fx.apply_swizzle(a.ptr, fx.static(fx.SwizzleType.get(2, 2, 3))), fx.make_layout(64, 1))\n"
        "v[t] = X[t]\nfx.barrier()\nY[t] = v[63 - t]", 63 - I),
    "composed view": (
        "a = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64, 64]).peek()\n"
        "l = fx.make_composed_layout(fx.static(fx.SwizzleType.get(2, 1, 2)), fx.make_layout((8, 8), (8, 1)))\n"
        "v = a.view(l)\nv[t // 8, t % 8] = X[t]\nfx.barrier()\nY[t] = v[t % 8, t // 8]", I % 8 * 8 + I // 8),
    "one entry for one mode": ("Y[(t,)] = X[(63 - t,)] + X[[0]]", 63 - I),
    "nested vector load": (
        "r = fx.make_rmem_tensor(((2, 2), 2), fx.Float32)\nfor q in fx.range_constexpr(8):\n    r[q] = X[t] + q\n"
        "v = r.load()\nassert v.shape == ((2, 2), 2)\nY[t] = v[5] * 100.0 + v[0]", (I + 5) * 100 + I),
    "gather": (
        "off = fx.make_rmem_tensor((1, 2), fx.Int32)\noff[0] = 63 - t\noff[1] = t\n"
        "dst = fx.make_rmem_tensor(((1, 1), 2), fx.Float32)\n"
        "fx.gather(fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32), fx.get_iter(X), off, dst)\n"
        "Y[t] = dst[0] * 100.0 + dst[1]", (63 - I) * 100 + I),
    "scatter": (
        "off = fx.make_rmem_tensor((1, 1), fx.Int32)\noff[0] = 63 - t\nsrc = fx.make_rmem_tensor(((1, 1), 1), fx.Float32)\n"
        "src[0] = X[t]\nfx.scatter(fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32), src, fx.get_iter(Y), off)",
        63 - I),
    "older helpers": (
        "v = fx.vec_broadcast(X[t], 4)\nw = fx.vec_select(t > 3, v, 0.0)\nY[fx.Int32(fx.thread_id('x'))] = w[3]",
        np.where(I > 3, I, 0)),
    "vector module": (
        "from flydsl.expr import vector\nv = vector.from_elements(fx.T.vec(2, fx.T.f32), [X[t], 1.0])\nY[t] = v[0] + v[1]",
        I + 1),
    "dynamic layout": ("A = fx.make_view(fx.get_iter(X), fx.make_layout((n // 5, 8), (8, 1)))\nY[t] = A[t // 8, t % 8]", I),
    "shape of an argument": ("Y[t] = fx.Float32(fx.get_scalar(X.shape[0])) + X.shape.unpack().to(fx.Float32)", np.full(64, 128)),
    "coordinates": (
        "a, b = fx.idx2crd(t, fx.make_layout((4, 16), (16, 1))).unpack()\nY[t] = fx.Float32(a * 16 + b)", I),
    "64-bit indices": ("Y[fx.Int64(t)] = X[fx.Int64(63) - t]", 63 - I),
    "Booleans in registers": ("r = fx.make_rmem_tensor(4, fx.Boolean)\nr[2] = t > 3\nY[t] = r[2].select(1.0, 0.0)", I > 3),
    "reinterpreted pointer": (
        "q = fx.recast_iter(fx.Uint16, fx.get_iter(X))\n"
        "Y[t] = (fx.Uint32(q[t * 2 + 1]) << 16 | fx.Uint32(q[t * 2])).bitcast(fx.Float32)", I),
    "fp8 pair": (
        "p = fx.rocdl.cvt_pk_fp8_f32(fx.T.i32, (t % 8).to(fx.Float32) * 0.25, 1.0, 0, False)\n"
        "v = fx.rocdl.cvt_pk_f32_fp8(fx.T.vec(2, fx.T.f32), p, False)\nY[t] = v[0] + v[1]", I % 8 * 0.25 + 1),
}


@pytest.mark.parametrize("case", list(CASES))
def test_on_the_device(run: Any, case: str) -> None:
    body, expected = CASES[case]
    np.testing.assert_array_equal(run(body), np.asarray(expected, np.float32))


@dma
def test_buffer_to_lds(run: Any) -> None:
    body = """
    s = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64, 16]).peek()
    one = fx.make_layout(1, 1)
    source = fx.logical_divide(fx.rocdl.make_buffer_tensor(X), one)
    target = fx.logical_divide(s.view(fx.make_layout(64, 1)), one)
    atom = fx.make_copy_atom(fx.rocdl.BufferCopyLDS32b(), fx.Float32)
    fx.copy(atom, fx.slice(source, (None, t)), fx.slice(target, (None, t)))
    fx.rocdl.s_waitcnt(vmcnt=0)
    fx.barrier()
    Y[t] = s[63 - t]
    """
    np.testing.assert_array_equal(run(body), 63 - I)


@pytest.mark.parametrize(
    ("op", "reference", "target"),
    [("UniversalAtomicAdd", np.sum, "Y"), ("UniversalAtomicMax", np.max, "Y"), ("UniversalAtomicMin", np.min, "Y"),
     ("rocdl.BufferAtomicAdd", np.sum, "fx.rocdl.make_buffer_tensor(Y)")],
)
def test_atomic_copies(run: Any, op: str, reference: Any, target: str) -> None:
    body = f"""
    r = fx.make_rmem_tensor(1, fx.Float32)
    r[0] = X[t]
    where = fx.slice(fx.logical_divide({target}, fx.make_layout(1, 1)), (None, 0))
    fx.copy_atom_call(fx.make_copy_atom(fx.{op}(fx.Float32), fx.Float32), r, where)
    """
    x = np.random.default_rng(0).integers(-50, 50, 64).astype(np.float32)
    y = np.zeros(64, np.float32)
    run(body, x=x, y=y)
    assert y[0] == reference(np.append(x, 0)) and not y[1:].any()


PACKED = """
@flyc.kernel
def k(P: fx.Pointer, O: fx.Tensor, n: fx.Int32):
    {body}

@flyc.jit
def run(P: fx.Pointer, O: fx.Tensor, n: fx.Int32):
    k(P, O, n).launch(grid=1, block=1)
"""


def test_elements_of_four_bits_as_vectors_and_at_bytes(load: Any) -> None:
    import flydsl.runtime as rt

    body = """v = fx.make_view(P, fx.make_layout(16, 1))
    x = v.load()
    r = fx.make_rmem_tensor(16, fx.Int4)
    r.store(x)
    for i in fx.range_constexpr(16):
        O[i] = fx.Int32(x[i])
        O[16 + i] = fx.Int32(r[i])
    O[32] = fx.Int32(P[6])
    O[33] = fx.Int32(v[4])
    O[34] = fx.Int32((P + 8).load())"""
    module = load(PACKED.format(body=body))
    data = np.arange(8, dtype=np.uint8) * 2 | (np.arange(8, dtype=np.uint8) * 2 + 1) << 4
    out = np.full(35, -77, np.int32)
    module.run(flyc.from_c_void_p(fx.Int4, data.ctypes.data, assumed_align=8), out, 3)
    rt.synchronize()
    numbers = (np.arange(16) + 8) % 16 - 8
    np.testing.assert_array_equal(out, [*numbers, *numbers, 6, 4, -8])


@pytest.mark.parametrize(
    "body",
    ["O[0] = fx.Int32(P[n])", "O[0] = fx.Int32((P + n).load())", "O[0] = fx.Int32(P[3])", "P[2] = fx.Int4(1)", "P.store(fx.Int4(1))", "x = P + 5",
     "O[0] = fx.Int32(fx.make_view(P, fx.make_layout(16, 1))[7])", "fx.make_view(P, fx.make_layout(16, 1))[2] = fx.Int4(1)",
     "O[0] = fx.Int32(fx.make_rmem_tensor(8, fx.Int4)[n])", "fx.make_rmem_tensor(8, fx.Int4)[n] = fx.Int4(1)"],
)
def test_single_elements_of_four_bits_are_refused(load: Any, body: str) -> None:
    """They have no address of their own: the neighbour in the byte would be read, or overwritten."""
    module = load(PACKED.format(body=body))
    with pytest.raises(ValueError, match="elements of 4 bits share bytes"):
        module.run(flyc.from_c_void_p(fx.Int4, None), np.zeros(4, np.int32), 3)


@pytest.mark.parametrize("target", ["fx.make_rmem_tensor(1, fx.Float16)", "fx.make_rmem_tensor((1, 2), fx.Float16)[None, 0]"])
def test_registers_smaller_than_the_atom_are_refused(load: Any, kernel_text: Any, target: str) -> None:
    module = load(kernel_text(f"""r = {target}
v = fx.slice(fx.logical_divide(X, fx.make_layout(1, 1)), (None, t))
fx.copy(fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32), v, r)
Y[t] = r[0].to(fx.Float32)"""))
    with pytest.raises(ValueError, match=r"the atom moves 32 bits, but mode 0 of .* holds only 16") as caught:
        module.run(np.zeros(64, np.float32), np.zeros(64, np.float32), 3)
    assert "fx.copy(" in str(caught.value)


def test_boolean_tensors_take_a_byte_an_element(load: Any) -> None:
    """Scalars, vectors, buffers, LDS and fragments with a run-time index of a NumPy (or torch) bool array."""
    module = load("""
@flyc.kernel
def mask(B: fx.Tensor, X: fx.Tensor, C: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    t = fx.thread_idx.x
    lds = fx.make_view(fx.get_dyn_shared(fx.Boolean), fx.make_layout(64, 1))
    C[t] = B[t] & (t < n)
    Y[t] = B[t].select(X[t], 0.0)
    lds[t] = B[63 - t]
    fx.barrier()
    Y[64 + t] = lds[63 - t].select(1.0, 0.0)
    four = fx.slice(fx.logical_divide(B, fx.make_layout(4, 1)), (None, t // 4)).load()
    Y[128 + t] = four[t % 4].select(1.0, 0.0)
    frag = fx.make_rmem_tensor(4, fx.Boolean)
    for i in fx.range_constexpr(4):
        frag[i] = B[t // 4 * 4 + i]
    Y[192 + t] = frag[t % 4].select(1.0, 0.0)
    buffer = fx.rocdl.make_buffer_tensor(B)
    Y[256 + t] = buffer[t].select(1.0, 0.0)
    out = fx.slice(fx.logical_divide(C, fx.make_layout(4, 1)), (None, 16 + t // 4))
    out.store(four)

@flyc.jit
def run(B: fx.Tensor, X: fx.Tensor, C: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    mask(B, X, C, Y, n).launch(grid=1, block=64, smem=64)
""")
    import flydsl.runtime as rt

    rng = np.random.default_rng(3)
    b, x = rng.random(64) < 0.5, rng.random(64, dtype=np.float32) + 1
    c, y = np.ones(128, bool), np.full(320, -77, np.float32)
    module.run(b, x, c, y, 40)
    rt.synchronize()
    assert set(c.view(np.uint8).tolist()) <= {0, 1}
    np.testing.assert_array_equal(c[:64], b & (np.arange(64) < 40))
    np.testing.assert_array_equal(c[64:], b)
    np.testing.assert_array_equal(y[:64], np.where(b, x, 0))
    for part in range(1, 5):
        np.testing.assert_array_equal(y[64 * part :][:64], b.astype(np.float32), err_msg=str(part))


@pytest.mark.parametrize("use", ["a[t] = fx.Boolean(True)", "x = a[t]", "v = a.view(fx.make_layout(16, 1))"])
def test_packed_arrays_of_booleans_have_no_elements(load: Any, kernel_text: Any, use: str) -> None:
    body = f"a = fx.SharedAllocator().allocate(fx.Array[fx.Boolean, 16]).peek()\n{use}"
    with pytest.raises(TypeError, match="array of Boolean takes a bit an element.*Uint8"):
        load(kernel_text(body)).run(np.zeros(64, np.float32), np.zeros(64, np.float32), 3)


def test_bounds_of_a_boolean_buffer(load: Any) -> None:
    import flydsl.runtime as rt

    module = load("""
@flyc.kernel
def k(B: fx.Tensor, Y: fx.Tensor):
    Y[fx.thread_idx.x] = fx.rocdl.make_buffer_tensor(B, max_size=False)[fx.thread_idx.x].select(1.0, 0.0)

@flyc.jit
def run(B: fx.Tensor, Y: fx.Tensor):
    k(B, Y).launch(grid=1, block=64)
""")
    y = np.full(64, -77, np.float32)
    module.run(flyc.from_dlpack(np.ones(40, bool)), y)
    rt.synchronize()
    np.testing.assert_array_equal(y, np.arange(64) < 40)
