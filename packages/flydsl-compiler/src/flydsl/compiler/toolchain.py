"""Identity of everything that turns a function into an artifact: versions, sources and libraries of the stack."""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flydsl.utils import env

from .artifact import FORMAT
from .key import digest_of

__all__ = ["EXTRA_SOURCE_DIRS", "toolchain_fingerprint"]

#: Directories whose Python files enter the fingerprint, besides those in FLYDSL_EXTRA_SOURCE_DIRS.
EXTRA_SOURCE_DIRS: list[str] = []

_PYTHON_PARTS = ("compiler", "expr", "extension", "runtime", "utils", "ir")


def _walk(directory: str, keep: Callable[[str], bool]) -> Iterator[tuple[str, os.stat_result]]:
    """Files below a directory with their status. `pathlib` would take longer than the rest of a cached start."""
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _walk(entry.path, keep)
        elif keep(entry.name):
            yield entry.path, entry.stat()


def _toolchain_files(patterns: tuple[str, ...], extra: tuple[str, ...]) -> list[tuple[str, str, int, int]]:
    """(relative name, path, size, time) of the files that decide what a compile produces."""
    import flydsl

    found = []

    def add(base: str, directory: str, keep: Callable[[str], bool]) -> None:
        for path, status in _walk(directory, keep):
            found.append((os.path.relpath(path, base), path, status.st_size, status.st_mtime_ns))

    def is_python(name: str) -> bool:
        return name.endswith(".py")

    for root in flydsl.__path__:
        for part in _PYTHON_PARTS:
            add(root, os.path.join(root, part), is_python)
        for pattern in patterns:
            folder, name = os.path.split(pattern)
            add(root, os.path.join(root, folder), functools.partial(_matches, name))
    for directory in extra:
        add(directory, directory, is_python)
    return sorted(found)


def _matches(pattern: str, name: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern)


@functools.lru_cache(maxsize=4)
def _fingerprint(
    root: str | None, version: str, backend: str, patterns: tuple[str, ...], extra: tuple[str, ...]
) -> str:
    files = _toolchain_files(patterns, extra)
    stats = [(name, size, time) for name, _, size, time in files]
    # Hashing 100 MB of libraries takes longer than a whole cached start, so the content hash is remembered
    # for an unchanged set of sizes and times.
    stamp = digest_of(json.dumps(stats))
    memo = None if root is None else Path(root) / f"toolchain-{stamp[:16]}.json"
    content = _read_memo(memo, stamp)
    if content is None:
        sha = hashlib.sha256()
        for name, path, _, _ in files:
            sha.update(name.encode())
            with open(path, "rb") as handle:
                for block in iter(lambda: handle.read(1 << 20), b""):
                    sha.update(block)
        content = sha.hexdigest()
        _write_memo(memo, stamp, content)
    return f"flydsl:{version}:{FORMAT}:{backend}-{content}"


def _read_memo(memo: Path | None, stamp: str) -> str | None:
    if memo is None:
        return None
    try:
        data = json.loads(memo.read_text())
        return data["content"] if data["stamp"] == stamp and len(data["content"]) == 64 else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_memo(memo: Path | None, stamp: str, content: str) -> None:
    if memo is None:
        return
    from flydsl.utils.file import atomic_write

    try:
        memo.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(memo) as handle:
            json.dump({"stamp": stamp, "content": content}, handle)
    except OSError:
        return


def toolchain_fingerprint(backend: Any) -> str:
    """Identity of everything that turns a function into an artifact: versions, sources, libraries, backend."""
    from . import __version__
    from .cache import cache_root

    root = cache_root()
    return _fingerprint(None if root is None else str(root), __version__, backend.hash(),
                        tuple(backend.native_lib_patterns()),
                        (*EXTRA_SOURCE_DIRS, *env.compile.extra_source_dirs))  # fmt: skip
