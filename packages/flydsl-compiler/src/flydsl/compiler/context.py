"""`flydsl.tracing.context` under its public name."""

import sys
from typing import TYPE_CHECKING

from flydsl.tracing import context as _module

sys.modules[__name__] = _module

if TYPE_CHECKING:
    from flydsl.tracing.context import *  # noqa: F403
