"""Where the disk cache lies."""

from __future__ import annotations

from pathlib import Path

from flydsl.utils import env

__all__ = ["READS", "cache_root"]

READS = "environment.json"  # in a function's folder: the variables that its keys include


def cache_root() -> Path | None:
    """Directory of the disk cache, or None when it is disabled."""
    text = env.runtime.cache_dir
    if not text or not (env.runtime.enable_cache or env.runtime.run_only):
        return None
    return Path(text).expanduser()
