"""Exchange between lanes and small AMD operations, against NumPy; fast-math flags; inline assembly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flydsl.runtime.device import get_rocm_arch, get_warp_size

WAVE = get_warp_size()
I = np.arange(64)  # noqa: E741
L, BASE = I % WAVE, I - I % WAVE
cdna = pytest.mark.skipif(WAVE != 64, reason="needs waves of 64 threads")

CASES: dict[str, tuple[str, Any]] = {
    "xor": ("fx.shuffle_xor(X[t], 5, fx.num_warp_threads())", I ^ 5),
    "xor of 16": ("fx.shuffle_xor(X[t], 3, 16)", I ^ 3),
    "up": ("fx.shuffle_up(X[t], 2, 32)", np.where(I % 32 >= 2, I - 2, -1)),
    "down": ("fx.shuffle_down(X[t], 2, 32)", np.where(I % 32 < 30, I + 2, -1)),
    "index": ("fx.shuffle_idx(X[t], 7, fx.num_warp_threads())", BASE + 7),
    "dynamic offset": ("fx.shuffle_xor(X[t], n & 15, 32)", I ^ 8),
    "vector": ("fx.shuffle_xor(fx.Int32x2([X[t], X[t] * 100]), 1, 32)[1]", (I ^ 1) * 100),
    "64 bits": ("fx.Int32(fx.shuffle_xor(fx.Int64(t) << 33, 1, 32) >> 33)", I ^ 1),
    "16 bits": ("fx.Int32(fx.shuffle_xor(t.to(fx.Int16), 1, 32))", I ^ 1),
    "half": ("fx.Int32(fx.shuffle_xor(t.to(fx.Float16), 1, 32))", I ^ 1),
    "lane": ("fx.lane_id()", L),
    "readfirstlane": ("fx.Int32(fx.rocdl.readfirstlane(fx.T.i32, t + 5))", BASE + 5),
    "readlane": ("fx.Int32(fx.rocdl.readlane(fx.T.i32, t, 3))", BASE + 3),
    "ds_bpermute": ("fx.Int32(fx.rocdl.ds_bpermute(fx.T.i32, (fx.lane_id() ^ 1) * 4, t))", I ^ 1),
    "dpp quad": ("fx.Int32(fx.rocdl.update_dpp(fx.Int32, t, t, 0b10110001, 0xF, 0xF, True))", I ^ 1),
    "dpp mirror": ("fx.Int32(fx.rocdl.update_dpp(fx.T.i32, t, t, 0x140, 0xF, 0xF, True))", I // 16 * 16 + 15 - I % 16),
    "median": ("fx.Int32(fx.Float32(fx.rocdl.fmed3(fx.Float32, fx.Float32(t), 20.0, 40.0)))", np.clip(I, 20, 40)),
}


@pytest.mark.parametrize("case", list(CASES))
def test_exchange(run: Any, case: str) -> None:
    call, expected = CASES[case]
    out = run(f"Y[t] = {call}", x=I.astype(np.int32))
    defined = np.asarray(expected) >= 0  # lanes that read past the end are not specified
    np.testing.assert_array_equal(out[defined], np.asarray(expected)[defined])


@pytest.mark.parametrize("dtype, lanes", [("Int16", 3), ("Uint8", 1), ("Int8", 5), ("Float8E4M3FN", 9), ("Float64", 3),
                                          ("Int4", 3), ("Float6E2M3FN", 5), ("Float4E2M1FN", 9)])
def test_vectors_that_are_no_whole_words(run: Any, dtype: str, lanes: int) -> None:
    """A vector of 48 bits failed in the back end."""
    body = f"""
    v = fx.Vector.from_elements([((t + i) % 3 + 1).to(fx.{dtype}) for i in range({lanes})], fx.{dtype})
    w = fx.shuffle_xor(v, 5, 32)
    assert w.dtype is v.dtype and w.shape == v.shape
    s = fx.Int32(0)
    for i in fx.range_constexpr({lanes}):
        s = s * 2 + w[i].to(fx.Float32).to(fx.Int32)
    Y[t] = s
    """
    expected = np.zeros(64, np.int32)
    for i in range(lanes):
        expected = expected * 2 + ((I ^ 5) + i) % 3 + 1
    np.testing.assert_array_equal(run(body, x=I.astype(np.int32)), expected)


def test_byte_select(run: Any) -> None:
    out = run("Y[t] = fx.Int32(fx.rocdl.perm_b32(t * 0x01010101, t * 0x00000002, 0x00040100))", x=I.astype(np.int32))
    low, high = (I * 2).astype(np.uint32).view(np.uint8).reshape(64, 4), I.astype(np.uint8)
    words = np.stack([low[:, 0], low[:, 1], high, low[:, 0]], axis=1).copy().view(np.int32)[:, 0]
    np.testing.assert_array_equal(out, words)


def test_ballot(run: Any) -> None:
    ty = "i64" if WAVE == 64 else "i32"
    out = run(f"b = fx.rocdl.ballot(fx.T.{ty}, fx.lane_id() < 9)\nY[t] = fx.Int32(fx.ctpop(fx.Int{ty[1:]}(b)))",
              x=I.astype(np.int32))
    np.testing.assert_array_equal(out, np.full(64, 9))


@cdna
def test_inline_assembly(run: Any) -> None:
    out = run("Y[t] = fx.Float32(fx.rocdl.cvt_off_f32_i4(t)) if n > 100 else fx.Float32(0.0)")
    assert not out.any()


@pytest.mark.parametrize(
    ("body", "flags"),
    [
        ("v = X[t] + 1.0", ""),
        ("with fx.fastmath('fast'):\n    v = X[t] + 1.0", " fastmath<fast>"),
        (
            "with fx.fastmath(fx.FastMathFlags.nnan | fx.FastMathFlags.ninf):\n    v = X[t] + 1.0",
            " fastmath<nnan,ninf>",
        ),
        ("with fx.fastmath('fast'):\n    with fx.fastmath(None):\n        v = X[t] + 1.0", ""),
    ],
)
def test_fast_math_flags(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, body: str, flags: str) -> None:
    monkeypatch.setenv("FLYDSL_DUMP_IR", "1")
    monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path / "dump"))
    out = run(body + "\nY[t] = v")
    np.testing.assert_array_equal(out, np.arange(64) + 1)
    (origin,) = (tmp_path / "dump" / "k_0").glob("00_origin.mlir")
    (line,) = [x for x in origin.read_text().splitlines() if "arith.addf" in x]
    assert f"{flags} : f32" in line and ("fastmath" in line) == bool(flags)


def test_arch_is_known() -> None:
    assert get_rocm_arch().startswith("gfx")
