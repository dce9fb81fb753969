"""`flydsl.tracing.diagnostics` under its public name."""

import sys

from flydsl.tracing import diagnostics as _module

sys.modules[__name__] = _module
