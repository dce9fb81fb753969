"""`python -m flydsl.runtime check` on HIP and Python programs, and the plugin of pytest."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from test_simulator import SIMULATOR

from flydsl.runtime import Access, Finding
from flydsl.runtime.checker import findings, hints, reports
from flydsl.runtime.checking import CHECKS

TESTS = Path(__file__).parent
sys.path.insert(0, str(TESTS / "sim"))

from clangc import find_clang  # noqa: E402

EXAMPLE = Path(__file__).resolve().parents[3] / "docs/examples/check/faults.hip"

pytestmark = [
    pytest.mark.l2_device,
    pytest.mark.skipif(SIMULATOR is None, reason="this build has no simulator library"),
]
needs_clang = pytest.mark.skipif(find_clang() is None or shutil.which("gcc") is None,
                                 reason="no clang with an AMD GPU target, or no linker")


def build_hip(source: Path, folder: Path, arch: str = "gfx950") -> Path:
    """A HIP program as hipcc builds it: code object, host code that registers it, linked against HIP."""
    clang = find_clang()
    options = [clang, "-x", "hip", "-nogpulib", "-nogpuinc", "-fdeclspec", "-g", "-O2", f"--offload-arch={arch}",
               f"-I{TESTS / 'hip_include'}"]
    image, host, program = folder / "device.hsaco", folder / "host.o", folder / source.stem
    for command in (
        [*options, "--cuda-device-only", "--no-gpu-bundle-output", source, "-o", image],
        [*options, "--cuda-host-only", "-Xclang", "-fcuda-include-gpubinary", "-Xclang", image, "-c", source,
         "-o", host],
        ["gcc", host, f"-L{SIMULATOR}", "-l:libamdhip64.so.7", "-o", program],
    ):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return program


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_clang() is None or not EXAMPLE.exists():
        pytest.skip("no clang, or no source of the example")
    return build_hip(EXAMPLE, tmp_path_factory.mktemp("hip"))


def check(*arguments: str | Path, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flydsl.runtime", "check", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env={**os.environ, **variables},
                          timeout=300)


def lines_of(source: Path, *texts: str) -> list[int]:
    rows = source.read_text(encoding="utf-8").splitlines()
    return [next(n for n, row in enumerate(rows, 1) if text in row) for text in texts]


@needs_clang
def test_hip_program(faults: Path):
    """The three planted faults are found, each with its line, and nothing else is."""
    done = check("--json", "--", faults)
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    race, overrun, unwritten = lines_of(EXAMPLE, "__syncthreads() is missing", "if (i < n)", "out[i] = cells[i];")
    found = {(f["check"], f["kernel"], int(f["site"]["source"].rpartition(":")[2])) for f in report["findings"]}
    assert ("race", "_Z7reversePKfPf", race) in found
    assert ("oob", "_Z5scalePfj", overrun) in found
    assert ("uninit", "_Z6halvesPKfPf", unwritten) in found
    assert {kernel["kernel"] for kernel in report["kernels"]} == {name for _, name, _ in found}
    first = next(f for f in report["findings"] if f["check"] == "race")
    assert {first["site"]["access"], first["other"]["access"]} == {"read", "write"}
    assert "barrier" in first["hint"] and first["space"] == "lds"
    assert report["program_status"] == 0


@needs_clang
def test_text_and_choice_of_checks(faults: Path):
    done = check("--race", "--", faults, cwd=EXAMPLE.parent)
    assert done.returncode == 1
    assert "race: kernel reverse(float const*, float*) (gfx950) at faults.hip:" in done.stdout
    assert "before:  faults.hip:" in done.stdout and "hint:    put a barrier" in done.stdout
    assert "uninit:" not in done.stdout
    assert "checked race in reverse(float const*, float*) (gfx950)" in done.stdout


@needs_clang
def test_sarif(faults: Path, tmp_path: Path):
    output = tmp_path / "report.sarif"
    done = check("--race", "--sarif", "-o", output, "--", faults, cwd=EXAMPLE.parent)
    assert done.returncode == 1 and done.stdout == ""
    log = json.loads(output.read_text())
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in run["results"]} <= rules
    result = next(r for r in run["results"] if r["ruleId"] == "race")
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "faults.hip" and place["region"]["startLine"] > 0
    assert result["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] > 0


@needs_clang
def test_clean_program_and_its_status(tmp_path: Path):
    source = tmp_path / "clean.hip"
    source.write_text("""
