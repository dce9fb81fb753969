"""The programs of existing_programs.py on every architecture, and on the device of this session in this process."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # one of the programs uses SmemAllocator, as it always did
    import existing_programs

SCRIPT = Path(existing_programs.__file__)


# Published hot loops carry the hints of their largest tile: said at their line, and no reason to fail.
@pytest.mark.filterwarnings("ignore:stale schedule")
@pytest.mark.parametrize("program", existing_programs.PROGRAMS)
def test_program_in_this_process(program):
    existing_programs.run(program)


@pytest.mark.one_arch
@pytest.mark.parametrize("arch", ["gfx950", "gfx1201", "gfx1250"])
def test_programs_on_other_architectures(arch, tmp_path):
    device = {"FLYDSL_RUNTIME_KIND": "sim", "ARCH": arch, "FLYDSL_SIM_ARCH": arch,
              "FLYDSL_RUNTIME_CACHE_DIR": str(tmp_path)}
    env = {**os.environ, **device}
    result = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, env=env)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count(" results") == len(existing_programs.PROGRAMS)
