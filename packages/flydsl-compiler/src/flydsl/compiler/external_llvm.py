"""`flydsl.compiler.passes.external_llvm` under its public name."""

import sys

from .passes import external_llvm as _module

sys.modules[__name__] = _module
