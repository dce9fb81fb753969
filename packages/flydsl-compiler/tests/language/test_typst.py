"""Typst pictures: the cells are those of the layout; errors for what cannot be drawn."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import flydsl.expr as fx


@pytest.fixture
def scope(mlir_scope: Any) -> Any:
    return mlir_scope


@pytest.fixture
def mlir_scope() -> Any:
    from flydsl._mlir import ir
    from flydsl.tracing.ambient import tracing_context

    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body), tracing_context(arch="gfx942"):
            yield module


def _cells(text: str) -> list[str]:
    return re.findall(r"table\.cell\(fill: rgb\(\"#[0-9A-F]{6}\"\)\)\[([^\]]*)\]", text)


def test_layout(scope: Any, capsys: pytest.CaptureFixture[str]) -> None:
    fx.utils.print_typst(fx.make_layout((2, 3), (3, 1)))
    text = capsys.readouterr().out
    assert _cells(text) == ["0", "1", "2", "3", "4", "5"] and "columns: 3" in text and text.startswith("#set page")
    swizzle = fx.static(fx.SwizzleType.get(1, 0, 1))
    fx.utils.print_typst(fx.make_composed_layout(swizzle, fx.make_layout((2, 4), (4, 1))))
    assert _cells(capsys.readouterr().out) == ["0", "1", "3", "2", "4", "5", "7", "6"]


def test_colours_and_files(scope: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.typ"
    for _ in range(2):
        fx.utils.print_typst(fx.make_layout(4, 2), color=lambda i: f"#0000{i:02x}", file=path)
    text = path.read_text()
    assert text.count("#set page") == 1 and text.count("#pagebreak()") == 1
    assert text.count('rgb("#000006")') == 2 and _cells(text)[:4] == ["0", "2", "4", "6"]


def test_tiled_copy(scope: Any, capsys: pytest.CaptureFixture[str]) -> None:
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    copy = fx.make_tiled_copy_tv(atom, fx.make_layout((2, 2), (2, 1)), fx.make_layout((1, 2), (2, 1)))
    fx.utils.print_typst(copy)
    cells = [c.replace(" \\ ", " ") for c in _cells(capsys.readouterr().out)]
    grid = ["T0 V0", "T0 V1", "T1 V0", "T1 V1", "T2 V0", "T2 V1", "T3 V0", "T3 V1"]
    assert cells == grid * 2  # source and destination


def test_mma(scope: Any, capsys: pytest.CaptureFixture[str]) -> None:
    atom = fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 4, fx.Float32))
    fx.utils.print_typst(atom)
    cells = [c.replace(" \\ ", " ") for c in _cells(capsys.readouterr().out)]
    assert len(cells) == 4 * 16 + 16 * 4 + 16 * 16
    b, a, c = cells[:64], cells[64:128], cells[128:]
    assert b[0] == "T0 V0" and b[16] == "T16 V0"  # row k of B is 16 threads on
    assert a[0] == "T0 V0" and a[1] == "T16 V0" and a[4] == "T1 V0"
    assert c[0] == "T0 V0" and c[16] == "T0 V1" and c[64] == "T16 V0"
    tiled = fx.make_tiled_mma(atom, fx.make_layout((2, 1, 1), (1, 0, 0)))
    fx.utils.print_typst(tiled)
    assert "Tiled MMA" in capsys.readouterr().out


def test_errors(scope: Any) -> None:
    for bad in (3, fx.make_shape(2, 3)):
        with pytest.raises(ValueError, match="shows layouts"):
            fx.utils.print_typst(bad)
    with pytest.raises(ValueError, match="rank"):
        fx.utils.print_typst(fx.make_layout((2, 2, 2), (1, 2, 4)))
    one = fx.Int32(fx.arith.constant(4))
    with pytest.raises(ValueError, match="static"):
        fx.utils.print_typst(fx.make_layout((one, 2), (1, 4)))
