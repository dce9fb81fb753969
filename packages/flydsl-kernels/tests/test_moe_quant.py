"""Quantised experts against the definition in f64, of the values that the codes stand for."""

import pytest
from kernel_helpers import GENERAL_GEMM, cases, needs, random, torch
from test_moe import run

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.runtime as rt
from flydsl.kernels import capture, ops
from flydsl.kernels.moe import tuned
from flydsl.kernels.moe.config import FORMATS, grouped_config
from flydsl.kernels.moe.experts import plan_experts
from flydsl.kernels.moe.op import MOE
from flydsl.kernels.parts.convert import dequantised, fp4_table, fp4_to_bf16, fp4_to_half
from flydsl.kernels.quant.reference import e8m0_to_f32, mxfp4_to_f32
from flydsl.kernels.target import target
from flydsl.kernels.testing import Draw, cosine_difference, relative_l2

pytestmark = needs(*GENERAL_GEMM)
FEW = [(5, 1024, 512, 3, 2), (2, 512, 1024, 9, 1)]
TWO_TILES = (40, 512, 512, 2, 1)  # of 16 rows
SHAPES = cases([(37, 256, 128, 5, 3), *(pytest.param(s, marks=pytest.mark.spread)
                                        for s in ((1, 128, 128, 4, 2), (9, 1664, 128, 2, 1)))],
               [(333, 1024, 512, 17, 9), (64, 384, 256, 4, 2)])


def int4_values(packed):
    """Values of words of eight int4: byte j holds values j and j + 4."""
    low, high = packed.int() << 28 >> 28, packed.to(torch.int8).int() >> 4
    both = torch.stack([low.unflatten(-1, (-1, 4)), high.unflatten(-1, (-1, 4))], -2)
    return both.flatten(-3).double()


