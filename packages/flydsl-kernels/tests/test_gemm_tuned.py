"""The tiles that functional forms choose: none spills, each gives right results, and sizes get the tile they should."""

import pytest
from kernel_helpers import DENSE_GEMM, DTYPES, Guarded, close_relative, fp8_dtype, needs, random, torch

import flydsl.compiler as flyc
import flydsl.ir
from flydsl.kernels import gemm, ops
from flydsl.kernels.gemm import tuned
from flydsl.kernels.target import current_arch, target

HERE = target().arch
BF16 = 2.0**-8
CDNA = needs("gfx942", "gfx950")


def compiled_without_spills(launcher, *arguments):
    resources = flydsl.ir.kernel_resources(flyc.compile(launcher, *arguments).artifact.hsaco)
    assert resources and not any(r.vgpr_spills for r in resources.values())


def preshuffle_entries(table):
    return [(bytes_, tile) for bytes_, tiles in sorted(table.get(HERE, {}).items()) for tile in dict.fromkeys(tiles)]


def label(value):
    if isinstance(value, tuned.Tile | tuned.DenseTile):
        return f"{value.m}x{value.n}x{value.k}"
    return str(value)


@CDNA
@pytest.mark.parametrize(("size", "tile"), preshuffle_entries(tuned.PRESHUFFLE), ids=label)
def test_preshuffle_entries(size, tile):
    m, n, k = tile.m + 5, 2 * tile.n, 4 * tile.k
    kind = {0.5: torch.int8, 1: fp8_dtype(), 2: torch.bfloat16}[size]
    if size == 0.5:
        a, b = (torch.randint(-limit, limit, s).to(kind) for limit, s in ((128, (m, k)), (8, (n, k))))
    else:
        a, b = random(m, k).to(kind), random(n, k, seed=1).to(kind)
    scale_a, scale_b = random(m, seed=2).abs() + 0.1, random(n, seed=3).abs() + 0.1
    out = Guarded(m, n, dtype=torch.bfloat16)
    launcher = gemm.compile_preshuffle_gemm(N=n, K=k, tile_m=tile.m, tile_n=tile.n, tile_k=tile.k,
                                            in_dtype={0.5: "int4", 1: "fp8", 2: "bf16"}[size],
                                            xcd_swizzle=tile.group)
    raw = torch.int8 if size <= 1 else torch.bfloat16
    shuffled = gemm.shuffle_weight(b.view(raw))
    if size == 0.5:
        shuffled = ops.pack_int4(shuffled)
    arguments = (out.out.view(-1), a.view(raw).view(-1), shuffled.view(-1), scale_a, scale_b, out.out.view(-1), m, n)
    compiled_without_spills(launcher, *arguments)
    launcher(*arguments)
    exact = a.double() @ b.double().T
    close_relative(out.check(), exact * scale_a[:, None] * scale_b if size <= 1 else exact, BF16 * 1.01)


