"""`flydsl.compiler.store.cache` under its public name."""

import sys

from .store import cache as _module

sys.modules[__name__] = _module
