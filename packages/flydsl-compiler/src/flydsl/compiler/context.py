"""`flydsl.tracing.context` under its public name."""

import sys

from flydsl.tracing import context as _module

sys.modules[__name__] = _module
