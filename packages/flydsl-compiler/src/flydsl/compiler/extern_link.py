"""`flydsl.compiler.trace.extern_link` under its public name."""

import sys

from .trace import extern_link as _module

sys.modules[__name__] = _module
