"""Profiles, traces, reports and disassembly of a kernel on the simulator, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from test_simulator import CLANG, RUN, SIMULATOR, compile_kernel, run

from flydsl.runtime import Profile, disasm, schedules
from flydsl.runtime.profiling.model import STALLS, LaunchProfile
from flydsl.runtime.profiling.report import render

pytestmark = [
    pytest.mark.l2_device,
    pytest.mark.skipif(SIMULATOR is None, reason="this build has no simulator library"),
    pytest.mark.skipif(not Path(CLANG).exists(), reason="no clang with the AMDGPU target"),
]

PROFILE = RUN.split("try:", 1)[0] + """
from flydsl.runtime import profile
with profile(timing=True) as result:
    launcher(y, x, 2.0)
print(result.table())
result.save(sys.argv[2])
with profile() as outer:
    try:
        with profile():
            pass
    except RuntimeError as error:
        print("nested:", error)
assert len(outer) == 0
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Path]:
    """Saved profile of one launch over 1000 elements, the printed table, and the code object."""
    folder = tmp_path_factory.mktemp("profile")
    image = folder / "axpy.hsaco"
    image.write_bytes(compile_kernel(folder))
    done = run("-c", PROFILE, str(image), str(folder / "p.json"), FLYDSL_RUNTIME_KIND="sim", FLYDSL_SIM_ARCH="gfx942")
    assert done.returncode == 0, done.stderr
    return folder / "p.json", done.stdout, image


def test_counts_follow_from_the_launch(saved: tuple[Path, str, Path]) -> None:
    """1000 elements in four work-groups of four waves: bytes and lanes are arithmetic."""
    path, table, image = saved
    (launch,) = Profile.load(path).launches
    assert launch.kernel == "axpy" and launch.waves == 16
    assert launch.code == schedules.code_digest(image.read_bytes())
    traffic = launch.traffic()
    assert traffic["loaded"] == 2 * 4000 and traffic["stored"] == 4000
    stores = [i for i in launch.instructions if i.kind == "store"]
    assert sum(i.lanes for i in stores) == 1000
    # 15 full waves and one of 40 lanes reach the store.
    assert sum(i.issued for i in stores) == 16
    assert "estimate" in table and "axpy" in table and "nested: a profile is already" in table


def test_timing_is_consistent(saved: tuple[Path, str, Path]) -> None:
    (launch,) = Profile.load(saved[0]).launches
    timing = launch.timing
    assert timing is not None and timing.estimate
    assert timing.cycles >= timing.memory_cycles > 0
    assert timing.microseconds == pytest.approx(timing.cycles / launch.raw["machine"]["clock_mhz"], rel=1e-4)
    assert all(0 <= share <= 1 for share in timing.utilisation().values())
    assert set(timing.stall) <= {*STALLS, "none"}
    per_instruction = sum(sum(i.stall.values()) for i in launch.instructions)
    assert per_instruction == sum(timing.stall.values())


