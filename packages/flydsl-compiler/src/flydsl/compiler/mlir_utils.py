"""`flydsl.compiler.passes.mlir_utils` under its public name."""

import sys
from typing import TYPE_CHECKING

from .passes import mlir_utils as _module

sys.modules[__name__] = _module

if TYPE_CHECKING:
    from .passes.mlir_utils import *  # noqa: F403
