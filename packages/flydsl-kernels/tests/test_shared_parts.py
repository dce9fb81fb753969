"""Parts for other people's kernels: lane exchanges, block sums, index arithmetic, epilogues."""

from types import SimpleNamespace

import pytest
from kernel_helpers import Guarded, needs, random, torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl._mlir import ir
from flydsl.compiler.kernel_function import CompilationContext
from flydsl.kernels import common
from flydsl.kernels.parts import scales
from flydsl.kernels.parts.convert import pack_fp4
from flydsl.kernels.parts.grid import add_wave_slices
from flydsl.kernels.parts.lane import lane_of
from flydsl.kernels.parts.mainloop import KTile
from flydsl.kernels.parts.matrix import matrix_op
from flydsl.kernels.parts.memory import lds_write, pointer
from flydsl.kernels.parts.reduce import Lds
from flydsl.kernels.parts.scales import BlockScales, PairedScales, ScaleLines
from flydsl.kernels.target import target
from flydsl.utils.smem_allocator import SmemAllocator, SmemPtr

THREADS = 256


@flyc.kernel
def exchange_kernel(source, out, offset: fx.Constexpr):
    at = fx.thread_idx.x
    value = (pointer(source, fx.Float32) + at).load()
    (pointer(out, fx.Float32) + at).store(common.dpp_xor_f32(value, offset))


@pytest.mark.parametrize("offset", [1, 2, 4, 8])
def test_lane_exchange(offset):
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


@flyc.kernel
def fp4_kernel(source, out):
    at = fx.thread_idx.x
    values = [(pointer(source, fx.Float32) + (at * 8 + i)).load() for i in range(8)]
    (pointer(out, fx.Int32) + at).store(pack_fp4(values))


def test_fp4_rounds_to_nearest_and_saturates():
    """Also what is far beyond integers of 32 bits, and infinity."""
    @flyc.jit
    def run(source, out):
        fp4_kernel(source, out).launch(grid=(1,), block=(64,))

    x = random(64, 8).double() * 4
    x[:20] *= 10.0 ** torch.arange(-5, 15)[:, None]
    x[20, :4] = torch.tensor([torch.inf, -torch.inf, 3e38, -3e38])
    x[21:28] = (torch.arange(56).reshape(7, 8) - 28) / 4.0  # with all halves between codes
    out = torch.full((64,), -1, dtype=torch.int32)
    run(x.float(), out)
    codes = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6]).double()
    apart = (x.float().double().abs().clamp(max=6)[..., None] - codes).abs()
    near = torch.where(apart == apart.amin(-1, keepdim=True), torch.arange(8), 8).sort(-1).values[..., :2]
    code = torch.where((near[..., 1] < 8) & (near[..., 0] % 2 == 1), near[..., 1], near[..., 0])
    wanted = code + 8 * torch.signbit(x.float())
    assert torch.equal(out[:, None] >> (4 * torch.arange(8)) & 15, wanted.int())


@flyc.kernel
def slices_kernel(source, out, config: fx.Constexpr, tiles: fx.Constexpr, across: fx.Constexpr):
    """Each wave's vectors, and those that it is left with, are (tile, lane, value) after each other."""
    lane = lane_of(config.target.wave, scalar=True)
    memory = Lds().array(fx.Float32, config.k_waves * tiles * config.target.wave * 4).ptr
    places = [((lane.wave * tiles + i) * config.target.wave + lane.lane) * 4 for i in range(tiles)]
    acc = [fx.Vector.from_elements([(pointer(source, fx.Float32) + (at + j)).load() for j in range(4)], fx.Float32)
           for at in places]
    for at, value in zip(places, add_wave_slices(acc, memory, config, lane.wave, lane, across), strict=True):
        for j in range(4):
            (pointer(out, fx.Float32) + (at + j)).store(value[j])


@pytest.mark.parametrize(("waves", "tiles", "across"), [(3, 4, None), (4, 4, 2), (2, 6, 2), (3, 3, 1)])
def test_waves_that_share_k_sum_all_or_in_turn(waves, tiles, across):
    wave = target().wave
    config = SimpleNamespace(k_waves=waves, m_waves=1, n_waves=1, target=target())

    @flyc.jit
    def run(source, out):
        slices_kernel(source, out, config, tiles, across).launch(grid=(1,), block=(waves * wave,))

    x, out = random(waves, tiles, wave * 4), torch.full((waves, tiles, wave * 4), torch.nan)
    run(x, out)
    exact = x.double().sum(0)
    for tile in range(tiles):
        summing = 0 if across is None else tile // across % waves
        assert (out[summing, tile] - exact[tile]).abs().max() <= 1e-5


