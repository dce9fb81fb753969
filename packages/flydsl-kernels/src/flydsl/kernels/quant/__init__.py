"""Quantisation and dequantisation."""

from .builders import *  # noqa: F403
from .builders import __all__
