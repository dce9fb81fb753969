"""File helpers."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], *, mode: str = "w", encoding: str | None = None) -> Iterator[IO[Any]]:
    """Open a temporary file beside ``path`` and rename it into place when the block succeeds.

    Readers see the old file or the whole new one. On any failure the temporary file is removed.
    """
    target = Path(path)
    fd, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(fd, mode, encoding=encoding) as handle:
            yield handle
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
