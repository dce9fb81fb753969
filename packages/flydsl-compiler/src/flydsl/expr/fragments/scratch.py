"""LDS through which fragments pass between the waves of a workgroup: one region a kernel, as large as its largest use.

Every use starts with a barrier, so that no wave writes what another has yet to read, and has one between its writes
and its reads.
"""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl._mlir.dialects import fly
from flydsl.tracing.ambient import kernel_scope
from flydsl.tracing.lazy import llvm

from ..numeric import Int8
from ..primitive import add_offset, to_llvm_ptr

ALIGNMENT = 16


def scratch(size: int) -> Any:
    """Pointer to `size` bytes (Int8) of the kernel's scratch region. RuntimeError outside a kernel."""
    scope = kernel_scope()
    if scope is None:
        raise RuntimeError("an exchange between waves needs LDS, which only a @flyc.kernel function has")
    i64 = ir.IntegerType.get_signless(64)
    region = scope.get("fragment_scratch")
    if region is None:
        with ir.InsertionPoint.at_block_begin(_entry_block()):
            ty = fly.PointerType.get(Int8.ir_type, fly.AddressSpace.Shared, ALIGNMENT)
            attrs = {"allocBytes": ir.IntegerAttr.get(i64, size), "allocAlign": ir.IntegerAttr.get(i64, ALIGNMENT)}
            region = scope["fragment_scratch"] = fly.make_ptr(ty, [], dict_attrs=ir.DictAttr.get(attrs))
        return region
    attributes = region.owner.attributes
    known = ir.DictAttr(attributes["dictAttrs"])
    if ir.IntegerAttr(known["allocBytes"]).value < size:
        grown = {"allocBytes": ir.IntegerAttr.get(i64, size), "allocAlign": known["allocAlign"]}
        attributes["dictAttrs"] = ir.DictAttr.get(grown)
    return region


def _entry_block() -> ir.Block:
    """First block of the kernel at whose body code is being inserted: what is made there dominates every use."""
    op = ir.InsertionPoint.current.block.owner
    while op.operation.name not in ("gpu.func", "func.func"):
        op = op.operation.parent
    return op.operation.regions[0].blocks[0]


def store(base: Any, offset: Any, value: ir.Value, alignment: int) -> None:
    """A vector or scalar at a byte offset, in one access."""
    llvm.store(value, to_llvm_ptr(add_offset(base, offset)), alignment=alignment)


def load(base: Any, offset: Any, ty: ir.Type, alignment: int) -> ir.Value:
    """A vector or scalar from a byte offset, in one access."""
    return llvm.load(ty, to_llvm_ptr(add_offset(base, offset)), alignment=alignment)
