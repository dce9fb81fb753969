"""What holds for all compiler tests: private cache folders, no settings of the developer's shell."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def clean_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("FLYDSL_") and not name.startswith(("FLYDSL_SIM", "FLYDSL_HIP", "FLYDSL_RUNTIME_KIND")):
            monkeypatch.delenv(name)
    for name in ("ARCH", "COMPILE_ONLY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("FLYDSL_AUTOTUNE_CACHE_DIR", str(tmp_path / "tuned"))
