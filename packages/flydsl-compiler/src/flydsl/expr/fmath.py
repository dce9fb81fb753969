"""The earlier name of `flydsl.expr.math`."""

from .math import *  # noqa: F403
from .math import __all__ as __all__
