"""The disk cache as a whole: what is in it, whether it is intact, how large it may grow, why a call misses."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from flydsl.utils.file import open_regular, read_regular

from .artifact import ArtifactError, CompiledArtifact, read_header
from .root import READS, SUFFIX, cache_root

__all__ = ["CacheEntry", "DiskCache", "Explanation"]

_ABANDONED = 3600.0  # seconds after which a temporary file belongs to a process that died
_LOOKED = ".looked"  # file whose time is that of the last look at the whole cache, and whose text the seconds it took
_SHARE, _LONGEST = 0.01, 3600.0  # part of the time that looking may take; seconds after which it is due in any case


@dataclass
class CacheEntry:
    """One artifact file. ``problem`` is empty where none was found, and then only are the other facts known.

    Attributes:
        path: the file. size: bytes. used: time of the last use, seconds since the epoch.
        name: the jit function. arch: target. kernels: symbols. compile_seconds: what it took to make.
    """

    path: str
    size: int
    used: float
    name: str = ""
    arch: str = ""
    kernels: list[str] = field(default_factory=list)
    compile_seconds: float = 0.0
    problem: str = ""

    @property
    def outdated(self) -> bool:
        """Whether the file is from another version rather than damaged."""
        return self.problem.startswith("format ")

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass
class Explanation:
    """Why a call finds its artifact or not.

    Attributes:
        function: the jit function's name. key: digest of the call's full key.
        found: ``"memory"``, ``"disk"``, ``"prebuilt"`` or ``""`` for a miss. path: file of the artifact.
        reasons: for a miss, what differs from the most similar artifact of this function, or that there is none.
        inputs: the key taken apart.
    """

    function: str
    key: str
    found: str
    path: str
    reasons: list[str]
    inputs: dict[str, Any]

    def __str__(self) -> str:
        places = {"memory": "compiled in this process", "disk": f"in {self.path}", "prebuilt": f"prebuilt, {self.path}"}
        where = places.get(self.found, "would be compiled")
        return "\n".join([f"{self.function}: {where} (key {self.key})", *(f"  {r}" for r in self.reasons)])


class DiskCache:
    """The cache in a directory; by default the one of the settings.

    Args:
        root: the directory; None for the one of the settings, which may be switched off.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root if root is not None else cache_root()

    def files(self) -> Iterator[Path]:
        """The artifact files. Another process may remove folders meanwhile: those are as if they had never been."""
        found: list[Path] = []
        if self.root is not None:
            with contextlib.suppress(FileNotFoundError):
                for folder in list(self.root.iterdir()):
                    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                        found += [path for path in folder.iterdir() if path.suffix == SUFFIX]
        yield from sorted(found)

    def entries(self) -> list[CacheEntry]:
        """Every artifact, as its header and size tell: what is behind the header is for `verify`."""
        return [entry for path in self.files() if (entry := _read(path)) is not None]

    def stats(self) -> dict[str, Any]:
        """``root``, number of ``files``, their ``bytes``, and ``functions`` (directories)."""
        sizes, folders = [], set()
        for path in self.files():
            with contextlib.suppress(OSError):
                sizes.append(path.stat().st_size)
                folders.add(path.parent)
        root = None if self.root is None else str(self.root)
        return {"root": root, "files": len(sizes), "bytes": sum(sizes), "functions": len(folders)}

    def verify(self, *, delete: bool = False) -> list[CacheEntry]:
        """The entries that are damaged or foreign, read to the end; with ``delete`` they are removed."""
        bad = [entry for path in self.files() if (entry := _read(path, whole=True)) is not None and entry.problem]
        for entry in bad if delete else ():
            with contextlib.suppress(OSError):
                os.unlink(entry.path)
        return bad

    def clear(self, name: str = "") -> int:
        """Delete the artifacts (of the functions called ``name``); the number of files deleted.

        A process that uses one keeps what it has in memory, and one that compiles stores it again.
        """
        count = 0
        for path in list(self.files()):
            if name and path.parent.name.rpartition("_")[0] != name:
                continue
            with contextlib.suppress(OSError):
                path.unlink()
                count += 1
        self._sweep(everything=True)
        return count

    def prune(self, limit: int, *, keep: Path | None = None) -> int:
        """Delete the least recently used artifacts until at most ``limit`` bytes are left; the number deleted.

        The youngest file in ``keep`` stays in any case.
        """
        found = []
        for path in self.files():
            with contextlib.suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in found)
        count = 0
        found.sort()
        spared = max((f for f in found if f[2].parent == keep), default=None)
        for entry in found:
            if total <= limit:
                break
            if entry is spared:
                continue
            with contextlib.suppress(OSError):
                entry[2].unlink()
                total -= entry[1]
                count += 1
        self._sweep()
        return count

    def prune_if_due(self, limit: int, *, keep: Path | None = None) -> int:
        """:meth:`prune`, unless a look at the whole cache is too recent for what it costs; the number deleted.

        For processes that store one artifact: the cost of a look grows with the cache, and so does the pause.
        """
        if self.root is None:
            return 0
        stamp = self.root / _LOOKED
        with contextlib.suppress(OSError, ValueError):
            if 0 <= time.time() - stamp.stat().st_mtime < min(float(read_regular(stamp)[0]) / _SHARE, _LONGEST):
                return 0
        start = time.perf_counter()
        count = self.prune(limit, keep=keep)
        with contextlib.suppress(OSError):  # half a number is a smaller one: the next look comes earlier
            stamp.write_text(f"{time.perf_counter() - start:.6f}", encoding="utf-8")
        return count

    def _sweep(self, everything: bool = False) -> None:
        """Remove what killed processes left, and locks and folders without artifacts."""
        if self.root is None or not self.root.is_dir():
            return
        now = time.time()
        if everything:
            with contextlib.suppress(OSError):
                (self.root / _LOOKED).unlink()
        for folder in [p for p in self.root.iterdir() if p.is_dir()]:
            with contextlib.suppress(OSError):
                for path in folder.iterdir():
                    old = now - path.stat().st_mtime > _ABANDONED
                    orphan = path.suffix == ".lock" and not path.with_suffix(SUFFIX).exists()
                    if old and (path.name.endswith(".tmp") or orphan):
                        path.unlink()
                left = {p.name for p in folder.iterdir()}
                if everything and left <= {READS}:
                    (folder / READS).unlink(missing_ok=True)
                folder.rmdir()  # fails unless it is empty

    def explain(self, function: Any, *args: Any, **kwargs: Any) -> Explanation:
        """Why a call of a jit function with these arguments finds an artifact or not. Compiles nothing."""
        from .toolchain import toolchain_fingerprint

        if hasattr(function, "__func__"):  # bound to an instance
            function, args = function.__func__, (function.__self__, *args)
        call = function.resolve_call(*args, **kwargs)
        toolchain = toolchain_fingerprint(call.backend)
        inputs = call.inputs(toolchain)
        digest = call.digest(toolchain)
        manager = function.manager_of(call)
        path = "" if manager is None else str(manager.path(digest))
        if call.key in function._mem_cache:
            return Explanation(function.__name__, digest, "memory", path, [], inputs)
        ready = function.prebuilt(call)
        if ready is not None:
            return Explanation(function.__name__, digest, "prebuilt", ready.key, [], inputs)
        if manager is not None and manager.reload(digest) is not None:
            return Explanation(function.__name__, digest, "disk", path, [], inputs)
        return Explanation(function.__name__, digest, "", path, self._reasons(function.__name__, path, inputs), inputs)

    def _reasons(self, name: str, path: str, inputs: dict[str, Any]) -> list[str]:
        if not path:
            return ["the disk cache is off"]
        if os.path.exists(path):
            entry = _read(Path(path), whole=True)
            return [f"the file {path} is not usable: {entry.problem if entry else 'it cannot be read'}"]
        nearest: list[str] | None = None
        for entry in self.entries():
            known = _inputs(Path(entry.path)) if entry.name == name and not entry.problem else {}
            if not known:
                continue
            found = _differences(known, inputs)
            if nearest is None or len(found) < len(nearest):
                nearest = found
        if nearest is None:
            return [f"no artifact of {name} is in {self.root}"]
        return nearest or ["an artifact with the same inputs has another key: it is from another version"]


