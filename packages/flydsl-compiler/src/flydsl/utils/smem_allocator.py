"""`flydsl.expr.smem_allocator` under its public name."""

import sys

from flydsl.expr import smem_allocator as _module

sys.modules[__name__] = _module
