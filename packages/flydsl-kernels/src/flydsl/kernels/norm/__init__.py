"""RMS norm and layer norm: forward, with residual add and quantised output, and backward."""

from . import backward, layernorm, rmsnorm
from .backward import *  # noqa: F403
from .layernorm import *  # noqa: F403
from .rmsnorm import *  # noqa: F403

__all__ = [*rmsnorm.__all__, *layernorm.__all__, *backward.__all__]
