"""`flydsl.compiler.frontend.ast_rewriter` under its public name."""

import sys
from typing import TYPE_CHECKING

from .frontend import ast_rewriter as _module

sys.modules[__name__] = _module

if TYPE_CHECKING:
    from .frontend.ast_rewriter import *  # noqa: F403
