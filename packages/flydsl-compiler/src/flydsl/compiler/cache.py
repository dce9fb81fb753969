"""`flydsl.compiler.store.cache` under its public name."""

import sys
from typing import TYPE_CHECKING

from .store import cache as _module

sys.modules[__name__] = _module

if TYPE_CHECKING:
    from .store.cache import *  # noqa: F403
