"""External bitcode in the pass pipeline: checked paths, and the options that hand them over."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["append_link_options", "check_bitcode_path"]

_FORBIDDEN = re.compile(r"[\s,{}\"']")


def check_bitcode_path(path: str) -> str:
    """The path. ValueError for one that a pass option cannot carry: empty, or with space, comma, brace or quote."""
    if not path or _FORBIDDEN.search(path):
        raise ValueError(
            f"Cannot pass external bitcode path {path!r}: it must not be empty or contain whitespace, commas, "
            "braces or quotes"
        )
    return path


def append_link_options(fragments: Sequence[str], libraries: Sequence[str]) -> list[str]:
    """The fragments with ``l=<path>`` for each library in every target-attach pass.

    Raises:
        ValueError: a path that an option cannot carry. RuntimeError: libraries, but no such pass.
    """
    if not libraries:
        return list(fragments)
    options = " ".join(f"l={check_bitcode_path(path)}" for path in libraries)
    found = []
    attached = False
    for fragment in fragments:
        if "-attach-target" not in fragment:
            found.append(fragment)
            continue
        attached = True
        if fragment.endswith("}"):
            separator = "" if fragment.endswith("{}") else " "
            found.append(f"{fragment[:-1]}{separator}{options}}}")
        else:
            found.append(f"{fragment}{{{options}}}")
    if not attached:
        raise RuntimeError("external bitcode is requested, but no pass of the pipeline attaches a target")
    return found