def _inputs(path: Path) -> dict[str, Any]:
    """What the artifact of a file was compiled from; empty where that is not known."""
    try:
        return CompiledArtifact.parse(read_regular(path)[0]).inputs
    except (OSError, ArtifactError):
        return {}


def _read(path: Path, *, whole: bool = False) -> CacheEntry | None:
    """The facts of a file, with ``whole`` after a look at its checksum; None if it vanished meanwhile."""
    try:
        with open_regular(path) as (file, status):
            entry = CacheEntry(str(path), status.st_size, status.st_mtime, path.parent.name.rpartition("_")[0])
            try:
                if whole:
                    CompiledArtifact.parse(file.read())
                    file.seek(0)
                header = read_header(file, status.st_size)
            except ArtifactError as error:
                entry.problem = str(error)
                return entry
    except OSError:
        return None
    entry.name, entry.arch = header["name"], header["arch"]
    entry.kernels = list(header["metadata"].get("kernels", ()))
    entry.compile_seconds = float(header["metadata"].get("compile_seconds", 0.0))
    if not path.name.startswith(header["key"][:16]):
        entry.problem = "the file has the name of another key"
    return entry


def _differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What of the inputs differs, for people."""
    found = []
    labels = {"toolchain": "the FlyDSL installation (versions, sources or libraries)", "target": "the architecture",
              "hints": "the compile hints", "environment": "environment variables of the key"}
    for key, label in labels.items():
        if old.get(key) != new.get(key):
            detail = "" if key == "toolchain" else f": {old.get(key)} before, {new.get(key)} now"
            found.append(f"{label} changed{detail}")
    for key, label in (("arguments", "argument"), ("parts", "reached")):
        before, now = old.get(key) or {}, new.get(key) or {}
        for name in sorted({*before, *now}):
            if before.get(name) != now.get(name):
                was, is_now = before.get(name, "absent"), now.get(name, "absent")
                found.append(f"{label} {name!r} changed: {was} before, {is_now} now")
    if old.get("identity") != new.get("identity") and not any(f.startswith("reached") for f in found):
        found.append("something that the function reaches changed")
    return found
