"""Line tables: with FLYDSL_DEBUG_ENABLE_DEBUG_INFO every statement has its line in the code object."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BODY = """
v = X[t]
if t > 3:
    w = fx.arith.mulf(v.ir_value(), v.ir_value())
    Y[t] = fx.Float32(w)
for i in range(n):
    Y[t] = Y[t] + 1.0
"""


def _dump(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, debug: bool) -> tuple[str, str, np.ndarray]:
    monkeypatch.setenv("FLYDSL_DUMP_IR", "1")
    monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path / "dump"))
    monkeypatch.setenv("FLYDSL_DEBUG_ENABLE_DEBUG_INFO", str(int(debug)))
    out = run(BODY)
    (origin,) = (tmp_path / "dump" / "k_0").glob("00_origin.mlir")
    (assembly,) = (tmp_path / "dump" / "k_0").glob("*_final_isa.s")
    return origin.read_text(), assembly.read_text(), out


def test_lines_of_every_statement(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin, assembly, out = _dump(run, tmp_path, monkeypatch, debug=True)
    x = np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(out, np.where(x > 3, x * x, -77) + 40)
    lines = {int(n) for n in re.findall(r"^\s*\.loc\s+1 (\d+) ", assembly, re.M)}
    # Lines 1 and 2 are the imports; the kernel's body starts after its decorator, header and thread index.
    first = next(
        i for i, line in enumerate((tmp_path / "sample_1.py").read_text().splitlines(), 1) if "v = X[t]" in line
    )
    assert {first, first + 1, first + 2, first + 3, first + 4, first + 5} <= lines
    # An op that a raw builder makes has its statement's line, not that of the kernel.
    name = re.search(r"arith\.mulf .*loc\((#loc\d*)\)", origin)
    assert name is not None
    assert re.search(rf"^{name.group(1)} = loc\(.*:{first + 2}:\d+\)", origin, re.M)


def test_off_by_default(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, assembly, _ = _dump(run, tmp_path, monkeypatch, debug=False)
    assert ".loc" not in assembly