def weight(quant, experts, rows, k, seed):
    """(codes, scales, values in f64) of a weight."""
    draw = Draw(target(), seed)
    size = k**-0.5
    if quant in ("fp8", "fp8_block"):
        codes = draw.normal(experts, rows, k, dtype="fp8")
        if quant == "fp8":
            scales = draw.positive(experts, rows) * size
            return codes, scales, codes.double() * scales.double()[..., None]
        scales = draw.positive(experts, -(-rows // 128), -(-k // 128)) * size
        full = scales.repeat_interleave(128, 1)[:, :rows].repeat_interleave(128, 2)[:, :, :k]
        return codes, scales, codes.double() * full.double()
    if quant == "int8":
        codes, scales = draw.normal(experts, rows, k, dtype="i8"), draw.positive(experts, rows) * size / 20
        return codes, scales, codes.double() * scales.double()[..., None]
    codes = draw.integers(0, 256, experts, rows, k // 2)
    if quant == "int4":
        scales = draw.positive(experts, rows) * size / 4
        return codes, scales, int4_values(codes.view(torch.int8)) * scales.double()[..., None]
    if quant == "int4 groups":
        scales = (draw.positive(experts, rows, k // 32) * size / 4).bfloat16()
        return codes, scales, int4_values(codes.view(torch.int8)) * scales.double().repeat_interleave(32, -1)
    scales = draw.integers(121, 126, experts, rows, k // 32)
    values = mxfp4_to_f32(codes.flatten(0, 1)).view(experts, rows, k).double()
    return codes, scales, values * e8m0_to_f32(scales).double().repeat_interleave(32, -1)


def quantised(quant, x):
    """The values that x has after its quantisation by the (separately tested) operations."""
    if quant in ("fp8", "int8", "int4"):
        codes, scales = ops.quantize_per_token(x, "fp8" if quant == "fp8" else "i8")
        return codes.double() * scales.double()[:, None]
    if quant in ("mxfp4", "a8w4"):
        mode = "fp4" if quant == "mxfp4" else "fp8"
        return ops.dequantize_mx(*ops.quantize_mx(x, mode), mode, "f32").double()
    if quant == "fp8_block":
        codes, scales = ops.quantize_per_group(x, "fp8")
        return codes.double() * scales.double().repeat_interleave(128, -1)[:, : x.shape[1]]
    return x.double()


def definition(quant, x, values, weights, ids, activation="silu", b1=None, b2=None):
    """As that of the operation, with what is multiplied rounded as it is stored."""
    from flydsl.kernels.elementwise.gated import activation_reference

    out = torch.zeros(x.shape, dtype=torch.float64)
    given = quantised(quant, x)
    for expert in range(values[0].shape[0]):
        tokens, slots = torch.nonzero(ids == expert, as_tuple=True)
        if not len(tokens):
            continue
        inner = given[tokens] @ values[0][expert].T
        inner = inner if b1 is None else inner + b1[expert].double()
        inner = activation_reference(*inner.chunk(2, -1), activation, None).to(x.dtype)
        y = quantised(quant, inner) @ values[1][expert].T
        y = y if b2 is None else y + b2[expert].double()
        out.index_add_(0, tokens, y * weights.double()[tokens, slots][:, None])
    return out


def draw(quant, tokens, model, inter, experts, k, dtype="bf16"):
    x = random(tokens, model, dtype=dtype)
    found = random(tokens, experts, seed=3).topk(k)
    pairs = weight(quant, experts, 2 * inter, model, 1), weight(quant, experts, model, inter, 2)
    (w1, s1, v1), (w2, s2, v2) = pairs
    return x, w1, w2, found.values.softmax(-1), found.indices.int(), s1, s2, (v1, v2)


SCALED = ("gfx950", "gfx1250")


def scaled_only(quant):
    if quant in ("mxfp4", "a8w4") and target().arch not in SCALED:
        pytest.skip("no scaled matrix instruction")


QUANTS = ["fp8", "fp8_block", "int8", "int4", "int4 groups", "a16w4", "mxfp4", "a8w4"]
#: Each with the architectures that have it, among which the cases of a test can take turns.
WHERE_THEY_ARE = [pytest.param(q, marks=needs(*(SCALED if q in ("mxfp4", "a8w4") else GENERAL_GEMM))) for q in QUANTS]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("quant", WHERE_THEY_ARE)
def test_quantised(quant, shape):
    x, w1, w2, weights, ids, s1, s2, values = draw(quant, *shape)
    name = quant.split()[0]
    arguments = MOE.arguments(x, w1, w2, weights, ids, quant=name, w1_scale=s1, w2_scale=s2)
    result = run(*arguments)[0]
    exact = definition(quant, x, values, weights, ids)
    assert cosine_difference(result, exact) <= 2e-4 and relative_l2(result, exact) <= 1.5e-2


@pytest.mark.parametrize("wide", [False, pytest.param(True, marks=pytest.mark.spread)])
@pytest.mark.parametrize("quant", ["int4 groups", "a16w4"])
def test_large_blocks_of_weights_that_are_converted(quant, wide, monkeypatch, whole_blocks):
    """Chunks of rows have other places in LDS than k; the last tile of k is a part of one."""
    if wide:
        monkeypatch.setattr("flydsl.kernels.moe.experts.is_wide", lambda *_: True)
    x, w1, w2, weights, ids, s1, s2, values = draw(quant, 70, 416, 32, 1, 1)
    with rt.profile() as profile:
        result = run(*MOE.arguments(x, w1, w2, weights, ids, quant=quant.split()[0], w1_scale=s1, w2_scale=s2))[0]
    exact = definition(quant, x, values, weights, ids)
    assert cosine_difference(result, exact) <= 2e-4 and relative_l2(result, exact) <= 1.5e-2
    if not wide:  # the conflict-free order of writes
        assert all(not launch.lds_conflicts()[1] for launch in profile.launches if "grouped" in launch.kernel)


@pytest.mark.parametrize("quant", ["fp8", "a8w4"])
def test_large_blocks_of_8_bit_rows(quant, whole_blocks):
    """On gfx1250 a tile has twice the k, in the loop and where it is all there is."""
    scaled_only(quant)
    x, w1, w2, weights, ids, s1, s2, values = draw(quant, 70, 512, 256, 1, 1)
    arguments = MOE.arguments(x, w1, w2, weights, ids, quant=quant, w1_scale=s1, w2_scale=s2)
    config, _ = plan_experts(target(), *arguments)
    assert config.up.tile_k == config.down.tile_k == 256 or target().arch != "gfx1250"
    result, exact = run(*arguments)[0], definition(quant, x, values, weights, ids)
    assert cosine_difference(result, exact) <= 2e-4 and relative_l2(result, exact) <= 1.5e-2


@pytest.mark.parametrize(("quant", "inter", "rows"),
                         [("fp8", 320, 256), ("int4", 320, 256), ("a8w4", 384, 256), ("a16w4", 320, 128),
                          ("int4 groups", 320, 256)])
def test_waves_beside_and_below_each_other(quant, inter, rows, whole_blocks, monkeypatch):
    """On gfx1250 many rows of an expert have blocks of 256, here one and a part of one; of `a16w4` of 128, the last of
    which is a part. Both the loop and columns that end in a tile."""
    scaled_only(quant)
    monkeypatch.setattr("flydsl.kernels.moe.tuned.SQUARE", dict.fromkeys(tuned.SQUARE, 128))
    x, w1, w2, weights, ids, s1, s2, values = draw(quant, 300, 1152, inter, 1, 1)
    arguments = MOE.arguments(x, w1, w2, weights, ids, quant=quant.split()[0], w1_scale=s1, w2_scale=s2)
    config, _ = plan_experts(target(), *arguments)
    assert (config.up.tile_m, config.up.m_waves, config.down.m_waves) == (rows, 2, 2) or target().arch != "gfx1250"
    result, exact = run(*arguments)[0], definition(quant, x, values, weights, ids)
    assert cosine_difference(result, exact) <= 2e-4 and relative_l2(result, exact) <= 1.5e-2


@pytest.mark.parametrize(("quant", "tokens"), cases([("fp8", 60), ("fp8", 100), ("int8", 100), ("int4", 60)],
                                                    [("int8", 60), ("int4", 100)]))
def test_workgroups_alone_on_a_compute_unit(quant, tokens, monkeypatch):
    """Blocks of many rows with few columns, whose waves share k on gfx9."""
    monkeypatch.setattr("flydsl.kernels.moe.tuned.filling_block", lambda target, quant, block, *_: block)
    x, w1, w2, weights, ids, s1, s2, values = draw(quant, tokens, 192, 1024, 1, 1)
    arguments = MOE.arguments(x, w1, w2, weights, ids, quant=quant, w1_scale=s1, w2_scale=s2)
    config, _ = plan_experts(target(), *arguments)
    assert config.down.tile_m > 32 and config.down.k_waves == (2 if target().matrix == "mfma" else 1)
    result, exact = run(*arguments)[0], definition(quant, x, values, weights, ids)
    assert cosine_difference(result, exact) <= 2e-4 and relative_l2(result, exact) <= 1.5e-2


@pytest.mark.parametrize("inter", [144, 192])
def test_strips_of_a_wave_share_a_scale_of_blocks(inter, whole_blocks):
    """Unless gate ends inside of the columns that a wave has of up; its blocks of 128 rows then end anywhere."""
    x, w1, w2, weights, ids, s1, s2, values = draw("fp8_block", 70, 320, inter, 1, 1)
    arguments = MOE.arguments(x, w1, w2, weights, ids, quant="fp8_block", w1_scale=s1, w2_scale=s2)
    result, exact = run(*arguments)[0], definition("fp8_block", x, values, weights, ids)
    assert cosine_difference(result, exact) <= 2e-4 and relative_l2(result, exact) <= 1.5e-2


@flyc.kernel
def _fp4_kernel(words, scales, out, count: fx.Constexpr, dtype: fx.Constexpr):
    i = fx.thread_idx.x
    values = fp4_to_half(words[i], scales[i], dtype, target()) if dtype else fp4_to_bf16(words[i], fp4_table(scales[i]))
    for j in fx.range_constexpr(count):
        out[i * count + j] = values[j]


@flyc.jit
def _fp4(words, scales, out, dtype: fx.Constexpr):
    _fp4_kernel(words, scales, out, 4, dtype).launch(grid=1, block=64)


def fp4_codes():
    """All codes in all places."""
    codes = torch.randint(0, 256, (64, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    codes[:16, 0], codes[:16, 3] = torch.arange(16) * 17, torch.arange(16)
    return codes


@pytest.mark.skipif(not target().mx, reason="no instruction converts fp4")
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_fp4_by_conversions_is_exact(dtype):
    """With scales whose products f16 holds, others in the halves of a wave; those of NaN are NaN."""
    scales, codes = torch.tensor([117, 120, 127, 139, 255, 126, 128, 127]).int().repeat_interleave(8), fp4_codes()
    out = torch.empty(64 * 4, dtype=torch.int32)
    _fp4(codes.view(torch.int32).flatten(), scales, out, dtype)
    found = out.view(torch.bfloat16 if dtype == "bf16" else torch.float16).view(64, 8).double()
    exact = mxfp4_to_f32(codes).double() * torch.exp2(scales.double() - 127)[:, None]
    assert torch.equal(found[scales < 255], exact[scales < 255]) and bool(found[scales == 255].isnan().all())


def test_fp4_by_byte_permutations_is_exact():
    """With scales from the smallest to the largest that bf16 holds, beyond it NaN."""
    scales = torch.tensor([2, 3, 100, 126, 127, 128, 200, 251, 252, 253, 254, 255, 2, 127, 127, 127] * 4).int()
    codes = fp4_codes()
    out = torch.empty(64 * 4, dtype=torch.int32)
    _fp4(codes.view(torch.int32).flatten(), scales, out, "")
    found = out.view(torch.bfloat16).view(64, 8).double()
    exact = mxfp4_to_f32(codes).double() * torch.exp2(scales.double() - 127)[:, None]
    fits = scales <= 252
    assert torch.equal(found[fits], exact[fits]) and bool(found[~fits].isnan().all())


@flyc.kernel
def _int4_kernel(words, scales, out, quant: fx.Constexpr, scale: fx.Constexpr):
    i = fx.thread_idx.x
    values = dequantised(words[i], FORMATS[quant].b, scales[i], scale, "bf16", target())
    for j in fx.range_constexpr(4):
        out[i * 4 + j] = values[j]


@flyc.jit
def _int4(words, scales, out, quant: fx.Constexpr, scale: fx.Constexpr):
    _int4_kernel(words, scales, out, quant, scale).launch(grid=1, block=64)


@pytest.mark.parametrize("scale", ["bf16", "f32"])
@pytest.mark.parametrize("quant", ["a16i4", "a16u4"])
def test_int4_times_a_scale_is_rounded_once(quant, scale):
    codes = torch.randint(0, 256, (64, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    scales = random(64, dtype="bf16").to({"bf16": torch.bfloat16, "f32": torch.float32}[scale])
    out = torch.empty(64 * 4, dtype=torch.int32)
    _int4(codes.view(torch.int32).flatten(), scales, out, quant, scale)
    nibbles = torch.stack([codes & 15, codes >> 4], -1).int().flatten(1) - 8
    values = int4_values(codes.view(torch.int8)) if quant == "a16i4" else nibbles.double()
    assert torch.equal(out.view(torch.bfloat16).view(64, 8), (values * scales.double()[:, None]).bfloat16())


@pytest.mark.parametrize(("quant", "shape"), [*zip(QUANTS, 4 * FEW, strict=True), ("mxfp4", FEW[1]), *(
    (quant, TWO_TILES) for quant in ("fp8", "fp8_block", "int4 groups", "a16w4"))], ids=str)
def test_waves_share_the_k_of_few_rows(quant, shape):
    scaled_only(quant)
    x, w1, w2, weights, ids, s1, s2, values = draw(quant, *shape)
    b1, b2 = random(shape[3], 2 * shape[2], seed=8), random(shape[3], shape[1], seed=9)
    arguments = MOE.arguments(x, w1, w2, weights, ids, quant=quant.split()[0], w1_scale=s1, w2_scale=s2, b1=b1, b2=b2)
    config, _ = plan_experts(target(), *arguments)
    shared = target().arch != "gfx120" or shape != TWO_TILES
    assert (config.up.k_waves > 1) is (config.down.k_waves > 1) is shared
    exact = definition(quant, x, values, weights, ids, b1=b1, b2=b2)
    result = run(*arguments)[0]
    assert cosine_difference(result, exact) <= 2e-4 and relative_l2(result, exact) <= 1.5e-2


@needs("gfx942", "gfx950", "gfx1250")
def test_what_is_on_its_way_to_few_rows_stays_in_registers():
    """A whole turn of the loop: operands of the next tile beside those of this one and sums of blocks."""
    given = MOE.sample(Draw(target()), 20, 4096, experts=1, inter=32, topk=1, quant="fp8_block")
    with rt.profile() as profile:
        MOE.run(*given)
    products = [launch for launch in profile.launches if launch.kernel.startswith("grouped")]
    assert [launch.raw["scratch_bytes"] for launch in products] == [0, 0]


@needs("gfx950")
def test_loads_of_few_rows_come_before_what_is_done_with_the_tile_before():
    """Conversions of weights of two tiles, the first of which need not have arrived for the second to be asked for."""
    given = MOE.sample(Draw(target()), 1, 2048, experts=1, inter=32, topk=1, quant="a16w4")
    assert plan_experts(target(), *given)[0].up.k_tiles == 2
    with rt.profile() as profile:
        MOE.run(*given)
    product = next(launch for launch in profile.launches if launch.kernel.startswith("grouped"))
    names = [instruction.mnemonic for instruction in product.instructions]
    first = next(i for i, name in enumerate(names) if name.startswith("v_mfma"))
    assert not any(name.startswith("buffer_load") for name in names[first:])


@pytest.mark.parametrize("rows", [16, 32])
@pytest.mark.parametrize(("k_waves", "gated", "out"), [(4, True, ""), (4, True, "fp4"), (1, True, "fp8"),
                                                       (4, False, ""), (1, False, "")])
def test_pieces_of_a_tile_are_all_of_its_results(rows, k_waves, gated, out):
    """Each row tile and strip is finished once, and all waves that take turns have as many."""
    scaled_only("a8w4")
    config = grouped_config("moe", target(), n=256, k=2048, dtype="bf16", quant="a8w4", out=out, tile_m=rows,
                            tile_n=128, row_bytes=1024, k_waves=k_waves, gated=gated,
                            activation="silu" if gated else "none")
    results = [(mi, ni) for tiles, strips in config.pieces for mi in tiles for ni in strips]
    assert results == [(mi, ni) for mi in range(config.m_repeat) for ni in range(config.n_repeat)]
    assert len({len(tiles) * len(strips) for tiles, strips in config.pieces}) == 1
    assert k_waves == 1 or (len(config.pieces) > 1) is gated


@pytest.mark.each_wave_size
@pytest.mark.parametrize("quant", WHERE_THEY_ARE)
def test_a_token_of_nan_is_nobody_elses(quant):
    """Not even where a reduction ends within what is read together."""
    x, w1, w2, weights, ids, s1, s2, _ = draw(quant, 5, 384, 640, 3, 2)
    options = dict(quant=quant.split()[0], w1_scale=s1, w2_scale=s2)
    clean = ops.moe(x, w1, w2, weights, ids, **options)
    x[3] = float("nan")
    result = ops.moe(x, w1, w2, weights, ids, **options)
    others = torch.arange(5) != 3
    assert torch.equal(result[others], clean[others])


@pytest.mark.parametrize("types", [("bf16", "f32"), ("f32", "f16")])
def test_scales_of_int4_groups_may_differ_in_type_and_one_group_is_told_from_a_row(types):
    """A reduction of 32 has one group, as if its scale were that of a row."""
    x, w1, w2, weights, ids, s1, s2, values = draw("int4 groups", 3, 32, 64, 2, 1)
    dtypes = {"bf16": torch.bfloat16, "f32": torch.float32, "f16": torch.float16}
    scales = [s.to(dtypes[t]) for s, t in zip((s1, s2), types, strict=True)]
    result = ops.moe(x, w1, w2, weights, ids, quant="int4", w1_scale=scales[0], w2_scale=scales[1])
    exact = definition("int4 groups", x, values, weights, ids)
    assert cosine_difference(result, exact) <= 2e-4 and relative_l2(result, exact) <= 1.5e-2


@pytest.mark.parametrize("quant", ["fp8", "int8", "fp8_block"])
def test_scales_as_checkpoints_have_them(quant):
    """Of narrower types, with a dimension behind, one for an expert: the bits are those of f32 scales of every row."""
    x, w1, w2, weights, ids, s1, s2, _ = draw(quant, 3, 128, 64, 2, 1)

    def of(*scales):
        return ops.moe(x, w1, w2, weights, ids, quant=quant, w1_scale=scales[0], w2_scale=scales[1])

    narrow = s1.bfloat16(), torch.exp2(s2.log2().round()).to(torch.float8_e8m0fnu)
    assert torch.equal(of(*narrow), of(*(s.float() for s in narrow)))
    if quant == "fp8_block":
        return
    column = s1[..., None]
    assert torch.equal(of(column, s2), of(s1, s2))
    graph = capture(lambda: of(column, s2), warmup=0)  # the order of the scales was kept
    assert torch.equal(graph.replay(), of(s1, s2))
    every = [s[:, :1].expand(s.shape).contiguous() for s in (s1, s2)]
    for single in ((s1[:, 0], s2[:, :1]), (s1[:, :1, None], s2[:, 0])):
        assert torch.equal(of(*single), of(*every))
    with pytest.raises(ValueError, match=r"w1_scale: must have shape \(2, 128\) or \(2,\), got \(2, 2\)"):
        of(s1[:, :2], s2)


@pytest.mark.parametrize("quant", ["fp8", "fp8_block"])
def test_the_fp8_of_other_architectures_is_refused(quant):
    """Its bytes have other values."""
    x, w1, w2, weights, ids, s1, s2, _ = draw(quant, 3, 128, 64, 2, 1)
    other = {torch.float8_e4m3fn, torch.float8_e4m3fnuz} - {w1.dtype}
    for given in ((w1.view(*other), w2), (w1, w2.view(*other))):
        with pytest.raises(TypeError, match=f"moe: w[12]: {target().name} computes with {w1.dtype}"):
            ops.moe(x, *given, weights, ids, quant=quant, w1_scale=s1, w2_scale=s2)
