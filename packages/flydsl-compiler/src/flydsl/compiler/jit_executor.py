"""`flydsl.compiler.launch.jit_executor` under its public name."""

import sys
from typing import TYPE_CHECKING

from .launch import jit_executor as _module

sys.modules[__name__] = _module

if TYPE_CHECKING:
    from .launch.jit_executor import *  # noqa: F403
