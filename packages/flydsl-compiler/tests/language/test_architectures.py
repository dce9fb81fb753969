"""The language on other architectures: part of these tests in a process whose simulated device is another one."""

from __future__ import annotations

from pathlib import Path

import pytest
from other_architectures import run_on

HERE = Path(__file__).parent
FORMS = "return or for-range or while or if or conditional or integer-arithmetic or bool-operators"


@pytest.mark.parametrize("arch", ["gfx950", "gfx1201"])
def test_language_on(arch: str) -> None:
    files = [
        HERE / name
        for name in ("test_python_forms.py", "test_coop.py", "test_atomics.py", "test_lanes.py", "test_wmma.py",
                     "test_older_style.py", "test_older_kernels.py", "test_address_views.py")
    ]
    others = "test_wave or test_block_scan or read_modify_write or float_add or exchange or product"
    others += " or test_integers_have or test_style or attention or experts or test_global_and_buffer or test_lds"
    select = f"(test_supported and ({FORMS})) or {others}"
    run_on(arch, *files, select=select)
