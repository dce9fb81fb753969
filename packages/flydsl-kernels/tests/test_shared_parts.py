"""Parts for other people's kernels: lane exchanges, block sums, index arithmetic, epilogues."""

import pytest
from kernel_helpers import Guarded, needs, random, torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels import common
from flydsl.kernels.parts.memory import lds_write, pointer
from flydsl.kernels.parts.reduce import Lds
from flydsl.kernels.target import target

THREADS = 256


@flyc.kernel
def exchange_kernel(source, out, offset: fx.Constexpr):
    at = fx.thread_idx.x
    value = (pointer(source, fx.Float32) + at).load()
    (pointer(out, fx.Float32) + at).store(common.dpp_xor_f32(value, offset))


@pytest.mark.parametrize("offset", [1, 2, 4, 8])
def test_lane_exchange(offset):
    if target().matrix != "mfma" and offset > 2:
        pytest.skip("rows of gfx10 and later have no shift out of a bank to fill the other lanes")

    @flyc.jit
    def run(source, out):
        exchange_kernel(source, out, offset).launch(grid=(1,), block=(THREADS,))

    x, out = random(THREADS), torch.full((THREADS,), torch.nan)
    run(x, out)
    assert torch.equal(out, x[torch.arange(THREADS) ^ offset])


@flyc.kernel
def sums_kernel(source, out):
    at = fx.thread_idx.x
    value = (pointer(source, fx.Float32) + at).load()
    lds = Lds()
    one = common.block_reduce_add(value, at, THREADS, lds)
    two, three = common.block_reduce_add2(value * 2.0, value * value, at, THREADS, lds)
    for i, total in enumerate((one, two, three)):
        (pointer(out, fx.Float32) + (at + i * THREADS)).store(total)


def test_sums_of_a_workgroup():
    @flyc.jit
    def run(source, out):
        sums_kernel(source, out).launch(grid=(1,), block=(THREADS,))

    x, out = random(THREADS), torch.full((3, THREADS), torch.nan)
    run(x, out)
    wide = x.double()
    exact = torch.stack([wide.sum(), 2 * wide.sum(), (wide * wide).sum()])[:, None].expand(3, THREADS)
    assert (out.double() - exact).abs().max() <= 1e-3


def test_index_arithmetic():
    for row in range(40):
        for col in range(0, 128, 16):
            assert common.swizzle_xor16(row, col, 8) == col ^ ((row % 8) * 16)
            offset = row * 128 + col
            assert common.swizzle_128(row, col) == offset ^ (((offset % 2048) >> 8) << 4)
    assert common.pow2_shift(64) == 6 and common.udiv_const(77, 12) == 6 and common.urem_const(77, 16) == 13
    assert common.tile_chunk_coord_i32(5 * 4, 2, 256, 32) == divmod(5 * 4 + 2 * 1024, 32)
    with pytest.raises(ValueError, match="power of two"):
        common.pow2_shift(12)