#include <hip/hip_runtime.h>
__global__ void fill(float *x, unsigned n) { unsigned i = threadIdx.x; if (i < n) x[i] = i; }
int main(int count, char **) {
  float *x, host[100];
  hipMalloc(&x, sizeof host);
  fill<<<1, 256>>>(x, 100);
  hipMemcpy(host, x, sizeof host, hipMemcpyDeviceToHost);
  return host[99] == 99 ? count - 1 : 9;
}
""")
    program = build_hip(source, tmp_path, "gfx1201")
    done = check("--", program)
    assert (done.returncode, done.stdout) == (
        0, "no findings; checked oob, race, uninit, barrier in fill(float*, unsigned int) (gfx1201)\n")
    assert check("--", program, "a", "b").returncode == 2  # its own status
    done = check("--arch", "gfx942", "--json", "--", program)  # the code is for another architecture
    assert done.returncode == 1
    (finding,) = json.loads(done.stdout)["findings"]
    assert finding["check"] == "launch" and "the simulated device is gfx942" in finding["message"]


@needs_clang
def test_library_of_another_release(tmp_path: Path):
    """A program built for ROCm 6, with a path of its own to that library, runs as well."""
    stub = tmp_path / "stub.c"
    stub.write_text("int hipGetDeviceCount(int *n) { return 99; }\nint hipGetDevicePropertiesR0600() { return 99; }\n")
    versions = tmp_path / "versions"
    versions.write_text(
        "hip_4.2 { global: hipGetDeviceCount; };\nhip_6.0 { global: hipGetDevicePropertiesR0600; } hip_4.2;\n")
    main = tmp_path / "main.c"
    main.write_text("""
int hipGetDeviceCount(int *); int hipGetDevicePropertiesR0600(void *, int); int puts(const char *);
int main() {
  static char p[8192]; int n;
  return hipGetDeviceCount(&n) + hipGetDevicePropertiesR0600(p, 0) + (puts(p) < 0);
}
""")
    library = tmp_path / "libamdhip64.so.6"
    (tmp_path / "libamdhip64.so").symlink_to(library)
    for command in (
        ["gcc", "-shared", "-fPIC", stub, f"-Wl,--version-script={versions}", "-Wl,-soname,libamdhip64.so.6",
         "-o", library],
        ["gcc", main, f"-L{tmp_path}", "-lamdhip64", "-Wl,--disable-new-dtags", f"-Wl,-rpath,{tmp_path}",
         "-o", tmp_path / "main"],
    ):
        subprocess.run(list(map(str, command)), check=True)
    done = check("--arch", "gfx942", "--", tmp_path / "main")
    assert done.returncode == 2 and done.stdout.startswith("simulated AMD Instinct MI300X"), done.stderr
    assert "launched no kernel on the simulator: nothing was checked" in done.stderr


def test_wrong_arguments(tmp_path: Path):
    done = check("--", "no-such-program")
    assert done.returncode == 1 and "no-such-program: no such program" in done.stderr
    done = check("--", "true")
    assert done.returncode == 2 and "nothing was checked" in done.stderr
    done = check("--", "sh", "-c", "kill -9 $$")
    assert done.returncode == 137


def test_arguments_are_looked_at_before_the_program_runs(tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text("print('ran')")
    for arguments, why in (
        (["--arch", "gfx1", program], "error: gfx1 is not simulated; these are: gfx90a, gfx942"),
        (["-o", "/nothing/report", program], "error: -o=/nothing/report: the folder /nothing does not exist"),
        (["missing.py"], "error: missing.py: no such program"),
    ):
        done = check(*arguments)
        assert done.returncode == 1 and done.stderr.startswith(why) and done.stderr.count("\n") == 1, done.stderr
        assert not done.stdout


PLUGIN_TEST = """
import sys
import numpy as np
import pytest
sys.path.insert(0, "{sim}")
from clangc import compile_gpu
from hiplib import Sim
import flydsl.runtime as rt

SOURCE = '''
static LDS u32 cells[256] __attribute__((loader_uninitialized));
KERNEL void racy(GLOBAL u32 *out) {{ u32 t = TID(); cells[t] = t; out[t] = cells[255 - t]; }}
'''

