"""`flydsl.compiler.passes.llvm_options` under its public name."""

import sys

from .passes import llvm_options as _module

sys.modules[__name__] = _module
