"""The text of the Python lines that a profile is about. A saved profile keeps it: the file may be another one later."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator
from typing import Any

from .model import LaunchProfile

#: Lines shown around each line that has instructions.
AROUND = 2


def place(source: str) -> tuple[str, int] | None:
    """File and line of ``file:line``."""
    file, _, line = source.rpartition(":")
    return (file, int(line)) if file and line.isdigit() else None


def excerpt(lines: Iterable[int]) -> list[int]:
    """These lines and those around them, in order."""
    return sorted({near for line in lines for near in range(max(1, line - AROUND), line + AROUND + 1)})


def _files(launch: LaunchProfile) -> dict[str, set[int]]:
    files: dict[str, set[int]] = {}
    for instruction in launch.instructions:
        if found := place(instruction.source):
            files.setdefault(found[0], set()).add(found[1])
    return files


def texts(launch: LaunchProfile) -> dict[str, dict[str, str]]:
    """For each file of a kernel, the text of its lines and of those around them, by number; as it is now."""
    kept: dict[str, dict[str, str]] = {}
    for file, lines in _files(launch).items():
        found = ((n, linecache.getline(file, n).rstrip()) for n in excerpt(lines))
        kept[file] = {str(n): text for n, text in found if text}
    return kept


def with_texts(launches: Iterable[LaunchProfile]) -> Iterator[dict[str, Any]]:
    """What is known of every launch, with the text of its lines."""
    known: dict[tuple[str, str, str, int], dict[str, dict[str, str]]] = {}
    for launch in launches:
        if "sources" in launch.raw:
            yield launch.raw
            continue
        kernel = (launch.code, launch.kernel, launch.arch, len(launch.instructions))
        if kernel not in known:
            known[kernel] = texts(launch)
        yield {**launch.raw, "sources": known[kernel]}


def line_text(launch: LaunchProfile, file: str, line: int) -> str:
    """The text of a line: as it was when the profile was saved, else as the file has it."""
    kept = launch.raw.get("sources")
    if kept is None:
        return linecache.getline(file, line).rstrip()
    return kept.get(file, {}).get(str(line), "")
