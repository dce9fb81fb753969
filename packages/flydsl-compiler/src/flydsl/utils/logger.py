"""The logger ``flydsl``, set up once from the settings."""

from __future__ import annotations

import functools
import logging

from . import env

_CONSOLE = "| %(levelname)s - [%(funcName)s] - %(message)s"
_FILE = "%(asctime)s | %(levelname)s - %(filename)s [%(funcName)s] - %(message)s"


@functools.cache
def log() -> logging.Logger:
    """The logger of the compiler. Silent unless a log file or the console is enabled. ValueError for a log file that
    cannot be written."""
    logger = logging.getLogger("flydsl")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    level = env.debug.log_level
    path = env.debug.log_to_file
    if path:
        try:
            _add(logger, logging.FileHandler(path, mode="w", encoding="utf-8"), level, _FILE)
        except OSError as error:
            raise ValueError(f"FLYDSL_DEBUG_LOG_TO_FILE={path!r} cannot be written ({error.strerror})") from None
    if env.debug.log_to_console:
        _add(logger, logging.StreamHandler(), level, _CONSOLE)
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger


def _add(logger: logging.Logger, handler: logging.Handler, level: str, text: str) -> None:
    handler.setLevel(level)
    handler.setFormatter(logging.Formatter(text))
    logger.addHandler(handler)
