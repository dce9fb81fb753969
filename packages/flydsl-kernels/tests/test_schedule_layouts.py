"""Derived schedules, weight orders, LDS tiles: host-side parts of the GEMMs."""

import pytest
from kernel_helpers import torch

from flydsl.kernels.host.layouts import (
    check_layout,
    e8m0_shuffle,
    layout_of,
    preshuffle_b_fp8,
    shuffle_scale_w4,
    shuffle_weight,
    shuffle_weight_w4,
)
from flydsl.kernels.parts.schedule import Counts, Schedule, ScheduleError, even_schedule, hot_loop_schedule
from flydsl.kernels.parts.tile import RowTile, SpreadTile, TurnedTile
from flydsl.kernels.target import target
from flydsl.layout import bank_conflicts


@pytest.mark.parametrize("counts", [Counts(64, 16, 8, 24), Counts(8, 8, 2, 12), Counts(4, 9, 5, 17), Counts(1, 0, 0, 0),
                                    Counts(128, 32, 0, 40)])
@pytest.mark.parametrize("preload", [(0, 0), (4, 2), (99, 99)])
@pytest.mark.parametrize("together", [1, 16])
def test_a_derived_schedule_covers_its_loop(counts, preload, together):
    schedule = hot_loop_schedule(counts, preload, together=together)
    schedule.check(counts)
    assert all(n > 0 for _, n in schedule.groups)
    assert not any(a[0] == b[0] for a, b in zip(schedule.groups, schedule.groups[1:], strict=False))


@pytest.mark.parametrize("counts", [Counts(16, 2, 2, 8, 8), Counts(8, 10, 0, 3), Counts(56, 38, 0, 6),
                                    Counts(1, 3, 2, 5, 8), Counts(16, 6, 2, 2), Counts(3, 0, 8, 0, 32)])
@pytest.mark.parametrize("loads", [(0, 0.5), (0, 1), (0.45, 1.0)])
def test_an_even_schedule_covers_its_loop_and_turns_what_it_writes(counts, loads):
    schedule = even_schedule(counts, loads=loads)
    schedule.check(counts)
    turned = written = 0
    for kind, n in schedule.groups:
        turned += n if kind == "valu" else 0
        written += n if kind == "ds_write" else 0
        assert written * counts.valu <= turned * counts.ds_write


@pytest.mark.parametrize("counts", [Counts(8, 6, 8, 8), Counts(8, 10, 4, 8), Counts(16, 8, 16, 16)])
def test_a_short_tile_loads_everything_before_it_writes(counts):
    """A write behind the load that feeds it would wait for that load alone, one after the other."""
    kinds = [kind for kind, n in hot_loop_schedule(counts).groups for _ in range(n)]
    loaded = max(i for i, kind in enumerate(kinds) if kind == "vmem")
    written = min(i for i, kind in enumerate(kinds) if kind == "ds_write")
    assert loaded < written
    assert "mfma" in kinds[loaded:written]


def test_an_even_schedule_has_no_bunches_of_loads():
    groups = even_schedule(Counts(48, 12, 0, 10), loads=(0, 0.5)).groups
    assert all(n == 1 for kind, n in groups if kind == "vmem")
    with pytest.raises(ScheduleError):
        even_schedule(Counts(0, 0, 0, 1))


def test_loads_that_follow_each_other_come_in_the_first_half():
    groups = hot_loop_schedule(Counts(24, 24, 0, 18), together=8).groups
    assert [n for kind, n in groups if kind == "vmem"] == [8, 8, 2]
    last = max(i for i, (kind, _) in enumerate(groups) if kind == "vmem")
    assert sum(n for kind, n in groups[:last] if kind == "mfma") <= 12


def test_a_stale_schedule_is_refused():
    schedule = hot_loop_schedule(Counts(64, 16, 8, 24))
    with pytest.raises(ScheduleError, match="mfma: schedule 64, loop 32"):
        schedule.check(Counts(32, 16, 8, 24))
    with pytest.raises(ScheduleError):
        Schedule((("mfma", 3),)).check(Counts(3, 1, 0, 0))