class _Tags(HTMLParser):
    """Checks that every opened element is closed and collects the text."""

    VOID = {"meta", "br", "input", "rect", "line", "circle", "polyline"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_report_is_one_well_formed_page(saved: tuple[Path, str, Path], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = run("-m", "flydsl.runtime", "report", str(saved[0]), "-o", str(page), "--compare", str(saved[0]))
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    tags = _Tags()
    tags.feed(text)
    assert tags.open == []
    words = " ".join(tags.words)
    for part in ("axpy", "estimates of a model", "Instruction mix", "Hot spots", "Comparison", "1.00x", "Roofline",
                 "Occupancy calculator", "Stalls"):
        assert part in words
    assert "http" not in text.replace("http-equiv", "")  # self-contained: nothing is fetched


def test_report_escapes_names() -> None:
    raw = {"kernel": "<script>", "arch": "gfx942", "grid": [1, 1, 1], "block": [64, 1, 1], "waves_per_group": 1,
           "wave_size": 64, "vgprs": 1, "agprs": 0, "sgprs": 1, "lds_bytes": 0, "scratch_bytes": 0, "instructions": [],
           "occupancy": {"waves_per_simd": 8, "groups_per_cu": 16, "limit": "x"}}
    assert "<code><script>" not in render([LaunchProfile.from_json(raw)])


def test_trace_for_perfetto(saved: tuple[Path, str, Path], tmp_path: Path) -> None:
    trace, stats = tmp_path / "trace.json", tmp_path / "stats.json"
    code = RUN.split("try:", 1)[0]
    done = run("-c", code, str(saved[2]), FLYDSL_RUNTIME_KIND="sim", FLYDSL_SIM_ARCH="gfx942",
               FLYDSL_SIM_TRACE=str(trace), FLYDSL_SIM_STATS=str(stats))
    assert done.returncode == 0, done.stderr
    data = json.loads(trace.read_text())
    names = {e["name"] for e in data["traceEvents"]}
    assert any(name.startswith("global_load") for name in names) and any(name.startswith("stall: ") for name in names)
    assert all(e.get("dur", 0) >= 0 and "pid" in e for e in data["traceEvents"])
    assert "not a hardware measurement" in data["otherData"]["note"]
    assert len(Profile.load(stats)) == 1


@pytest.mark.parametrize("content", ["", "{}x", '[{"kernel": 1}]', "[1]"])
def test_a_foreign_file_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(content)
    with pytest.raises(ValueError, match="is not a saved profile"):
        Profile.load(file)
    done = run("-m", "flydsl.runtime", "report", str(file))
    assert done.returncode == 1 and "is not a saved profile" in done.stderr


def test_disassembly_names_functions_and_instructions(saved: tuple[Path, str, Path]) -> None:
    listing = disasm(saved[2].read_bytes())
    assert {i.function for i in listing} >= {"axpy"}
    texts = [i.text for i in listing]
    assert any(t.startswith("global_store_dword") for t in texts) and "s_endpgm" in texts
    assert listing == disasm(saved[2]) and "axpy:" in str(listing)
    done = run("-m", "flydsl.runtime", "disasm", str(saved[2]))
    assert done.returncode == 0 and "s_endpgm" in done.stdout


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"no code object at all" * 10])
def test_disassembly_of_something_else(data: bytes) -> None:
    with pytest.raises(ValueError, match="cannot disassemble"):
        disasm(data)


@pytest.mark.parametrize("variables,message", [
    ({"FLYDSL_SIM_STATS": "yes"}, "FLYDSL_SIM_STATS='yes': 0, 1, counters, timing, json"),
    ({"FLYDSL_SIM_STATS": "/no/such/folder/x.json"}, "the folder /no/such/folder does not exist"),
    ({"FLYDSL_SIM_TRACE": "/no/such/folder/x.json"}, "FLYDSL_SIM_TRACE=/no/such/folder/x.json"),
    ({"FLYDSL_SIM_TRACE": "/"}, "is a folder"),
    ({"FLYDSL_SIM_STATS": "1", "FLYDSL_SIM_TRACE_CU": "-1"}, "FLYDSL_SIM_TRACE_CU=-1: a number from 0"),
    ({"FLYDSL_SIM_STATS": "1", "FLYDSL_SIM_TRACE_WORKGROUP": "a,b"}, "x,y,z of a work-group"),
    ({"FLYDSL_SIM_STATS": "1", "FLYDSL_SIM_TRACE_EVENTS": "0"}, "at least one event"),
])
def test_wrong_variables_stop_at_the_start(variables: dict[str, str], message: str) -> None:
    """Before anything runs, not when the program ends and its profile is lost; also at the second attempt."""
    code = """
import flydsl.runtime as rt
for _ in range(2):
    try:
        rt.device_count()
    except ValueError as error:
        print(error)
"""
    done = run("-c", code, **variables)
    assert done.returncode == 0 and done.stdout.count(message) == 2, done.stdout + done.stderr


