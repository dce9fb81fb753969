"""`flydsl.tracing.protocol` under its public name."""

import sys

from flydsl.tracing import protocol as _module

sys.modules[__name__] = _module