@pytest.mark.parametrize(("dtype", "size"), [(torch.int8, 1), (torch.float16, 2)])
def test_shuffled_bytes_are_where_the_kernel_reads(dtype, size):
    n, k = 48, 256 // size
    w = torch.randint(-100, 100, (n, k)).to(dtype)
    shuffled = shuffle_weight(w)
    assert layout_of(shuffled) == "b_16x16" and shuffled.is_shuffled and layout_of(w) is None
    flat, row_bytes = shuffled.view(torch.uint8).flatten(), k * size
    original = w.view(torch.uint8)
    rows = torch.arange(n)[:, None]
    kb = torch.arange(row_bytes)[None, :]
    at = (rows // 16) * 16 * row_bytes + (kb // 64) * 1024 + ((kb // 16) % 4) * 256 + (rows % 16) * 16 + kb % 16
    assert torch.equal(flat[at], original)


def test_scale_order():
    rows, columns = 70, 12
    scale = torch.randint(0, 255, (rows, columns), dtype=torch.uint8)
    out = e8m0_shuffle(scale)
    assert out.shape == (256, 16)
    r, c = torch.arange(rows)[:, None], torch.arange(columns)[None, :]
    at = ((r >> 5) * 32 * 16 + (c >> 3) * 256 + (c & 3) * 64 + (r & 15) * 4 + ((c >> 2) & 1) * 2 + ((r >> 4) & 1))
    assert torch.equal(out.flatten()[at], scale)
    exact = torch.randint(0, 255, (256, 16), dtype=torch.uint8)
    assert torch.equal(shuffle_scale_w4(exact), e8m0_shuffle(exact))


def test_fp4_and_rdna_orders():
    w = torch.randint(0, 255, (32, 128), dtype=torch.uint8)
    out = shuffle_weight_w4(w).flatten()
    r, b = torch.arange(32)[:, None], torch.arange(128)[None, :]
    at = (r // 16) * 16 * 128 + (b // 64) * 1024 + ((b // 16) % 4) * 256 + (r % 16) * 16 + b % 16
    assert torch.equal(out[at], w)
    b = torch.randint(-100, 100, (64, 48), dtype=torch.int8)
    shuffled = preshuffle_b_fp8(b)
    assert shuffled.shape == (3, 4, 2, 16, 8) and shuffled[2, 1, 1, 5, 3] == b[16 + 8 + 3, 32 + 5]


def test_layout_errors():
    with pytest.raises(ValueError, match="multiple of 16"):
        shuffle_weight(torch.zeros(20, 64))
    with pytest.raises(ValueError, match="tagged None"):
        check_layout(torch.zeros(4), "b_16x16", "here")


@pytest.mark.parametrize("bank_bytes", [128, 256])
@pytest.mark.parametrize("row_bytes", [64, 128, 256, 512, 192])
def test_tile_reads_hit_every_bank_once(row_bytes, bank_bytes):
    """Lanes that LDS serves in one cycle (consecutive rows, one chunk) lie in different 16-byte columns."""
    tile = RowTile(64, row_bytes, 256, bank_bytes)
    together, seen = bank_bytes // 16, set()
    for chunk in range(tile.chunks):
        for first in range(0, 64, together):
            words = [tile.at(first + i, chunk) for i in range(together)]
            if row_bytes % bank_bytes == 0 or bank_bytes % row_bytes == 0:
                assert len({w * 4 % bank_bytes for w in words}) == together
    for row in range(64):
        for chunk in range(tile.chunks):
            seen.add(tile.at(row, chunk))
    assert len(seen) == 64 * tile.chunks and max(seen) < tile.words


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201", "gfx1250"])
@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("row_bytes", [32, 64, 128, 256])
def test_turned_tiles_have_no_bank_conflicts(row_bytes, width, arch):
    """Lanes write chunks of rows `width` apart, and read chunks of neighbouring rows."""
    wave = 64 if arch == "gfx942" else 32
    rows, groups = wave * width, wave // 16
    tile = TurnedTile(rows, row_bytes, 256)
    for r in range(width):
        for chunk in range(tile.chunks):
            report = bank_conflicts(lambda lane, r=r, c=chunk: tile.at(lane * width + r, c) * 2, arch=arch, op="write")
            assert report.conflict_free, (r, chunk, str(report))
    for first in range(0, rows, 16):
        for block in range(tile.chunks // groups):
            report = bank_conflicts(
                lambda lane, f=first, b=block: tile.at(f + lane % 16, b * groups + lane // 16) * 2, arch=arch
            )
            assert report.conflict_free, (first, block, str(report))
    places = {tile.at(row, chunk) for row in range(rows) for chunk in range(tile.chunks)}
    assert len(places) == rows * tile.chunks and max(places) < tile.words


def row_tiles(arch):
    """Tiles of rows with consecutive k, of the sizes that the tuned kernels have."""
    bank_bytes = target(arch).bank_bytes
    for row_bytes in (64, 128, 256):
        yield RowTile(64, row_bytes, 256, bank_bytes)
        for apart in (2, 4):
            if SpreadTile.fits(row_bytes, bank_bytes, apart):
                yield SpreadTile(64, row_bytes, 256, bank_bytes, apart)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201"])
def test_tiles_are_bijective_and_their_reads_have_no_bank_conflicts(arch):
    groups = target(arch).wave // 16
    for tile in row_tiles(arch):
        places = {tile.at(row, chunk) for row in range(tile.rows) for chunk in range(tile.chunks)}
        assert places == set(range(0, tile.words, 4)), tile
        sources = {tile.source(row, chunk) for row in range(tile.rows) for chunk in range(tile.chunks)}
        assert len(sources) == tile.rows * tile.chunks, tile
        for row, chunk in ((5, 1), (18, 3), (63, 0)):  # what lies at a place without exchange is its source
            assert tile.at(*tile.source(row, chunk)) == row * tile.row_words + chunk * 4, tile
        for fragment in (0, 3):
            for block in range(tile.chunks // groups):
                def address(lane, fragment=fragment, block=block, tile=tile):
                    row = lane % 16
                    row = tile.row_of(fragment, row) if isinstance(tile, SpreadTile) else fragment * 16 + row
                    return tile.at(row, block * groups + lane // 16) * 2

                report = bank_conflicts(address, arch=arch)
                assert report.conflict_free, (tile, fragment, block, str(report))
