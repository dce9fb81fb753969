"""`flydsl.expr.smem_allocator` under its public name."""

import sys
from typing import TYPE_CHECKING

from flydsl.expr import smem_allocator as _module

sys.modules[__name__] = _module

if TYPE_CHECKING:
    from flydsl.expr.smem_allocator import *  # noqa: F403
