"""Every operator of torch.ops.flydsl: opcheck, torch.compile, strided, empty and misplaced operands, fresh results."""

import pytest
from kernel_helpers import GENERAL_GEMM, fp8_dtype, random, torch

from flydsl.kernels import ops, register_torch_ops
from flydsl.kernels.common.arch import current_arch, target

ops._torch()
flydsl = torch.ops.flydsl
LAYOUT = "b_16x16"
CDNA = ("gfx942", "gfx950")
ARCHS = {"gemm": GENERAL_GEMM, "linear": GENERAL_GEMM, "linear_inference": GENERAL_GEMM, "preshuffle_gemm": CDNA,
         "blockscale_gemm": CDNA, "quantize_mx": ("gfx950",), "mx_gemm": ("gfx950", "gfx1250"),
         "scaled_gemm": GENERAL_GEMM}  # fmt: skip
GRADIENTS = ["add", "softmax", "rmsnorm_fwd", "fused_add_rmsnorm_fwd", "layernorm_fwd", "fused_add_layernorm_fwd",
             "gemm", "rmsnorm", "layernorm", "linear"]  # fmt: skip


def operands(name, m=6):
    """Arguments for m rows; fresh random data."""
    x, r, w, b = random(2, m, 96), random(2, m, 96, seed=1), random(96, seed=2), random(96, seed=3)
    stat, wide = random(2, m, seed=4).abs() + 0.5, random(m, 256, seed=5)
    half = random(m, 64, dtype="bf16"), random(64, 64, dtype="bf16", seed=1), random(64, dtype="bf16", seed=2)
    int8 = (wide * 20).to(torch.int8)
    if name in ("preshuffle_gemm", "blockscale_gemm"):
        from flydsl.kernels.gemm import shuffle_weight

        kind = torch.int8 if name == "preshuffle_gemm" else fp8_dtype()
        a, weight = random(m, 128).to(kind), random(64, 128, seed=1).to(kind)
        weight = shuffle_weight(weight.view(torch.int8)).view(kind)
        if kind == torch.int8:
            return a, weight, random(m).abs(), random(64).abs(), None, "none", torch.bfloat16, LAYOUT
        return a, weight, random(1, m).abs(), random(1, 1).abs(), torch.bfloat16, LAYOUT
    if name == "scaled_gemm":
        return random(m, 256).to(fp8_dtype()), random(128, 256, seed=1).to(fp8_dtype()), random(m).abs(), \
            random(128).abs(), torch.bfloat16  # fmt: skip
    if name == "mx_gemm":
        scales = [torch.randint(124, 130, (rows, 8), dtype=torch.uint8) for rows in (m, 128)]
        return int8[:, :128].view(torch.uint8), (random(128, 128, seed=6) * 20).to(torch.int8).view(torch.uint8), \
            *scales, "fp4", "fp4", torch.bfloat16  # fmt: skip
    return {
        "add": (wide, wide + 1), "softmax": (x,), "softmax_bwd": (x, r), "rmsnorm_fwd": (x, w, 1e-5, True),
        "rmsnorm": (x, w), "layernorm": (x, w, b), "linear": half, "linear_inference": half,
        "rmsnorm_bwd": (x, w, r, stat), "fused_add_rmsnorm_fwd": (x, r, w, 1e-5),
        "fused_add_rmsnorm_bwd": (x, w, r, stat, r + 1), "layernorm_fwd": (x, w, b, 1e-5, True),
        "layernorm_bwd": (x, w, r, stat, stat + 1), "fused_add_layernorm_fwd": (x, r, w, b, 1e-5),
        "rmsnorm_quant": (x, w, None, "i8", 1e-5), "fused_add_rmsnorm_quant": (x, r, w, b, "i8", 1e-5),
        "layernorm_quant": (x, w, b, None, "i8", 1e-5), "fused_add_layernorm_quant": (x, r, w, b, w + 1, "i8", 1e-5),
        "quantize_per_token": (x, "i8"), "quantize_per_group": (wide, "i8", True), "quantize_per_block": (wide, "i8"),
        "quantize_per_tensor": (wide, "i8", torch.tensor([0.05])),
        "dequantize": (int8, random(m).abs(), "bf16"), "quantize_int4": (wide, 32, True, "bf16", "nearest"),
        "dequantize_int4": (int8.view(torch.uint8), random(m, 16).abs(), 32, "f32", False), "pack_int4": (int8,),
        "unpack_int4": (int8.view(torch.uint8),), "quantize_mx": (wide.bfloat16(), "fp4"),
        "dequantize_mx": (int8.view(torch.uint8) & 0xF7, torch.randint(110, 140, (m, 8), dtype=torch.uint8), "fp8",
                          "f32"),
        "gemm": (*half, "nt"), "topk_gating_softmax": (random(m, 16), 2, True),
    }[name]  # fmt: skip


