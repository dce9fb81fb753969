"""`flydsl.compiler.store.artifact` under its public name."""

import sys
from typing import TYPE_CHECKING

from .store import artifact as _module

sys.modules[__name__] = _module

if TYPE_CHECKING:
    from .store.artifact import *  # noqa: F403
