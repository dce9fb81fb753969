"""`flydsl.tracing.protocol` under its public name."""

import sys
from typing import TYPE_CHECKING

from flydsl.tracing import protocol as _module

sys.modules[__name__] = _module

if TYPE_CHECKING:
    from flydsl.tracing.protocol import *  # noqa: F403
