"""`flydsl.compiler.passes.llvm_options` under its public name."""

import sys
from typing import TYPE_CHECKING

from .passes import llvm_options as _module

sys.modules[__name__] = _module

if TYPE_CHECKING:
    from .passes.llvm_options import *  # noqa: F403
