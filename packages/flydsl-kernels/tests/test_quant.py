"""Quantisation kernels against f64, and the torch reference quantisers against the formats' definitions."""

import pytest
from kernel_helpers import Guarded, cases, close_relative, fp8_dtype, needs, random, torch

import flydsl.runtime as rt
from flydsl.kernels import ops
from flydsl.kernels.parts.convert import quantised_max
from flydsl.kernels.quant import (
    build_per_1x32_mx_quant_module,
    build_per_block_quant_module,
    build_per_group_quant_module,
    build_per_tensor_quant_module,
    build_quant_module,
    mxfp4_moe_scale_sort,
    per_1x32_mx_quant,
)
from flydsl.kernels.quant import reference as ref

pytestmark = pytest.mark.each_wave_size

SHAPES = cases(
    [(16, 2048, "f16"), (5, 131, "f32"), (7, 384, "bf16"), (130, 256, "f32"), (3, 4099, "bf16"), (200, 300, "f16")],
    [(2048, 8192, "f16"), (33, 8192, "bf16"), (257, 1000, "f32"), (2, 70001, "f32"), (300, 640, "bf16")],
)


def kind_of(quant):
    return torch.int8 if quant == "i8" else fp8_dtype()


def assert_quantised(q, exact, quant):
    """`q` is a nearest value of `exact` up to the rounding of the scale."""
    error = (q.double() - exact).abs()
    step = 0.5 + 1e-4 if quant == "i8" else (exact.abs() / 16 * 1.001).clamp_min(2.0**-9)
    assert bool((error <= step).all())


def assert_scale(scale, amax, quant):
    expected = amax / quantised_max(quant)
    expected = torch.where(expected == 0, torch.ones_like(expected), expected)
    assert ((scale.double() - expected).abs() / expected).max() < 1e-6


