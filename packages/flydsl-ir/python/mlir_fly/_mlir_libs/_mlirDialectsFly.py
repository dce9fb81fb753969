"""The native part of the fly dialect under the name that upstream dialects use for theirs."""

# Re-exporting is the purpose of this module.
# ruff: noqa: F401, F403

from ._flyDialects.fly import *
from ._flyDialects.fly import _Basis
