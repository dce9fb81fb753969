"""Quantised formats to the bit: ties, zeros, tiny values, NaN and infinity, int4, microscaled values."""

import formats
import numpy as np
import pytest
from kernel_helpers import DTYPES, Guarded, cases, fp8_dtype, needs, random, torch

from flydsl.kernels import ops, quant
from flydsl.kernels.quant import reference as ref
from flydsl.kernels.target import target


def fp8_table():
    return formats.e4m3fnuz() if target().fp8_name.endswith("FNUZ") else formats.e4m3fn()


def halves(limit):
    """Values with scale 1 after quantisation: the largest magnitude and every tie below it."""
    return torch.cat((torch.arange(-limit, limit + 1).double() + 0.5, torch.tensor([limit, -limit, 0.0])))[1:]


# ------------------------------------------------------------------------------------------- rounding


@pytest.mark.parametrize("granularity", ["token", "group", "block", "tensor"])
def test_int8_rounds_ties_to_even(granularity):
    x = halves(127).clamp(-127, 127).float()
    q, scale = getattr(ops, f"quantize_per_{granularity}")(x.view(1, -1), "i8")
    # The groups are not all scaled by one; where they are, the result is exactly numpy's.
    if granularity in ("token", "tensor"):
        assert scale.item() == 1
        assert np.array_equal(q.numpy()[0], np.rint(x.numpy()).astype(np.int8))
    else:
        size = 128
        for g in range(scale.shape[1]):
            part, s = x[g * size : (g + 1) * size].double(), scale[0, g]
            inverse = np.float32(1.0) / np.float32(s.item())
            exact = (part.float().numpy() * inverse).astype(np.float32)
            assert np.array_equal(q[0, g * size : (g + 1) * size].numpy(), np.rint(exact).astype(np.int8))


@pytest.mark.parametrize("granularity", ["token", "tensor"])
def test_fp8_rounds_ties_to_even_and_keeps_every_code(granularity):
    fp8_dtype()
    table = fp8_table()
    values = np.sort(table[~np.isnan(table)])
    x = np.concatenate((values, (values[1:] + values[:-1]) / 2)).astype(np.float32)  # exact in f32
    q, scale = getattr(ops, f"quantize_per_{granularity}")(torch.tensor(x)[None], "fp8")
    assert scale.item() == 1
    expected = formats.nearest(x, table)
    assert np.array_equal(q.float().numpy()[0], expected)
    assert np.array_equal(table[q.view(torch.uint8).numpy()[0]], expected)  # the codes mean what the format says
    assert not np.isnan(table[q.view(torch.uint8).numpy()]).any()  # fnuz has no negative zero


def test_truncation():
    x = random(5, 96)
    q, scale = torch.zeros(5, 96, dtype=torch.int8), torch.zeros(5)
    quant.build_quant_module(96, "f32", "i8", rounding="trunc")[0](x, q, scale, 5)
    exact = x.double() / scale[:, None].double()
    assert bool((q.double().abs() <= exact.abs() + 1e-4).all()) and bool(((q - exact).abs() < 1 + 1e-4).all())
    inverse = torch.tensor(1.0) / scale
    assert torch.equal(q.float(), (x * inverse[:, None]).clamp(-127, 127).trunc())


# ------------------------------------------------------------------------------------------- special values


GRANULARITIES = ["token", "group", "block", "tensor"]


