"""Products of fp8 and microscaled tensors with plain weights, on every architecture that has them."""

import pytest
from kernel_helpers import close_relative, fp8_dtype, needs, random, torch

from flydsl.kernels import ops
from flydsl.kernels.gemm import shuffle_weight, tuned
from flydsl.kernels.host import weights
from flydsl.kernels.quant import reference as ref
from flydsl.kernels.target import current_arch, target

ROUNDING = 2.0**-8 * 1.01
MICROSCALED = needs("gfx950", "gfx1250")
FP8_GEMM = needs("gfx942", "gfx950", "gfx120", "gfx1250")


def fp8_operands(m, n, k):
    a, b = random(m, k).to(fp8_dtype()), random(n, k, seed=1).to(fp8_dtype())
    return a, b, random(m, seed=2).abs() + 0.1, random(n, seed=3).abs() + 0.1


def exact(a, b, scale_a, scale_b):
    return (a.double() @ b.double().T) * scale_a[:, None].double() * scale_b.double()


@FP8_GEMM
@pytest.mark.parametrize(("m", "n", "k"), [(1, 128, 256), (37, 256, 384), (130, 128, 512)])
def test_scaled(m, n, k):
    operands = fp8_operands(m, n, k)
    close_relative(ops.scaled_gemm(*operands), exact(*operands), ROUNDING)


@needs("gfx950")
def test_other_sizes_take_the_kernel_without_an_order():
    operands = fp8_operands(70, 100, 256)
    close_relative(ops.scaled_gemm(*operands), exact(*operands), ROUNDING)


@FP8_GEMM
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (37, 80, 144), (5, 256, 48)])
def test_sizes_that_are_no_multiples_of_a_tile(m, n, k):
    operands = fp8_operands(m, n, k)
    for _ in range(2):  # of the copy of the weight that was kept, too
        out = ops.scaled_gemm(*operands)
        assert out.shape == (m, n) and out.is_contiguous()
        close_relative(out, exact(*operands), ROUNDING)
    with torch.no_grad():
        operands[1].copy_(-operands[1].float())
    close_relative(ops.scaled_gemm(*operands), exact(*operands), ROUNDING)


@FP8_GEMM
def test_products_of_nothing():
    assert ops.scaled_gemm(*fp8_operands(3, 0, 64)).shape == (3, 0)
    out = ops.scaled_gemm(*fp8_operands(3, 64, 0))
    assert out.shape == (3, 64) and not out.any()


@FP8_GEMM
def test_shapes_and_updates_in_place():
    a, b, scale_a, scale_b = fp8_operands(6, 128, 256)
    flat = ops.scaled_gemm(a, b, scale_a, scale_b)
    assert torch.equal(ops.scaled_gemm(a.view(2, 3, 256), b, scale_a.view(2, 3), scale_b), flat.view(2, 3, 128))
    assert ops.scaled_gemm(a[:0], b, scale_a[:0], scale_b).shape == (0, 128)
    wide = torch.zeros(128, 512, dtype=b.dtype)
    wide[:, ::2] = b
    assert torch.equal(ops.scaled_gemm(a, wide[:, ::2], scale_a, scale_b), flat)
    b[5] = b[6].clone()
    close_relative(ops.scaled_gemm(a, b, scale_a, scale_b), exact(a, b, scale_a, scale_b), ROUNDING)
    weights.clear_preshuffle_cache()
    ops.scaled_gemm(a, b, scale_a, scale_b)
    kept = len(weights._shuffled)
    del b
    assert len(weights._shuffled) == kept - 1


@FP8_GEMM
def test_scales_as_checkpoints_have_them():
    """One for all rows or columns, with any dimensions of one, and of narrower types, whose values f32 has."""
    a, b, scale_a, scale_b = fp8_operands(6, 128, 256)
    narrow = scale_b.bfloat16(), torch.exp2(torch.arange(128.0) % 7 - 3).to(torch.float8_e8m0fnu)
    for left, right in ((scale_a[:1], scale_b[3]), (scale_a[:, None], scale_b[None]), (scale_a[0], narrow[0]),
                        (scale_a.half(), narrow[1])):
        rows, columns = left.float().reshape(-1).expand(6), right.float().reshape(-1).expand(128)
        close_relative(ops.scaled_gemm(a, b, left, right), exact(a, b, rows, columns), ROUNDING)
    if target().name in ("gfx942", "gfx950"):
        for right in (scale_b[:1].view(1, 1).bfloat16(), torch.tensor([[2.0]]).to(torch.float8_e8m0fnu)):
            out = ops.blockscale_gemm(a[:, :128], shuffle_weight(b[:, :128].contiguous()), scale_a[None].half(), right)
            close_relative(out, exact(a[:, :128], b[:, :128], scale_a.half(), right.float()[0]), ROUNDING)


