"""`flydsl.compiler.passes.mlir_utils` under its public name."""

import sys

from .passes import mlir_utils as _module

sys.modules[__name__] = _module
