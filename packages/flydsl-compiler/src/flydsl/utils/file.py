"""File helpers."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], *, mode: str = "w", encoding: str | None = None) -> Iterator[IO[Any]]:
    """Open a temporary file beside ``path`` and rename it into place when the block succeeds.

    Readers see the old file or the whole new one. On any failure the temporary file is removed. Who may read the new
    one is what the umask says, as of any file: `tempfile` would keep it from other users of a shared folder.
    """
    target = Path(path)
    name = target.with_name(f".{target.name}.{os.urandom(8).hex()}.tmp")
    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(fd, mode, encoding=encoding) as handle:
            yield handle
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


@contextlib.contextmanager
def open_regular(path: str | os.PathLike[str]) -> Iterator[tuple[IO[bytes], os.stat_result]]:
    """A regular file to read, and its facts. OSError for anything else, which may block its reader or never end."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as handle:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(f"{os.fspath(path)} is no regular file")
        yield handle, facts


def read_regular(path: str | os.PathLike[str]) -> tuple[bytes, os.stat_result]:
    """Contents and facts of a regular file. OSError as for `open_regular`."""
    with open_regular(path) as (handle, facts):
        return handle.read(), facts


def read_json(path: str | os.PathLike[str]) -> Any:
    """The data of a regular JSON file. OSError if it is none, ValueError for other contents, however deep."""
    data, _ = read_regular(path)
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("nested too deep") from None