@pytest.mark.parametrize("quant", ["i8", "fp8"])
@pytest.mark.parametrize(("m", "n", "dtype"), SHAPES)
def test_all_granularities(m, n, dtype, quant):
    kind, x = kind_of(quant), random(m, n, dtype=dtype)
    x64 = x.double()
    q, scale = Guarded(m, n, dtype=kind), Guarded(m)
    run, config = build_quant_module(n, dtype, quant)
    run(x, q.out, scale.out, m)
    assert config["N"] == n
    assert_scale(scale.check(), x64.abs().amax(-1), quant)
    assert_quantised(q.check(), x64 / scale.out[:, None].double(), quant)
    close_relative(ops.dequantize(q.out, scale.out), q.out.double() * scale.out[:, None].double(), 1e-6)

    rows, columns = -(-m // 128), -(-n // 128)
    for transposed in (False, True):
        q, scale = Guarded(m, n, dtype=kind), Guarded(*((columns, m) if transposed else (m, columns)))
        build_per_group_quant_module(n, dtype, quant, transposed_scale=transposed)(x, q.out, scale.out, m)
        by_row = scale.check().T if transposed else scale.check()
        padded = torch.nn.functional.pad(x64.abs(), (0, columns * 128 - n)).view(m, columns, 128)
        assert_scale(by_row, padded.amax(-1), quant)
        everywhere = by_row.repeat_interleave(128, 1)[:, :n].double()
        assert_quantised(q.check(), x64 / everywhere, quant)
    close_relative(ops.dequantize(q.out, by_row.contiguous(), "f32", "group"), q.out.double() * everywhere, 1e-6)

    q, scale = Guarded(m, n, dtype=kind), Guarded(rows, columns)
    build_per_block_quant_module(n, dtype, quant)(x, q.out, scale.out, m)
    padded = torch.zeros(rows * 128, columns * 128, dtype=torch.float64)
    padded[:m, :n] = x64.abs()
    assert_scale(scale.check(), padded.view(rows, 128, columns, 128).amax((1, 3)), quant)
    everywhere = scale.out.double().repeat_interleave(128, 0).repeat_interleave(128, 1)[:m, :n]
    assert_quantised(q.check(), x64 / everywhere, quant)
    close_relative(ops.dequantize(q.out, scale.out, "f32", "block"), q.out.double() * everywhere, 1e-6)

    q, scale, amax = Guarded(m, n, dtype=kind), Guarded(1), torch.zeros(1)
    build_per_tensor_quant_module(n, dtype, quant)(x, q.out, scale.out, amax, m)
    assert_scale(scale.check(), x64.abs().max().view(1), quant)
    assert_quantised(q.check(), x64 / scale.out.double(), quant)


def test_static_scale_of_a_tensor():
    x, scale = random(4, 64), torch.tensor([0.05])
    q = torch.zeros(4, 64, dtype=torch.int8)
    build_per_tensor_quant_module(64, "f32", "i8", dynamic=False)(x, q, scale, torch.zeros(1), 4)
    assert_quantised(q, (x.double() / 0.05).clamp(-127, 127), "i8")


def test_zero_rows_and_truncation():
    x = random(3, 256, dtype="f16")
    x[1] = 0
    q, scale = torch.zeros(3, 256, dtype=torch.int8), torch.zeros(3)
    build_quant_module(256, rounding="trunc")[0](x, q, scale, 3)
    assert scale[1] == 1 and bool((q[1] == 0).all())
    expected, expected_scale = ref.pertoken_quant(x)
    assert torch.allclose(scale, expected_scale[:, 0]) and bool(((q.int() - expected.int()).abs() <= 1).all())


def test_unsupported_arguments():
    with pytest.raises(ValueError, match="positive"):
        build_per_group_quant_module(0, "bf16", "i8")
    with pytest.raises(ValueError, match="'i8' or 'fp8'"):
        build_quant_module(64, "f16", "i5")
    with pytest.raises(ValueError, match="nearest, trunc"):
        build_quant_module(64, rounding="up")


# ------------------------------------------------------------------------------------------- references


def test_fp4_codes_are_nearest():
    x = torch.linspace(-7, 7, 2801)
    codes = ref.f32_to_mxfp4(x)
    table = torch.tensor([*ref.FP4_VALUES, *(-v for v in ref.FP4_VALUES)], dtype=torch.float64)
    value = table[codes.long()]
    best = (x.double()[:, None] - table).abs().amin(-1)
    assert torch.equal((x.double() - value).abs(), best)
    ties = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, -0.25, -5.0])
    assert ref.mxfp4_to_f32(ref.pack_fp4(ref.f32_to_mxfp4(torch.cat((ties, ties[:1]))))).tolist()[:9] == [
        0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, -0.0, -4.0]


def test_e8m0_rounding():
    x = torch.tensor([1.0, 1.4999, 1.5, 1.75, 2.0, 3.0, 2.0**-126, 2.0**-127 * 1.9])
    assert ref.f32_to_e8m0(x).tolist() == [127, 127, 128, 128, 128, 129, 1, 1]
    for mode, limit in (("fp4", 6.0), ("fp8", 448.0)):
        values = torch.rand(1000) * 1e3 + 1e-3
        scale = ref.e8m0_to_f32(ref.e8m0_ceil(values, mode))
        assert bool((values / scale <= limit * 1.000001).all()) and bool((values / scale > limit / 2.000001).all())


