"""Experts against a loop over them in f64, under checks for races, bounds and uninitialised reads."""

import pytest
from kernel_helpers import GENERAL_GEMM, Guarded, cases, needs, random, torch

import flydsl.runtime as rt
from flydsl.kernels import ops
from flydsl.kernels.moe.op import MOE, MOE_BWD
from flydsl.kernels.target import target
from flydsl.kernels.testing import cosine_difference

pytestmark = needs(*GENERAL_GEMM)


def operands(tokens, model, inter, experts, k, dtype="bf16", seed=0):
    x = random(tokens, model, dtype=dtype, seed=seed)
    w1 = random(experts, 2 * inter, model, dtype=dtype, seed=seed + 1, scale=model**-0.5)
    w2 = random(experts, model, inter, dtype=dtype, seed=seed + 2, scale=inter**-0.5)
    found = random(tokens, experts, seed=seed + 3).topk(k)
    return x, w1, w2, found.values.softmax(-1), found.indices.int()


def run(*given, checks="oob,race,uninit", **options):
    """The result, between rows that must stay, and that of the definition."""
    arguments = MOE.arguments(*given, **options)
    launcher, args, (out,) = MOE.prepare(*arguments)
    guarded = Guarded(*out.shape, dtype=out.dtype)
    with rt.checked(checks) as report:
        launcher(*(guarded.out if a is out else a for a in args))
        rt.synchronize()
    assert not report.findings, "\n".join(map(str, report.findings))
    quantised = arguments[7] != "none"
    return guarded.check(), None if quantised else MOE.reference(*arguments)[0]


def assert_close(result, exact):
    eps = torch.finfo(result.dtype).eps
    assert float((result.double() - exact).abs().max()) <= 4 * eps * float(exact.abs().max())
    assert cosine_difference(result, exact) <= 1e-4


# tokens, model, inter, experts, k, dtype
CASES = cases(
    [(1, 64, 32, 8, 2, "bf16"), (37, 136, 72, 6, 3, "f16"), (65, 256, 128, 2, 1, "bf16"), (33, 64, 16, 1, 1, "f16"),
     (70, 256, 32, 1, 1, "bf16"), (300, 576, 80, 1, 1, "bf16")],
    [(64, 256, 128, 4, 2, "bf16"), (129, 1024, 256, 8, 2, "bf16"), (333, 1024, 512, 17, 9, "f16"),
     (700, 256, 128, 2, 2, "bf16"), (1, 512, 256, 64, 8, "bf16")],
)


@pytest.mark.parametrize(("tokens", "model", "inter", "experts", "k", "dtype"), CASES)
def test_moe(tokens, model, inter, experts, k, dtype, whole_blocks):
    assert_close(*run(*operands(tokens, model, inter, experts, k, dtype)))


@pytest.mark.parametrize("shape", [(70, 256, 32, 1, 1), (65, 256, 512, 2, 1)], ids=str)
def test_several_small_blocks_of_an_expert(shape):
    assert_close(*run(*operands(*shape)))


@pytest.mark.spread
@pytest.mark.parametrize("activation", ["silu", "gelu", "swiglu", "situ"])
@pytest.mark.parametrize("limit", [None, 0.5])
def test_activations(activation, limit):
    x, *rest = operands(9, 64, 32, 4, 2)
    assert_close(*run(4 * x, *rest, activation, limit))


@pytest.mark.parametrize("interleaved", [False, True])
def test_biases_and_interleaved_weights(interleaved):
    given = operands(20, 72, 40, 4, 2)
    b1, b2 = random(4, 80, dtype="bf16", seed=8), random(4, 72, seed=9)
    assert_close(*run(*given, "swiglu", b1=b1, b2=b2, interleaved=interleaved))


def test_all_tokens_to_one_expert_and_none_to_the_others():
    x, w1, w2, weights, ids = operands(50, 64, 32, 8, 1)
    assert_close(*run(x, w1, w2, weights, torch.full_like(ids, 5)))


def test_waves_of_few_rows_wait_for_each_other_only_to_add_their_sums():
    """What they multiply comes to registers by themselves, so that the latency of memory is waited for once."""
    given = operands(3, 1024, 512, 4, 2)
    ops.moe(*given)
    with rt.profile() as profile:
        ops.moe(*given)
    products = [launch for launch in profile.launches if launch.kernel.startswith("grouped")]
    assert len(products) == 2
    for launch in products:
        each = 2 if target().arch.startswith("gfx12") else 1  # signal and wait are two instructions
        assert launch.synchronisation()["barriers_per_wave"] <= 2 * each


def test_masked_experts_and_experts_that_do_not_exist():
    x, w1, w2, weights, ids = operands(40, 64, 32, 8, 3)
    mask = torch.tensor([1, 0, 0, 1, 1, 0, 1, 0]).int()
    ids[3], ids[7, 1] = -1, 8
    assert_close(*run(x, w1[:4].contiguous(), w2[:4].contiguous(), weights, ids, expert_mask=mask))
    none = run(x, w1[:0], w2[:0], weights, ids, expert_mask=torch.zeros_like(mask))[0]
    assert bool((none == 0).all())


def test_weights_are_followed_when_they_change():
    x, w1, w2, weights, ids = operands(5, 64, 32, 4, 2)
    first = ops.moe(x, w1, w2, weights, ids)
    w1.mul_(0.5)
    assert_close(*run(x, w1, w2, weights, ids))
    assert not torch.equal(first, ops.moe(x, w1, w2, weights, ids))


