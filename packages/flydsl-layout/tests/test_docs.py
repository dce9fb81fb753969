"""Every Python block of the README and the guide runs; pictures and reference are up to date; doctests hold."""

from __future__ import annotations

import doctest
import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("page", ["README.md", "docs/guide.md"])
def test_code_blocks(page: str) -> None:
    path = ROOT / page
    text = path.read_text(encoding="utf-8")
    namespace: dict[str, object] = {}
    blocks = list(re.finditer(r"```python\n(.*?)```", text, re.S))
    assert blocks
    for m in blocks:
        line = text[: m.start(1)].count("\n")
        exec(compile("\n" * line + m.group(1), str(path), "exec"), namespace)
    for link in re.findall(r"\]\(([\w./]+)\)", text):
        assert (path.parent / link).exists(), link


def test_generated_pages_are_current() -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        make_reference = importlib.import_module("make_reference")
        pictures = importlib.import_module("pictures")
    finally:
        sys.path.pop(0)
    assert (ROOT / "docs/reference.md").read_text(encoding="utf-8") == make_reference.reference()
    for name, svg in pictures.pictures().items():
        assert (ROOT / f"docs/pictures/{name}.svg").read_text(encoding="utf-8") == svg


@pytest.mark.parametrize("module", ["flydsl.layout", "flydsl.layout.core", "flydsl.layout.tv"])
def test_doctests(module: str) -> None:
    m = importlib.import_module(module)
    names = {k: getattr(m, k) for k in dir(m)}
    result = doctest.testmod(m, extraglobs=names)
    assert result.attempted and not result.failed
