"""`flydsl.compiler.passes.external_llvm` under its public name."""

import sys
from typing import TYPE_CHECKING

from .passes import external_llvm as _module

sys.modules[__name__] = _module

if TYPE_CHECKING:
    from .passes.external_llvm import *  # noqa: F403