@pytest.mark.parametrize("tokens", [1 << 15, 1 << 22])
def test_offsets_beyond_32_bits_are_computed_in_64(tokens):
    """Not run: the configuration of such sizes has 64-bit addresses wherever a row may be past 4 GiB."""
    from flydsl.kernels.moe.experts import experts_config

    config = experts_config("moe", target(), tokens, 8, 64, 7168, 2048, "bf16", "silu", None, (False, False), False)
    assert config.up.wide is (tokens * 7168 * 2 >= 1 << 31)
    assert config.down.wide is (tokens * 8 * 2048 * 2 >= 1 << 31)


def test_wide_addresses(monkeypatch):
    from flydsl.kernels.moe import experts

    monkeypatch.setattr(experts, "is_wide", lambda rows, columns: True)
    assert_close(*run(*operands(21, 72, 40, 4, 2)))


@pytest.mark.parametrize(("change", "message"), [
    (dict(activation="relu"), "activation must be one of"), (dict(limit=-1.0), "limit must be positive"),
    (dict(b1=torch.zeros(3, 64)), r"b1 must be \(4, 64\)"), (dict(w2=torch.zeros(4, 64, 24).bfloat16()), "w1 must be"),
    (dict(ids=torch.zeros(4, 2).int()), "both be"), (dict(expert_mask=torch.ones(8).int()), "8 experts, and there are"),
    (dict(quant="fp3"), "quant must be one of"),
])
def test_unsupported_arguments(change, message):
    names = ("x", "w1", "w2", "weights", "ids")
    with pytest.raises(ValueError, match=message):
        ops.moe(**{**dict(zip(names, operands(5, 64, 32, 4, 2), strict=True)), **change})


def test_routing_as_torch_has_it():
    x, w1, w2, weights, ids = operands(5, 64, 32, 4, 2)
    weights = weights.bfloat16()
    expected, given = [], []
    for kept, (factors, numbers) in ((expected, (weights.float(), ids)), (given, (weights, ids.long()))):
        leaves = [t.clone().requires_grad_() for t in (x, w1, w2, factors)]
        kept += (y := ops.moe(*leaves, numbers)), *torch.autograd.grad(y.float().sum(), leaves)
    assert given[-1].dtype == torch.bfloat16
    assert all(torch.equal(a, b.to(a.dtype)) for a, b in zip(given, expected, strict=True))


def test_a_mask_is_counted_once():
    """So that a step with it can be captured, and no later one waits for the device."""
    from flydsl.kernels import capture

    x, w1, w2, weights, ids = operands(5, 64, 32, 4, 2)
    masks = torch.tensor([1, 0, 1, 1], dtype=torch.int32), torch.tensor([True, False, True, True])
    w1, w2 = w1[:3], w2[:3]
    graphs = [capture(lambda m=m: ops.moe(x, w1, w2, weights, ids, expert_mask=m)) for m in masks]
    x.copy_(x.flip(0))
    assert torch.equal(graphs[0].replay(), graphs[1].replay())
    assert torch.equal(graphs[0].result, ops.moe(x, w1, w2, weights, ids, expert_mask=masks[0]))
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        ops.moe()


def test_dtypes_must_agree():
    x, *rest = operands(5, 64, 32, 4, 2)
    with pytest.raises(TypeError, match="w1: dtype bfloat16 is not supported: expected one of f16"):
        ops.moe(x.half(), *rest)


def test_gradients_of_operands_that_do_not_fit():
    x, w1, w2, weights, ids = operands(5, 64, 32, 4, 2)
    for wrong, text in (((x[:4], x, w1, w2), "dy must be"), ((x, x, w1[:, :-2], w2), "w1 must be"),
                        ((x, x, w1, w2[:2]), "w1 must be"), ((x[:4], x[:4], w1, w2), "dy must be")):
        with pytest.raises(ValueError, match=text):
            MOE_BWD.run(*wrong, weights, ids, "silu", None, None, None, None, False)


@pytest.mark.each_wave_size
@pytest.mark.parametrize(("activation", "interleaved"), [("silu", False), ("gelu", True), ("swiglu", True),
                                                         ("situ", False)])
def test_gradients(activation, interleaved):
    """Of all operands, with biases, a mask, a slot without an expert and an expert without tokens."""
    x, w1, w2, weights, ids = operands(13, 64, 32, 6, 2)
    mask = torch.tensor([1, 0, 1, 1, 0, 1]).int()
    ids[ids == 3], ids[2, 1] = 0, -1
    given = [x, w1[:4].contiguous(), w2[:4].contiguous(), weights, random(4, 64, seed=6), random(4, 64, seed=7)]
    ours = [t.requires_grad_() for t in given]
    exact = [t.detach().double().requires_grad_() for t in given]

    def call(function, x, w1, w2, weights, b1, b2):
        limit = 1.5 if activation in ("gelu", "swiglu") else None
        return function(x, w1, w2, weights, ids, activation, limit, "none", None, None, b1, b2, mask, interleaved)

    seed = random(13, 64, dtype="bf16", seed=9)
    call(ops.moe, *ours).backward(seed)
    call(MOE.reference, *exact)[0].backward(seed.double())
    for mine, theirs in zip(ours, exact, strict=True):
        assert float((mine.grad.double() - theirs.grad).abs().max()) <= 2e-2 * float(theirs.grad.abs().max())
        assert cosine_difference(mine.grad, theirs.grad) <= 1e-3
