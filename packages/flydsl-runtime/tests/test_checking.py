"""`flydsl.runtime.checked`: findings of the simulator's checks as data, in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from test_simulator import SIMULATOR, run

sys.path.insert(0, str(Path(__file__).parent / "sim"))

from clangc import compile_gpu, find_clang  # noqa: E402

pytestmark = [
    pytest.mark.l2_device,
    pytest.mark.skipif(SIMULATOR is None, reason="this build has no simulator library"),
    pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target"),
]

SOURCE = """
static LDS u32 cells[256] __attribute__((loader_uninitialized));
KERNEL void racy(GLOBAL u32 *out) { u32 t = TID(); cells[t] = t; out[t] = cells[255 - t]; }
KERNEL void good(GLOBAL u32 *out) { out[TID()] = TID(); }
KERNEL void unwritten(GLOBAL u32 *out) {
  u32 t = TID();
  if (t < 128) cells[t] = t;
  __builtin_amdgcn_s_barrier();
  out[t] = cells[t];
}
"""

START = """
import os
import sys
import numpy as np
import pytest
sys.path.insert(0, sys.argv[2])
from hiplib import Sim
import flydsl.runtime as rt
sim = Sim(rt.library_path())
rt.device_info()
image = open(sys.argv[1], "rb").read()
def launch(kernel):
    out = np.zeros(256, np.uint32)
    sim.run(image, kernel, (1,), (256,), [out])
    return out
"""

FINDINGS = """
with rt.checked("race") as report:
    assert not report
    out = launch("racy")
assert out.any()  # the launch went on
assert report and len(report) == len(report.findings) == len(list(report))
finding = report.findings[0]
assert (finding.check, finding.kernel, finding.space) == ("race", "racy", "lds")
assert finding.site.wave != finding.other.wave
assert {finding.site.access, finding.other.access} == {"read", "write"}
assert finding.site.instruction.startswith("ds_") and ":" in finding.site.source
assert finding.address % 4 == 0 and finding.address < 1024
assert "check race: kernel racy" in str(report) and "with no barrier in between" in str(report)
"""

UNINITIALISED = """
with rt.checked("uninit") as report:
    launch("unwritten")
finding = report.findings[0]
assert (finding.check, finding.space, finding.site.access) == ("uninit", "lds", "is stored to memory")
assert 512 <= finding.address < 1024 and finding.other.instruction.startswith("ds_")
"""

NOTHING = """
with rt.checked() as report:
    np.testing.assert_array_equal(launch("good"), np.arange(256))
assert not report and str(report) == "no findings"
"""

ERRORS = """
with pytest.raises(ValueError, match="unknown check 'rase'"), rt.checked("rase"):
    pass
with pytest.raises(ValueError, match="limit"), rt.checked("race", limit=0):
    pass
os.environ["FLYDSL_SIM_CHECK"] = "race"
with pytest.raises(RuntimeError, match="check race"):
    launch("racy")
assert [f.check for f in rt.findings()] == ["race"]
assert rt.findings() == []
"""

BESIDE_A_PROFILE = """
with rt.profile() as profile, rt.checked("race") as report:
    launch("racy")
assert report and len(profile) == 1 and profile[0].kernel == "racy"
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code object of the kernels."""
    folder = tmp_path_factory.mktemp("checking")
    path = folder / "kernels.hsaco"
    path.write_bytes(compile_gpu(SOURCE, "gfx942", "2", str(folder), "-g"))
    return path


@pytest.mark.parametrize("script", ["FINDINGS", "UNINITIALISED", "NOTHING", "ERRORS", "BESIDE_A_PROFILE"])
def test_checked(image: Path, script: str) -> None:
    text = START + globals()[script]
    done = run(
        "-c", text, str(image), str(Path(__file__).parent / "sim"), FLYDSL_RUNTIME_KIND="sim", FLYDSL_SIM_ARCH="gfx942"
    )
    assert done.returncode == 0, done.stderr