@FP8_GEMM
def test_scaled_errors():
    a, b, scale_a, scale_b = fp8_operands(6, 128, 256)
    other = torch.float8_e4m3fn if a.dtype == torch.float8_e4m3fnuz else torch.float8_e4m3fnuz
    for left, right in ((a.view(other), b), (a, b.view(torch.int8)), (a.float(), b)):
        with pytest.raises(TypeError, match="computes with"):
            ops.scaled_gemm(left, right, scale_a, scale_b)
    with pytest.raises(ValueError, match="scale_a must be f32 with 6"):
        ops.scaled_gemm(a, b, scale_a[:5], scale_b)
    with pytest.raises(ValueError, match="scale_b must be f32 with 128"):
        ops.scaled_gemm(a, b, scale_a, scale_b.double())
    with pytest.raises(ValueError, match="shapes"):
        ops.scaled_gemm(a[:, :128], b, scale_a, scale_b)
    with pytest.raises(TypeError, match="out_dtype"):
        ops.scaled_gemm(a, b, scale_a, scale_b, torch.float32)
    if target().name in ("gfx942", "gfx950"):
        weight = shuffle_weight(b)
        with pytest.raises(TypeError, match="bias: dtype"):
            ops.preshuffle_gemm(a, weight, scale_a, scale_b, torch.zeros(128, dtype=torch.int32))
        weight.unsqueeze_(0)
        with pytest.raises(ValueError, match="weight must be a matrix"):
            ops.preshuffle_gemm(a, weight, scale_a, scale_b)


def mx_operand(rows, k, dtype, seed):
    x = random(rows, k, seed=seed) * 4
    quantise, values = {"fp4": (ref.per_1x32_f4_quant, ref.mxfp4_to_f32), "fp8": (ref.per_1x32_f8_quant,
                        ref.fp8_e4m3_to_f32)}[dtype]
    q, scale = quantise(x)
    return q.view(torch.uint8), scale, values(q).double() * ref.e8m0_to_f32(scale).double().repeat_interleave(32, -1)


@MICROSCALED
@pytest.mark.parametrize(("m", "n", "k", "a_dtype", "b_dtype"), [
    (5, 128, 256, "fp4", "fp4"), (70, 64, 384, "fp4", "fp4"), (40, 128, 512, "fp8", "fp4"), (33, 64, 256, "fp8", "fp8"),
])
def test_microscaled(m, n, k, a_dtype, b_dtype):
    a, scale_a, left = mx_operand(m, k, a_dtype, 0)
    b, scale_b, right = mx_operand(n, k, b_dtype, 1)
    for out_dtype, rounding in ((torch.bfloat16, ROUNDING), (torch.float16, 2.0**-11 * 1.01)):
        out = ops.mx_gemm(a, b, scale_a, scale_b, a_dtype, b_dtype, out_dtype)
        close_relative(out, left @ right.T, rounding)


@MICROSCALED
@pytest.mark.parametrize(("m", "n", "k", "a_dtype"), [(1, 1, 32, "fp4"), (33, 65, 288, "fp8")])
def test_microscaled_sizes_that_are_no_multiples_of_a_tile(m, n, k, a_dtype):
    a, scale_a, left = mx_operand(m, k, a_dtype, 0)
    b, scale_b, right = mx_operand(n, k, "fp4", 1)
    for sign in (1, -1):
        for _ in range(2):  # of the copy of the weight that was kept, too
            out = ops.mx_gemm(a, b, scale_a, scale_b, a_dtype, "fp4")
            assert out.shape == (m, n) and out.is_contiguous()
            close_relative(out, sign * (left @ right.T), ROUNDING)
        b ^= 0x88  # the signs of both values of a byte


@MICROSCALED
def test_microscaled_operands_are_bytes_or_of_their_own_type():
    a, scale_a, left = mx_operand(3, 128, "fp8", 0)
    b, scale_b, right = mx_operand(32, 128, "fp4", 1)
    given = a.view(torch.float8_e4m3fn), b.view(torch.float4_e2m1fn_x2), scale_a.view(torch.float8_e8m0fnu), scale_b
    close_relative(ops.mx_gemm(*given, "fp8", "fp4"), left @ right.T, ROUNDING)
    with pytest.raises(TypeError, match="mx_gemm: a: fp8 has dtype uint8 or int8 or float8_e4m3fn, got float32"):
        ops.mx_gemm(a.float(), *given[1:], "fp8", "fp4")
    for at, other in ((0, torch.float8_e4m3fnuz), (0, torch.float8_e5m2), (1, torch.float8_e4m3fn),
                      (2, torch.float8_e4m3fn), (3, torch.bool)):
        wrong = [x.view(torch.uint8).view(other) if i == at else x for i, x in enumerate(given)]
        with pytest.raises(TypeError, match=f"mx_gemm: {('a', 'b', 'scale_a', 'scale_b')[at]}: .* or float"):
            ops.mx_gemm(*wrong, "fp8", "fp4")


