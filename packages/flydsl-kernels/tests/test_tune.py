"""The search for tiles: every candidate is checked, the best is kept with its provenance, and then taken."""

import json
from concurrent.futures import Future

import pytest
from kernel_helpers import needs

from flydsl.kernels import __main__ as command
from flydsl.kernels import tune
from flydsl.kernels.gemm import tuned
from flydsl.kernels.host import tuned as tables
from flydsl.kernels.moe.config import FORMATS, PUBLIC
from flydsl.kernels.moe.experts import experts_config
from flydsl.kernels.moe.tuned import expert_tiles, tile_of
from flydsl.kernels.op import operations
from flydsl.kernels.target import current_arch, target
from flydsl.kernels.testing import Draw


class Here:
    """An executor that runs in this process."""

    def submit(self, function, *arguments):
        future = Future()
        future.set_result(function(*arguments))
        return future


def searched(problem, monkeypatch, times, wrong=()):
    """What a search finds if candidate i takes ``times[i]``; those in `wrong` are not right."""
    choices = [None, *tune.candidates(target(), problem)]
    trials = iter([tune.Trial(c, None if i in wrong else times.get(i, 9.0), "wrong" if i in wrong else "")
                   for i, c in enumerate(choices)])
    monkeypatch.setattr(tune, "try_choice", lambda arch, problem, choice: next(trials))
    return choices, tune.search(problem, current_arch(), Here(), lambda *_: None)


@pytest.mark.one_arch
@needs("gfx942", "gfx950", "gfx120", "gfx1250")
def test_the_fastest_right_candidate_is_found(monkeypatch):
    problem = tune.Problem("gemm", "bf16 nt", 32, 128, 512)
    choices, entry = searched(problem, monkeypatch, {0: 5.0, 1: 1.0, 2: 2.0}, wrong=(1,))
    assert entry.choice == choices[2] and (entry.ms, entry.usual_ms) == (2.0, 5.0)
    assert entry.provenance["arch"] == current_arch() and "timing model" in entry.provenance["time"]
    assert searched(problem, monkeypatch, {0: 0.5})[1] is None
    with pytest.raises(ValueError, match="does not run"):
        searched(problem, monkeypatch, {}, wrong=(0,))


@pytest.mark.one_arch
@needs("gfx942", "gfx950", "gfx120", "gfx1250")
def test_a_candidate_is_run_and_compared():
    problem = tune.Problem("gemm", "bf16 nt", 20, 64, 256)
    choices = tune.candidates(target(), problem)
    trial = tune.try_choice(current_arch(), problem, choices[-1])
    assert trial.ms > 0 and not trial.problem and trial.choice == choices[-1]
    other = tune.try_choice("gfx90a", problem, None)
    assert other.ms is None and "the device is" in other.problem
    spoiled = operations().gemm
    object.__setattr__(spoiled, "tolerance", -1.0)
    try:
        assert "wrong by" in tune.try_choice(current_arch(), problem, choices[-1]).problem
    finally:
        object.__setattr__(spoiled, "tolerance", 2.0**-8)


QUANTISED = {"gfx942": ("preshuffle_gemm i8", "blockscale_gemm fp8"),
             "gfx950": ("preshuffle_gemm i8", "blockscale_gemm fp8", "mx_gemm fp4 fp4"),
             "gfx1250": ("scaled_gemm fp8", "mx_gemm fp4 fp4")}


@needs(*QUANTISED)
def test_every_operation_has_candidates_that_are_accepted():
    for name in QUANTISED[target().arch]:
        problem = tune.Problem(*name.split(" ", 1), 16, 128, 512)
        choices = tune.candidates(target(), problem)
        assert len(choices) > 4
        trials = [tune.try_choice(current_arch(), problem, choice) for choice in (choices[0], choices[-1])]
        assert all(trial.ms for trial in trials), [trial.problem for trial in trials]
        assert trials[0].ms != trials[1].ms  # the choice is taken
    with pytest.raises(ValueError, match="no search of gemm 'f64'"):
        tune.candidates(target(), tune.Problem("gemm", "f64", 1, 1, 1))


@needs("gfx942", "gfx950", "gfx120", "gfx1250")
@pytest.mark.parametrize(("operation", "kind", "m", "n", "k", "choice"), [
    ("moe", "none", 3, 64, 256, {"block_m": 32, "up_k_waves": 1, "down_k_waves": 1}),
    ("attention_fwd", "bf16 causal", 20, 64, 41, {"keys": 32, "waves": 8, "blocks": 1})])
