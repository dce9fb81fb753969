"""Activations, alone and gated, against torch in f64."""

import pytest
from kernel_helpers import DTYPES, close, random, torch
from torch.nn import functional as F  # noqa: N812 - its usual name

import flydsl.runtime as rt
from flydsl.kernels import ops
from flydsl.kernels.elementwise import build_activation_module

pytestmark = pytest.mark.each_wave_size

KINDS = {
    "silu": (ops.silu, F.silu), "gelu": (ops.gelu, F.gelu),
    "gelu_tanh": (lambda x: ops.gelu(x, "tanh"), lambda x: F.gelu(x, approximate="tanh")),
    "soft_cap": (lambda x: ops.soft_cap(x, 1.5), lambda x: 1.5 * torch.tanh(x / 1.5)),
}
GATED = {
    "silu": (ops.silu_and_mul, F.silu), "gelu": (ops.gelu_and_mul, F.gelu),
    "gelu_tanh": (lambda x: ops.gelu_and_mul(x, "tanh"), KINDS["gelu_tanh"][1]),
}
TOLERANCE = {"f32": 2e-6, "f16": 4e-3, "bf16": 3e-2}


def compare(ours, exact, x, dtype):
    """Values and gradients."""
    with rt.checked("oob,race,uninit") as report:
        x, wide = x.requires_grad_(), x.detach().double().requires_grad_()
        y, reference = ours(x), exact(wide)
        close(y.detach(), reference.detach(), TOLERANCE[dtype] * max(float(reference.detach().abs().max()), 1.0))
        seed = random(*y.shape, dtype=dtype, seed=5)
        y.backward(seed)
        reference.backward(seed.double())
    assert not report.findings
    close(x.grad, wide.grad, TOLERANCE[dtype] * max(float(wide.grad.abs().max()), 1.0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "dtype"), [((3, 700), "f32"), ((5, 3, 41), "bf16"), ((8200,), "f16")])
def test_activations(kind, shape, dtype):
    compare(*KINDS[kind], random(*shape, dtype=dtype, scale=2.0), dtype)


@pytest.mark.parametrize("kind", GATED)
@pytest.mark.parametrize(("shape", "dtype"), [((3, 2, 64), "bf16"), ((7, 2 * 33), "f32"), ((2, 2 * 4104), "f16")])
def test_gated_activations(kind, shape, dtype):
    ours, act = GATED[kind]

    def exact(x):
        gate, up = x.chunk(2, -1)
        return act(gate) * up

    compare(ours, exact, random(*shape, dtype=dtype), dtype)


@pytest.mark.parametrize("first", [0, 3])  # a part of a larger tensor begins anywhere
@pytest.mark.parametrize(("kind", "shape", "dtype"), [("silu", (3, 33), "bf16"), ("gelu", (2, 5, 411), "f32"),
                                                      ("gelu_tanh", (4200,), "f16")])
def test_gate_and_up_in_two_tensors(kind, shape, dtype, first):
    act = GATED[kind][1]
    ours = {"silu": ops.silu_and_mul, "gelu": lambda x, up: ops.gelu_and_mul(x, up=up),
            "gelu_tanh": lambda x, up: ops.gelu_and_mul(x, "tanh", up)}[kind]
    size = torch.Size(shape).numel()
    gate, up = (random(size + first, dtype=dtype, seed=seed)[first:].view(shape) for seed in (1, 2))
    compare(lambda x: ours(x, up), lambda x: act(x) * up.double(), gate, dtype)
    compare(lambda x: ours(gate.detach(), x), lambda x: act(gate.detach().double()) * x, up, dtype)
    if dtype != "bf16":
        assert torch.equal(torch.from_numpy(ours(gate.detach().numpy(), up.detach().numpy())), ours(gate, up))
    turned = gate.detach().reshape(-1, shape[-1]).T.contiguous().T.reshape(shape)
    assert torch.equal(ours(turned, up), ours(gate, up))


@pytest.mark.parametrize("kind", KINDS)
def test_far_values(kind):
    x = torch.tensor([-1e30, -200.0, -88.0, -0.0, 0.0, 1e-30, 88.0, 200.0, 1e30])
    ours, exact = KINDS[kind]
    assert torch.allclose(ours(x).double(), exact(x.double()), rtol=1e-5, atol=1e-30)
    assert bool(ours(torch.tensor([torch.nan])).isnan())


def test_parts_of_larger_tensors_begin_anywhere():
    x = random(1001, dtype="bf16")
    for first in (1, 2, 3, 8):
        part = x[first:]
        assert torch.equal(ops.silu(part), ops.silu(part.clone()))


def test_what_is_refused():
    with pytest.raises(ValueError, match="last dimension holds gate and up, so it must be even"):
        ops.silu_and_mul(torch.zeros(2, 7))
    with pytest.raises(ValueError, match=r"up must be torch.float32 of shape \(2, 7\) as the gate, got .* \(7,\)"):
        ops.silu_and_mul(torch.zeros(2, 7), torch.zeros(7))
    with pytest.raises(ValueError, match="up must be torch.float32 .*, got torch.float16"):
        ops.silu_and_mul(torch.zeros(7), torch.zeros(7).half())
    with pytest.raises(ValueError, match="a pair has no rows of both"):
        build_activation_module("silu", columns=8, pair=True)
    assert ops.silu_and_mul(torch.zeros(0, 3), torch.zeros(0, 3)).shape == (0, 3)
    with pytest.raises(ValueError, match="approximate must be 'none' or 'tanh', got 'erf'"):
        ops.gelu(torch.zeros(2), "erf")
    with pytest.raises(ValueError, match="the cap must be positive, got 0.0"):
        ops.soft_cap(torch.zeros(2), 0)
    with pytest.raises(TypeError, match="silu: dtype float64 is not supported"):
        ops.silu(torch.zeros(2, dtype=torch.float64))
    with pytest.raises(ValueError, match="kind must be one of silu, gelu, gelu_tanh, soft_cap, got 'mish'"):
        build_activation_module("mish")
    assert ops.silu(torch.zeros(0, 3, dtype=DTYPES["bf16"])).shape == (0, 3)


def test_an_address_that_splits_an_element_is_refused_by_name():
    """A vector as wide as the row was planned for it once."""
    data = torch.frombuffer(bytearray(4 * 256 * 2 + 1), dtype=torch.bfloat16, count=4 * 256, offset=1).view(4, 256)
    indices = torch.zeros(3, dtype=torch.int64)
    for call in (lambda: ops.silu(data), lambda: ops.embedding(indices, data)):
        with pytest.raises(ValueError, match="aligned to 2 bytes, got an address with remainder 1"):
            call()
