"""Settings, logging and file helpers."""

from . import env
from .logger import log

__all__ = ["env", "log"]
