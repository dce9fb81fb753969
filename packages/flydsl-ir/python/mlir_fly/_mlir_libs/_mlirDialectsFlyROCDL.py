"""The native part of the fly_rocdl dialect under the name that upstream dialects use for theirs."""

# Re-exporting is the purpose of this module.
# ruff: noqa: F403

from ._flyDialects.fly_rocdl import *
