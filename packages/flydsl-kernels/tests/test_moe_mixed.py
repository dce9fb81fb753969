"""Products of operands of different types under the names of existing callers: every format, order and epilogue."""

import pytest
from kernel_helpers import Guarded, needs, random, torch
from test_moe_builders import refuses_less, run
from test_moe_quant import int4_values

import flydsl.runtime as rt
from flydsl.kernels import gemm, moe, ops
from flydsl.kernels.elementwise.gated import activation_reference
from flydsl.kernels.gemm import (
    e8m0_shuffle,
    shuffle_scale_for_int4,
    shuffle_scale_w4,
    shuffle_weight,
    shuffle_weight_w4,
)
from flydsl.kernels.quant.reference import e8m0_to_f32, moe_mxfp4_sort, mxfp4_to_f32
from flydsl.kernels.target import target
from flydsl.kernels.testing import Draw, verify_output

TOKENS, MODEL, INTER, EXPERTS, K = 37, 512, 256, 5, 2
SIZES = dict(model_dim=MODEL, inter_dim=INTER, experts=EXPERTS, topk=K)
MFMA = needs("gfx942", "gfx950")
SCALED = needs("gfx950")


def routed(block):
    found = random(TOKENS, EXPERTS, seed=5).topk(K)
    ids, weights = found.indices.int(), found.values.softmax(-1)
    return ids, weights, ops.moe_sort(ids, weights, EXPERTS, block)