@pytest.mark.parametrize("stats", ["1", "counters", "timing", "json"])
def test_every_value_of_the_variable(saved: tuple[Path, str, Path], stats: str) -> None:
    done = run("-c", RUN.split("try:", 1)[0], str(saved[2]), FLYDSL_SIM_ARCH="gfx942", FLYDSL_SIM_STATS=stats)
    assert done.returncode == 0, done.stderr
    if stats == "json":
        (launch,) = json.loads(done.stderr)
        assert launch["kernel"] == "axpy" and launch["timing"]["estimate"] is True
        assert launch["traffic"]["stored"] == 4000 and launch["roofline"]["bound"] == "memory"
    else:
        assert "axpy" in done.stderr and ("estimate" in done.stderr) == (stats == "timing")


def test_derived_figures(saved: tuple[Path, str, Path]) -> None:
    """Counts by source and unit add up to those of the launch; every level of memory is there."""
    (launch,) = Profile.load(saved[0]).launches
    figures = launch.as_dict()
    by_source = figures["by_source"].values()
    assert sum(e["issued"] for e in by_source) == sum(launch.mix().values())
    units: dict[str, int] = {}
    for entry in by_source:
        for unit, n in entry["units"].items():
            units[unit] = units.get(unit, 0) + n
    assert units == launch.mix()
    assert set(figures["traffic"]) == {"lds", "loaded", "stored", "scratch", "scalar", "l1", "l2", "memory_read",
                                       "memory_written"}
    assert figures["traffic"]["scalar"] > 0 and figures["traffic"]["l1"] >= 8000
    # One wave of sixteen has 40 of its 64 lanes on after the bounds check.
    assert 0 < figures["divergence"] < 1 and figures["synchronisation"]["waits_per_wave"] > 0
    assert figures["occupancy"]["limit"] and set(figures["registers"]) == {"vgprs", "agprs", "sgprs"}


def test_stats_and_profile_commands(saved: tuple[Path, str, Path], tmp_path: Path) -> None:
    done = run("-m", "flydsl.runtime", "stats", str(saved[0]), "--json")
    assert done.returncode == 0 and json.loads(done.stdout)[0]["kernel"] == "axpy", done.stderr
    assert "axpy" in run("-m", "flydsl.runtime", "stats", str(saved[0])).stdout
    program, out, trace = tmp_path / "program.py", tmp_path / "out.json", tmp_path / "trace.json"
    program.write_text(RUN.split("try:", 1)[0] + "sys.exit(3)\n")
    done = run("-m", "flydsl.runtime", "profile", "--json", "-o", str(out), "--trace", str(trace), str(program),
               str(saved[2]), FLYDSL_SIM_ARCH="gfx942")
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)[0]["timing"]["estimate"] is True
    assert len(Profile.load(out)) == 1 and json.loads(trace.read_text())["traceEvents"]


def test_profile_of_a_folder(tmp_path: Path) -> None:
    """Its ``__main__.py`` is run, and finds its neighbours."""
    (tmp_path / "__main__.py").write_text("import sys\nimport neighbour\nprint(neighbour.NAME, *sys.argv[1:])\n")
    (tmp_path / "neighbour.py").write_text("NAME = 'beside'\n")
    done = run("-m", "flydsl.runtime", "profile", str(tmp_path), "a")
    assert done.returncode == 0 and done.stdout.splitlines()[0] == "beside a"


def test_errors_of_a_profiled_program(tmp_path: Path) -> None:
    """They are the program's, with its frames and no others; what ran before is profiled."""
    program = tmp_path / "program.py"
    program.write_text("def fail():\n    raise ValueError('of the program')\n\nfail()\n")
    done = run("-m", "flydsl.runtime", "profile", str(program))
    assert done.returncode == 1
    lines = [line.strip() for line in done.stderr.splitlines() if line.lstrip().startswith("File ")]
    assert lines == [f'File "{program}", line 4, in <module>', f'File "{program}", line 2, in fail']
    assert done.stderr.rstrip().endswith("ValueError: of the program")
    done = run("-m", "flydsl.runtime", "profile", str(tmp_path / "none.py"))
    assert done.returncode == 1 and done.stderr == f"error: profile: there is no file {tmp_path / 'none.py'}\n"