@pytest.mark.parametrize("element", [1, 2])
def test_preshuffle_layouts(element):
    from flydsl.kernels.gemm import shuffle_weight

    n, k = 48, 256 // element
    weight = torch.randint(-99, 99, (n, k), dtype={1: torch.int8, 2: torch.int16}[element])
    pack, block = 16 // element, 64 // element
    places = torch.full((n, k), -1, dtype=torch.int32)

    @flyc.kernel
    def places_kernel(out):
        layout = common.make_preshuffle_b_layout(c_n=n, c_k=k, elem_bytes=element)
        row, col = fx.block_idx.x, fx.thread_idx.x
        where = (row // 16, col // block, col % block // pack, row % 16, col % pack)
        (pointer(out, fx.Int32) + (row * k + col)).store(fx.get_scalar(fx.crd2idx(where, layout)))

    @flyc.jit
    def run(out):
        places_kernel(out).launch(grid=(n,), block=(k,))

    run(places)
    assert torch.equal(shuffle_weight(weight).view(-1)[places.long()], weight)
    with pytest.raises(ValueError, match="multiple of 16"):
        common.make_preshuffle_b_layout(c_n=40, c_k=k)
    with pytest.raises(ValueError, match="multiple of 32 and K of 256"):
        common.make_preshuffle_scale_layout(c_mn=32, c_k=128)


# ------------------------------------------------------------------------------------------- epilogues

TILE_M, TILE_N, WAVES = 32, 128, 4


@flyc.kernel
def epilogue_kernel(c, rows: fx.Int32, shuffled: fx.Constexpr, e_vec: fx.Constexpr, split: fx.Constexpr):
    """C[row, column] = 1000 * row + column for the first `rows` rows, held as an MFMA holds them."""
    thread, tile = fx.thread_idx.x, fx.block_idx.x
    lane, wave = thread % 64, thread // 64
    group, inside = lane // 16, lane % 16
    tiles = TILE_N // WAVES // 16
    base, first, column = wave * (TILE_N // WAVES), tile * TILE_M, fx.block_idx.y * TILE_N
    total = fx.Int32(fx.grid_dim.y) * TILE_N
    memory = Lds()
    buffers = [memory.array(fx.Float32, TILE_M * TILE_N // (2 if split else 1)).ptr for _ in range(2 if split else 1)]
    out = pointer(c, fx.Float32)

    def value(row, local):
        return (row * 1000 + column + local).to(fx.Float32)

    def put(row, at, x):
        if row < rows:
            (out + at).store(x)

    def body_row(mi, ii, row_in_tile, row):
        for ni in fx.range_constexpr(tiles):
            local = base + ni * 16 + inside
            put(row, row * total + column + local, value(row, local))

    def write_row_to_lds(*, mi, ii, row_in_tile, row, row_base_lds, col_base_local, num_acc_n, lds_out):
        for ni in fx.range_constexpr(num_acc_n):
            single = fx.Vector.from_elements([value(row, base + inside + ni * 16)], fx.Float32)
            lds_write(lds_out, row_base_lds + col_base_local + ni * 16, single)

    def precompute_row(row_local, row):
        return row * total, row < rows

    def store_pair(row_local, row, ctx, col_pair0, col_g0, frag):
        for i in fx.range_constexpr(e_vec):
            (out + (ctx + col_g0 + i)).store(frag[i])

    common.mfma_epilog(shuffled, m_repeat=TILE_M // 16, lane_div_16=group, bx_m=first, body_row=body_row,
                       tile_m=TILE_M, tile_n=TILE_N, e_vec=e_vec, num_acc_n=tiles, tx=thread, lane_mod_16=inside,
                       by_n=column, n_tile_base=base, lds_out=buffers[0], frag_elem_type=fx.Float32,
                       write_row_to_lds=write_row_to_lds, precompute_row=precompute_row,
                       store_pair=store_pair, lds_out_split=buffers[1] if split else None)


@needs("gfx942", "gfx950")
@pytest.mark.parametrize(("shuffled", "e_vec", "split"),
                         [(False, 2, False), (True, 2, False), (True, 4, False), (True, 2, True)])
def test_epilogues_store_each_element_once(shuffled, e_vec, split):
    m, n = TILE_M + 9, 2 * TILE_N

    @flyc.jit
    def run(c, rows: fx.Int32):
        epilogue_kernel(c, rows, shuffled, e_vec, split).launch(grid=(2, 2), block=(THREADS,))

    out = Guarded(m, n)
    run(out.out, m)
    exact = torch.arange(m)[:, None] * 1000 + torch.arange(n)
    assert torch.equal(out.check(), exact.float())


def test_epilogue_errors():
    common_arguments = dict(m_repeat=2, lane_div_16=0, bx_m=0)
    with pytest.raises(ValueError, match="body_row"):
        common.mfma_epilog(False, **common_arguments)
    with pytest.raises(ValueError, match="use_cshuffle needs tile_m"):
        common.mfma_epilog(True, **common_arguments)
    rest = dict(num_acc_n=1, tx=0, lane_mod_16=0, by_n=0, n_tile_base=0, lds_out=None, write_row_to_lds=None,
                store_pair=None)
    with pytest.raises(ValueError, match="multiple of 8 x 64"):
        common.c_shuffle_epilog(tile_m=36, tile_n=64, **common_arguments, **rest)
    with pytest.raises(ValueError, match="multiple of 4 x 128"):
        common.c_shuffle_epilog(tile_m=36, tile_n=64, **common_arguments, **rest, lds_out_split=object())


def test_host_helpers():
    assert common.get_dtype_str(torch.bfloat16) == "bf16" and common.get_dtype_vec_size(torch.float32) == 4
    assert common.get_dtype_vec_size("f16") == 8 and common.get_warp_size("gfx942") == 64
    common.validate_moe_dtypes("fp8", "int4")
    with pytest.raises(ValueError, match="a_dtype must be one of"):
        common.validate_moe_dtypes("int4", "fp8")
    from flydsl.kernels.softmax import build_softmax_module

    x = random(4, 40)
    for _ in range(2):
        out = torch.full_like(x, torch.nan)
        common._run_compiled(build_softmax_module(4, 40, "f32"), x, out, 4)
        assert (out.double() - torch.softmax(x.double(), -1)).abs().max() <= 1e-6