def runs_here(name):
    return current_arch().startswith(ARCHS.get(name, ""))


NAMES = [n for n in register_torch_ops() if runs_here(n)]


def run(name, arguments):
    result = getattr(flydsl, name)(*arguments)
    return result if isinstance(result, tuple) else (result,)


def same(a, b):
    # Atomic additions of the weight gradients come in any order.
    return all(x.dtype == y.dtype and x.shape == y.shape and torch.allclose(x.float(), y.float(), 1e-5, 1e-5)
               for x, y in zip(a, b, strict=True))  # fmt: skip


def test_every_operator_is_covered():
    for name in register_torch_ops():
        if name not in ("blockscale_gemm", "scaled_gemm") or target().fp8_name:
            assert operands(name)


@pytest.mark.parametrize("name", NAMES)
def test_opcheck(name):
    arguments = operands(name)
    if name in GRADIENTS:
        arguments = tuple(a.requires_grad_() if isinstance(a, torch.Tensor) else a for a in arguments)
    composite = name in ("rmsnorm", "layernorm", "linear")  # nothing of their own to check but the tracing
    checks = (
        ["test_aot_dispatch_dynamic"]
        if composite
        else ["test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"]
    )
    if name in ("blockscale_gemm", "scaled_gemm"):
        checks.remove("test_schema")  # torch cannot compare fp8 tensors there
    result = torch.library.opcheck(getattr(flydsl, name).default, arguments, test_utils=checks)
    assert set(result.values()) == {"SUCCESS"}


@pytest.mark.parametrize("name", NAMES)
def test_compiles_without_graph_break(name):
    arguments = operands(name)
    torch._dynamo.reset()
    compiled = torch.compile(lambda *tensors: run(name, tensors), fullgraph=True, backend="aot_eager")
    assert same(compiled(*arguments), run(name, arguments))
    more = operands(name, 11)
    assert same(compiled(*more), run(name, more))  # another number of rows: traced with a symbolic size


@pytest.mark.parametrize("name", NAMES)
def test_results_are_fresh_and_contiguous(name):
    arguments = operands(name)
    tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
    before = [t.clone() for t in tensors]
    results, again = run(name, arguments), run(name, arguments)
    assert same(results, again) and all(r.is_contiguous() for r in results)
    seen = {t.untyped_storage().data_ptr() for t in (*tensors, *again) if t.numel()}
    assert not any(r.untyped_storage().data_ptr() in seen for r in results if r.numel())
    assert all(torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in zip(tensors, before, strict=True))


@pytest.mark.parametrize("name", [n for n in NAMES if n != "add"])
def test_strided_operands(name):
    """A tensor with gaps gives the result of its dense copy."""

    def spread(t):
        if not isinstance(t, torch.Tensor) or t.numel() < 2:
            return t
        gaps = torch.empty((*t.shape[:-1], 2 * t.shape[-1]), dtype=t.dtype)
        gaps.view(torch.uint8).fill_(0xFF)
        gaps[..., ::2] = t
        return gaps[..., ::2]

    arguments = operands(name)
    strided = [spread(t) for t in arguments]
    if name in ("preshuffle_gemm", "blockscale_gemm"):
        strided[1] = arguments[1]  # shuffled storage is dense by definition
    assert any(isinstance(s, torch.Tensor) and not s.is_contiguous() for s in strided)
    assert same(run(name, strided), run(name, arguments))


@pytest.mark.parametrize("name", NAMES)
def test_no_rows(name):
    if name == "linear":
        pytest.skip("gemm without rows is checked by itself")
    results, reference = run(name, operands(name, 0)), run(name, operands(name))
    assert all(r.dtype == s.dtype and r.dim() == s.dim() for r, s in zip(results, reference, strict=True))
    if name.endswith("_bwd") and name != "softmax_bwd":
        assert all(bool((g == 0).all()) for g in results[1:])  # a sum over no rows


@pytest.mark.parametrize("name", [n for n in NAMES if sum(isinstance(a, torch.Tensor) for a in operands(n)) > 1])
def test_operands_on_several_devices(name):
    arguments = list(operands(name))
    last = max(i for i, a in enumerate(arguments) if isinstance(a, torch.Tensor))
    arguments[last] = arguments[last].to("meta")
    with pytest.raises((ValueError, RuntimeError), match="device"):
        run(name, arguments)


def test_all_on_meta_gives_meta():
    assert flydsl.softmax(torch.empty(3, 8, device="meta")).device.type == "meta"


def test_numpy_and_torch_do_not_mix():
    with pytest.raises(TypeError, match="all torch tensors or all NumPy arrays"):
        ops.rmsnorm(random(2, 8).numpy(), random(8))


