"""Pages that are made from the code: the settings, and the messages of the troubleshooting page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flydsl.utils.settings_page import page

ROOT = Path(__file__).parents[4]
PAGES = ROOT / "docs" / "language"
if not PAGES.exists():
    pytest.skip("the documentation is not part of this tree", allow_module_level=True)

SOURCES = Path(__file__).parents[2] / "src" / "flydsl"
NATIVE = Path(__file__).parents[3] / "flydsl-runtime" / "native"
DIALECTS = Path(__file__).parents[3] / "flydsl-ir" / "lib"


def test_settings_page_is_generated() -> None:
    assert (PAGES / "settings.md").read_text() == page()


def _messages() -> list[str]:
    text = (PAGES / "troubleshooting.md").read_text()
    return re.findall(r"^\| `([^`]+)` \|", text, re.M)


def _code() -> str:
    """The string text of the package, the native launcher and the dialects; seams of wrapped literals are removed."""
    files = (*sorted(SOURCES.rglob("*.py")), *sorted(NATIVE.glob("*.cpp")), *sorted(DIALECTS.rglob("*.cpp")))
    text = "\n".join(p.read_text() for p in files)
    return re.sub(r'"\s*\n\s*f?"', "", text)


@pytest.mark.parametrize("message", _messages())
def test_messages_exist_in_the_code(message: str) -> None:
    code = _code()
    pieces = [p.strip() for p in message.split("...") if p.strip(" ':")]
    assert all(p.strip("' ") in code for p in pieces), message


def test_the_page_has_messages() -> None:
    assert len(_messages()) >= 20
