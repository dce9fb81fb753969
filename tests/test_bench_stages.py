"""The figure of the compiler's stages measures the passes that run now, for both programs."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.one_arch

pytest.importorskip("torch")  # of the second program
ROOT = Path(__file__).resolve().parent.parent


def test_every_pass_has_its_time(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "bench"))
    monkeypatch.setenv("ARCH", "gfx942")
    monkeypatch.setenv("FLYDSL_SIM_ARCH", "gfx942")
    import stages

    found = {figure.what: figure.value for figure in stages.measure()}
    for program in ("vector add", "preshuffle GEMM"):
        passes = [value for name, value in found.items()
                  if name.startswith(f"{program}: ") and "phase" not in name and "all passes" not in name]
        assert len(passes) >= 8 and all(value >= 0 for value in passes)
        assert found[f"{program}: all passes"] == pytest.approx(sum(passes)) and found[f"{program}: phase codegen"] > 0