@pytest.mark.parametrize("name", [n for n in GRADIENTS if n in NAMES])
def test_gradients_by_finite_differences_of_f64(name):
    """Against autograd of the definition in f64."""
    dtype = torch.float64
    norm = torch.nn.functional
    definitions = {
        "add": lambda a, b: (a + b,), "softmax": lambda x: (torch.softmax(x, -1),),
        "rmsnorm_fwd": lambda x, w: (norm.rms_norm(x, (96,), w, 1e-5),),
        "rmsnorm": lambda x, w: (norm.rms_norm(x, (96,), w, 1e-5),),
        "fused_add_rmsnorm_fwd": lambda x, r, w: (norm.rms_norm(x + r, (96,), w, 1e-5), x + r),
        "layernorm_fwd": lambda x, w, b: (norm.layer_norm(x, (96,), w, b),),
        "layernorm": lambda x, w, b: (norm.layer_norm(x, (96,), w, b),),
        "fused_add_layernorm_fwd": lambda x, r, w, b: (norm.layer_norm(x + r, (96,), w, b), x + r),
        "gemm": lambda a, b, c: (a @ b.T + c,), "linear": lambda a, b, c: (a @ b.T + c,),
    }  # fmt: skip
    arguments = operands(name, 8)
    tensors = [a.requires_grad_() for a in arguments if isinstance(a, torch.Tensor)]
    exact = [t.detach().to(dtype).requires_grad_() for t in tensors]
    outputs, expected = run(name, arguments), definitions[name](*exact)
    seeds = [random(*e.shape, seed=9 + i) for i, e in enumerate(expected)]
    torch.autograd.backward(outputs[: len(expected)], [s.to(o.dtype) for s, o in zip(seeds, outputs, strict=False)])
    torch.autograd.backward(expected, [s.to(o.dtype).to(dtype) for s, o in zip(seeds, outputs, strict=False)])
    for ours, theirs in zip(tensors, exact, strict=True):
        tolerance = (1e-5 if ours.dtype == torch.float32 else 1e-2) * theirs.grad.abs().max()
        assert (ours.grad.to(dtype) - theirs.grad).abs().max() <= tolerance


def test_an_operator_without_gradient_says_so():
    x = random(4, 256).requires_grad_()
    _, scale = flydsl.quantize_per_token(x, "i8")
    assert not scale.requires_grad or pytest.raises(RuntimeError, scale.sum().backward)


@pytest.mark.skipif(not current_arch().startswith(CDNA), reason="preshuffle GEMM")
def test_layout_tag_is_checked():
    a, b, scale_a, scale_b, *_ = operands("preshuffle_gemm")
    from flydsl.kernels.gemm import shuffle_weight

    plain = random(64, 128, seed=1).to(torch.int8)
    shuffled = shuffle_weight(plain)
    out = ops.preshuffle_gemm(a, shuffled, scale_a, scale_b)
    exact = a.double() @ plain.double().T * scale_a[:, None].double() * scale_b.double()
    assert (out.double() - exact).abs().max() <= 2.0**-7 * exact.abs().max()
    for weight in (plain, shuffled.clone(), torch.nn.Parameter(shuffled, requires_grad=False)):
        with pytest.raises(ValueError, match="layout 'b_16x16', but it is tagged"):
            ops.preshuffle_gemm(a, weight, scale_a, scale_b)
    assert torch.equal(flydsl.preshuffle_gemm(a, shuffled.clone(), scale_a, scale_b, None, "none", torch.bfloat16,
                                              LAYOUT), out)  # fmt: skip
    torch._dynamo.reset()
    compiled = torch.compile(ops.preshuffle_gemm, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(a, shuffled, scale_a, scale_b), out)
    with pytest.raises(ValueError, match="layout 'b_16x16', but it is tagged None"):
        compiled(a, plain, scale_a, scale_b)


@pytest.mark.skipif(not current_arch().startswith(CDNA), reason="preshuffle GEMM")
def test_weight_updates_in_place_are_seen():
    linear = torch.nn.Linear(64, 64, bias=False).bfloat16()
    x = random(8, 64, dtype="bf16")
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: ops.linear(x, linear.weight), fullgraph=True, backend="aot_eager")
    optimiser = torch.optim.SGD(linear.parameters(), lr=0.5)
    with torch.no_grad():
        for change in (lambda: linear.weight.mul_(2), lambda: linear.weight.copy_(torch.randn(64, 64)),
                       lambda: linear.weight[3].zero_(), lambda: linear.load_state_dict(
                           {"weight": torch.randn(64, 64)}), optimiser.step):  # fmt: skip
            ops.linear(x, linear.weight)
            linear.weight.grad = torch.ones_like(linear.weight)
            change()
            exact = x.double() @ linear.weight.double().T
            for out in (ops.linear(x, linear.weight), compiled(x)):
                assert (out.double() - exact).abs().max() <= 2.0**-7 * exact.abs().max()
