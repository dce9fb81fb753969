"""Fixtures of the command line tests: private folders, no inherited settings."""

from __future__ import annotations

import os
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def clean_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in list(os.environ):
        if name.startswith("FLYDSL_") and not name.startswith(("FLYDSL_SIM", "FLYDSL_HIP", "FLYDSL_RUNTIME_KIND")):
            monkeypatch.delenv(name)
    for name in ("ARCH", "COMPILE_ONLY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("FLYDSL_AUTOTUNE_CACHE_DIR", str(tmp_path / "tuned"))