@pytest.mark.parametrize(("quantise", "bits"), [(ref.per_1x32_f4_quant, 4), (ref.per_1x32_f8_quant, 8)])
def test_mx_quantisers(quantise, bits):
    x = random(6, 256) * torch.logspace(-3, 3, 6)[:, None]
    q, scale = quantise(x)
    assert q.shape == (6, 256 * bits // 8) and scale.shape == (6, 8)
    values = ref.mxfp4_to_f32(q) if bits == 4 else ref.fp8_e4m3_to_f32(q)
    back = values * ref.e8m0_to_f32(scale).repeat_interleave(32, -1)
    relative = ((back - x).norm() / x.norm()).item()
    assert relative < (0.2 if bits == 4 else 0.12)  # scales round down too: the largest values saturate


def test_int4_order():
    values = torch.randint(-8, 8, (5, 64), dtype=torch.int8)
    packed = ref.pack_int4(values)
    assert packed.shape == (5, 32) and torch.equal(ref.unpack_int4(packed), values)
    assert packed[0, 0].item() == (int(values[0, 0]) & 15) | (int(values[0, 4]) & 15) << 4


# ------------------------------------------------------------------------------------------- gfx950


@needs("gfx950", "gfx1250")
@pytest.mark.parametrize("mode", ["fp4", "fp8"])
@pytest.mark.parametrize(("m", "n"), cases([(5, 256), (33, 96)], [(64, 8192), (257, 2048)]))
def test_mx_quantiser(m, n, mode):
    x = random(m, n, dtype="bf16") * torch.logspace(-4, 4, m)[:, None].bfloat16()
    x[0, :32] = 0
    y, scale = Guarded(m, n // 2 if mode == "fp4" else n, dtype=torch.uint8), Guarded(m, n // 32, dtype=torch.uint8)
    run = build_per_1x32_mx_quant_module(n, mode)
    run(x, y.out, scale.out, m, -(-m * n // 32 // 64))
    groups = x.float().view(m, -1, 32)
    expected = ref.e8m0_ceil(groups.abs().amax(-1).clamp_min(1e-10), mode)
    assert torch.equal(scale.check(), expected)
    scaled = groups / ref.e8m0_to_f32(expected)[..., None]
    if mode == "fp4":
        # The sign of a zero is not part of the value.
        packed = ref.pack_fp4(ref.f32_to_mxfp4(scaled).flatten(1))
        assert torch.equal(ref.mxfp4_to_f32(y.check()), ref.mxfp4_to_f32(packed))
    else:
        assert torch.equal(ref.fp8_e4m3_to_f32(y.check()), scaled.flatten(1).to(torch.float8_e4m3fn).float())
    data, scales = per_1x32_mx_quant(x, mode)
    assert torch.equal(data.view(torch.uint8), y.out) and torch.equal(scales, scale.out)


@needs("gfx950")
def test_sorted_scales():
    tokens, cols, rows = 50, 512, 96
    scale = torch.randint(0, 255, (tokens, cols // 32), dtype=torch.uint8)
    ids = torch.randint(0, tokens + 3, (rows,), dtype=torch.int32)
    ids |= torch.randint(0, 4, (rows,), dtype=torch.int32) << 24
    valid = torch.tensor([64, tokens], dtype=torch.int32)
    out = Guarded(rows, cols // 32, dtype=torch.uint8)
    mxfp4_moe_scale_sort(out.out, scale, ids, valid, tokens, cols)
    expected = ref.moe_mxfp4_sort(scale, ids, valid, tokens)
    assert torch.equal(out.check()[:64], expected[:64]) and bool((out.out[64:] == 77).all())


@needs("gfx950")
def test_sorted_scales_of_blocks_of_16_rows():
    """The last tile of 32 rows has half as many, and nothing behind them is read."""
    tokens, cols, rows = 5, 512, 48
    scale = torch.randint(0, 255, (tokens, cols // 32), dtype=torch.uint8)
    ids = torch.randint(0, tokens + 1, (rows,), dtype=torch.int32)
    valid = torch.tensor([rows, tokens], dtype=torch.int32)
    out = Guarded(64, cols // 32, dtype=torch.uint8)
    with rt.checked("oob") as report:
        mxfp4_moe_scale_sort(out.out, scale, ids, valid, tokens, cols)
        rt.synchronize()
    assert not report.findings
    row, column, columns = torch.arange(rows)[:, None], torch.arange(cols // 32), cols // 32
    place = ((row >> 5) * 32 * columns + (column >> 3) * 256 + (column & 3) * 64 + (row & 15) * 4
             + ((column >> 2) & 1) * 2 + ((row >> 4) & 1))
    assert torch.equal(out.check().flatten()[place], scale[ids.clamp_max(tokens - 1).long()])