@needs("gfx950")
def test_quantised_by_the_library():
    """The whole way: quantise activations and weight, multiply, compare with the product of what was quantised."""
    x, w = random(2, 9, 256, dtype="bf16"), random(128, 256, dtype="bf16", seed=1)
    for mode in ("fp4", "fp8"):
        (a, scale_a), (b, scale_b) = ops.quantize_mx(x, mode), ops.quantize_mx(w, mode)
        left, right = ops.dequantize_mx(a, scale_a, mode, "f32"), ops.dequantize_mx(b, scale_b, mode, "f32")
        close_relative(ops.mx_gemm(a, b, scale_a, scale_b, mode, mode), left.double() @ right.double().T, ROUNDING)


@needs("gfx950")
@pytest.mark.parametrize(("types", "tile"), [(d, t) for d, tiles in tuned.MX.items() if "fp6" not in d for t in tiles],
                         ids=str)
def test_every_tile(types, tile):
    import flydsl.compiler as flyc
    import flydsl.ir
    from flydsl.kernels.gemm import compile_mxfp4_gemm, e8m0_shuffle, shuffle_weight, shuffle_weight_w4

    a_dtype, b_dtype = types
    m, n, k = tile.m + 3, 2 * tile.n, 4 * max(tile.k, 256)  # with turns of the loop
    a, scale_a, left = mx_operand(m, k, a_dtype, 0)
    b, scale_b, right = mx_operand(n, k, b_dtype, 1)
    run = compile_mxfp4_gemm(N=n, K=k, tile_m=tile.m, tile_n=tile.n, tile_k=tile.k, a_dtype=a_dtype, b_dtype=b_dtype)
    shuffled = (shuffle_weight_w4 if b_dtype == "fp4" else shuffle_weight)(b.view(torch.int8))
    out = torch.full((m, n), torch.nan, dtype=torch.bfloat16)
    arguments = (out, a.view(torch.int8), shuffled.view(torch.int8), e8m0_shuffle(scale_a),
                 e8m0_shuffle(scale_b), m, n)
    found = flydsl.ir.kernel_resources(flyc.compile(run, *arguments).artifact.hsaco)
    assert not any(r.vgpr_spills for r in found.values())
    run(*arguments)
    close_relative(out, left @ right.T, ROUNDING)


@MICROSCALED
def test_microscaled_errors():
    a, scale_a, _ = mx_operand(6, 256, "fp4", 0)
    b, scale_b, _ = mx_operand(128, 256, "fp4", 1)
    for arguments in ((a, b, scale_a[:, :4], scale_b), (a, b, scale_a, scale_b[:3]),
                      (a[:, :0], b[:, :0], scale_a[:, :0], scale_b[:, :0])):
        with pytest.raises(ValueError, match="bytes of one K with a scale per 32, one at least"):
            ops.mx_gemm(*arguments)
    with pytest.raises(ValueError, match=r"shapes \(\.\.\., 128\) and \(128, 128\) are needed"):
        ops.mx_gemm(a[:, :64], b, scale_a, scale_b)
    with pytest.raises(ValueError, match="K must be a multiple of 32, got 48"):
        ops.mx_gemm(a[:, :24], b[:, :24], scale_a[:, :1], scale_b[:, :1])
    with pytest.raises(ValueError, match="a_dtype and b_dtype must be fp4 and fp4, .* on gfx"):
        ops.mx_gemm(a, b, scale_a, scale_b, "int4")


@needs("gfx1250")
def test_microscaled_pairs_of_gfx1250():
    a, scale_a, _ = mx_operand(6, 256, "fp4", 0)
    b, scale_b, _ = mx_operand(128, 256, "fp8", 1)
    with pytest.raises(ValueError, match="got fp4 and fp8"):
        ops.mx_gemm(a, b, scale_a, scale_b, "fp4", "fp8")


@pytest.mark.skipif(current_arch().startswith(("gfx950", "gfx1250")), reason="the other architectures")
def test_microscaled_says_where_it_runs():
    byte = torch.zeros(64, 128, dtype=torch.uint8)
    with pytest.raises(ValueError, match="needs gfx950"):
        ops.mx_gemm(byte, byte, byte[:, :8], byte[:, :8])


@pytest.mark.skipif(target().fp8_name is not None, reason="architectures without fp8")
def test_scaled_says_what_is_missing():
    x = torch.zeros(64, 128)
    with pytest.raises(ValueError, match="it has no fp8"):
        ops.scaled_gemm(x, x, x[:, 0], x[:, 0])
