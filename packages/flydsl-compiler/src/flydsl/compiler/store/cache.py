"""The disk cache of artifacts: `<root>/<function>_<identity>/<key>.fly`.

A miss is silent; a corrupt or foreign file is a miss; a directory that cannot be written costs one
warning and never a failure.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from flydsl.utils import env
from flydsl.utils.file import atomic_write, read_json, read_regular

from .artifact import CompiledArtifact
from .disk_cache import DiskCache
from .root import READS, SUFFIX

__all__ = ["CacheInfo", "FileLock", "JitCacheManager", "clear", "stats"]

_POLL = 0.05
_TOUCH_AFTER = 3600.0  # seconds; the time of use is kept no more precisely than this
_PRUNE_EVERY = 64  # stores of this process between looks at the size of the cache
_stores = 0
_warned_roots: set[str] = set()


class CacheInfo(NamedTuple):
    """Counts of one function's disk lookups, entries loaded or written, and files on disk."""

    hits: int
    misses: int
    currsize: int
    disk_size: int


class FileLock:
    """An advisory lock on a file. RuntimeError when it is not granted in time.

    Args:
        shared: several readers may hold it.
        timeout: seconds.
    """

    def __init__(self, path: str | os.PathLike[str], *, shared: bool = False, timeout: float = 600.0) -> None:
        self._path, self._shared, self._timeout = Path(path), shared, timeout
        self._fd: int | None = None

    def __enter__(self) -> FileLock:
        import fcntl

        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        mode = (fcntl.LOCK_SH if self._shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                fcntl.flock(self._fd, mode)
                return self
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(self._fd)
                    raise RuntimeError(f"timeout of {self._timeout} s waiting for the lock {self._path}") from None
                time.sleep(_POLL)
            except OSError:
                # No lock support on this file system: the rename alone keeps readers safe.
                return self

    def __exit__(self, *exc: object) -> None:
        if self._fd is not None:
            import fcntl

            with contextlib.suppress(OSError):  # a child that was forked meanwhile has the file open, too
                fcntl.flock(self._fd, fcntl.LOCK_UN)
            os.close(self._fd)
            self._fd = None


@dataclass
class _Counts:
    hits: int = 0
    misses: int = 0
    entries: int = 0


class JitCacheManager:
    """Artifacts of one function identity in one cache root."""

    def __init__(self, root: Path, name: str, identity: str) -> None:
        safe = "".join(c if c.isalnum() and c.isascii() or c in "_.-" else "_" for c in name)
        self.root, self.identity, self.directory = root, identity, root / f"{safe}_{identity}"
        self._counts = _Counts()

    def path(self, key: str) -> Path:
        """File of a key."""
        return self.directory / f"{key[:16]}{SUFFIX}"

    def load(
        self, key: str, otherwise: Callable[[], CompiledArtifact | None] = lambda: None
    ) -> CompiledArtifact | None:
        """The artifact of a key, or what stands in for it; None when there is none that is intact."""
        artifact = self._read(key) or otherwise()
        if artifact is None:
            self._counts.misses += 1
        else:
            self._counts.hits += 1
            self._counts.entries += 1
        return artifact

    def _read(self, key: str) -> CompiledArtifact | None:
        try:
            data, facts = read_regular(self.path(key))
            old = time.time() - facts.st_mtime > _TOUCH_AFTER
        except OSError:
            return None
        artifact = CompiledArtifact.from_bytes(data, key=key)
        if artifact is not None and old:
            with contextlib.suppress(OSError):  # the time of the last use decides what the size bound drops
                os.utime(self.path(key))
        return artifact

    def reload(self, key: str) -> CompiledArtifact | None:
        """:meth:`load` that is not counted: a look for what another process may have compiled meanwhile."""
        return self._read(key)

    def environment_reads(self) -> set[str]:
        """Names of the environment variables that the traced code of this identity is known to read."""
        try:
            names = read_json(self.directory / READS)
        except (OSError, ValueError):
            return set()
        return {n for n in names if isinstance(n, str)} if isinstance(names, list) else set()

    def store(self, key: str, artifact: CompiledArtifact, reads: Collection[str] = ()) -> bool:
        """Write an artifact. A failure is one warning per cache root; returns whether it was written.

        ``reads`` are the variables that its key includes because the traced code reads them.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            missing = set(reads) - self.environment_reads() if reads else set()
            if missing:
                # First, so that whoever finds the artifact knows what its key is made of.
                with atomic_write(self.directory / READS) as handle:
                    json.dump(sorted(set(reads) | self.environment_reads()), handle)
            with atomic_write(self.path(key), mode="wb") as handle:
                handle.write(artifact.to_bytes())
        except OSError as error:
            self._warn(error)
            return False
        self._counts.entries += 1
        self._bound_size()
        return True

    def _bound_size(self) -> None:
        global _stores
        _stores += 1
        limit = env.runtime.cache_size_mb
        if limit and _stores % _PRUNE_EVERY == 1:
            cache = DiskCache(self.root)
            look = cache.prune_if_due if _stores == 1 else cache.prune
            look(limit << 20, keep=self.directory)

    @contextlib.contextmanager
    def compiling(self, key: str) -> Iterator[None]:
        """Exclusive right to compile a key among processes that share the cache."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            lock: contextlib.AbstractContextManager[object] = FileLock(self.path(key).with_suffix(".lock"))
            lock.__enter__()
        except OSError as error:
            self._warn(error)
            lock = contextlib.nullcontext()
        with contextlib.ExitStack() as stack:
            stack.push(lock.__exit__)
            yield

    def _warn(self, error: OSError) -> None:
        if str(self.root) not in _warned_roots:
            _warned_roots.add(str(self.root))
            warnings.warn(
                f"the kernel cache {self.root} cannot be written ({error.strerror or error}); kernels are compiled "
                f"again in "
                "each process. Set FLYDSL_RUNTIME_CACHE_DIR to a writable directory.", UserWarning,
                stacklevel=6)

    def info(self) -> CacheInfo:
        """Counts so far."""
        files = len(list(self.directory.glob(f"*{SUFFIX}"))) if self.directory.is_dir() else 0
        return CacheInfo(self._counts.hits, self._counts.misses, self._counts.entries, files)


def stats() -> dict[str, object]:
    """Files and bytes in the disk cache, see `disk_cache.DiskCache`."""
    return DiskCache().stats()


def clear() -> int:
    """Delete every artifact of the disk cache; the number of files deleted."""
    return DiskCache().clear()
