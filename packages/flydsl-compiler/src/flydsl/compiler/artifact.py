"""`flydsl.compiler.store.artifact` under its public name."""

import sys

from .store import artifact as _module

sys.modules[__name__] = _module
