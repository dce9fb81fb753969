"""`flydsl.compiler.passes.link_utils` under its public name."""

import sys

from .passes import link_utils as _module

sys.modules[__name__] = _module