def test_constants_of_the_model_are_listed() -> None:
    done = run("-m", "flydsl.runtime", "model", "--arch", "gfx942", "--json")
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["gfx942"]}
    assert rows["memoryBytesPerSec"]["value"] == 5.3e12 and all(row["source"] for row in rows.values())
    assert "clockMhz" in run("-m", "flydsl.runtime", "model").stdout
    for command in ("model", "coverage"):
        assert "gfx000 is not simulated" in run("-m", "flydsl.runtime", command, "--arch", "gfx000").stderr


def test_a_reader_that_leaves() -> None:
    """`... | head` ends without a word."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "flydsl.runtime", "model", "--arch", "gfx942"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_that_is_no_profile(tmp_path: Path) -> None:
    file = tmp_path / "empty.json"
    file.write_text("{}")
    for command in ("stats", "report"):
        done = run("-m", "flydsl.runtime", command, str(file))
        assert done.returncode == 1
        assert done.stderr == f"error: {file} is not a saved profile: it is no list of launches\n"


def test_the_calculator_follows_the_profile() -> None:
    """The page computes with the rules that the profile brings, not with a table of its own."""
    from flydsl.runtime.profiling.report import CALCULATOR

    assert "gfx" not in CALCULATOR and all(name in CALCULATOR for name in ("m.max_waves", "m.vgpr_file", "m.lds_pool"))


def test_pictures_of_conflicts_and_schedules() -> None:
    """The report draws who asks which bank, and tells a stale schedule."""
    access = {"address": 16, "text": "ds_read_b32 v1, v0", "source": "k.py:3", "unit": "lds", "issued": 1, "lanes": 64,
              "space": "lds", "kind": "load", "bytes": 256, "lds_cycles": 64, "lds_ideal": 2, "lds_degree": 32,
              "lds_pattern": {"banks": 32, "bytes": 4, "address": [128 * lane for lane in range(64)],
                              "active": [1] * 64, "phases": [list(range(32)), list(range(32, 64))]}}
    raw = {"kernel": "k", "arch": "gfx942", "grid": [1, 1, 1], "block": [64, 1, 1], "waves_per_group": 1,
           "wave_size": 64, "vgprs": 1, "agprs": 0, "sgprs": 1, "lds_bytes": 0, "scratch_bytes": 0,
           "instructions": [access],
           "occupancy": {"waves_per_simd": 8, "groups_per_cu": 16, "limit": "x"},
           "schedules": [{"source": "k.py:9", "address": 64, "unrolled": 1, "asked": {"matrix": 4}, "stale": True,
                          "found": {"matrix": 8}, "order": [["matrix", 4]], "actual": [["matrix", 8]],
                          "kept": 1.0}]}
    page = render([LaunchProfile.from_json(raw)])
    tags = _Tags()
    tags.feed(page)
    assert tags.open == []
    words = " ".join(tags.words)
    for part in ("Who asks which bank", "phase 1: 32 clk", "stale: the counts do not match", "Instruction schedule"):
        assert part in words, part
    assert "bank 0: dword 0: lanes 0" in words


def _launch(**changes: Any) -> LaunchProfile:
    """A launch of one matrix instruction of 8 clocks and a load that stalls."""
    instruction = {"address": 0, "text": "v_mfma", "source": "/a/k.py:12", "unit": "matrix", "issued": 10, "lanes": 64}
    raw: dict[str, Any] = {
        "kernel": "k", "arch": "gfx942", "grid": [16, 1, 1], "block": [256, 1, 1], "waves_per_group": 4,
        "wave_size": 64,
        "vgprs": 8, "agprs": 0, "sgprs": 8, "lds_bytes": 0, "scratch_bytes": 0,
        "occupancy": {"waves_per_simd": 8, "groups_per_cu": 8, "limit": "waves"},
        "machine": {"compute_units": 304, "clock_mhz": 2100, "peak_flops_per_clk": 2048, "simds_per_cu": 4,
                    "memory_bytes_per_second": 5.3e12},
        "instructions": [
            {**instruction, "flops": 32768, "busy": 32},
            {**instruction, "text": "s_waitcnt vmcnt(0)", "source": "/a/k.py:59", "unit": "wait",
             "stall": {"memory": 900}},
            {**instruction, "text": "global_load_dword", "unit": "vmem_load", "space": "global", "kind": "load",
             "bytes": 2560, "lines": 20, "read_bytes": 2560},
        ],
        "timing": {"cycles": 100.0, "microseconds": 0.05, "memory_cycles": 10.0, "sample_cycles": 100,
                   "sample_groups": 1,
                   "groups_per_cu": 1, "wave_cycles": 1000, "simds": 4, "valu_busy": 0, "matrix_busy": 400,
                   "lds_busy": 0,
                   "l1_busy": 0, "matrix_flops": 327680, "stall": {"memory": 900}},
        **changes,
    }
    return LaunchProfile.from_json(raw)


def test_advice_names_the_costliest_first() -> None:
    from flydsl.runtime.profiling.advice import advise

    texts = [a.text for a in advise(_launch())]
    assert texts[0] == "16 work-groups on 304 compute units"
    assert texts[1].startswith("matrix work waits behind line 59 for memory (90 %")
    bare = _launch(instructions=[{**i, "source": ""} for i in _launch().raw["instructions"]])
    assert "FLYDSL_DEBUG_ENABLE_DEBUG_INFO=1" in advise(bare)[0].remedy


def test_advice_tells_loops_that_do_not_fit_the_instruction_cache() -> None:
    from flydsl.runtime.profiling.advice import advise

    def texts(words: int, issued: int = 10) -> list[str]:
        raw = _launch().raw
        branch = {"address": 70000, "text": f"s_cbranch_scc1 {words}", "source": "/a/k.py:12", "unit": "branch",
                  "issued": issued, "lanes": 64}
        machine = {**raw["machine"], "instruction_cache_bytes": 65536}
        return [a.text for a in advise(_launch(instructions=[*raw["instructions"], branch], machine=machine))]

    told = "a loop of 68 KiB of code does not fit the instruction cache (64 KiB for two compute units)"
    assert told in texts(0x10000 - 68 * 256)
    for fits in (0x10000 - 16384, 0x10000 - 100, 17408):  # 64 KiB, a short loop, a branch forwards
        assert not any("instruction cache" in t for t in texts(fits))
    assert not any("instruction cache" in t for t in texts(0x10000 - 68 * 256, issued=0))


def test_the_matrix_peak_is_that_of_the_types_used() -> None:
    launch = _launch()  # 32768 operations in 32 clocks on 4 units: twice what f16 does on gfx942
    assert launch.matrix_peak() == 4096 == 2 * launch.raw["machine"]["peak_flops_per_clk"]
    roof = launch.roofline()
    assert roof is not None and roof["share"] <= 1


def test_report_links_source_and_instructions() -> None:
    page = render([_launch(), _launch(kernel="other")])
    assert page.count('class="panes"') == 2 and 'data-line="/a/k.py:59"' in page
    for part in ("prefers-color-scheme: dark", "@media (max-width: 760px)", '<input class="filter"',
                 'href="#timeline-0"', 'id="timeline-0"', "Next, costliest first",
                 '<details class="launch" data-name="k" open>'):
        assert part in page


BEFORE = ["def k():", "    a = fetch(X, i)", "    barrier()", "    b = a * 2.0", "    store(b)"]
AFTER = ["def k():", "    a = fetch(X, i)", "    b = a * 2.0 + 1.0", "    wait_for(group)", "    store(b)"]


def _run_of(lines: list[str], costs: dict[int, int], file: str, microseconds: float) -> LaunchProfile:
    """A launch whose line `n` has stalls of `costs[n]` clocks, with the text that was saved."""
    base = _launch()
    code = [{"address": 4 * n, "text": f"i{n}", "source": f"{file}:{n}", "unit": "valu", "issued": 1, "lanes": 64,
             "stall": {"memory": cost}} for n, cost in costs.items()]
    timing = {**base.raw["timing"], "microseconds": microseconds}
    return _launch(instructions=code, timing=timing,
                   sources={file: {str(n): text for n, text in enumerate(lines, 1)}})


def test_two_runs_beside_each_other() -> None:
    """Lines are one line where their text is alike, whatever their number; a cost is a share of the run's time."""
    from flydsl.runtime.profiling.comparison import rows_of

    before = _run_of(BEFORE, {2: 40, 3: 40, 4: 10, 5: 10}, "/old/k.py", 10.0)
    after = _run_of(AFTER, {2: 60, 3: 20, 4: 10, 5: 10}, "/new/k.py", 5.0)
    rows = rows_of(before, after)
    pairs = [(row.before and row.before.number, row.after and row.after.number, round(row.difference, 3))
             for row in rows]
    assert pairs == [(1, 1, 0.0), (2, 2, -1.0), (3, None, -4.0), (4, 3, 0.0), (None, 4, 0.5), (5, 5, -0.5)]


