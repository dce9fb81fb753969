"""`flydsl.compiler.trace.extern_link` under its public name."""

import sys
from typing import TYPE_CHECKING

from .trace import extern_link as _module

sys.modules[__name__] = _module

if TYPE_CHECKING:
    from .trace.extern_link import *  # noqa: F403