@CDNA
@pytest.mark.parametrize("tile", tuned.BLOCK_SCALE.get(HERE, ()), ids=label)
def test_block_scale_entries(tile):
    m, n, k = tile.m + 5, max(2 * tile.n, 128), 4 * tile.k
    kind = fp8_dtype()
    a, b = random(m, k).to(kind), random(n, k, seed=1).to(kind)
    scale_a, scale_b = random(k // 128, m, seed=2).abs() + 0.1, random(n // 128, k // 128, seed=3).abs() + 0.1
    out = Guarded(m, n, dtype=torch.bfloat16)
    launcher = gemm.compile_blockscale_preshuffle_gemm(N=n, K=k, tile_m=tile.m, tile_n=tile.n, tile_k=tile.k)
    shuffled = gemm.shuffle_weight(b.view(torch.int8))
    arguments = (out.out.view(-1), a.view(torch.int8).view(-1), shuffled.view(-1), scale_a.view(-1),
                 scale_b.view(-1), m, n)
    compiled_without_spills(launcher, *arguments)
    launcher(*arguments)
    left = a.double() * scale_a.double().T.repeat_interleave(128, 1)
    right = b.double() * scale_b.double().repeat_interleave(128, 0).repeat_interleave(128, 1)
    close_relative(out.check(), left @ right.T, BF16 * 1.01)


@needs("gfx950")
@pytest.mark.parametrize("block", tuned.ROW_SCALE, ids=label)
def test_row_scale_entries(block):
    m, n, k = block[0] + 5, block[1] + 3, 512
    a, b = random(m, k).to(fp8_dtype()), random(n, k, seed=1).to(fp8_dtype())
    scale_a, scale_b = random(m, seed=2).abs() + 0.1, random(n, seed=3).abs() + 0.1
    out = Guarded(m, n, dtype=torch.bfloat16)
    launcher = gemm.compile_fp8_gemm_4w(K=k, BLOCK_M=block[0], BLOCK_N=block[1])
    arguments = (a.view(torch.int8), b.view(torch.int8), out.out, scale_a, scale_b, m, n)
    compiled_without_spills(launcher, *arguments)
    launcher(*arguments)
    close_relative(out.check(), a.double() @ b.double().T * scale_a[:, None] * scale_b, BF16 * 1.01)


@needs("gfx950")
def test_the_block_leaves_fewest_compute_units_idle():
    assert target().compute_units == 256
    for (m, n), block in {(8192, 8192): (256, 256), (5120, 5120): (256, 224), (9728, 8192): (256, 256),
                          (4096, 4096): (256, 256), (200, 33): (256, 224)}.items():
        assert tuned.row_scale_block(target(), m, n) == block


def dense_entries():
    entries = [(tile, 1) for table in (tuned.DENSE, tuned.FEW, tuned.DEEP) for tile in table.get(HERE, ())]
    return entries + ([v for v in tuned.DENSE_KNOWN.get(HERE, {}).values()])


@needs(*DENSE_GEMM)
@pytest.mark.parametrize(("tile", "split"), dense_entries(), ids=label)
def test_dense_entries(tile, split):
    m, n, k = tile.m + 5, 2 * tile.n, split * tile.k * 8
    a, b = random(m, k, dtype="bf16"), random(n, k, dtype="bf16", seed=1)
    knobs = tile.knobs(split)
    for layout in tile.layouts if split == 1 else ():
        run = gemm.build_gemm_module(n, k, "bf16", None, layout, **knobs)
        if run.config.copies_directly:  # as in gemm_a16w16
            run = gemm.build_gemm_module(n, k, "bf16", None, layout, False, True, **knobs)
        out = torch.empty(m, n, dtype=torch.bfloat16)
        compiled_without_spills(run, out, a, b, out, out, m)
    if "nt" in tile.layouts:
        out = gemm.gemm_a16w16(a, b, user_kwargs=knobs)
    else:
        m = tile.m + 8  # a row of A transposed is whole chunks
        a = random(m, k, dtype="bf16")
        stored = a.T.contiguous() if tile.layouts[0][0] == "t" else a, b.T.contiguous()
        out = gemm.gemm_a16w16(*stored, user_kwargs=knobs, layout=tile.layouts[0])
    close_relative(out, a.double() @ b.double().T, BF16 * 1.01)


@needs(*DENSE_GEMM)
def test_every_problem_gets_knobs_that_are_accepted():
    for m in (1, 16, 33, 65, 129, 2048, 8192):
        for n in (8, 40, 72, 128, 384, 2048, 8192):
            for k in (64, 512, 7168):
                for layout in ("nt", "nn", "tn", "tt"):
                    gemm.build_gemm_module(n, k, "bf16", None, layout, **tuned.dense_knobs(target(), m, n, k, layout))


FEW_ARCHS = ("gfx942", "gfx950", "gfx120", "gfx1250")


@needs(*FEW_ARCHS)
@pytest.mark.parametrize(("m", "n", "k", "out"), [
    (1, 1024, 256, "bf16"), (17, 1050, 768, "f32"), (33, 1043, 512, "bf16"), (16, 1025, 1280, "bf16"),
    (65, 1031, 128, "f32"), (127, 1025, 384, "bf16"), (33, 8232, 256, "f32")])
def test_few_rows_are_right_for_any_number(m, n, k, out):
    """Of columns too, and where the reduction is shorter than the ring of stages."""
    a, b, bias = random(m, k, dtype="bf16"), random(n, k, dtype="bf16", seed=1), random(n, seed=2)
    found = Guarded(m, n, dtype=DTYPES[out])
    gemm.gemm_a16w16(a, b, found.out, bias)
    close_relative(found.check(), a.double() @ b.double().T + bias.double(), (BF16 if out == "bf16" else 1e-5) * 1.01)


@needs(*FEW_ARCHS)
def test_few_rows_stream_the_weight():
    def few(m, n, k, layout="nt"):
        return tuned.dense_knobs(target(), m, n, k, layout)["block_n"] == 32

    most = 128 if HERE == "gfx950" else 64
    assert all(few(m, 1024, 2048) for m in range(1, most + 1)) and not few(most + 1, 1024, 2048)
    assert few(16, 1024, 128) == few(100, 1024, 128) == (HERE == "gfx950")  # the last tile has 128 k there
    assert not few(16, 1023, 2048) and not few(16, 1024, 2000)
    assert not any(few(16, 1024, 2048, layout) for layout in ("nn", "tn", "tt"))
    assert tuned.dense_knobs(target(), 16, 384, 8192)["split_k"] > 1  # too narrow
    assert few(16, 9728, 2048) and few(16, 9729, 2048) == (HERE != "gfx942")
    # Two blocks of rows and three rounds of workgroups read more than a wide tile does in one.
    assert few(64, 8192, 2048) and few(33, 8224, 2048) == (HERE != "gfx1250")


@needs("gfx950")
def test_small_grids_get_deep_tiles():
    def chosen(m, n, k, layout="nn"):
        knobs = tuned.dense_knobs(target(), m, n, k, layout)
        return knobs["block_m"], knobs["block_n"], knobs["block_k"], knobs["split_k"]

    assert chosen(1024, 2048, 2048) == (128, 64, 128, 1) and chosen(512, 2048, 2048) == (64, 64, 128, 1)
    assert chosen(256, 1024, 2048) == (64, 64, 128, 4) and chosen(32, 4096, 4096) == (32, 64, 128, 4)
    assert chosen(32, 16384, 2048) == (32, 64, 128, 1)  # few rows, however many columns
    assert chosen(4096, 8192, 2048)[:2] == (256, 256) and chosen(1024, 4096, 1024) == (128, 128, 64, 1)
    # A tile that is not whole goes through registers, and so does an operand A that is stored (K, M).
    assert chosen(512, 2048, 2048 + 64)[2] == chosen(512, 2048, 2048, "tn")[2] == 64


@CDNA
def test_sizes_get_the_tiles_they_should():
    def chosen(m, n, k, size=1):
        tile = tuned.choose(tuned.PRESHUFFLE[HERE][size], "preshuffle_gemm", target(), "", m, n, k)
        return tile.m, tile.n, tile.k

    large = {"gfx942": {1: (64, 256, 128), 2: (128, 128, 64)}, "gfx950": {1: (128, 256, 128), 2: (128, 256, 64)}}[HERE]
    large[0.5] = 128, 256, 128
    for size, tile in large.items():
        assert chosen(8192, 8192, 8192, size) == tile
    assert chosen(512, 2112, 7168) == (64, 64, 256)
    assert chosen(16, 40960, 5120) == (16, 128, 256) and chosen(1, 5120, 8192) == (16, 64, 256)
    assert chosen(64, 64, 64) == (64, 64, 64) and chosen(3, 64, 32, 2) == (64, 64, 32)
    # Few rows have as much k as is whole.
    assert [chosen(32, 64, k, 2) for k in (64, 128)] == [(32, 64, 64), (32, 64, 128)]
    assert [chosen(16, 64, k, 0.5) for k in (256, 512)] == [(16, 64, 256), (16, 64, 512)]
    for n, k in ((60, 256), (64, 96)):
        with pytest.raises(ValueError, match="N x K must be a multiple"):
            chosen(64, n, k)


@CDNA
def test_a_launch_is_full_with_several_workgroups_on_a_compute_unit_or_columns_for_each():
    tile, units = tuned.Tile(64, 64, 128), target().compute_units
    assert not tile.full(target(), 1, 64 * (units - 1)) and tile.full(target(), 1, 64 * units)
    assert not tile.full(target(), 64 * 4, 64 * (units // 4)) and tile.full(target(), 64 * 4, 64 * (units // 4 + 1))


@pytest.mark.skipif(current_arch().startswith(("gfx942", "gfx950")), reason="the other architectures")
def test_preshuffle_says_where_it_runs():
    a, b = random(4, 64, dtype="bf16"), gemm.shuffle_weight(random(64, 64, dtype="bf16"))
    with pytest.raises(ValueError, match="it needs gfx942 or gfx950"):
        ops.preshuffle_gemm(a, b)


@needs(*DENSE_GEMM)
@pytest.mark.parametrize("given", [{"k_waves": 2}, {"m_waves": 1}, {"n_waves": 1}, {}])
def test_missing_waves_are_chosen(given):
    a, b = random(8, 1024, dtype="bf16"), random(48, 1024, dtype="bf16", seed=1)
    out = gemm.gemm_a16w16(a, b, user_kwargs={"block_m": 16, "block_n": 16, "block_k": 256, "stages": 4, **given})
    close_relative(out, a.double() @ b.double().T, BF16 * 1.01)


@needs("gfx950")
def test_a_tile_of_the_caller_has_two_buffers():
    """LDS has no room for three of twice the k, as many as the tuned tile has."""
    a, b = random(256, 72, dtype="bf16"), random(128, 256, dtype="bf16", seed=1)
    out = gemm.gemm_a16w16(a, b, user_kwargs={"block_k": 128}, layout="tt")
    close_relative(out, a.double().T @ b.double().T, BF16 * 1.01)
