"""`flydsl.tracing.diagnostics` under its public name."""

import sys
from typing import TYPE_CHECKING

from flydsl.tracing import diagnostics as _module

sys.modules[__name__] = _module

if TYPE_CHECKING:
    from flydsl.tracing.diagnostics import *  # noqa: F403
