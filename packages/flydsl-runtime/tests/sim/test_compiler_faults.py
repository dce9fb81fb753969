"""Wrong code of LLVM 22 that random programs ran into."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from hiplib import LLVM

SOURCE = Path(__file__).with_name("structurizer.ll")


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201", "gfx1250"])
def test_a_value_that_the_structurizer_loses(sim, build_dir, arch):
    """LLVM's structurizecfg hoists the extension out of a switch's default block, whose other way in then has poison.

    Lanes that come by that way store whatever the register held; the other lanes are right.
    """
    base = Path(build_dir) / f"structurizer-{arch}"
    subprocess.run(
        [LLVM / "llc", "-O2", f"-mcpu={arch}", "-filetype=obj", SOURCE, "-o", base.with_suffix(".o")], check=True
    )
    subprocess.run([LLVM / "ld.lld", "-shared", base.with_suffix(".o"), "-o", base.with_suffix(".hsaco")], check=True)
    image = base.with_suffix(".hsaco").read_bytes()
    which, value = np.arange(64, dtype=np.uint32) % 5, np.arange(100, 164, dtype=np.uint32)
    want = np.choose(which, [value + 1, value, value, value >> 1, value])
    sim.set_arch(arch)

    out = np.zeros(64, np.uint32)
    sim.run(image, "k", (1,), (64,), [np.concatenate([which, value]), out])
    np.testing.assert_array_equal(out[which != 4], want[which != 4])
    if (out != want).any():
        pytest.xfail("LLVM 22: StructurizeCFG::hoistZeroCostElseBlockPhiValues loses a value")
