"""The two products under the names of existing callers: every input type, atomic sums and partial results."""

import pytest
from kernel_helpers import GENERAL_GEMM, Guarded, needs, random, torch
from test_moe_quant import int4_values

import flydsl.runtime as rt
from flydsl.kernels import moe, ops
from flydsl.kernels.gemm import shuffle_weight
from flydsl.kernels.target import target
from flydsl.kernels.testing import Draw, verify_output

pytestmark = needs(*GENERAL_GEMM)
TOKENS, MODEL, INTER, EXPERTS, K, BLOCK = 37, 256, 128, 4, 2, 32
TILE = dict(tile_m=BLOCK, tile_n=128, tile_k=128)
SIZES = dict(model_dim=MODEL, inter_dim=INTER, experts=EXPERTS, topk=K)


def weight(in_dtype, rows, k, seed):
    """(shuffled codes, scales, values in f64)."""
    draw = Draw(target(), seed)
    scales = draw.positive(EXPERTS, rows) * k**-0.5
    if in_dtype in ("fp16", "bf16"):
        values = random(EXPERTS, rows, k, dtype="f16" if in_dtype == "fp16" else "bf16", seed=seed, scale=k**-0.5)
        return shuffle_weight(values), None, values.double()
    if in_dtype == "int4":
        packed = draw.integers(
            0, 256, EXPERTS, rows, k // 2).view(torch.int8)
        values = int4_values(packed)
        # Packed after the shuffle: the 16 values of a lane are two words of eight.
        shuffled = shuffle_weight(values.to(torch.int8)).view(-1, 2, 4)
        codes = (shuffled[:, 0] & 15) | (shuffled[:, 1] << 4)
        return codes.to(torch.int8).view(EXPERTS, rows, k // 2), scales / 4, values * (scales.double() / 4)[..., None]
    codes = draw.normal(EXPERTS, rows, k, dtype="fp8" if in_dtype == "fp8" else "i8")
    scales = scales if in_dtype == "fp8" else scales / 20
    shuffled = shuffle_weight(codes.view(torch.int8)).view(codes.dtype)
    return shuffled, scales, codes.double() * scales.double()[..., None]


def activations(in_dtype, rows, k):
    if in_dtype in ("fp16", "bf16"):
        x = random(rows, k, dtype="f16" if in_dtype == "fp16" else "bf16")
        return x, None, x.double()
    codes, scales = ops.quantize_per_token(random(rows, k), "fp8" if in_dtype == "fp8" else "i8")
    return codes, scales, codes.double() * scales.double()[:, None]


def routed(block=BLOCK):
    found = random(TOKENS, EXPERTS, seed=5).topk(K)
    ids, weights = found.indices.int(), found.values.softmax(-1)
    return ids, weights, ops.moe_sort(ids, weights, EXPERTS, block)


def run(launcher, out, *operands):
    with rt.checked("oob,race,uninit") as report:
        launcher(out, *operands)
        rt.synchronize()
    assert not report.findings, "\n".join(map(str, report.findings))


def refuses_less(launcher, arguments, *places):
    """Of arguments at `places`, if they are given, the launcher takes all elements."""
    for place in places:
        if arguments[place] is not None:
            less = arguments[place].flatten()[:-1]
            with pytest.raises(ValueError, match="holds fewer elements"):
                launcher(*arguments[:place], less, *arguments[place + 1 :])


@pytest.mark.parametrize("in_dtype", ["fp8", "int8", "int8smooth", "int4", "fp16", "bf16"])
@pytest.mark.parametrize("weighted", [False, True])
def test_gate_and_up(in_dtype, weighted):
    ids, weights, (rows, factors, experts, valid) = routed()
    codes, scale_w, values = weight(in_dtype, 2 * INTER, MODEL, 1)
    smooth = in_dtype == "int8smooth"
    x, scale_x, exact = activations(in_dtype, TOKENS * (K if smooth else 1), MODEL)
    out_dtype = "bf16" if in_dtype == "bf16" else "f16"
    launcher = moe.compile_moe_gemm1(**SIZES, **TILE, doweight_stage1=weighted, in_dtype=in_dtype, out_dtype=out_dtype)
    out = Guarded(TOKENS, K, INTER, dtype=torch.bfloat16 if out_dtype == "bf16" else torch.float16)
    run(launcher, out.out, x, codes, scale_x, scale_w, rows, experts, factors, valid, TOKENS, INTER, MODEL,
        len(experts))
    exact = exact.view(K, TOKENS, MODEL).transpose(0, 1) if smooth else exact[:, None].expand(-1, K, -1)
    gate, up = torch.einsum("tsk,tsnk->tsn", exact, values[ids.long()]).chunk(2, -1)
    expected = torch.nn.functional.silu(gate) * up * (weights.double()[..., None] if weighted else 1)
    assert verify_output(out.check(), expected, 2e-3, 2e-3)


@pytest.mark.parametrize(("in_dtype", "out_dtype", "accumulate"), [
    ("fp8", "f16", True), ("fp8", "f32", True), ("int8", "bf16", True), ("int4", "f16", False), ("bf16", "bf16", False),
    ("bf16", "f32", True), ("fp16", "f16", True),
])
def test_down(in_dtype, out_dtype, accumulate):
    ids, weights, (rows, factors, experts, valid) = routed()
    codes, scale_w, values = weight(in_dtype, MODEL, INTER, 2)
    x, scale_x, exact = activations(in_dtype, TOKENS * K, INTER)
    mode = moe.MoeGemm2Mode.ATOMIC if accumulate else moe.MoeGemm2Mode.REDUCE
    launcher = moe.compile_moe_gemm2_ex(**SIZES, **TILE, doweight_stage2=True, in_dtype=in_dtype, out_dtype=out_dtype,
                                        mode=mode)
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}[out_dtype]
    out = Guarded(TOKENS if accumulate else TOKENS * K, MODEL, dtype=dtype)
    if accumulate:
        out.out.zero_()
    run(launcher, out.out, x, codes, scale_x, scale_w, rows, experts, factors, valid, TOKENS, MODEL, INTER,
        len(experts))
    slots = torch.einsum("tsk,tsnk->tsn", exact.view(TOKENS, K, INTER), values[ids.long()])
    slots = slots * weights.double()[..., None]
    result = out.check()
    if not accumulate:
        assert verify_output(result, slots.flatten(0, 1), 2e-3, 2e-3)
        total = torch.empty(TOKENS, MODEL, dtype=dtype)
        moe.compile_moe_reduction(topk=K, model_dim=MODEL, dtype_str=out_dtype)(result, total, None, None, TOKENS)
        result = total
    assert verify_output(result, slots.sum(1), 4e-3, 4e-3)


@pytest.mark.parametrize("masked", [False, True])
def test_reduce_mode_sums_into_tokens(masked):
    """`out` of one row a token is the sum of its slots, of those alone that a mask marks; another size is refused."""
    ids, weights, (rows, factors, experts, valid) = routed()
    codes, _, values = weight("bf16", MODEL, INTER, 2)
    x, _, exact = activations("bf16", TOKENS * K, INTER)
    mask = (random(TOKENS, K, seed=8) > 0).int() if masked else None
    launcher = moe.compile_moe_gemm2_ex(**SIZES, **TILE, doweight_stage2=True, in_dtype="bf16", out_dtype="bf16",
                                        mode="reduce", valid_mask=mask)
    out = Guarded(TOKENS, MODEL, dtype=torch.bfloat16)
    given = x, codes, None, None, rows, experts, factors, valid, TOKENS, MODEL, INTER, len(experts)
    launcher(out.out, *given, valid_mask=mask)
    factor = weights.double() if mask is None else weights.double() * mask
    slots = torch.einsum("tsk,tsnk->tsn", exact.view(TOKENS, K, INTER), values[ids.long()])
    assert verify_output(out.check(), (slots * factor[..., None]).sum(1), 4e-3, 4e-3)
    with pytest.raises(ValueError, match=f"out must be of {TOKENS} rows of {MODEL}"):
        launcher(out.out[1:], *given, valid_mask=mask)
    with pytest.raises(ValueError, match="to the builder and to the call"):
        launcher(out.out, *given, valid_mask=None if masked else factors)


def test_modes_by_name():
    options = dict(**SIZES, **TILE, doweight_stage2=True, in_dtype="bf16", out_dtype="f32")
    for mode in ("atomic", moe.MoeGemm2Mode.ATOMIC):
        assert moe.compile_moe_gemm2_ex(**options, mode=mode).config.into == "token"
    with pytest.raises(ValueError, match="MoeGemm2Mode"):
        moe.compile_moe_gemm2_ex(**options, mode="sum")
    with pytest.raises(ValueError, match="valid_mask is of mode 'reduce'"):
        moe.compile_moe_gemm2_ex(**options, valid_mask=torch.ones(TOKENS, K))


@pytest.mark.parametrize("stage", [1, 2])
def test_block_scales(stage):
    ids, weights, (rows, factors, experts, valid) = routed()
    draw, count = Draw(target(), 3), TOKENS if stage == 1 else TOKENS * K
    n, k = (2 * INTER, MODEL) if stage == 1 else (MODEL, INTER)
    codes, scale_w = draw.normal(EXPERTS, n, k, dtype="fp8"), draw.positive(EXPERTS, n // 128, k // 128) * k**-0.5
    values = codes.double() * scale_w.double().repeat_interleave(128, 1).repeat_interleave(128, 2)
    x, scale_x = ops.quantize_per_group(random(count, k), "fp8", True)
    exact = x.double() * scale_x.double().T.repeat_interleave(128, 1)
    compile_ = moe.compile_moe_blockscale_gemm1 if stage == 1 else moe.compile_moe_blockscale_gemm2
    options = dict(doweight_stage1=False) if stage == 1 else dict(doweight_stage2=True, accumulate=False)
    out = Guarded(TOKENS * K, INTER if stage == 1 else MODEL, dtype=torch.float16)
    shuffled = shuffle_weight(codes.view(torch.int8)).view(codes.dtype)
    run(compile_(**SIZES, **TILE, **options), out.out, x, shuffled, scale_x, scale_w, rows, experts, factors, valid,
        TOKENS, n, k, len(experts))
    exact = exact[:, None].expand(-1, K, -1) if stage == 1 else exact.view(TOKENS, K, k)
    y = torch.einsum("tsk,tsnk->tsn", exact, values[ids.long()])
    gate, up = y.chunk(2, -1)
    expected = torch.nn.functional.silu(gate) * up if stage == 1 else y * weights.double()[..., None]
    assert verify_output(out.check(), expected.flatten(0, 1), 2e-3, 2e-3)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("tile_n", [64, 128])
def test_sums_with_block_scales(tile_n, weighted):
    """Slots that are added: only rows that exist have a use for the products, which take all lanes."""
    ids, weights, (rows, factors, experts, valid) = routed(16)
    draw, inter = Draw(target(), 3), 2 * INTER  # two blocks of k
    codes, scale_w = draw.normal(EXPERTS, MODEL, inter, dtype="fp8"), draw.positive(EXPERTS, MODEL // 128, inter // 128)
    values = codes.double() * scale_w.double().repeat_interleave(128, 1).repeat_interleave(128, 2)
    x, scale_x = ops.quantize_per_group(random(TOKENS * K, inter, scale=0.1), "fp8", True)
    exact = (x.double() * scale_x.double().T.repeat_interleave(128, 1)).view(TOKENS, K, inter)
    out = Guarded(TOKENS, MODEL, dtype=torch.float16)
    out.out.zero_()
    sizes = {**SIZES, "inter_dim": inter}
    build = moe.compile_moe_blockscale_gemm2(**sizes, tile_m=16, tile_n=tile_n, tile_k=128, doweight_stage2=weighted,
                                             out_dtype="f16", accumulate=True)
    run(build, out.out, x, shuffle_weight(codes.view(torch.int8)).view(codes.dtype), scale_x, scale_w, rows, experts,
        factors, valid, TOKENS, MODEL, inter, len(experts))
    expected = torch.einsum("tsk,tsnk->tsn", exact, values[ids.long()])
    expected = (expected * weights.double()[..., None] if weighted else expected).sum(1)
    assert verify_output(out.check(), expected, 4e-3, 4e-3)


@pytest.mark.parametrize(("columns", "mask"), [(128, False), (264, True), (8, False), (4096 + 16, True)])
def test_sums_of_fp8_rows(columns, mask):
    """Rows of values and, behind them, their scales: lengths that leave rows at any byte."""
    draw, (ids, *_) = Draw(target(), 7), routed()
    codes = draw.normal(TOKENS * K, columns, dtype="fp8")
    scales = draw.integers(118, 136, TOKENS * K, columns // 8).to(torch.uint8)
    rows = torch.cat((codes.view(torch.uint8), scales), 1).contiguous()
    values = codes.double() * torch.exp2(scales.double() - 127).repeat_interleave(8, 1)
    marks = torch.tensor([1, 0, 1, 1], dtype=torch.int32) if mask else None
    out = Guarded(TOKENS, columns, dtype=torch.bfloat16)
    launcher = moe.compile_moe_reduction(topk=K, model_dim=columns, dtype_str="fp8", use_mask=mask,
                                         num_experts=EXPERTS if mask else 0)
    run(launcher, rows, out.out, marks, ids, TOKENS)
    expected = values.view(TOKENS, K, columns)
    expected = expected if marks is None else expected * marks[ids.long()][..., None]
    torch.testing.assert_close(out.check().double(), expected.sum(1), rtol=2.0**-8, atol=2.0**-6)


def test_names_end_with_the_last_block():
    """Sorting gives as many as there can be rows, not whole blocks; a tile of x may have more rows than a block."""
    tokens, block = 70, 16
    ids, weights = torch.zeros(tokens, 1, dtype=torch.int32), torch.ones(tokens, 1)
    rows, factors, experts, valid = ops.moe_sort(ids, weights, 1, block)
    assert int(valid[0]) + block > len(rows) and len(rows) % block
    codes, scale_w, values = (t[:1] for t in weight("int8", 64, 320, 1))
    x, scale_x, exact = activations("int8", tokens, 320)
    out = Guarded(tokens, 1, 32, dtype=torch.bfloat16)
    launcher = moe.compile_moe_gemm1(model_dim=320, inter_dim=32, experts=1, topk=1, tile_m=block, tile_n=64, tile_k=64,
                                     doweight_stage1=False, in_dtype="int8", out_dtype="bf16")
    run(launcher, out.out, x, codes, scale_x, scale_w.contiguous(), rows, experts, factors, valid, tokens, 32, 320,
        len(experts))
    gate, up = (exact @ values[0].T).chunk(2, -1)
    assert verify_output(out.check()[:, 0], torch.nn.functional.silu(gate) * up, 2e-3, 2e-3)


def test_unsupported_arguments():
    with pytest.raises(ValueError, match="a scale for 8 columns"):
        moe.compile_moe_reduction(topk=K, model_dim=12, dtype_str="fp8")
    with pytest.raises(ValueError, match="in_dtype must be one of"):
        moe.compile_moe_gemm1(**SIZES, **TILE, doweight_stage1=False, in_dtype="fp5")
    with pytest.raises(ValueError, match="not f32"):
        moe.compile_moe_gemm2(**SIZES, **TILE, doweight_stage2=False, out_dtype="f32", accumulate=False)
    with pytest.raises(ValueError, match="K must be a multiple"):
        moe.compile_moe_gemm1(**{**SIZES, "model_dim": 160}, **TILE, doweight_stage1=False)


@pytest.mark.parametrize("illegal", [{"topk": 0}, {"experts": 0}, {"tile_n": 0}, {"tile_k": -64},
                                     {"tile_m": 24}])
def test_routing_and_tiles_that_cannot_be(illegal):
    for build in (moe.compile_moe_gemm1, moe.compile_moe_gemm2):
        stage = {"doweight_stage1" if build is moe.compile_moe_gemm1 else "doweight_stage2": True}
        with pytest.raises(ValueError, match="must be positive|a block must have"):
            build(**{**SIZES, **TILE, **illegal}, **stage)


def test_operands_that_do_not_fit_are_refused():
    """Floats of another type, int64 where names of rows are int32, and less than the tokens take."""
    _, _, (rows, factors, experts, valid) = routed()
    given = dict(out=torch.empty(TOKENS, K, INTER).half(), x=torch.zeros(TOKENS, MODEL).half(),
                 w=torch.zeros(EXPERTS, 2 * INTER, MODEL).half(), scale_x=torch.empty(0), scale_w=torch.empty(0),
                 rows=rows, experts=experts, weights=factors, valid=valid)
    launcher = moe.compile_moe_gemm1(**SIZES, **TILE, doweight_stage1=True, in_dtype="fp16", out_dtype="f16")
    sizes = TOKENS, INTER, MODEL, len(experts)
    launcher(*given.values(), *sizes)
    for name in ("x", "w", "out"):
        with pytest.raises(TypeError, match="built for Float16, but an argument holds BFloat16"):
            launcher(*{**given, name: given[name].bfloat16()}.values(), *sizes)
    for name in ("rows", "experts", "valid"):
        with pytest.raises(TypeError, match="built for Int32, but an argument holds Int64"):
            launcher(*{**given, name: given[name].long()}.values(), *sizes)
    for name, less in (("x", given["x"][:-1]), ("out", given["out"][:-1]), ("w", given["w"][:-1]),
                       ("experts", experts[:-1].clone())):
        with pytest.raises(ValueError, match=f"{name} holds fewer elements"):
            launcher(*{**given, name: less}.values(), *sizes)


@pytest.mark.one_arch
@pytest.mark.parametrize("in_dtype", ["int8", "int8smooth", "int4", "fp8", "blocks"])
@pytest.mark.parametrize("stage", [1, 2])
def test_scales_that_do_not_fit_are_refused(in_dtype, stage):
    """Less than the scales and weights of all experts, and less than the rows take."""
    _, _, (rows, factors, experts, valid) = routed()
    n, k = (2 * INTER, MODEL) if stage == 1 else (MODEL, INTER)
    x_rows = TOKENS * (1 if stage == 1 and in_dtype != "int8smooth" else K)
    blocks, packed = in_dtype == "blocks", in_dtype == "int4"
    given = dict(out=torch.empty(TOKENS * K, INTER if stage == 1 else MODEL).half(),
                 x=torch.zeros(x_rows, k, dtype=torch.int8),
                 w=torch.zeros(EXPERTS, n, k // (1 + packed), dtype=torch.int8),
                 scale_x=torch.ones(k // 128 if blocks else 1, x_rows),
                 scale_w=torch.ones(EXPERTS, *((n // 128, k // 128) if blocks else (n,))),
                 rows=rows, experts=experts, weights=factors, valid=valid)
    kind = {} if blocks else {"in_dtype": in_dtype}
    build = getattr(moe, f"compile_moe_{'blockscale_' * blocks}gemm{stage}")
    stages = {1: {"doweight_stage1": False}, 2: {"doweight_stage2": True, "accumulate": False}}
    launcher = build(**SIZES, **TILE, **stages[stage], out_dtype="f16", **kind)
    sizes = TOKENS, n, k, len(experts)
    launcher(*given.values(), *sizes)
    refuses_less(launcher, (*given.values(), *sizes), *range(5))