def test_several_kernels_and_results_are_searched(operation, kind, m, n, k, choice):
    problem = tune.Problem(operation, kind, m, n, k)
    found = next(c for c in tune.candidates(target(), problem) if choice.items() <= c.items())
    trial = tune.try_choice(current_arch(), problem, found)
    assert trial.ms and not trial.problem


@pytest.mark.each_wave_size
@needs("gfx942", "gfx950", "gfx120", "gfx1250")
@pytest.mark.parametrize("quant", [
    pytest.param(q, marks=needs("gfx950", "gfx1250")) if FORMATS[q].scales == "micro" else q for q in PUBLIC])
def test_quantised_experts_are_searched(quant):
    problem = tune.Problem("moe", quant, 3, 128, 256)
    trial = tune.try_choice(current_arch(), problem, tune.candidates(target(), problem)[0])
    assert trial.ms and not trial.problem, trial.problem
    moe = tune.tunable()["moe"]
    arguments = list(moe.tuning.sample(moe, Draw(target()), problem))
    (exact,), scales = moe.reference(*arguments), arguments[9]
    if scales is not None:  # a search notices scales of another expert
        arguments[9] = scales.roll(1, 0)
        (other,) = moe.reference(*arguments)
        assert (other - exact).abs().max() > moe.tuning.tolerances.get(quant, moe.tolerance) * exact.abs().max()


@needs("gfx942", "gfx950", "gfx120", "gfx1250")
def test_blocks_of_experts_fill_the_compute_units():
    """They have as many rows as an expert, unless compute units would then be idle."""

    def block(quant, rows, experts=8, inter=1024):
        return expert_tiles(target(), quant, rows * experts, experts, 2048, inter)[0]

    small = 32 if target().matrix == "mfma" else 64  # rows that have a way of their own to registers
    assert [block("none", rows) for rows in (1, 12, 13, 32)] == [16, 16, 32, 32]
    assert block("none", 16, 1) == 16  # which no expert can exceed
    assert block("none", 64, 256) == 64
    # Of 256 rows there is one for each unit, too.
    wide = target().tensor_moves
    assert block("none", 1024) == (256 if wide else 128) and block("none", 512) == block("int8", 1024) == 128
    assert block("a16i4", 129, 64) == block("none", 129, 64) == (256 if wide else 128)
    # A block of int4 gains less by it than the padding of few rows costs.
    assert block("int4", 385, inter=2048) == (256 if wide else 128) and block("int4", 384, inter=2048) == 128
    assert block("none", 40, 1, 64) == block("none", 128, 1, 64) == small
    assert block("int4", 128, 1, 64) == small and block("a16w4", 128, 1, 64) == 64


