"""Where the disk cache lies, and the names of the files in it."""

from __future__ import annotations

from pathlib import Path

from flydsl.utils import env

#: Of artifacts.
SUFFIX = ".fly"
#: Names of the environment variables that a function is known to read.
READS = "environment.json"


def cache_root() -> Path | None:
    """Directory of the disk cache, or None when it is disabled."""
    text = env.runtime.cache_dir
    if not text or not (env.runtime.enable_cache or env.runtime.run_only):
        return None
    return Path(text).expanduser()
