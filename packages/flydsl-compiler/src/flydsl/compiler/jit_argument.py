"""`flydsl.compiler.specialization.jit_argument` under its public name."""

import sys

from .specialization import jit_argument as _module

sys.modules[__name__] = _module