@needs("gfx942", "gfx950", "gfx120", "gfx1250")
def test_columns_of_experts_fill_the_compute_units():
    """Tiles are narrower where units would be idle, and where one is alone on a unit its waves share k."""

    def columns(quant, blocks, gated, n=2048):
        tile = tile_of(target(), quant, 64, gated, n, 4096, blocks)
        return tile["k_waves"], tile["tile_n"]

    units, whole = target().compute_units, tile_of(target(), "none", 64, False, 2048, 4096)["tile_n"]
    assert columns("none", units, False) == (1, whole)
    if target().matrix != "mfma":
        assert columns("none", 1, False) == (1, 128) and columns("fp8", 1, False) == columns("fp8", units, False)
        return
    assert columns("none", units // 12, False) == (1, 64) and columns("none", 1, True) == (1, 64)
    assert columns("none", units // 32, False) == (2, 64) and columns("none", 1, False) == (2, 32)
    assert columns("fp8_block", 1, False) == (1, 128) and columns("a16w4", 1, False) == (1, 64)


@needs("gfx942", "gfx950", "gfx1250")
@pytest.mark.parametrize("quant", ["a16w4", "a16i4"])
def test_4_bit_columns_are_as_many_bytes_as_the_rows_that_are_read_for_them(quant):
    """Of two tiles of 16-bit rows, while there are two workgroups for each compute unit."""

    def columns(blocks, gated, n=4096, block=32):
        tile = tile_of(target(), quant, block, gated, n, 4096, blocks)
        assert tile["k_waves"] == 4
        return tile["tile_n"]

    units, many = target().compute_units, 64 if target().mx else 32
    assert columns(units, False) == many and columns(units, True) == many // 2
    assert columns(-(-2 * units // 128), False) == 32  # two workgroups of so many for each unit
    assert columns(1, False) == columns(1, True) == columns(units, False, block=16) == 16


@pytest.mark.one_arch
@needs("gfx942", "gfx950", "gfx120", "gfx1250")
def test_mixtures_and_attention_take_what_was_found(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    operation, draw = operations(), Draw(target())
    choice = next(c for c in tune.candidates(target(), tune.Problem("moe", "none", 3, 64, 256)) if c["block_m"] == 64)
    tables.write(tmp_path / f"moe-{target().arch}.json", [tables.Entry("none", 4, 64, 256, 3, choice, 1.0, 2.0)])
    tables.write(tmp_path / f"attention_fwd-{target().arch}.json",
                 [tables.Entry("bf16 causal", 32, 64, 41, 17, {"keys": 16, "waves": 4, "blocks": 1}, 1.0, 2.0)])
    for tokens, taken in ((16, True), (4, False)):  # of 8 experts, each in two slots
        sort, up, down, _ = vars(experts_config("moe", target(), tokens, 2, 8, 256, 64, "bf16", "silu", None,
                                                (False, False), False)).values()
        assert (sort.block == up.tile_m == down.tile_m == 64) == taken
        assert not taken or (down.tile_n, up.k_waves) == (choice["down_tile_n"], choice["up_k_waves"])
    for rows, cap, taken in ((20, 0.0, True), (12, 0.0, False), (20, 3.0, False)):  # it was found without a cap
        arguments = list(operation.attention_fwd.sample(draw, rows, 64, more=41 - rows))
        arguments[16] = cap
        assert (operation.attention_fwd.prepare(*arguments)[0].config.keys == 16) == taken
    tables._table.cache_clear()


@pytest.mark.one_arch
def test_what_was_found_is_taken_for_its_sizes(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    file = tmp_path / f"gemm-{target().arch}.json"
    entry = tables.Entry("bf16 nt", 64, 4096, 512, 33, {"block_m": 32}, 1.0, 2.0, {"time": "a test"})
    tables.write(file, [entry])
    tables.write(file, [tables.Entry("bf16 nt", 16, 4096, 512, 9, {"block_m": 16}, 1.0, 2.0)])
    assert tables.read(file)[1] == entry
    for m, expected in ((64, {"block_m": 32}), (33, {"block_m": 32}), (16, {"block_m": 16}), (8, None), (65, None)):
        assert tables.known("gemm", target(), "bf16 nt", m, 4096, 512) == expected
    assert tables.known("gemm", target(), "bf16 nn", 64, 4096, 512) is None
    if target().arch in tuned.DENSE:
        assert tuned.dense_knobs(target(), 40, 4096, 512) == {"block_m": 32}
        with tables.forced(None):
            assert tuned.dense_knobs(target(), 40, 4096, 512) != {"block_m": 32}
        with tables.forced({"block_m": 7}):
            assert tuned.dense_knobs(target(), 40, 4096, 512) == {"block_m": 7}
    file.write_text(json.dumps({"format": 99, "entries": []}))
    tables._table.cache_clear()
    with pytest.raises(ValueError, match="format 1 is needed"):
        tables.known("gemm", target(), "bf16 nt", 64, 4096, 512)
    tables._table.cache_clear()


@pytest.mark.one_arch
def test_command_line_errors(capsys):
    for arguments, text in ((["tune", "gemm", "--size", "3x4"], "a size is MxNxK"),
                            (["tune", "norm"], "invalid choice")):
        with pytest.raises(SystemExit):
            command.main(arguments)
        assert text in capsys.readouterr().err


@pytest.mark.parametrize("file", sorted(tables.FOLDER.glob("*.json")), ids=lambda f: f.name)
def test_shipped_tables_are_read(file):
    operation, arch = file.stem.rsplit("-", 1)
    assert operation in tune.tunable() and target(arch).arch == arch
    for entry in tables.read(file):
        assert entry.ms < entry.usual_ms and entry.least <= entry.m and entry.provenance["time"]
        problem = tune.Problem(operation, entry.kind, entry.m, entry.n, entry.k)
        assert entry.choice in tune.candidates(target(arch), problem)
