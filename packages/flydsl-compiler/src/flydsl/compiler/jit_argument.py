"""`flydsl.compiler.specialization.jit_argument` under its public name."""

import sys
from typing import TYPE_CHECKING

from .specialization import jit_argument as _module

sys.modules[__name__] = _module

if TYPE_CHECKING:
    from .specialization.jit_argument import *  # noqa: F403