def half_bytes(kind, *shape, seed=0):
    """(codes as bytes, values in f64) of fp4, fp8 or e8m0 without extremes."""
    draw = Draw(target(), seed)
    if kind == "fp4":
        codes = draw.integers(0, 256, *shape[:-1], shape[-1] // 2)
        return codes, mxfp4_to_f32(codes.flatten(0, -2)).view(shape).double()
    if kind == "fp8":
        codes = draw.normal(*shape, dtype="fp8")
        return codes.view(torch.uint8), codes.double()
    codes = draw.integers(118, 124, *shape)
    return codes, e8m0_to_f32(codes).double()


def spread(scales, size=32):
    return scales.repeat_interleave(size, -1)


def micro_weight(kind, rows, k, seed, pairs=False):
    """(codes and scales in the order of a kernel, values)."""
    codes, values = half_bytes(kind, EXPERTS, rows, k, seed=seed)
    scales, factors = half_bytes("e8m0", EXPERTS, rows, k // 32, seed=seed + 1)
    values = values * spread(factors)
    flat = scales.flatten(0, 1)
    if pairs:
        assert kind == "fp4"
        return shuffle_weight_w4(codes, 16, True, True), shuffle_scale_w4(flat, EXPERTS, True), values
    ordered = shuffle_weight_w4(codes) if kind == "fp4" else shuffle_weight(codes.view(torch.int8))
    return ordered, e8m0_shuffle(flat), values


def sorted_rows(rows, valid):
    """(token, slot, place) of the rows that exist."""
    names = rows[: int(valid[0])].long()
    token, slot = names & 0xFFFFFF, names >> 24
    place = torch.arange(len(names))
    exists = token < TOKENS
    return token[exists], slot[exists], place[exists]


def from_words(scales, rows, columns):
    """Rows of scales in the order of ``e8m0_shuffle``."""
    padded = -(-columns // 8) * 8
    whole = scales.flatten()[: rows * padded].view(rows // 32, padded // 8, 4, 16, 2, 2)
    return whole.permute(0, 5, 3, 1, 4, 2).reshape(rows, padded)[:, :columns]


def gated(x, values, weights, ids, act, limit=None, bias=None, weighted=False):
    """f64 (tokens, slots, inter)."""
    y = torch.einsum("tk,tsnk->tsn", x, values[ids.long()])
    y = y if bias is None else y + bias.double()[ids.long()]
    gate, up = y.chunk(2, -1)
    return activation_reference(gate, up, act, limit) * (weights.double()[..., None] if weighted else 1)


# a_dtype, b_dtype, options
MIXED = [
    ("fp8", "fp4", {}), ("fp4", "fp4", dict(act="swiglu", enable_bias=True)),
    ("fp8", "fp4", dict(gate_mode="interleave", tile_m=16, swiglu_limit=1.0)),
    ("fp8", "fp8", dict(tile_m=64, doweight_stage1=True)), ("fp4", "fp4", dict(gate_mode="interleave", tile_m=16)),
    ("fp8", "fp4", dict(a_scale_one=True)), ("fp8", "fp4", dict(k_batch=2)),
    ("fp4", "fp4", dict(k_batch=2, gate_mode="mock_gate_only", enable_bias=True, tile_k=128)),
    ("fp8", "fp4", dict(model_dim_pad=256, inter_dim_pad=128)), ("fp8", "fp4", dict(xcd_swizzle=2, b_nt=2)),
    ("fp4", "fp4", dict(xcd_swizzle=3, tile_m=16, k_batch=2)),
]


@SCALED
@pytest.mark.parametrize(("a_dtype", "b_dtype", "options"), MIXED, ids=str)
def test_gate_and_up_of_microscaled_operands(a_dtype, b_dtype, options):
    options = {"tile_m": 32, "tile_n": 128, "tile_k": 256, "doweight_stage1": False, **options}
    pad, inter_pad = options.get("model_dim_pad", 0), options.get("inter_dim_pad", 0)
    ids, weights, (rows, factors, experts, valid) = routed(options["tile_m"])
    pairs, split = options.get("gate_mode") == "interleave", options.get("k_batch", 1) > 1
    codes, scales, values = micro_weight(b_dtype, 2 * INTER, MODEL, 1, pairs)
    x, exact = half_bytes(a_dtype, TOKENS, MODEL, seed=3)
    scale_x, of_x = half_bytes("e8m0", TOKENS, MODEL // 32, seed=4)
    if options.get("a_scale_one"):
        ordered = torch.full((1,), 255, dtype=torch.uint8)
    else:
        ordered, exact = moe_mxfp4_sort(scale_x, rows, valid, TOKENS), exact * spread(of_x)
    values, exact = values[..., : MODEL - pad], exact[..., : MODEL - pad]
    bias = random(EXPERTS, 2 * INTER, seed=6) if options.get("enable_bias") else None
    launcher = moe.compile_mixed_moe_gemm1(**SIZES, **options, a_dtype=a_dtype, b_dtype=b_dtype, out_dtype="bf16")
    out = Guarded(TOKENS, K, 2 * INTER if split else INTER, dtype=torch.bfloat16)
    if split:
        out.out.zero_()
    arguments = (out.out, x, codes, ordered, scales, rows, experts, factors, valid, bias, None, TOKENS, INTER, MODEL,
                 len(experts))
    run(launcher, *arguments)
    refuses_less(launcher, arguments, 2, 4, 9)
    if split:
        expected = torch.einsum("tk,tsnk->tsn", exact, values[ids.long()])
        expected = expected if bias is None else expected + bias.double()[ids.long()]
    else:
        expected = gated(exact, values, weights, ids, options.get("act", "silu"), options.get("swiglu_limit"), bias,
                         options["doweight_stage1"])
    used = expected.shape[-1] - inter_pad
    assert verify_output(out.check()[..., :used], expected[..., :used], 2e-3, 2e-3)


@SCALED
@pytest.mark.parametrize(("a_dtype", "out_dtype", "accumulate", "sort_block"), [
    ("fp8", "bf16", True, 32), ("fp4", "f16", False, 64), ("fp8", "f32", True, 16)])
def test_down_of_microscaled_operands(a_dtype, out_dtype, accumulate, sort_block):
    tile = dict(tile_m=min(sort_block, 32), tile_n=128, tile_k=256)
    ids, weights, (rows, factors, experts, valid) = routed(sort_block)
    codes, scales, values = micro_weight("fp4", MODEL, INTER, 1)
    x, exact = half_bytes(a_dtype, TOKENS * K, INTER, seed=3)
    scale_x, of_x = half_bytes("e8m0", TOKENS * K, INTER // 32, seed=4)
    exact = (exact * spread(of_x)).view(TOKENS, K, INTER)
    token, slot, place = sorted_rows(rows, valid)
    by_row = torch.full((-(-len(rows) // 32) * 32, INTER // 32), 255, dtype=torch.uint8)  # NaN of padding
    by_row[place] = scale_x.view(TOKENS, K, -1)[token, slot]
    launcher = moe.compile_mixed_moe_gemm2(**SIZES, **tile, doweight_stage2=True, a_dtype=a_dtype, b_dtype="fp4",
                                           out_dtype=out_dtype, accumulate=accumulate, sort_block_m=sort_block,
                                           enable_bias=True)
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}[out_dtype]
    out, bias = Guarded(TOKENS if accumulate else TOKENS * K, MODEL, dtype=dtype), random(EXPERTS, MODEL, seed=7)
    if accumulate:
        out.out.zero_()
    run(launcher, out.out, x, codes, e8m0_shuffle(by_row), scales, rows, experts, factors, valid, bias, TOKENS, MODEL,
        INTER, len(experts))
    slots = torch.einsum("tsk,tsnk->tsn", exact, values[ids.long()]) + bias.double()[ids.long()]
    slots = slots * weights.double()[..., None]
    assert verify_output(out.check(), slots.sum(1) if accumulate else slots.flatten(0, 1), 4e-3, 4e-3)


@SCALED
@pytest.mark.parametrize("out_dtype", ["fp4", "fp8"])
@pytest.mark.parametrize("tile_m", [16, 32])
def test_quantised_results(out_dtype, tile_m):
    """Scales are the powers of two just above the largest of the exact values, and values within half a step."""
    ids, weights, (rows, factors, experts, valid) = routed(tile_m)
    codes, scales, values = micro_weight("fp4", 2 * INTER, MODEL, 1)
    x, exact = half_bytes("fp8", TOKENS, MODEL, seed=3)
    scale_x, of_x = half_bytes("e8m0", TOKENS, MODEL // 32, seed=4)
    ordered, exact = moe_mxfp4_sort(scale_x, rows, valid, TOKENS), exact * spread(of_x)
    launcher = moe.compile_mixed_moe_gemm1(**SIZES, tile_m=tile_m, tile_n=128, tile_k=256, doweight_stage1=False,
                                           out_dtype=out_dtype)
    out = Guarded(TOKENS * K, INTER // (2 if out_dtype == "fp4" else 1), dtype=torch.uint8)
    found = Guarded(-(-len(rows) // 256) * 256, INTER // 32, dtype=torch.uint8)
    run(launcher, out.out, x, codes, ordered, scales, rows, experts, factors, valid, None, found.out, TOKENS, INTER,
        MODEL, len(experts))
    token, slot, place = sorted_rows(rows, valid)
    factors = e8m0_to_f32(from_words(found.check(), found.out.shape[0], INTER // 32)[place]).double()
    data = out.check().view(TOKENS, K, -1)[token, slot]
    result = mxfp4_to_f32(data).double() if out_dtype == "fp4" else data.view(torch.float8_e4m3fn).double()
    expected = gated(exact, values, weights, ids, "silu")[token, slot]
    largest = expected.unflatten(-1, (-1, 32)).abs().amax(-1)
    limit = 6.0 if out_dtype == "fp4" else 448.0
    assert bool((factors * limit >= largest * 0.995).all()) and bool((factors * limit < 2.02 * largest).all())
    step = factors * (1.0 if out_dtype == "fp4" else 16.0)
    error = (result * spread(factors) - expected).abs().unflatten(-1, (-1, 32)).amax(-1)
    assert bool((error <= step * 1.07 + 1e-6).all())


# ------------------------------------------------------------------------------------------- sorted intermediate


@SCALED
@pytest.mark.parametrize(("block", "inline", "interleave", "a_dtype"), [
    (16, True, False, "fp4"), (16, True, True, "fp8"), (32, False, False, "fp4"), (64, False, True, "fp4"),
    (128, False, False, "fp8")])
@pytest.mark.parametrize("epilog", ["atomic", "nonatomic_mxfp4"])
def test_microscaled_stages_end_to_end(block, inline, interleave, a_dtype, epilog):
    check_stages(block, inline, interleave, a_dtype, epilog)


@SCALED
@pytest.mark.parametrize("epilog", ["nonatomic", "nonatomic_cshuffle", "nonatomic_fp8"])
def test_microscaled_epilogues(epilog):
    check_stages(32, False, False, "fp4", epilog, real=128)


def check_stages(block, inline, interleave, a_dtype, epilog, real=INTER):
    ids, weights, (rows, factors, experts, valid) = routed(block)
    w1, s1, v1 = micro_weight("fp4", 2 * INTER, MODEL, 1, interleave)
    w2, s2, v2 = micro_weight("fp4", MODEL, INTER, 3)
    hidden = random(TOKENS, MODEL, dtype="bf16")
    x, scale_x = ops.quantize_mx(hidden, a_dtype)
    exact = ops.dequantize_mx(x, scale_x, a_dtype, "f32").double()
    capacity = -(-len(rows) // 256) * 256
    inner = torch.full((capacity, INTER // 2), 0x77, dtype=torch.uint8)
    inner_scale = torch.full((capacity, INTER // 32), 255, dtype=torch.uint8)
    common = dict(sorted_expert_ids=experts, cumsum_tensor=valid, BM=block, NE=EXPERTS, D_HIDDEN=MODEL, D_INTER=INTER,
                  topk=K)
    moe.flydsl_mxfp4_gemm1(
        a_quant=None if inline else x, w1_u8=w1, w1_scale_u8=s1, m_indices=rows & 0xFFFFFF, n_tokens=TOKENS,
        a_scale_sorted_shuffled=None if inline else moe_mxfp4_sort(scale_x, rows, valid, TOKENS),
        hidden_states=hidden, inter_sorted_quant=inner, inter_sorted_shuffled_scale=inner_scale, inline_quant=inline,
        interleave=interleave, a_dtype=a_dtype, **common)
    token, slot, place = sorted_rows(rows, valid)
    scales = e8m0_to_f32(from_words(inner_scale, capacity, INTER // 32)[place]).double()
    middle = mxfp4_to_f32(inner[place]).double() * spread(scales)
    definition = gated(exact, v1, weights, ids, "silu")[token, slot]
    codes, scale = ops.quantize_mx(definition.bfloat16(), "fp4")
    assert verify_output(middle, ops.dequantize_mx(codes, scale, "fp4", "f32").double(), 2e-3, 2e-3)
    micro = {"nonatomic_mxfp4": "fp4", "nonatomic_fp8": "fp8"}.get(epilog)
    atomic = epilog == "atomic"
    width = MODEL // 2 if micro == "fp4" else MODEL
    out = Guarded(TOKENS if atomic else capacity, width, dtype=torch.uint8 if micro else torch.bfloat16)
    out_scale = Guarded(capacity, MODEL // 32, dtype=torch.uint8)
    if atomic:
        out.out.zero_()
    moe.flydsl_mxfp4_gemm2(
        inter_sorted_quant=inner, inter_sorted_shuffled_scale=inner_scale, w2_u8=w2, w2_scale_u8=s2,
        sorted_token_ids=rows, sorted_weights=factors, flat_out=out.out, M_logical=TOKENS, max_sorted=len(rows),
        epilog=epilog, flat_out_scale=out_scale.out if micro else None, D_INTER_REAL=real, **common)
    found = out.check()
    out_scale.check()
    expected = torch.einsum("rk,rnk->rn", middle[:, :real], v2[ids.long()[token, slot]][:, :, :real])
    if atomic:
        expected = expected * weights.double()[token, slot][:, None]
        expected = torch.zeros(TOKENS, MODEL, dtype=torch.float64).index_add_(0, token, expected)
    elif micro:
        found = ops.dequantize_mx(found[place], out_scale.out[place], micro, "f32")
        codes, scale = ops.quantize_mx(expected.bfloat16(), micro)
        expected = ops.dequantize_mx(codes, scale, micro, "f32").double()
    else:
        found = found[place]
    assert verify_output(found, expected, 4e-3, 4e-3)


# ------------------------------------------------------------------------------------------- bf16 activations


def a16_weight(w_dtype, rows, seed, k, layout="standard"):
    pairs = layout == "guinterleave"
    if w_dtype == "mxfp4":
        return micro_weight("fp4", rows, k, seed, pairs)
    if w_dtype == "bf16":
        values = random(EXPERTS, rows, k, dtype="bf16", seed=seed, scale=k**-0.5)
        ordered = values.unflatten(1, (2, -1, 16)).transpose(1, 2).reshape(values.shape) if pairs else values
        return shuffle_weight(ordered), None, values.double()
    draw = Draw(target(), seed)
    codes = draw.integers(0, 256, EXPERTS, rows, k // 2)
    values = torch.stack((codes & 15, codes >> 4), -1).flatten(-2).double() - 8
    scales = (draw.positive(EXPERTS, rows, k // 32) * k**-0.5 / 4).bfloat16()
    values = values * spread(scales.double())
    ordered = scales.unflatten(1, (2, -1, 16)).transpose(1, 2).reshape(scales.shape) if pairs else scales
    return shuffle_weight_w4(codes, 16, pairs, pairs), ordered, values


@pytest.mark.spread("gfx942", "gfx950")
@MFMA
@pytest.mark.parametrize(("w_dtype", "layout", "block", "act"), [
    ("mxfp4", "standard", 32, "silu"), ("mxfp4", "guinterleave", 16, "situ"), ("int4", "standard", 64, "silu"),
    ("int4", "guinterleave", 32, "silu"), ("bf16", "standard", 32, "situ"), ("bf16", "guinterleave", 64, "silu")])
@pytest.mark.parametrize("k_wave", [1, 2, 4])
def test_bf16_activations(w_dtype, layout, block, act, k_wave):
    ids, weights, (rows, factors, experts, valid) = routed(block)
    (w1, s1, v1), (w2, s2, v2) = a16_weight(w_dtype, 2 * INTER, 1, MODEL, layout), a16_weight(w_dtype, MODEL, 3, INTER)
    hidden = random(TOKENS, MODEL, dtype="bf16")
    inner = Guarded(len(rows), INTER, dtype=torch.bfloat16)
    common = dict(sorted_expert_ids=experts, cumsum_tensor=valid, BM=block, NE=EXPERTS, D_INTER=INTER, topk=K,
                  w_dtype=w_dtype)
    first = dict(hidden_states=hidden, w1_u8=w1, w1_scale_u8=s1, m_indices=rows & 0xFFFFFF, inter_sorted=inner.out,
                 n_tokens=TOKENS, D_HIDDEN=MODEL, act=act, w_layout=layout, k_wave=k_wave, **common)
    if (target().lds_bytes, w_dtype, block, k_wave) == (1 << 16, "bf16", 64, 4):
        with pytest.raises(ValueError, match="bytes of LDS"):
            moe.flydsl_a16w4_gemm1(**first)
        return
    moe.flydsl_a16w4_gemm1(**first)
    with pytest.raises(ValueError, match="w holds fewer elements"):
        moe.flydsl_a16w4_gemm1(**{**first, "w1_u8": w1.flatten()[:-1]})
    token, slot, place = sorted_rows(rows, valid)
    middle = inner.check()[place]
    assert verify_output(middle, gated(hidden.double(), v1, weights, ids, act)[token, slot], 2e-3, 2e-3)
    out = Guarded(TOKENS, MODEL, dtype=torch.bfloat16)
    out.out.zero_()
    moe.flydsl_a16w4_gemm2(inter_sorted=inner.out, w2_u8=w2, w2_scale_u8=s2, sorted_token_ids=rows,
                           sorted_weights=factors, flat_out=out.out, M_logical=TOKENS, max_sorted=len(rows),
                           N_OUT=MODEL, **common)
    expected = torch.einsum("rk,rnk->rn", middle.double(), v2[ids.long()[token, slot]])
    expected = expected * weights.double()[token, slot][:, None]
    expected = torch.zeros(TOKENS, MODEL, dtype=torch.float64).index_add_(0, token, expected)
    assert verify_output(out.check(), expected, 4e-3, 4e-3)


def packed_int4(rows, k, seed):
    """(int4 packed after ``shuffle_weight``, values)."""
    packed = Draw(target(), seed).integers(0, 256, EXPERTS, rows, k // 2).view(torch.int8)
    values = int4_values(packed)
    shuffled = shuffle_weight(values.to(torch.int8)).view(-1, 2, 4)
    codes = (shuffled[:, 0] & 15) | (shuffled[:, 1] << 4)
    return codes.to(torch.int8).view(EXPERTS, rows, k // 2), values


@MFMA
@pytest.mark.parametrize(("group", "narrow"), [(32, True), (32, False), (-1, False)])
def test_int4_weights_of_bf16_activations(group, narrow):
    ids, weights, (rows, factors, experts, valid) = routed(32)
    codes, values = packed_int4(2 * INTER, MODEL, 1)
    count = MODEL // 32 if group == 32 else 1
    scales = Draw(target(), 2).positive(EXPERTS, count, 2 * INTER) * MODEL**-0.5 / 4
    scales = scales.bfloat16() if narrow else scales
    values = values * scales.double().transpose(1, 2).repeat_interleave(MODEL // count, -1)
    x = random(TOKENS, MODEL, dtype="bf16")
    launcher = moe.compile_moe_gemm1(**SIZES, tile_m=32, tile_n=128, tile_k=128, doweight_stage1=False,
                                     in_dtype="int4_bf16", out_dtype="bf16", group_size=group, scale_is_bf16=narrow)
    out = Guarded(TOKENS, K, INTER, dtype=torch.bfloat16)
    ordered = shuffle_scale_for_int4(scales) if group == 32 else scales
    arguments = out.out, x, codes, None, ordered, rows, experts, factors, valid, TOKENS, INTER, MODEL, len(experts)
    run(launcher, *arguments)
    refuses_less(launcher, arguments, 2, 4)
    assert verify_output(out.check(), gated(x.double(), values, weights, ids, "silu"), 2e-3, 2e-3)


@MFMA
@pytest.mark.parametrize(("a_dtype", "b_dtype"), [("bf16", "fp4"), ("fp16", "fp4"), ("fp16", "int4"), ("bf16", "bf16"),
                                                  ("fp16", "fp16")])
def test_mixed_products_of_16_bit_activations(a_dtype, b_dtype):
    ids, weights, (rows, factors, experts, valid) = routed(32)
    x = random(TOKENS, MODEL, dtype=a_dtype.replace("fp", "f"))
    if b_dtype == "fp4":
        codes, scales, values = micro_weight("fp4", 2 * INTER, MODEL, 1)
    elif b_dtype == "int4":
        codes, values = packed_int4(2 * INTER, MODEL, 1)
        scales = (Draw(target(), 2).positive(EXPERTS, 2 * INTER, MODEL // 32) * MODEL**-0.5 / 4).bfloat16()
        values = values * spread(scales.double())
    else:
        weight = random(EXPERTS, 2 * INTER, MODEL, dtype=a_dtype.replace("fp", "f"), seed=1, scale=MODEL**-0.5)
        codes, scales, values = shuffle_weight(weight), None, weight.double()
    launcher = moe.compile_mixed_moe_gemm1(**SIZES, tile_m=32, tile_n=128, tile_k=128, doweight_stage1=True,
                                           a_dtype=a_dtype, b_dtype=b_dtype, out_dtype="bf16", act="gelu")
    out = Guarded(TOKENS, K, INTER, dtype=torch.bfloat16)
    arguments = (out.out, x, codes, None, scales, rows, experts, factors, valid, None, None, TOKENS, INTER, MODEL,
                 len(experts))
    run(launcher, *arguments)
    refuses_less(launcher, arguments, 2, 4)
    expected = gated(x.double(), values, weights, ids, "gelu", weighted=True)
    assert verify_output(out.check(), expected, 2e-3, 2e-3)


@MFMA
@pytest.mark.parametrize(("change", "message"), [
    (dict(a_dtype="fp8", b_dtype="int4"), "a_dtype and b_dtype must be one of"),
    (dict(gate_mode="gate_only"), "reserved"), (dict(gate_mode="mock_gate_only"), "needs k_batch > 1"),
    (dict(k_batch=3, a_dtype="bf16", b_dtype="bf16"), "cannot be dealt to 3 workgroups"),
    (dict(out_dtype="f8"), "out_dtype must be one of"), (dict(act="relu"), "activation must be one of"),
    (dict(act="none"), "activation must be one of silu"),
    (dict(k_batch=2, doweight_stage1=True), "leaves routing weights"),
])
def test_unsupported_arguments(change, message):
    options = dict(tile_m=32, tile_n=128, tile_k=128, doweight_stage1=False, a_dtype="bf16", b_dtype="fp4")
    with pytest.raises(ValueError, match=message):
        moe.compile_mixed_moe_gemm1(**SIZES, **{**options, **change})


# ------------------------------------------------------------------------------------------- gfx1250


def rows_by_expert(counts, tile):
    """(padded rows, end of each expert's rows, expert of each row or -1)."""
    ends, owner = [], []
    for expert, count in enumerate(counts):
        owner += [expert] * count + [-1] * (-count % tile)
        ends.append(len(owner))
    return len(owner), torch.tensor(ends, dtype=torch.int32), torch.tensor(owner)


@needs("gfx1250")
@pytest.mark.parametrize(("act", "a_is_fp4", "tile", "cluster", "counts"), [
    (1, 0, (32, 64), (1, 1), (5, 0, 33, 40)), (2, 1, (64, 128), (1, 2), (64, 1, 70)),
    (0, 0, (32, 64), (2, 2), (40, 0, 0, 90, 1)), (1, 1, (16, 64), (2, 1), (3, 17, 0)),
    (0, 1, (128, 64), (1, 1), (200,))])
def test_grouped_rows(act, a_is_fp4, tile, cluster, counts):
    n, k, (tile_m, tile_n) = 256, 512, tile
    m, ends, owner = rows_by_expert(counts, tile_m)
    experts, kind = len(counts), "fp4" if a_is_fp4 else "fp8"
    x, exact = half_bytes(kind, m, k, seed=1)
    scale_x, of_x = half_bytes("e8m0", m, k // 32, seed=2)
    w, values = half_bytes("fp4", experts, n, k, seed=3)
    scale_w, of_w = half_bytes("e8m0", experts, n, k // 32, seed=4)
    bias = random(experts, n, seed=5)
    sa = scale_x.view(m // tile_m, tile_m // 16, 16, k // 128, 4).permute(0, 2, 3, 1, 4).contiguous()
    sb = torch.stack([gemm.shuffle_scale_32x4(s) for s in scale_w])
    b = torch.stack([gemm.preshuffle_b_16x16(s, n, k // 2) for s in w])
    out = Guarded(m + 2 * tile_m, n // 2 if act else n, dtype=torch.bfloat16)
    given = [out.out[:m], x, b, sa, sb]

    def launch(*operands, ends=ends):
        moe.launch_moe_gemm_a8w4(*operands, m, None, n, k, tile_m, tile_n, 128, 1, 2, 0, 2, a_is_fp4, ends, experts,
                                 act, 1, bias, 0.0, *cluster)

    for i, operand in enumerate(given):
        with pytest.raises(ValueError, match="holds fewer elements"):
            launch(*given[:i], operand.reshape(-1)[1:].clone(), *given[i + 1 :])
    with pytest.raises(TypeError, match="built for Int32, but an argument holds Int64"):
        launch(*given, ends=ends.long())
    with rt.checked("oob,race,uninit") as report:
        launch(*given)
        rt.synchronize()
    assert not report.findings, "\n".join(map(str, report.findings))
    found, real = out.check()[:m], owner >= 0
    y = torch.einsum("rk,rnk->rn", (exact * spread(of_x))[real], (values * spread(of_w))[owner[real]])
    y = y + bias.double()[owner[real]]
    if act:
        y = activation_reference(y[:, 0::2], y[:, 1::2], ("silu", "swiglu")[act - 1], None)
    assert verify_output(found[real], y, 2e-3, 2e-3)


@needs("gfx1250")
@pytest.mark.parametrize(("in_dtype", "options"), [("a8w4", {}), ("fp4", dict(act="swiglu")), ("fp8", {}),
                                                   ("a8w4", dict(k_batch=2))])
def test_microscaled_products_of_gfx1250(in_dtype, options):
    ids, weights, (rows, factors, experts, valid) = routed(32)
    a_dtype, b_dtype = {"a8w4": ("fp8", "fp4")}.get(in_dtype, (in_dtype, in_dtype))
    w, values = half_bytes(b_dtype, EXPERTS, 2 * INTER, MODEL, seed=1)
    scale_w, of_w = half_bytes("e8m0", EXPERTS, 2 * INTER, MODEL // 32, seed=2)
    x, exact = half_bytes(a_dtype, TOKENS, MODEL, seed=3)
    scale_x, of_x = half_bytes("e8m0", TOKENS, MODEL // 32, seed=4)
    split = "k_batch" in options
    codes = torch.stack([gemm.preshuffle_b_16x16(e, *e.shape) for e in w])
    scales = torch.stack([gemm.shuffle_scale_32x4(s) for s in scale_w])
    launcher = moe.compile_mxscale_moe_gemm1(**SIZES, tile_m=32, tile_n=128, tile_k=128, doweight_stage1=not split,
                                             in_dtype=in_dtype, **options)
    out = Guarded(TOKENS, K, INTER * (2 if split else 1), dtype=torch.bfloat16)
    if split:
        out.out.zero_()
    arguments = out.out, x, codes, scale_x, scales, rows, experts, factors, valid, TOKENS, INTER, MODEL, len(experts)
    run(launcher, *arguments)
    refuses_less(launcher, arguments, 2, 3, 4)
    exact, values = exact * spread(of_x), values * spread(of_w)
    if split:
        expected = torch.einsum("tk,tsnk->tsn", exact, values[ids.long()])
    else:
        expected = gated(exact, values, weights, ids, options.get("act", "silu"), weighted=True)
    assert verify_output(out.check(), expected, 2e-3, 2e-3)