class Elements:
    """A buffer whose elements are their places."""

    loads = 0  # so far

    def load(self, at, count, soffset):
        Elements.loads += 1
        return list(range(at + soffset, at + soffset + count))


@pytest.mark.parametrize(("per_tile", "together", "width", "step"),
                         [(1, 1, 1, 1), (2, 1, 4, 1000), (1, 4, 1, 1), (2, 2, 1, 1)])
def test_scales_of_blocks_are_loaded_where_they_begin_and_kept(per_tile, together, width, step):
    """Each tile has those of its blocks of k, from wherever the loop begins."""
    sides = ScaleLines(Elements(), [5, 905], step, width), ScaleLines(Elements(), [7], 1)
    source, held = BlockScales(*sides, per_tile, together=together).source, None
    for t in (KTile(turn, tile) for turn in (0, 4) for tile in range(4)):
        before = Elements.loads
        held = source.fetch(t, held)
        assert source.loads(t) == Elements.loads - before
        for side, found in zip(sides, held, strict=True):
            for place, line in zip(side.places, found, strict=True):
                for block, values in enumerate(line[:per_tile]):
                    first = place + (t.index * per_tile + block) * side.step
                    assert values == list(range(first, first + side.width))
        assert (source.loads(t) == 0) is (t.further % together != 0)


