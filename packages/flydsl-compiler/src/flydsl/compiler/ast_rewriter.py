"""`flydsl.compiler.frontend.ast_rewriter` under its public name."""

import sys

from .frontend import ast_rewriter as _module

sys.modules[__name__] = _module
