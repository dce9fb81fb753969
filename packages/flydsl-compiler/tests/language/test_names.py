"""Names and messages beyond ASCII, as Python allows them: in symbols, dumps and errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx

pytestmark = pytest.mark.usefixtures("device")


@flyc.kernel
def größe(out: fx.Tensor, größter: fx.Int32):
    out[fx.thread_idx.x] = größter


@flyc.jit
def läufer(out: fx.Tensor, größter: fx.Int32):
    fx.host_assert(größter > 0, 'größter: "> 0"')
    größe(out, größter).launch(grid=1, block=64)


def test_names_and_messages_beyond_ascii(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FLYDSL_DUMP_IR", "1")
    monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path))
    out = np.full(64, -1, np.int32)
    läufer(out, 7)
    assert (out == 7).all() and läufer.last_compiled is not None and läufer.last_compiled.kernels == ("größe_0",)
    assert (tmp_path / "gr__e_0" / "00_origin.mlir").exists()
    with pytest.raises(ValueError, match='größter: "> 0"'):
        läufer(out, 0)