@pytest.mark.parametrize("tile_k", [128, 256])
def test_paired_scales_are_those_of_their_rows_and_k(tile_k, monkeypatch):
    """Of two parts whose tiles take turns; the second tile of 128 k takes what was loaded for the first."""
    from flydsl.kernels.host.layouts import e8m0_shuffle

    codes = torch.randint(0, 256, (256, 32), dtype=torch.uint8)
    stored = e8m0_shuffle(codes).reshape(-1, 4)  # words
    buffer = SimpleNamespace(load=lambda at, count, soffset: [stored[at + soffset]])
    monkeypatch.setattr(scales, "Buffer", lambda *_: buffer)
    firsts = [32, 128]
    for lane in (0, 21, 63):
        side = PairedScales(None, 0, 32, 256, firsts, 2, True, SimpleNamespace(lane=lane), tile_k)
        held, loaded = None, 0
        for tile in range(1024 // tile_k):
            t = KTile(4 * (tile // 4), tile % 4)
            loaded, held = loaded + side.loads(t), side.fetch(t, held)
            for call in range(tile_k // 128):
                group = (tile * tile_k + call * 128) // 32 + lane // 16
                rows = [first + 16 * i + lane % 16 for i in range(2) for first in firsts]
                assert [int(word[byte]) for word, byte in side.of(t, held, call)] == codes[rows, group].tolist()
        assert loaded == 2 * 1024 // 256


@pytest.mark.parametrize(("arch", "packed"), [("gfx942", 2), ("gfx950", 2), ("gfx1250", 2), ("gfx1201", 1)])
def test_sums_are_counted_as_the_instructions_that_add_them(arch, packed):
    """gfx9 and gfx1250 add two f32 in an instruction (`v_pk_fma_f32`), gfx120x has none for that."""
    assert matrix_op(target(arch), "fp8", True).packed == packed
    assert matrix_op(target(arch), "bf16").packed == packed


def test_sums_of_a_workgroup():
    @flyc.jit
    def run(source, out):
        sums_kernel(source, out).launch(grid=(1,), block=(THREADS,))

    x, out = random(THREADS), torch.full((3, THREADS), torch.nan)
    run(x, out)
    wide = x.double()
    exact = torch.stack([wide.sum(), 2 * wide.sum(), (wide * wide).sum()])[:, None].expand(3, THREADS)
    assert (out.double() - exact).abs().max() <= 1e-3


@flyc.kernel
def accesses_kernel(source, address: fx.Int64, out, count: fx.Int32):
    """Row r of `out` is what the r-th way of reading `source` gives at this thread; `out` was poisoned."""
    at = fx.thread_idx.x
    rows = [
        common.global_load(source, at),
        common.global_load(common.global_ptr_from_addr(address), at),
        common.global_load_i32(address, at).bitcast(fx.Float32),
        common.global_load_i64x2(source, at // 4 * 2).bitcast(fx.Float32)[at % 4],
        common.load_global_16b(address, at // 4 * 16).bitcast(fx.Float32)[at % 4],
        common.element_ptr(common.to_llvm_ptr(source), at, fx.Float32).load(),
    ]
    for i, value in enumerate(rows):
        common.global_store(out, value, at + i * count)
    if at < THREADS // 4:
        atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
        register = fx.make_rmem_tensor(4, fx.Float32)
        chunk = common.copy_load(source, at * 4, atom, register)
        common.copy_store(out, at * 4 + len(rows) * count, atom, register, chunk)


def test_raw_accesses():
    @flyc.jit
    def run(source, address: fx.Int64, out, count: fx.Int32):
        accesses_kernel(source, address, out, count).launch(grid=(1,), block=(THREADS,))

    x, out = random(THREADS), Guarded(7, THREADS)
    run(x, x.data_ptr(), out.out, THREADS)
    assert torch.equal(out.check(), x.expand(7, THREADS))


@flyc.kernel
def sums_by_atomics_kernel(source, words, floats, pairs):
    at = fx.thread_idx.x
    value = (pointer(source, fx.Float32) + at).load()
    common.atomic_add(words, 0, fx.Int32(at))
    common.atomic_add(words, 1, 1, syncscope="workgroup", ordering="acq_rel", alignment=4)
    common.atomic_add(floats, at % 4, value, ordering=fx.AtomicOrdering.Monotonic)
    integers = common.create_buffer_resource(words, num_records_bytes=12)
    before = common.buffer_atomic_add(fx.Int32(1), integers, 8, 0, 0)
    common.buffer_atomic_add(fx.Int32(1), integers, 12, 0, 0)  # outside: dropped
    (pointer(words, fx.Int32) + (4 + before)).store(at)
    common.buffer_atomic_add(value, common.create_buffer_resource(floats, num_records_bytes=32), 16)
    pair = fx.Vector.from_elements([value, 1.0], fx.Float32).to(fx.Float16)
    common.buffer_atomic_add(pair, common.create_buffer_resource(pairs, num_records_bytes=4), 0)


def test_raw_atomics():
    @flyc.jit
    def run(source, words, floats, pairs):
        sums_by_atomics_kernel(source, words, floats, pairs).launch(grid=(1,), block=(THREADS,))

    x = torch.randint(-8, 9, (THREADS,)).float()
    words, floats, pairs = torch.zeros(4 + THREADS, dtype=torch.int32), torch.zeros(8), torch.zeros(2).half()
    run(x, words, floats, pairs)
    assert words[:4].tolist() == [THREADS * (THREADS - 1) // 2, THREADS, THREADS, 0]
    assert words[4:].sort().values.tolist() == list(range(THREADS))  # each number came back once
    assert torch.equal(floats[:4], x.view(-1, 4).sum(0)) and floats[4:].tolist() == [x.sum(), 0, 0, 0]
    assert pairs.tolist() == [x.sum(), THREADS]
    for wrong, message in ((dict(dtype_bytes=8), "8 bytes is needed"), (dict(alignment=2), "at a multiple"),
                           (dict(ordering="sometimes"), "must be one of")):
        with pytest.raises(ValueError, match=message):
            common.atomic_add(None, 0, fx.Float32(1.0), **wrong)
    with pytest.raises(ValueError, match="2 bytes is needed"):
        common.atomic_add(None, 0, 1, dtype_bytes=2)
    with pytest.raises(TypeError, match="an i32, an f32 or two f16 or bf16"):
        common.buffer_atomic_add(fx.Float64(1.0), None, 0)


@flyc.kernel
def waits_kernel(source, out):
    at = fx.thread_idx.x
    lds = Lds().array(fx.Float32, THREADS).ptr
    value = common.anchor((pointer(source, fx.Float32) + at).load())
    pair = common.anchor(fx.Vector.from_elements([common.maxnum(value, 0.0), value], fx.Float32))
    lds_write(lds, at, fx.Vector.from_elements([common.exp2_amdgcn_scalar(pair[0])], fx.Float32))
    common.barrier(lgkmcnt=0)
    (pointer(out, fx.Float32) + at).store((lds + (THREADS - 1 - at)).load() + pair[1])
    common.wait_barrier(0)


@needs("gfx942", "gfx950", "gfx1201")  # gfx1250 waits for each kind of access by an instruction of its own
def test_waits_and_anchors():
    @flyc.jit
    def run(source, out):
        waits_kernel(source, out).launch(grid=(1,), block=(THREADS,))

    x, out = random(THREADS), torch.full((THREADS,), torch.nan)
    run(x, out)
    exact = torch.exp2(x.double().clamp(min=0)).flip(0) + x.double()
    assert (out.double() - exact).abs().max() <= 1e-5


def test_index_arithmetic():
    for row in range(40):
        for col in range(0, 128, 16):
            assert common.swizzle_xor16(row, col, 8) == col ^ ((row % 8) * 16)
            offset = row * 128 + col
            assert common.swizzle_128(row, col) == offset ^ (((offset % 2048) >> 8) << 4)
    assert common.pow2_shift(64) == 6 and common.udiv_const(77, 12) == 6 and common.urem_const(77, 16) == 13
    assert common.tile_chunk_coord_i32(tx_i32_base=5 * 4, i=2, total_threads=256, layout_tile_div4=32) == divmod(
        5 * 4 + 2 * 1024, 32)
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
        layout = common.make_preshuffle_b_layout(fx.arith, c_n=n, c_k=k, elem_bytes=element)
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
        common.make_preshuffle_scale_layout(fx.arith, c_mn=32, c_k=128)


@flyc.kernel
def chunks_kernel(out):
    thread = fx.thread_idx.x
    for i in fx.range_constexpr(3):
        row, column = common.tile_chunk_coord_i32(
            fx.arith, tx_i32_base=thread * 4, i=i, total_threads=64,
            layout_tile_div4=fx.make_layout((48, 16), (16, 1)))
        (pointer(out, fx.Int32) + (row * 16 + column)).store(thread + 64 * i)


def test_chunks_of_a_tile_by_its_layout():
    """Threads have chunks of four in the order of memory."""
    @flyc.jit
    def run(out):
        chunks_kernel(out).launch(grid=(1,), block=(64,))

    out = torch.full((48 * 16,), -1, dtype=torch.int32)
    run(out)
    assert out[::4].tolist() == list(range(192)) and (out.view(-1, 4)[:, 1:] == -1).all()


@flyc.kernel
def order_kernel(out, rows: fx.Int32, columns: fx.Constexpr, group: fx.Constexpr, dies: fx.Constexpr):
    bx, by = common.xcd_remap_bx_by(fx.block_idx.x, fx.block_idx.y, rows, tile_m=16, tile_n=64, N=64 * columns,
                                    xcd_swizzle=group, num_xcds=dies)
    at = fx.block_idx.y * fx.grid_dim.x + fx.block_idx.x
    (pointer(out, fx.Int32) + at).store(fx.Int32(bx) * columns + by)


@pytest.mark.parametrize(("rows", "columns", "group", "dies"),
                         [(5, 3, 2, 8), (16, 8, 4, 8), (7, 9, 3, 4), (1, 5, 4, 8)])
def test_order_of_blocks_over_dies(rows, columns, group, dies):
    """Each die has consecutive blocks of the order by groups of block rows; every block is there once."""
    @flyc.jit
    def run(out, m: fx.Int32):
        order_kernel(out, m, columns, group, dies).launch(grid=(rows, columns), block=(1,))

    out = torch.full((rows * columns,), -1, dtype=torch.int32)
    run(out, 16 * rows - 3)
    order = [row * columns + column for first in range(0, rows, group) for column in range(columns)
             for row in range(first, min(first + group, rows))]
    launched = [i for die in range(dies) for i in range(die, len(order), dies)]
    assert out[launched].tolist() == order


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
    assert common.get_dtype_vec_size("f16") == 8
    assert [common.get_warp_size(arch) for arch in ("gfx1030", "gfx1250", "gfx908", "gfx942")] == [32, 32, 64, 64]
    assert common.dtype_to_elem_type("fp8") is fx.Float8E4M3FN and common.dtype_to_elem_type("bf16") is fx.BFloat16
    common.validate_moe_dtypes("fp8", "int4")
    with pytest.raises(ValueError, match="a_dtype must be one of"):
        common.validate_moe_dtypes("int4", "fp8")
    from flydsl.kernels.softmax import build_softmax_module

    x = random(4, 40)
    for _ in range(2):
        out = torch.full_like(x, torch.nan)
        common._run_compiled(build_softmax_module(4, 40, "f32"), x, out, 4)
        assert (out.double() - torch.softmax(x.double(), -1)).abs().max() <= 1e-6


# --------------------------------------------------------------------------------------------------- views

ROWS, COLUMNS = 16, 24


@flyc.kernel
def views_kernel(source, out, address: fx.Int64):
    """``out = (source + what is at the address)^T``, through views of global memory and of LDS."""
    at = fx.thread_idx.x
    row, column = at // (COLUMNS // 4), at % (COLUMNS // 4) * 4
    x = common.GTensor(source, fx.Float32, (-1, COLUMNS))
    y = common.GTensor(address, fx.T.f32, (ROWS, COLUMNS), static_bytes_offset_i64=COLUMNS * 4, base_offset=-COLUMNS)
    lds = common.STensor(Lds().array(fx.Float32, ROWS * COLUMNS), fx.Float32, (ROWS, COLUMNS))
    lds.vec_store((row, column), x.vec_load((row, column), 4) + y.vec_load((row, column), 4), 4)
    fx.barrier()
    turned = common.GTensor(out, fx.Float32, (COLUMNS, ROWS), cache_modifier=1)
    tile = turned.local_tile((4, 2), (column // 4, row // 2))
    for i in fx.range_constexpr(4):
        tile[i, row % 2] = lds[row, column + i]


def test_views_by_coordinates():
    @flyc.jit
    def run(source, out, address: fx.Int64):
        views_kernel(source, out, address).launch(grid=(1,), block=(ROWS * COLUMNS // 4,))

    x, y, out = random(ROWS, COLUMNS), random(ROWS, COLUMNS, seed=1), torch.full((COLUMNS, ROWS), torch.nan)
    run(x, out, y.data_ptr())
    assert torch.equal(out, (x + y).T)


@flyc.kernel
def older_view_kernel(source, out, allocator: fx.Constexpr, offset: fx.Constexpr):
    at = fx.thread_idx.x
    lds = common.STensor(SmemPtr(allocator.get_base(), offset, fx.T.f16, (128,)), fx.T.f16, (2, 64), (1, 2))
    lds[at % 2, at // 2] = common.GTensor(source, fx.Float16, (128,))[at]
    fx.barrier()
    common.GTensor(out, fx.Float16, (-1,), base_offset=1)[at] = lds[1 - at % 2, at // 2]


@pytest.mark.filterwarnings("ignore:SmemAllocator:DeprecationWarning")
def test_view_of_lds_of_the_older_allocator():
    allocator = SmemAllocator(None, arch=target().name, global_sym_name="older_view")
    offset = allocator._align(allocator.ptr + 4, 16)
    allocator.ptr = offset + 256

    @flyc.jit
    def run(source, out):
        allocator.finalized = False
        with ir.InsertionPoint(CompilationContext.get_current().gpu_module_body):
            allocator.finalize()
        older_view_kernel(source, out, allocator, offset).launch(grid=(1,), block=(128,))

    x, out = random(128, dtype="f16"), torch.zeros(129, dtype=torch.float16)
    run(x, out)
    assert torch.equal(out[1:].view(64, 2), x.view(64, 2).flip(1)) and out[0] == 0


def test_views_refuse_other_ranks():
    view = common.GTensor.__new__(common.GTensor)
    super(common.GTensor, view).__init__(fx.Float32, (4, 8), None, 0)
    assert view.linear_offset((2, 3)) == 19 and view.local_tile((2, 4), (1, 1)).linear_offset((1, 2)) == 30
    with pytest.raises(ValueError, match="coordinate of 2 numbers is needed, got 1"):
        view.linear_offset(3)
    with pytest.raises(ValueError, match="a stride for each extent"):
        super(common.GTensor, view).__init__(fx.Float32, (4, -1), None, 0)


@pytest.mark.parametrize("preshuffled", [False, True])
def test_places_of_an_operand_in_memory(preshuffled):
    """What lane after lane copies to LDS in a row is what the readers of the 8-wave GEMM expect there."""
    k, rows, waves, rounds = 256, 64, 4, 2
    matrix = torch.arange(rows * k).view(rows, k)
    if preshuffled:
        memory = matrix.view(rows // 16, 16, k // 64, 4, 16).permute(0, 2, 3, 1, 4).reshape(-1)
    else:
        memory = matrix.reshape(-1)
    lds = torch.full((rows * 128,), -1)
    for wave in range(waves):
        for lane in range(64):
            offsets = common.compute_global_swizzle(lane, wave, k, rounds, preshuffled, waves)
            for r, offset in enumerate(offsets):
                place = (wave + r * waves) * 1024 + lane * 16
                lds[place : place + 16] = memory[offset : offset + 16]
    for row in range(rows):
        for column in range(0, 128, 16):
            place = (row // 8 * 1024 + row % 8 * 16 + column // 16 * 128 if preshuffled
                     else common.swizzle_128(row, column))
            assert torch.equal(lds[place : place + 16], matrix[row, column : column + 16])