def test_the_comparison_is_sorted_by_cost(tmp_path: Path) -> None:
    before = _run_of(BEFORE, {2: 40, 3: 40, 4: 10, 5: 10}, "/old/k.py", 10.0)
    after = _run_of(AFTER, {2: 60, 3: 20, 4: 10, 5: 10}, "/new/k.py", 5.0)
    page = render([after, _launch(kernel="new")], [before, _launch(kernel="gone")])
    tags = _Tags()
    tags.feed(page)
    assert tags.open == []
    first = page[page.index("Lines by difference"):page.index("Source, before")]
    assert [first.index(text) for text in ("-4.00 us", "-1.00 us", "+0.50 us")] == sorted(
        first.index(text) for text in ("-4.00 us", "-1.00 us", "+0.50 us"))
    assert "+0.00 us" not in first and "4.00 us → –" in first
    for part in ("Source, after", "Instructions, before", "Instructions, after", "10.0 → 5.0 us", "0.50x",
                 "<code>gone</code>: only in the earlier run", "<code>new</code>: only in the later run"):
        assert part in page, part
    # One line of the program has one number in all panes.
    panes = page[page.index("Lines by difference"):page.index("Figures of both runs")]
    assert panes.count('data-line="1"') == 5


def test_two_runs_on_the_command_line(saved: tuple[Path, str, Path], tmp_path: Path) -> None:
    page, path = tmp_path / "page.html", str(saved[0])
    done = run("-m", "flydsl.runtime", "report", path, path, "-o", str(page))
    assert done.returncode == 0, done.stderr
    assert "every line costs what it did" in page.read_text()
    done = run("-m", "flydsl.runtime", "report", path, path, path, "-o", str(page))
    assert done.returncode != 0 and "one profile, or two to compare, and not 3" in done.stderr