@pytest.fixture
def racy(tmp_path):
    sim = Sim(rt.library_path())
    rt.device_info()
    image = compile_gpu(SOURCE, "gfx942", "2", str(tmp_path), "-g")
    return lambda: sim.run(image, "racy", (1,), (256,), [np.zeros(256, np.uint32)])

def test_racy(racy):
    racy()

@pytest.mark.flydsl_check("nan")
def test_other_check(racy):
    racy()

@pytest.mark.flydsl_check()
def test_unchecked(racy):
    racy()

def test_inner_block(racy):
    with rt.checked("race") as report:
        racy()
    assert report.findings[0].check == "race"

def test_fails_by_itself(racy):
    racy()
    assert False, "of its own"

@pytest.fixture
def made(racy):
    racy()

def test_fixture(made):
    pass

@pytest.fixture
def ended(racy):
    yield
    racy()

def test_end_of_a_fixture(ended):
    pass
"""


@needs_clang
def test_pytest_plugin(tmp_path: Path):
    file = tmp_path / "test_kernels.py"
    file.write_text(PLUGIN_TEST.format(sim=TESTS / "sim"))
    # An installed package has registered it; from the source tree it is named.
    plugin = "flydsl.runtime.checker.pytest_plugin"
    installed = any(entry.value == plugin for entry in entry_points(group="pytest11"))
    named = [] if installed else ["-p", plugin]
    base = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *named, "-rA", "--rootdir",
            str(tmp_path), str(file)]

    def run(*options: str) -> str:
        env = {**os.environ, "FLYDSL_RUNTIME_KIND": "sim", "FLYDSL_SIM_ARCH": "gfx942"}
        return subprocess.run([*base, *options], capture_output=True, text=True, env=env, timeout=300).stdout

    off = run()
    assert "6 passed" in off and "FAILED" in off and "of its own" in off
    on = run("--flydsl-check=race")
    assert "PASSED" in on and "2 failed, 4 passed, 2 errors" in on, on
    assert "ERROR at setup of test_fixture" in on and "ERROR at teardown of test_end_of_a_fixture" in on
    assert "finding(s) of the checks race:" in on and "race: kernel racy (gfx942)" in on
    assert "of its own" in on and "findings of flydsl" in on
    wrong = subprocess.run([*base, "--flydsl-check=rase"], capture_output=True, text=True)
    assert "unknown check 'rase'" in wrong.stderr


def test_every_check_has_description_and_hint():
    site = Access("write", "ds_write_b32 v0, v1", 16, "kernel.hip:3", (0, 0, 0), 1, 2)
    hint_texts = set()
    for name in hints.DESCRIPTIONS:
        finding = Finding(name, "text", "k", "gfx942", site, "lds" if name == "race" else "")
        hint_texts.add(hints.hint(finding))
        assert f"{name}: kernel k (gfx942) at kernel.hip:3" in reports.finding_text(finding)
    assert set(CHECKS) <= set(hints.DESCRIPTIONS)
    assert len(hint_texts) >= len(hints.DESCRIPTIONS) - 1


def test_race_hints_depend_on_the_accesses():
    def race(instruction: str, group: int, space: str) -> str:
        site = Access("read", "ds_read_b32 v0, v1", 16, "", (0, 0, 0), 1, 2)
        other = Access("write", instruction, 8, "", (group, 0, 0), 0, 2)
        return hints.hint(Finding("race", "text", "k", "gfx950", site, space, 0, 4, other))

    assert "any order" in race("global_store_dword v0, v1, off", 1, "global")
    assert "counter" in race("buffer_load_dwordx4 v0, s[0:3], 0 offen lds", 0, "lds")
    assert "counter" in race("global_load_lds_dwordx4 v[0:1], off", 0, "lds")
    assert "put a barrier" in race("ds_write_b32 v0, v1", 0, "lds")


def test_file_of_another_form(tmp_path: Path):
    file = tmp_path / "findings"
    assert findings.read(file) == findings.Record()
    file.write_text('{"event":"kernel","kernel":"k","arch":"gfx942","process":1}\nnonsense\n')
    with pytest.raises(ValueError, match="findings:2: no finding of the simulator"):
        findings.read(file)
