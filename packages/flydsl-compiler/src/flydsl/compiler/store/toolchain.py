"""Identity of everything that turns a function into an artifact: versions, sources and libraries of the stack."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from flydsl.utils import env

from ..backends.rocm import NATIVE_LIBRARIES
from ..passes.external_llvm import external_fingerprint
from ..specialization.key import digest_of
from .artifact import FORMAT
from .root import cache_root

__all__ = ["EXTRA_SOURCE_DIRS", "SourceDigests", "package_versions", "source_digests", "source_files",
           "toolchain_fingerprint"]

#: Directories whose Python files enter the fingerprint, besides those in FLYDSL_EXTRA_SOURCE_DIRS.
EXTRA_SOURCE_DIRS: list[str] = []

# Parts of the namespace whose Python files decide what a compile produces. `flydsl.kernels` is user code to
# the compiler: what a kernel reaches there belongs to its own identity.
_PYTHON_PARTS = ("compiler", "control", "expr", "extension", "ir", "layout", "marks", "runtime", "tracing", "utils")
_PACKAGES = ("compiler", "ir", "kernels", "layout", "runtime")
_DIGEST = re.compile("([0-9a-f]{64})?")  # empty: of no file
_VERSION = re.compile(r"^__version__\s*=\s*['\"]([^'\"]+)", re.MULTILINE)


def _walk(directory: str, suffix: str, prefix: str) -> Iterator[tuple[str, str, int, int]]:
    """(relative name, path, size, time) of the files below a directory.

    Written for speed: it is part of a cached start.
    """
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return
    for entry in entries:
        name = entry.name
        if name.endswith(suffix):
            status = entry.stat()
            yield prefix + name, entry.path, status.st_size, status.st_mtime_ns
        elif "." not in name and name != "__pycache__" and entry.is_dir():
            yield from _walk(entry.path, suffix, f"{prefix}{name}/")


_Files = list[tuple[str, str, int, int]]  # (relative name, path, size, time)


def _python_files() -> _Files:
    """The Python files of the stack that decide what a compile produces."""
    import flydsl

    found: _Files = []
    for root in flydsl.__path__:
        for part in _PYTHON_PARTS:
            found += _walk(f"{root}/{part}", ".py", f"{part}/")
        # The version of the kernels; their code belongs to the identity of what uses it.
        found += _files(f"{root}/kernels", "kernels", "__init__.py")
    return sorted(found)


@functools.lru_cache(maxsize=4)
def _native_files(patterns: tuple[str, ...]) -> _Files:
    """The libraries that match a backend's patterns."""
    import flydsl

    found: _Files = []
    for folder in sorted({os.path.dirname(pattern) for pattern in patterns}):
        names = [os.path.basename(p) for p in patterns if os.path.dirname(p) == folder]
        for root in flydsl.__path__:
            found += [f for f in _files(f"{root}/{folder}", folder) if any(_matches(f[0], folder, n) for n in names)]
    return sorted(found)


def _stamp(files: _Files) -> str:
    """Digest of names, sizes and times."""
    return digest_of(repr([(name, size, time) for name, _, size, time in files]))


def _files(directory: str, prefix: str, text: str = ".so") -> list[tuple[str, str, int, int]]:
    """The files of one folder with a text in their names, without those below it."""
    try:
        entries = [e for e in os.scandir(directory) if text in e.name]
    except OSError:
        return []
    return [(f"{prefix}/{e.name}", e.path, e.stat().st_size, e.stat().st_mtime_ns) for e in entries]


def _matches(name: str, folder: str, pattern: str) -> bool:
    """``fnmatch`` for the one form that backends use: a name with stars."""
    head, *rest = pattern.split("*")
    text = name[len(folder) + 1 :]
    if not text.startswith(head):
        return False
    position = len(head)
    for part in rest:
        position = text.find(part, position) + len(part) if part else len(text)
        if position < len(part):
            return False
    return not rest or not rest[-1] or text.endswith(rest[-1])


def build_id(path: str) -> str | None:
    """The GNU build ID of an ELF64 file as hex digits, None if it has none."""
    with open(path, "rb") as handle:
        header = handle.read(64)
        if len(header) < 64 or header[:6] != b"\x7fELF\x02\x01":
            return None
        (offset,) = struct.unpack_from("<Q", header, 32)
        entry_size, count = struct.unpack_from("<HH", header, 54)
        handle.seek(offset)
        table = handle.read(entry_size * count)
        for i in range(count):
            kind, _, start, _, _, size = struct.unpack_from("<IIQQQQ", table, i * entry_size)
            if kind != 4:  # PT_NOTE
                continue
            handle.seek(start)
            found = _build_id_note(handle.read(size))
            if found:
                return found
    return None


def _build_id_note(notes: bytes) -> str | None:
    position = 0
    while position + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, position)
        name = position + 12
        content = name + (name_size + 3 & ~3)
        if kind == 3 and notes[name : name + 4] == b"GNU\0":  # NT_GNU_BUILD_ID
            return notes[content : content + size].hex()
        position = content + (size + 3 & ~3)
    return None


@functools.cache
def _version_on_disk(package: str) -> str:
    """``__version__`` in the source of a package that is not imported; empty when it is not installed."""
    import flydsl

    for root in flydsl.__path__:
        try:
            with open(f"{root}/{package}/__init__.py", encoding="utf-8") as handle:
                found = _VERSION.search(handle.read())
        except OSError:
            continue
        if found:
            return found.group(1)
    return ""


def package_versions() -> dict[str, str]:
    """Versions of the five packages, empty for one that is not installed. Imports none of them."""
    found = {}
    for package in _PACKAGES:
        module = sys.modules.get(f"flydsl.{package}")
        version = vars(module).get("__version__") if module is not None else None
        found[f"flydsl-{package}"] = version or _version_on_disk(package)
    return found