def test_changes_of_two_runs(saved: tuple[Path, str, Path]) -> None:
    """Times, stalls by what changed most, counts; kernels of one run only are named."""
    before = Profile.load(saved[0])
    raw = before[0].raw
    stall = {**raw["timing"]["stall"], "memory": raw["timing"]["stall"].get("memory", 0) + 5000}
    after, other = Profile(), Profile()
    after.launches = [LaunchProfile.from_json(raw | {"timing": raw["timing"] | {"stall": stall}, "vgprs": 400})]
    lines = after.changes(before).splitlines()
    assert "axpy" in lines[0] and lines[1].split() == ["before", "after", "ratio"]
    assert "us, sustained (estimate)" in lines[2] and lines[2].endswith("1.00x")
    assert "stalled on: wait for vector memory" in lines[4] and lines[4].split()[-2] == str(stall["memory"])
    (registers,) = [line.split() for line in lines if "VGPRs" in line]
    assert registers[1:] == [str(raw["vgprs"]), "400", f"{400 / raw['vgprs']:.2f}x"]
    other.launches = [LaunchProfile.from_json(raw | {"kernel": "other"})]
    assert other.changes(before).splitlines() == ["  axpy: only in the earlier run", "  other: only in the later run"]


def test_a_saved_profile_keeps_the_source(tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text("first\nsecond\nthird\n")
    instruction = {"address": 0, "text": "v_nop", "source": f"{file}:2", "unit": "valu", "issued": 1, "lanes": 64}
    profile = Profile()
    profile.launches = [_launch(instructions=[instruction])]
    profile.save(tmp_path / "p.json")
    file.write_text("other\ntext\nnow\n")
    page = Profile.load(tmp_path / "p.json").report()
    assert "<code>second</code>" in page and "<code>text</code>" not in page


def test_kernels_of_one_name(tmp_path: Path) -> None:
    """Code objects may have kernels of one name and size: each shows its own lines and is compared with its own."""
    (tmp_path / "a.py").write_text("of the first\n")
    (tmp_path / "b.py").write_text("of the second\n")

    def launch(name: str, code: str, issued: int) -> LaunchProfile:
        instruction = {"address": 0, "text": "v_nop", "source": f"{tmp_path / name}:1", "unit": "valu",
                       "issued": issued, "lanes": 64 * issued}
        return _launch(kernel="k_0", code=code, instructions=[instruction])

    profile, later = Profile(), Profile()
    profile.launches = [launch("a.py", "1111", 10), launch("b.py", "2222", 20), launch("a.py", "1111", 10)]
    later.launches = [launch("a.py", "3333", 30), launch("b.py", "4444", 60)]
    profile.save(tmp_path / "p.json")
    page = Profile.load(tmp_path / "p.json").report()
    assert "<code>of the first</code>" in page and "<code>of the second</code>" in page
    table = profile.table()
    assert "a.py:1" in table and "b.py:1" in table and table.count("2 launches; the last one is shown") == 1
    changes = later.changes(profile)
    assert changes.count("3.00x") == 2 and "only in" not in changes


def test_schedules_of_kernels_of_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the code object, else those that were registered for none."""
    monkeypatch.setattr(schedules, "_known", {})
    for line, code in ((1, b"first"), (2, b"second"), (3, None)):
        schedules.register("gfx942:sramecc+", {"k_0": [{"source": f"k.py:{line}"}]}, code)
    found = [schedules.of_kernel("gfx942", "k_0", schedules.code_digest(code)) for code in (b"first", b"second", b"x")]
    assert [loop["source"] for (loop,) in found] == ["k.py:1", "k.py:2", "k.py:3"]
    assert schedules.of_kernel("gfx942", "k_0") == found[2] and schedules.of_kernel("gfx950", "k_0") == []


def test_totals_of_kernels(saved: tuple[Path, str, Path]) -> None:
    """Launches and times are added by name, longest first, and shown as text and picture."""
    (launch,) = Profile.load(saved[0]).launches
    other = LaunchProfile.from_json(launch.raw | {"kernel": "copy<a&b>"})
    result = Profile()
    result.launches = [launch, other, launch]
    assert launch.microseconds is not None
    first, second = result.by_kernel()
    assert (first.kernel, first.launches, second.kernel, second.launches) == ("axpy", 2, "copy<a&b>", 1)
    assert first.microseconds == pytest.approx(2 * launch.microseconds) == 2 * second.microseconds
    lines = result.summary("a step").splitlines()
    assert lines[0] == f"a step: {3 * launch.microseconds:.2f} µs, estimated"
    assert [line.count("#") for line in lines[1:]] == [40, 20] and "2x" in lines[1]
    ElementTree.fromstring(result.chart("a < b"))
    assert "copy&lt;a&amp;b&gt;" in result.chart() and "2 launches" in result.chart()
    assert [t.kernel for t in result.where(lambda one: one.kernel != "axpy").by_kernel()] == ["copy<a&b>"]
    assert Profile().by_kernel() == [] and "0.00" in Profile().summary()
    assert ElementTree.fromstring(Profile().chart()).tag.endswith("svg")
    untimed = {k: v for k, v in launch.raw.items() if k not in ("timing", "sustained")}
    result.launches = [LaunchProfile.from_json(untimed)]
    with pytest.raises(ValueError, match=r"profile\(timing=True\)"):
        result.by_kernel()
