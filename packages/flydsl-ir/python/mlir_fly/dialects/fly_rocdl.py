"""The fly_rocdl dialect: op builders, enums and the copy and MMA operations of AMD GPUs."""

# Re-exporting is the purpose of this module.
# ruff: noqa: F401, F403

from __future__ import annotations

from .._mlir_libs._flyDialects.fly_rocdl import *
from .._mlir_libs._flyDialects.fly_rocdl import BufferDescAddressAttr
from ..ir import Attribute
from ._fly_rocdl_enum_gen import *
from ._fly_rocdl_ops_gen import *
from ._fly_rocdl_ops_gen import _Dialect


class _TargetAddressSpaceMeta(type):
    @property
    def BufferDesc(cls) -> Attribute:  # noqa: N802  (the name of a member)
        """``#fly_rocdl.buffer_desc`` in the current context."""
        return BufferDescAddressAttr.get()


class TargetAddressSpace(metaclass=_TargetAddressSpaceMeta):
    """Address spaces of AMD GPUs, as attributes of the current context."""