_first_versions: dict[str, Any] = {}


def _changed_versions() -> list[tuple[str, Any]]:
    """Packages whose ``__version__`` is not the one that was imported. That one is in a file which is hashed."""
    changed = []
    for package in _PACKAGES:
        module = sys.modules.get(f"flydsl.{package}")
        if module is None:
            continue
        version = vars(module).get("__version__")
        if _first_versions.setdefault(package, version) != version:
            changed.append((package, version))
    return changed


@functools.lru_cache(maxsize=4)
def _fingerprint(
    root: str | None, version: str, backend: str, patterns: tuple[str, ...], extra: tuple[str, ...]
) -> str:
    others = [*_native_files(patterns)]
    for directory in extra:
        others += _walk(directory, ".py", "")
    # Hashing 100 MB of libraries takes longer than a whole cached start, so the content hash is remembered
    # for an unchanged set of sizes and times.
    stamp = digest_of(_PYTHON_STAMP, _stamp(others))
    memo = None if root is None else Path(root) / f"toolchain-{stamp[:16]}.json"
    digests = _read_memo(memo, stamp, 1)
    if digests is None:
        sha = hashlib.sha256()
        for name, path, size, _ in (*_PYTHON_FILES, *others):
            sha.update(name.encode())
            build = None if name.endswith(".py") else build_id(path)
            if build:
                # The linker's own digest of a library of 150 MB, whose content takes longer to hash than to compile.
                sha.update(f"{size}:{build}".encode())
                continue
            with open(path, "rb") as handle:
                for block in iter(lambda: handle.read(1 << 20), b""):
                    sha.update(block)
        digests = [sha.hexdigest()]
        _write_memo(memo, stamp, digests)
    return f"flydsl:{version}:{FORMAT}:{backend}-{digests[0]}"


def _read_memo(memo: Path | None, stamp: str, count: int) -> list[str] | None:
    """The digests that were remembered of files with this stamp; None if there are not as many, or a damaged file."""
    if memo is None:
        return None
    from flydsl.utils.file import read_json

    try:
        data = read_json(memo)
        digests: list[str] = data["digests"] if data["stamp"] == stamp else []
        return digests if len(digests) == count and all(_DIGEST.fullmatch(digest) for digest in digests) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_memo(memo: Path | None, stamp: str, digests: list[str]) -> None:
    if memo is None:
        return
    from flydsl.utils.file import atomic_write

    try:
        memo.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(memo) as handle:
            json.dump({"stamp": stamp, "digests": digests}, handle)
    except OSError:
        return


@functools.lru_cache(maxsize=8)
def source_files(package: str) -> tuple[_Files, str]:
    """The Python files of an imported package as they were at the first call, (relative name, path, size, time), and
    a digest of these.

    A package with prebuilt artifacts calls this when it is imported: looking at its files takes longer than all the
    rest of an operator's first call, and from then on the process runs what it imported.
    """
    import flydsl

    top, _, rest = package.partition(".")
    own = rest.replace(".", "/")
    found: _Files = []
    for place in flydsl.__path__ if top == "flydsl" else sys.modules[top].__path__:
        found += _walk(f"{place}/{own}".rstrip("/"), ".py", f"{package}/")
    return found, _stamp(found)


class SourceDigests(NamedTuple):
    """Digests of sources, the same wherever they are installed.

    Attributes:
        package: of a package and the stack below it, without flydsl-ir, which need not be installed where nothing is
            compiled.
        generator: of flydsl-ir; empty where it is not installed.
    """

    package: str
    generator: str


@functools.lru_cache(maxsize=8)
def source_digests(package: str) -> SourceDigests:
    """Digests of the Python sources of the stack and of a package."""
    # The stack's files were looked at when this module was imported; a first call has no time to do so again.
    files, own_stamp = source_files(package)
    root, stamp = cache_root(), digest_of(_PYTHON_STAMP, package, own_stamp)
    memo = None if root is None else root / f"sources-{stamp[:16]}.json"
    digests = _read_memo(memo, stamp, 2)
    if digests is None:
        generator = [f for f in _PYTHON_FILES if f[0].startswith("ir/")]
        others = [f for f in _PYTHON_FILES if not f[0].startswith("ir/")]
        digests = [_content_digest(sorted(files + others)), _content_digest(generator) if generator else ""]
        _write_memo(memo, stamp, digests)
    return SourceDigests(*digests)


def _content_digest(files: _Files) -> str:
    sha = hashlib.sha256()
    for name, path, _, _ in files:
        with open(path, "rb") as handle:
            sha.update(f"{name}:{hashlib.sha256(handle.read()).hexdigest()}\n".encode())
    return sha.hexdigest()


def toolchain_fingerprint(backend: Any) -> str:
    """Identity of everything that turns a function into an artifact: versions, sources, libraries, backend."""
    root = cache_root()
    external = external_fingerprint(env.compile.llvm_dir)
    versions = ",".join(f"{name}={version}" for name, version in _changed_versions())
    return _fingerprint(None if root is None else str(root), versions, backend.hash() + external,
                        tuple(backend.native_lib_patterns()),
                        (*EXTRA_SOURCE_DIRS, *env.compile.extra_source_dirs))


# Taken at import: this process runs the code as it is now, also when a file changes before the first call. (And
# looking at 200 files takes longer than all the rest of a cached start.)
_PYTHON_FILES = _python_files()
_PYTHON_STAMP = _stamp(_PYTHON_FILES)
_native_files(NATIVE_LIBRARIES)
