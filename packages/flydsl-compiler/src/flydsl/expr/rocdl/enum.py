"""AMD synchronisation scopes and the target address space."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir

from ..utils.classattr import lazy_classattr

__all__ = ["AddressSpace", "SyncScope", "TargetAddressSpace"]


class SyncScope:
    """LLVM synchronisation scopes of the AMDGPU target."""

    Agent = "agent"
    Workgroup = "workgroup"
    Wavefront = "wavefront"
    OneAs = "one-as"
    AgentOneAs = "agent-one-as"
    WorkgroupOneAs = "workgroup-one-as"
    WavefrontOneAs = "wavefront-one-as"
    SingleThreadOneAs = "singlethread-one-as"


class TargetAddressSpace:
    """Address spaces of the target: `BufferDesc`, a buffer resource with an offset."""

    @lazy_classattr
    def BufferDesc(cls: Any) -> ir.Attribute:  # noqa: N802, N805
        return ir.Attribute.parse("#fly_rocdl.buffer_desc")


AddressSpace = TargetAddressSpace
