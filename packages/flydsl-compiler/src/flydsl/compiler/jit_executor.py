"""`flydsl.compiler.launch.jit_executor` under its public name."""

import sys

from .launch import jit_executor as _module

sys.modules[__name__] = _module
