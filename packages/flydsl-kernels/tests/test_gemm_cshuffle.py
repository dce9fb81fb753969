"""The CShuffle epilogue: the same bits as direct stores, in stores of 16 bytes, without bank conflicts."""

import contextlib
import os

import pytest
from kernel_helpers import DENSE_GEMM, Guarded, cases, fp8_dtype, needs, random, torch

import flydsl.runtime as rt
from flydsl.kernels.gemm import (
    build_gemm_module,
    compile_blockscale_preshuffle_gemm,
    compile_preshuffle_gemm_a8,
    shuffle_weight,
)
from flydsl.kernels.target import target

CDNA = needs("gfx942", "gfx950")
COUNTERS = True  # profiles its launches: see conftest.py
COUNTED = rt.kind() == "sim" and not os.environ.get("FLYDSL_SIM_CHECK")  # checked runs are not counted
TILES = cases(
    [("fp8", 33, 256, (32, 128, 128), "none"), ("int8", 70, 128, (64, 64, 128), "bias_silu"),
     ("bf16", 130, 256, (64, 256, 64), "bias"), ("fp16", 17, 64, (16, 64, 128), "none")],
    [("fp8", 300, 512, (128, 256, 128), "bias_gelu"), ("int8", 97, 384, (48, 192, 256), "none"),
     ("bf16", 260, 256, (128, 128, 64), "bias_relu")],
)


def flat(x):
    return (x.view(torch.int8) if x.element_size() == 1 else x).view(-1)


def data(rows, k, dtype, seed):
    if dtype in ("bf16", "fp16"):
        return random(rows, k, dtype=dtype.replace("fp", "f"), seed=seed)
    if dtype == "int8":
        return torch.randint(-127, 128, (rows, k), dtype=torch.int8)
    return random(rows, k, seed=seed).to(fp8_dtype())


def stores(launch):
    """{bytes of a lane's store: number of wave stores} of a profiled launch."""
    found: dict[int, int] = {}
    names = {"short": 2, "b16": 2, "short_d16_hi": 2, "dword": 4, "b32": 4, "dwordx2": 8, "b64": 8, "dwordx4": 16,
             "b128": 16}
    for i in launch.instructions:
        if i.mnemonic.startswith("buffer_store_"):
            width = names[i.mnemonic.removeprefix("buffer_store_").replace("d16_hi_b16", "b16")]
            found[width] = found.get(width, 0) + i.issued
    return found


def profiled(launcher, *arguments):
    with rt.profile() if COUNTED else contextlib.nullcontext() as result:
        launcher(*arguments)
    return result[0] if COUNTED else None


def preshuffle(dtype, m, n, tile, epilogue):
    """(direct C, its profile, shuffled C, its profile)."""
    k = tile[2] * 3
    torch.manual_seed(m)
    a, b = data(m, k, dtype, 0), shuffle_weight(data(n, k, dtype, 1))
    scale_a, scale_b, bias = torch.rand(m) + 0.5, torch.rand(n) * 1e-2, random(n, seed=2)
    tiles, found = dict(zip(("tile_m", "tile_n", "tile_k"), tile, strict=True)), []
    for shuffle in (False, True):
        run = compile_preshuffle_gemm_a8(N=n, K=k, **tiles, in_dtype=dtype, out_dtype="bf16", epilogue=epilogue,
                                         use_cshuffle_epilog=shuffle)
        c = Guarded(m, n, dtype=torch.bfloat16)
        found += [profiled(run, c.out.view(-1), flat(a), flat(b), bias, scale_a, scale_b, m, n), c.check()]
    return found[1], found[0], found[3], found[2]


@CDNA
@pytest.mark.parametrize(("dtype", "m", "n", "tile", "epilogue"), TILES)
def test_same_bits_in_wide_stores(dtype, m, n, tile, epilogue):
    direct, narrow, shuffled, wide = preshuffle(dtype, m, n, tile, epilogue)
    assert torch.equal(direct.view(torch.int16), shuffled.view(torch.int16))
    if COUNTED:
        blocks = -(-m // tile[0]) * (n // tile[1])
        elements = blocks * tile[0] * tile[1]  # rows past the end are issued and dropped
        assert stores(narrow) == {8: elements // 4 // 64}  # a lane has four columns of a row
        width = 16 if tile[0] > 16 else 8  # 16 x 64 elements are 4 for each of 256 threads
        assert stores(wide) == {width: elements // (width // 2) // 64}
        clocks, conflicts, _ = wide.lds_conflicts()
        assert conflicts <= 0.01 * clocks
        assert wide.traffic()["memory_written"] <= 1.05 * m * n * 2


@CDNA
def test_blockscale():
    m, n, k = 70, 256, 512
    a, b = (random(*s, seed=i).to(fp8_dtype()) for i, s in enumerate(((m, k), (n, k))))
    scale_a, scale_b, out = torch.rand(k // 128, m) + 0.5, torch.rand(n // 128, k // 128) + 0.5, []
    for shuffle in (False, True):
        run = compile_blockscale_preshuffle_gemm(M=m, N=n, K=k, tile_m=64, tile_n=128, tile_k=128,
                                                 use_cshuffle_epilog=shuffle)
        c = Guarded(m, n, dtype=torch.bfloat16)
        run(c.out.view(-1), flat(a), flat(shuffle_weight(b)), scale_a.view(-1), scale_b.view(-1), m, n)
        out.append(c.check())
    assert torch.equal(out[0].view(torch.int16), out[1].view(torch.int16))


@needs(*DENSE_GEMM)
@pytest.mark.parametrize(("m", "n", "out"), [
    (100, 200, "bf16"), pytest.param(70, 136, "f32", marks=pytest.mark.spread),
    pytest.param(33, 64, "bf16", marks=pytest.mark.spread)])
@pytest.mark.parametrize("waves", [(2, 2), (1, 4), (4, 1)])
def test_general_gemm(m, n, out, waves):
    k, kind = 96, torch.bfloat16 if out == "bf16" else torch.float32
    a, b, bias = random(m, k, dtype="bf16"), random(n, k, dtype="bf16", seed=1), random(n, dtype="bf16", seed=2)
    found = []
    for shuffle in (False, True):
        run = build_gemm_module(n, k, "bf16", out, bias=True, block_m=64, block_n=64, block_k=32, m_waves=waves[0],
                                n_waves=waves[1], cshuffle=shuffle)
        c = Guarded(m, n, dtype=kind)
        launch = profiled(run, c.out, a, b, bias, c.out, m)
        found.append(c.check())
        if shuffle and COUNTED:
            assert set(stores(launch)) == {16}
            clocks, conflicts, _ = launch.lds_conflicts()
            assert conflicts <= 0.01 * clocks
    bits = torch.int16 if out == "bf16" else torch.int32
    assert torch.equal(found[0].view(bits), found[1].view(bits))


@CDNA
def test_tiles_that_do_not_pass():
    with pytest.raises(ValueError, match="LDS"):
        compile_preshuffle_gemm_a8(N=6400, K=64, tile_m=64, tile_n=6400, tile_k=64, in_dtype="int8",
                                   use_cshuffle_epilog=True)
    assert target().lds_bytes < 16 * 6400 * 2
