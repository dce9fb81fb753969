"""The stable names: the catalogue is complete, equals the page in the docs, and every name resolves."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from flydsl.utils.stable_api import catalogue

PAGE = Path(__file__).parents[4] / "docs" / "language" / "stable-api.md"
if not PAGE.exists():
    pytest.skip("the documentation is not part of this tree", allow_module_level=True)


def test_the_page_is_the_catalogue() -> None:
    listed = PAGE.read_text().split("```text\n")[1].split("\n```")[0].split("\n")
    assert listed == catalogue()


def test_number_of_names() -> None:
    names = catalogue()
    assert len(names) == len(set(names)) == 475


def _resolve(path: str) -> Any:
    parts = path.split(".")
    for split in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module("flydsl." + ".".join(parts[:split]))
        except ModuleNotFoundError:
            continue
        for name in parts[split:]:
            found = getattr(found, name)
        return found
    raise AssertionError(f"{path} does not resolve")


def test_every_name_resolves_and_is_flat_in_fx() -> None:
    import flydsl.expr as fx

    flat = ("numeric", "typing", "enum", "primitive", "gpu", "derived", "struct", "arith", "math")
    for path in catalogue():
        value = _resolve(path)
        parts = path.split(".")
        if len(parts) == 3 and parts[0] == "expr" and parts[1] in flat:
            assert getattr(fx, parts[2]) is value, path
