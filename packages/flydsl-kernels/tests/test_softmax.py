"""Softmax forward and backward against torch in f64."""

import pytest
from kernel_helpers import DTYPES, Guarded, cases, close, close_relative, random, torch

from flydsl.kernels import ops
from flydsl.kernels.softmax import build_softmax_bwd_module, build_softmax_module, softmax_bwd_buffered_operands

pytestmark = pytest.mark.each_wave_size

SHAPES = cases(
    [(1, 1, "f32"), (9, 3, "f16"), (33, 127, "f32"), (5, 128, "bf16"), (7, 1000, "bf16"), (3, 2048, "f16"),
     (2, 4096, "bf16"), (2, 5003, "f16"), (1, 16384, "f32"), (1, 40000, "bf16"), (1, 70001, "f32")],
    [(m, n, d) for d in DTYPES for m, n in ((64, 256), (37, 509), (16, 512), (64, 8192), (5, 32768), (3, 65536),
                                            (3, 131072), (11, 8191), (4, 8193))],
)
TOLERANCE = {"f32": 1e-5, "f16": 1e-2, "bf16": 2e-2}
GRADIENT = {"f32": 1e-5, "f16": 2e-3, "bf16": 1e-2}


@pytest.mark.parametrize(("m", "n", "dtype"), SHAPES)
def test_forward_and_backward(m, n, dtype):
    x = (torch.rand(m, n, generator=torch.Generator().manual_seed(n)) * 4 - 2).to(DTYPES[dtype])
    y = Guarded(m, n, dtype=DTYPES[dtype])
    build_softmax_module(m, n, dtype)(x, y.out, m)
    reference = torch.softmax(x.double(), -1)
    close(y.check(), reference, TOLERANCE[dtype])
    # f32: error of a few units in the last place of each value, not only of the largest.
    assert ((y.out.double() - reference) / reference).abs().max() < {"f32": 2e-6, "f16": 2e-1, "bf16": 1e-2}[dtype]

    dy, dx = random(m, n, dtype=dtype, seed=1), Guarded(m, n, dtype=DTYPES[dtype])
    build_softmax_bwd_module(n, dtype)(dy, y.out, dx.out, m)
    p, g = y.out.double(), dy.double()
    gradient = p * (g - (g * p).sum(-1, keepdim=True))
    scale = max(gradient.abs().max().item(), 1e-7)
    close(dx.check() / scale, gradient / scale, GRADIENT[dtype])


def test_large_values_do_not_overflow():
    x = torch.tensor([[1e4, 1e4 - 1, -1e4, 3e38, -3e38]])
    close(ops.softmax(x), torch.softmax(x.double(), -1), 1e-6)


def test_masked_places_get_zero():
    x = random(4, 96)
    x[:, 10:] = -torch.inf
    y = ops.softmax(x)
    assert bool((y[:, 10:] == 0).all())
    close(y, torch.softmax(x.double(), -1), 1e-6)


def test_rows_equal_one_by_one():
    x = random(17, 320, dtype="bf16")
    y = ops.softmax(x)
    for i in (0, 7, 16):
        assert torch.equal(ops.softmax(x[i : i + 1]), y[i : i + 1])


def test_operand_residency():
    assert [softmax_bwd_buffered_operands(n, "bf16") for n in (64, 16384, 16385, 32768, 65536)] == [2, 2, 1, 1, 0]


def test_any_rank_and_empty():
    x = random(2, 3, 40)
    close_relative(ops.softmax(x), torch.softmax(x.double(), -1), 1e-5)
    assert ops.softmax(torch.empty(0, 8)).shape == (0, 8)


def test_unsupported_arguments():
    with pytest.raises(ValueError, match="f32, f16, bf16"):
        build_softmax_module(4, 64, "f64")
    with pytest.raises(ValueError, match="positive"):
        build_softmax_module(4, 0)
    with pytest.raises(TypeError, match="float64 is not supported"):
        ops.softmax(torch.zeros(2, 2, dtype=torch.float64))
    with pytest.raises(TypeError, match="built for Float32, but an argument holds Float16"):
        build_softmax_module(2, 8, "f32")(torch.zeros(2, 8).half(), torch.zeros(2, 8), 2)
