"""What the simulator counts: bank conflicts of GEMMs and convolutions."""

import os

import pytest
from kernel_helpers import DENSE_GEMM, GENERAL_GEMM, fp8_dtype, needs, random, torch

import flydsl.runtime as rt
from flydsl.kernels import ops
from flydsl.kernels.gemm import build_gemm_module, compile_preshuffle_gemm, shuffle_weight
from flydsl.kernels.target import target

profiling = pytest.importorskip("flydsl.runtime.profiling")
COUNTERS = True
pytestmark = pytest.mark.skipif(
    rt.kind() != "sim" or bool(os.environ.get("FLYDSL_SIM_CHECK")), reason="counters of an unchecked simulator"
)


def profiled(launcher, *arguments):
    with profiling.profile() as result:
        launcher(*arguments)
    return result.launches


@needs("gfx942", "gfx950")
@pytest.mark.parametrize(("tile", "dtype"), [((64, 128, 64), "bf16"), ((32, 64, 256), "int8"), ((64, 64, 128), "int8")])
def test_preshuffle_gemm_has_no_bank_conflicts(tile, dtype):
    kind = torch.bfloat16 if dtype == "bf16" else torch.int8
    m, n, k = tile[0], tile[1], tile[2] * 4
    a, b = (torch.randint(-9, 9, s).to(kind) for s in ((m, k), (n, k)))
    launcher = compile_preshuffle_gemm(N=n, K=k, tile_m=m, tile_n=n, tile_k=tile[2], in_dtype=dtype)
    c = torch.empty(m * n).bfloat16()
    (launch,) = profiled(launcher, c, a.view(-1), shuffle_weight(b).view(-1), torch.ones(m), torch.ones(n),
                         torch.zeros(n), m, n)
    clocks, conflicts, _ = launch.lds_conflicts()
    assert clocks > 0 and conflicts <= 0.01 * clocks
    assert launch.flops() == 2 * m * n * k


@needs(*DENSE_GEMM)
@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
def test_general_gemm_has_no_bank_conflicts(layout):
    m, n, block_k = 64, 64, 64 if target().matrix == "mfma" else 32
    k = 4 * block_k
    launcher = build_gemm_module(n, k, "bf16", layout=layout, block_m=m, block_n=n, block_k=block_k)
    a, b, c = random(m * k, dtype="bf16"), random(n * k, dtype="bf16"), torch.empty(m * n).bfloat16()
    (launch,) = profiled(launcher, c, a, b, c, c, m)
    clocks, conflicts, _ = launch.lds_conflicts()
    assert clocks > 0 and conflicts <= 0.01 * clocks


@needs(*GENERAL_GEMM)
@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_convolution_has_no_bank_conflicts(dtype):
    kind = fp8_dtype() if dtype == "fp8" else torch.bfloat16
    x, weight = random(1, 64, 8, 9).to(kind), random(64, 64, 3, 3).to(kind)
    launches = profiled(lambda: ops.conv(x, weight, padding=1))
    clocks, conflicts, _ = next(launch for launch in launches if "conv" in launch.kernel).lds_conflicts()
    assert clocks > 0 and conflicts == 0
