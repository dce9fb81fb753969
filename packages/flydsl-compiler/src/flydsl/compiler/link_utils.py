"""`flydsl.compiler.passes.link_utils` under its public name."""

import sys
from typing import TYPE_CHECKING

from .passes import link_utils as _module

sys.modules[__name__] = _module

if TYPE_CHECKING:
    from .passes.link_utils import *  # noqa: F403