@pytest.mark.each_wave_size
@pytest.mark.parametrize("kind", ["i8", "fp8"])
@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("special", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_infinity_are_not_hidden(granularity, kind, special):
    """A unit with a NaN or an infinity dequantises to NaN as a whole; the others are as without it."""
    if kind == "fp8":
        fp8_dtype()
    x = random(130, 300)
    quantise = getattr(ops, f"quantize_per_{granularity}")
    clean, clean_scale = quantise(x, kind)
    x[129, 150] = special
    q, scale = quantise(x, kind)
    bad = ~scale.isfinite()
    assert int(bad.sum()) == 1
    back, expected = (ops.dequantize(*pair, "f32", granularity) for pair in ((q, scale), (clean, clean_scale)))
    hit = torch.zeros(130, 300, dtype=torch.bool)
    rows, columns = {
        "token": (slice(129, 130), slice(None)),
        "group": (slice(129, 130), slice(128, 256)),
        "block": (slice(128, 130), slice(128, 256)),
        "tensor": (slice(None), slice(None)),
    }[granularity]
    hit[rows, columns] = True
    finite = back[hit].isfinite()
    assert not bool(finite.any()) and torch.equal(back[~hit], expected[~hit])


@pytest.mark.parametrize("kind", ["i8", "fp8"])
@pytest.mark.parametrize("smallest", [1e-30, 1e-38, 1e-42, 1e-45])
def test_tiny_values_have_a_usable_scale(kind, smallest):
    """A scale below the normal numbers would have an infinite reciprocal."""
    if kind == "fp8":
        fp8_dtype()
    x = random(3, 128) * smallest
    x[:, 0] = 0
    for granularity in GRANULARITIES:
        q, scale = getattr(ops, f"quantize_per_{granularity}")(x, kind)
        assert bool(scale.isfinite().all()) and bool((scale > 0).all()) and not bool(q.float().isnan().any())
        back = ops.dequantize(q, scale, "f32", granularity)
        step = scale.max().item() * (0.5 if kind == "i8" else 16.0)
        assert bool(((back.double() - x.double()).abs() <= step * 1.001).all())


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_zeros_have_scale_one(granularity):
    q, scale = getattr(ops, f"quantize_per_{granularity}")(torch.zeros(3, 256), "i8")
    assert bool((scale == 1).all()) and bool((q == 0).all())


def test_nan_reaches_the_scale_of_a_quantised_norm():
    x, w, b = random(3, 300), random(300, seed=1), random(300, seed=2)
    x[1, 7] = float("nan")
    for q, scale in (ops.rmsnorm_quant(x, w), ops.layernorm_quant(x, w, b), ops.rmsnorm_quant(x, w, b)):
        assert scale.isnan().tolist() == [False, True, False]
        assert bool(ops.dequantize(q, scale)[1].isnan().all())


@pytest.mark.parametrize("special", [float("nan"), float("inf")])
def test_softmax_and_norms_propagate_like_torch(special):
    x, w, b = random(3, 300), random(300, seed=1), random(300, seed=2)
    x[1, 7] = special
    for ours, theirs in ((ops.softmax(x), torch.softmax(x, -1)),
                         (ops.layernorm(x, w, b), torch.nn.functional.layer_norm(x, (300,), w, b)),
                         (ops.rmsnorm(x, w), torch.nn.functional.rms_norm(x, (300,), w, 1e-5))):
        assert torch.equal(ours.isnan(), theirs.isnan())


# ------------------------------------------------------------------------------------------- int4


INT4 = cases([(5, 64, 32, "bf16"), (3, 200, 32, "f32"), (7, 24, 8, "f16"), (2, 2304, 128, "bf16"), (4, 40, 0, "f32"),
              (1, 4104, 0, "f16"), (9, 8, 32, "f32")],
             [(130, 8192, 32, "bf16"), (64, 7168, 128, "f16"), (33, 65544, 0, "f32")])


@pytest.mark.each_wave_size
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("scale_dtype", ["f32", "bf16"])
@pytest.mark.parametrize(("m", "n", "group", "dtype"), INT4)
def test_int4(m, n, group, dtype, scale_dtype, transposed):
    x, size = random(m, n, dtype=dtype), min(group, n) or n
    x[-1, :8] = 0
    groups = -(-n // size)
    shape = (groups, m) if transposed else (m, groups)
    q, scale = Guarded(m, n // 2, dtype=torch.uint8), Guarded(*shape, dtype=DTYPES[scale_dtype])
    run = quant.build_int4_quant_module(n, dtype, group=group, transposed_scale=transposed,
                                        scale_dtype_str=scale_dtype)
    run(x, q.out, scale.out, m)
    by_row = (scale.check().T if transposed else scale.check()).double().numpy()

    padded = np.zeros((m, groups * size))
    padded[:, :n] = x.double().numpy()
    top = np.abs(padded).reshape(m, groups, size).max(-1)
    expected = np.where(top == 0, 1.0, top / 7)
    assert (np.abs(by_row - expected) <= expected * (1e-6 if scale_dtype == "f32" else 2.0**-8)).all()
    everywhere = by_row.repeat(size, 1)[:, :n]
    exact = x.double().numpy() / everywhere
    # The packing by its definition, not by the library's own reference.
    packed = q.check().numpy().reshape(m, n // 8, 4)
    values = np.concatenate((packed & 15, packed >> 4), -1).reshape(m, n).astype(np.int64)
    values = np.where(values > 7, values - 16, values)
    assert (np.abs(values) <= 7).all() and (np.abs(values - np.clip(exact, -7, 7)) <= 0.5 + 1e-4).all()

    out = Guarded(m, n, dtype=DTYPES[dtype])
    back = quant.build_int4_dequant_module(n, dtype, group=group, transposed_scale=transposed,
                                           scale_dtype_str=scale_dtype)
    back(q.out, scale.out, out.out, m)
    assert torch.equal(out.check(), torch.tensor(values * everywhere).to(DTYPES[dtype]))

    q2, scale2 = ops.quantize_int4(x, group, transposed_scale=transposed, scale_dtype=scale_dtype)
    assert torch.equal(q2, q.out) and torch.equal(scale2, scale.out)
    assert torch.equal(ops.dequantize_int4(q2, scale2, group, dtype, transposed_scale=transposed), out.out)


@pytest.mark.parametrize(("m", "n"), cases([(1, 8), (5, 64), (3, 2056), (9, 4096)], [(257, 8192)]))
def test_int4_packing(m, n):
    values = torch.randint(-8, 8, (m, n), dtype=torch.int8)
    packed, back = Guarded(m, n // 2, dtype=torch.uint8), Guarded(m, n, dtype=torch.int8)
    quant.build_int4_pack_module(n)(values, packed.out, m)
    quant.build_int4_unpack_module(n)(packed.check(), back.out, m)
    assert torch.equal(back.check(), values) and torch.equal(packed.out, ref.pack_int4(values))
    eight = values.numpy().reshape(m, -1, 8).astype(np.int64) & 15
    assert np.array_equal(packed.out.numpy().reshape(m, -1, 4), eight[..., :4] | eight[..., 4:] << 4)
    assert torch.equal(ops.unpack_int4(ops.pack_int4(values)), values)


def test_int4_of_every_value_and_unpacked_form():
    x = torch.arange(-14, 15).float().div(2)[None].repeat(1, 8)[:, :232]  # ties included, largest 7
    q, scale = ops.quantize_per_token(x, "i4")
    assert scale.item() == 1 and np.array_equal(q.numpy(), np.rint(x.numpy()).astype(np.int8))
    packed, scale = ops.quantize_int4(x, 0)
    assert scale.item() == 1 and torch.equal(ops.unpack_int4(packed), q)
    assert torch.equal(ops.pack_int4(q), packed)


def test_int4_truncates_on_request():
    x = random(4, 64)
    packed, scale = ops.quantize_int4(x, 32, rounding="trunc")
    inverse = (torch.tensor(1.0) / scale).repeat_interleave(32, 1)
    assert torch.equal(ops.unpack_int4(packed).float(), (x * inverse).clamp(-7, 7).trunc())


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: quant.build_int4_quant_module(12), "multiple of 8"),
        (lambda: quant.build_int4_quant_module(64, group=12), "group must be a multiple of 8"),
        (lambda: quant.build_int4_quant_module(64, scale_dtype_str="f16"), "f32, bf16"),
        (lambda: quant.build_int4_quant_module(64, "i8"), "f32, f16, bf16"),
        (lambda: quant.build_int4_pack_module(9), "multiple of 8"),
        (lambda: quant.build_mx_dequant_module(48), "multiple of 32"),
        (lambda: quant.build_mx_dequant_module(64, "fp6"), "'fp4' or 'fp8'"),
        (lambda: ops.quantize_int4(torch.zeros(3, 2)), "multiple of 8, got 2"),
        (lambda: ops.pack_int4(torch.zeros(3, 5, dtype=torch.int8)), "multiple of 8, got 5"),
        (lambda: ops.unpack_int4(torch.zeros(3, 2, dtype=torch.uint8)), "multiple of 8, got 4"),
        (lambda: ops.dequantize_int4(torch.zeros(3, 2, dtype=torch.uint8), torch.ones(3, 1)), "multiple of 8, got 4"),
        (lambda: ops.dequantize_int4(torch.zeros(2, 32, dtype=torch.uint8), torch.ones(2, 3)), "shape"),
        (lambda: ops.dequantize(torch.zeros(4, 100, dtype=torch.int8), torch.ones(7)), "do not fit"),
        (lambda: ops.quantize_per_tensor(torch.ones(2, 8), "i8", torch.ones(2)), "one f32"),
    ],
)
def test_unsupported_arguments(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_scales_that_fit_two_granularities():
    q, scale = torch.ones(16, 2048, dtype=torch.int8), torch.arange(16.0).view(1, 16)
    assert torch.equal(ops.dequantize(q, scale)[3], scale[0].repeat_interleave(128))  # blocks
    with pytest.raises(ValueError, match="token or block"):
        ops.dequantize(q.view(1, 16, 2048), scale)
    assert torch.equal(ops.dequantize(q.view(1, 16, 2048), scale, "f32", "token")[0, :, 0], scale[0])
    with pytest.raises(ValueError, match="granularity must be"):
        ops.dequantize(q, scale, "f32", "row")


def test_wrong_dtypes():
    with pytest.raises(TypeError, match="i8"):
        ops.pack_int4(torch.zeros(2, 8))
    with pytest.raises(TypeError, match="scales must be f32"):
        ops.dequantize(torch.zeros(2, 8, dtype=torch.int8), torch.ones(2).half())
    if target().fp8_name:
        other = torch.float8_e4m3fn if target().fp8_name.endswith("FNUZ") else torch.float8_e4m3fnuz
        with pytest.raises(TypeError, match="architecture's fp8"):
            ops.dequantize(torch.zeros(2, 8).to(other), torch.ones(2))


# ------------------------------------------------------------------------------------------- microscaled


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(("m", "n"), cases([(1, 32), (5, 96), (9, 2112)], [(64, 8192)]))
def test_mx_dequantisation(m, n, dtype):
    """Every code, every scale byte, on every architecture."""
    generator = torch.Generator().manual_seed(n)
    scale = torch.randint(0, 256, (m, n // 32), dtype=torch.uint8, generator=generator)
    scale.view(-1)[0] = 255
    exact = formats.e8m0(scale.numpy()).repeat(32, 1)
    for mode, table in (("fp4", formats.e2m1()), ("fp8", formats.e4m3fn())):
        codes = torch.randint(0, len(table), (m, n), dtype=torch.uint8, generator=generator)
        data = ref.pack_fp4(codes) if mode == "fp4" else codes
        out = Guarded(m, n, dtype=DTYPES[dtype])
        quant.build_mx_dequant_module(n, mode, dtype)(data, scale.view(-1), out.out, m)
        with np.errstate(over="ignore"):
            expected = torch.tensor(table[codes.numpy()] * exact).float().to(DTYPES[dtype])
        assert torch.equal(out.check().isnan(), expected.isnan())
        assert torch.equal(out.out.nan_to_num(), expected.nan_to_num())
        assert torch.equal(ops.dequantize_mx(data, scale, mode, dtype).nan_to_num(), expected.nan_to_num())


@needs("gfx950", "gfx1250")
@pytest.mark.parametrize("mode", ["fp4", "fp8"])
def test_mx_round_trip_ties_and_special_values(mode):
    table = formats.e2m1() if mode == "fp4" else formats.e4m3fn()
    values = np.sort(table[~np.isnan(table)])
    ties = np.concatenate((values, (values[1:] + values[:-1]) / 2))
    ties = ties[: len(ties) // 31 * 31].reshape(-1, 31)
    # The largest value makes the scale 1; all are exact in bf16.
    x = np.concatenate((np.full((len(ties), 1), values[-1]), ties), 1)
    q, scale = ops.quantize_mx(torch.tensor(x).bfloat16(), mode)
    assert bool((scale == 127).all())
    back = ops.dequantize_mx(q, scale, mode, "f32")
    assert np.array_equal(back.numpy(), formats.nearest(x, table))

    special = random(4, 64, dtype="bf16")
    special[1, 3], special[2, 40], special[3] = float("nan"), float("inf"), 0
    q, scale = ops.quantize_mx(special, mode)
    assert (scale == 255).tolist() == [[False] * 2, [True, False], [False, True], [False] * 2]
    back = ops.dequantize_mx(q, scale, mode, "f32")
    assert bool(back[1, :32].isnan().all()) and bool(back[2, 32:].isnan().all()) and bool((back[3] == 0).all())
    assert torch.equal(ops.dequantize_mx(*quant.per_1x32_mx_quant(special, mode), mode, "f32").nan_to_num(),
                       back.nan_to_num())
    empty, scale = ops.quantize_mx(special[:0], mode)
    assert empty.shape == (0, 32 if mode == "fp4" else 64) and scale.shape == (0, 2)


def test_microscaled_values_are_bytes_or_of_their_own_type():
    """The bytes of another fp8 type, which torch calls by another name, have other values."""
    q, scale = torch.arange(64, dtype=torch.uint8).view(1, 64), torch.full((1, 2), 130, dtype=torch.uint8)
    expected = q.view(torch.float8_e4m3fn).float() * 8
    for codes, factors in ((q, scale), (q.view(torch.float8_e4m3fn), scale.view(torch.float8_e8m0fnu))):
        assert torch.equal(ops.dequantize_mx(codes, factors, "fp8", "f32"), expected)
    for codes, factors in ((q.view(torch.float8_e4m3fnuz), scale), (q.view(torch.float8_e5m2), scale),
                           (q, scale.view(torch.float8_e4m3fn))):
        with pytest.raises(TypeError, match="dequantize_mx: .* has dtype uint8 or int8 or float8"):
            ops.dequantize_mx(codes, factors, "fp8", "f32")


def test_mx_quantiser_names_what_it_needs():
    if target().arch not in ("gfx950", "gfx1250"):
        with pytest.raises(ValueError, match="gfx950"):
            ops.quantize_mx(random(2, 64, dtype="bf16"))
    with pytest.raises((TypeError, ValueError), match="float32|gfx950"):
        ops.quantize_mx(random(2, 64))


# ------------------------------------------------------------------------------------------- no rows


def test_a_launch_without_rows_does_nothing():
    q, scale = Guarded(4, 64, dtype=torch.int8), Guarded(4)
    x = random(4, 64)
    quant.build_quant_module(64, "f32")[0](x, q.out, scale.out, 0)
    quant.build_per_block_quant_module(64, "f32", "i8")(x, q.out, scale.out, 0)
    quant.build_int4_quant_module(64, "f32")(x, q.out.view(torch.uint8), scale.out, 0)
    assert bool((q.check() == 77).all()) and bool(scale.check().isnan().all())
    for granularity in ("token", "group", "block"):
        q, scale = getattr(ops, f"quantize_per_{granularity}")(x[:0], "i8")
        assert q.shape == (0, 64) and scale.shape[0] == 0 and ops.dequantize(q, scale).shape == (0, 64)
    q, scale = ops.quantize_per_tensor(x[:0], "i8")
    assert q.shape == (0, 64) and scale.tolist() == [1.0]
    assert ops.quantize_int4(x[:0])[0].shape == (0, 32) and ops.unpack_int4(ops.pack_int4(q)).shape == (0, 64)
