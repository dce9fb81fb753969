"""The tuned tiles of the GEMMs: how busy their hot loops keep the matrix unit, by two models, and no spills.

Both figures are static: LLVM's machine model and the simulator's timing model look at the code of the loop, for one
wave whose accesses hit the nearest cache.
"""

import shutil
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "packages" / "flydsl-kernels" / "bench"), str(ROOT / "tools" / "bench")]

import hot_loops  # noqa: E402  (scripts of the bench folders)
import hotloop  # noqa: E402

from flydsl.kernels.target import current_arch, target  # noqa: E402

ARCH = current_arch()
LEAST = 0.90
#: On gfx12 a vector instruction takes the place of a matrix instruction, and operands that are not consecutive in k are
#: turned around with them.
LEAST_TURNED = {"gfx1201": 0.88}

if ARCH not in ("gfx942", "gfx950", "gfx1201"):
    pytest.skip("the tiles of other architectures are not tuned", allow_module_level=True)


@pytest.mark.parametrize("loop", list(hot_loops.tuned_loops(target())), ids=lambda loop: loop.label.replace(" ", "-"))
def test_tuned_tile_keeps_the_matrix_unit_busy(loop):
    found = hot_loops.measure(loop, target(), ARCH, launch=False)
    assert found.spills == 0
    turned = not any(kind in loop.label for kind in ("preshuffle", "scale", " nt "))
    least = LEAST_TURNED.get(ARCH, LEAST) if turned else LEAST
    assert found.loop >= least
    if ARCH.startswith("gfx9"):  # LLVM has no model of the matrix unit of gfx12
        if shutil.which(hotloop.MCA) is None:
            pytest.skip(f"needs {hotloop.MCA}")
        assert found.mca >= least
