"""Tiled WMMA of RDNA4 and gfx1250, and which integers matrix instructions take (see test_architectures.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
from flydsl.runtime.device import get_rocm_arch, get_warp_size

ARCH = get_rocm_arch().split(":")[0]
DEPTH = {2: 32, 1: 64} if ARCH == "gfx1250" else {2: 16, 1: 16}  # of one instruction, by bytes of an element
pytestmark = pytest.mark.usefixtures("device")
needs_wmma = pytest.mark.skipif(not ARCH.startswith("gfx12"), reason="needs WMMA of gfx12")

SOURCE = """
@flyc.kernel
def k(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, mma: fx.TiledMma):
    t = fx.thread_idx.x
    th = mma.get_slice(t)
    ca = fx.make_tiled_copy_A(fx.make_copy_atom(fx.UniversalCopy128b(), fx.TYPE), mma)
    cb = fx.make_tiled_copy_B(fx.make_copy_atom(fx.UniversalCopy128b(), fx.TYPE), mma)
    fa, fb, acc = th.make_fragment_A(A), th.make_fragment_B(B), th.make_fragment_C(C)
    fx.copy(ca, ca.get_slice(t).partition_S(A), ca.get_slice(t).retile(fa))
    fx.copy(cb, cb.get_slice(t).partition_S(B), cb.get_slice(t).retile(fb))
    acc.fill(0)
    fx.gemm(mma, acc, fa, fb, acc)
    cc = fx.make_tiled_copy_C(fx.make_copy_atom(fx.UniversalCopy32b(), C.dtype), mma).get_slice(t)
    fx.copy(cc.copy_atom, cc.retile(acc), cc.partition_D(C))

@flyc.jit
def run(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor):
    atom = fx.make_mma_atom(fx.rocdl.WMMA(16, 16, DEPTH, fx.TYPE OPTIONS))
    k(A, B, C, fx.make_tiled_mma(atom, fx.make_layout((2, 2, 1), (1, 2, 0)))).launch(grid=1, block=128)
"""


def product(load: Any, a: np.ndarray, b: np.ndarray, c: np.ndarray, name: str, options: str = "") -> np.ndarray:
    text = SOURCE.replace("DEPTH", str(DEPTH[a.itemsize])).replace("TYPE", name).replace("OPTIONS", options)
    bits = 64 if a.itemsize == 1 else 128
    load(text.replace("UniversalCopy128b", f"UniversalCopy{bits}b")).run(*(flyc.from_dlpack(v) for v in (a, b, c)))
    return c


@needs_wmma
def test_product(load: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((32, 32)).astype(np.float16), rng.standard_normal((64, 32)).astype(np.float16)
    c = product(load, a, b, np.full((32, 64), np.nan, np.float32), "Float16")
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32).T, rtol=1e-3, atol=1e-3)


@needs_wmma
@pytest.mark.parametrize("name, options, signed", [
    ("Int8", "", True), ("Uint8", "", False), ("Int8", ", sign_a=False, sign_b=False", False), ("T.i8", "", False),
    ("Int8", ", fx.Int32, elem_ty_b=fx.Int8", True),
])
def test_integers_have_the_sign_of_their_class(load: Any, name: str, options: str, signed: bool) -> None:
    """... unless the signs are given; an MLIR type has none, and counts as unsigned as ever."""
    rng = np.random.default_rng(1)
    kind = np.int8 if name == "Int8" else np.uint8
    a, b = (rng.integers(-128 if kind is np.int8 else 0, 128, (rows, 64)).astype(kind) for rows in (32, 64))
    if name != "Int8":
        a, b = a * 2, b * 2
    c = product(load, a, b, np.zeros((32, 64), np.int32), name, options)
    wide = [v.view(np.int8 if signed else np.uint8).astype(np.int64) for v in (a, b)]
    np.testing.assert_array_equal(c, wide[0] @ wide[1].T)


@pytest.mark.skipif(not ARCH.startswith("gfx9"), reason="MFMA is of gfx9")
def test_mfma_takes_signed_integers(run: Any) -> None:
    """An accumulator of integers is i32 without a word; unsigned operands would be taken for signed ones."""
    text = "fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 32, fx.{}))\nY[t] = X[t]"
    run(text.format("Int8"))
    with pytest.raises(ValueError, match="MFMA takes signed integers, got Uint8"):
        run(text.format("Uint8"))


@pytest.mark.skipif(ARCH not in ("gfx950", "gfx1250"), reason="needs scaled matrix instructions")
def test_state_of_tiled_products(run: Any) -> None:
    """`TiledMma.set_value` failed for every atom."""
    instruction = "cdna4.MFMA_Scale" if ARCH == "gfx950" else "WMMAScale"
    body = f"""
    atom = fx.make_mma_atom(fx.rocdl.{instruction}(16, 16, 128, fx.Float8E4M3FN))
    plain = fx.make_tiled_mma(atom, fx.make_layout((1, 1, 1), (1, 1, 1)), (16, 16, None))
    mma = plain.set_value({{"scale_a": fx.Int32(0x7F7F7F7F), "scale_b": -0x7E7E7E7F}}).get_slice(t)
    a, b = (make(fx.make_view(fx.get_iter(X), fx.make_layout((16, 128), (128, 1))))
            for make in (mma.make_fragment_A, mma.make_fragment_B))
    acc = mma.make_fragment_C(fx.make_view(fx.get_iter(X), fx.make_layout((16, 16), (16, 1))))
    a.fill(1.0)
    b.fill(0.5)
    acc.fill(0.0)
    fx.gemm(mma, acc, a, b, acc)
    Y[t] = acc.load().reduce("max")
    """
    np.testing.assert_array_equal(run(body, block=get_warp_size()), np.full(get_warp_size(), 128 * 0.5 * 4))
    with pytest.raises(ValueError, match="no state field 'nonsense'"):
        run(body.replace("scale_b", "nonsense"), block=get_warp_size())
