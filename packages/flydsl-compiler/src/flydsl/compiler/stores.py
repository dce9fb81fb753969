"""Which arguments a kernel stores to by their raw address.

Stores through tensors and pointers are noted where they are traced. Buffer resources, LLVM pointers and the
descriptors of tensor moves are plain values: the uses of an argument's address lead to the stores through them.
"""

from __future__ import annotations

from typing import Any

__all__ = ["raw_stores"]

#: Writing operations and the number of their address.
_WRITES = {
    "llvm.store": 1, "llvm.atomicrmw": 0, "llvm.cmpxchg": 0, "memref.store": 1, "vector.store": 1,
    "rocdl.raw.ptr.buffer.store": 1, "rocdl.raw.buffer.store": 1,
    **{f"rocdl.raw.{kind}.atomic.{name}": 1
       for kind in ("buffer", "ptr.buffer") for name in ("fadd", "fmax", "smax", "umin")},
    "rocdl.raw.buffer.atomic.cmpswap": 2, "rocdl.raw.ptr.buffer.atomic.cmpswap": 2,
}  # fmt: skip

#: Operations whose result is an address made from their first operand. Other operands are sizes and offsets.
_ADDRESSES = frozenset({
    "rocdl.make.buffer.rsrc", "llvm.ptrtoint", "llvm.inttoptr", "llvm.getelementptr", "llvm.addrspacecast",
    "llvm.bitcast", "arith.index_cast", "arith.index_castui", "builtin.unrealized_conversion_cast", "fly.ptrtoint",
    "memref.extract_aligned_pointer_as_index",
})  # fmt: skip

#: Operations by which the words of an address become part of a descriptor.
_PARTS = frozenset({
    "arith.trunci", "arith.extui", "arith.shrui", "arith.andi", "arith.ori", "vector.from_elements", "vector.insert",
    "vector.insertelement", "llvm.insertelement", "vector.bitcast",
})  # fmt: skip

_DESCRIPTOR_STORE = "rocdl.tensor.store.from.lds"


def raw_stores(block: Any) -> set[int]:
    """Numbers of the kernel's tensor and pointer arguments that operations in it store to by address."""
    from flydsl._mlir.dialects import fly

    memory = (fly.MemRefType, fly.PointerType)
    return {
        number
        for number, argument in enumerate(block.arguments)
        if isinstance(argument.type, memory) and _is_stored(argument, memory)
    }


def _is_stored(argument: Any, memory: tuple[type, ...]) -> bool:
    from flydsl._mlir import ir

    pending: list[tuple[Any, bool]] = [(argument, False)]
    seen = set()
    while pending:
        value, part = pending.pop()
        # Value classes overload or share `==`.
        key = (ir.Value.__hash__(value), part)
        if key in seen:
            continue
        seen.add(key)
        for use in value.uses:
            op, number = use.owner.operation, use.operand_number
            name = op.name
            if name.startswith(_DESCRIPTOR_STORE) or not part and _WRITES.get(name) == number:
                return True
            if name in _PARTS:
                pending += [(result, True) for result in op.results]
            elif name == "arith.addi" or name == "arith.select" and number > 0 or number == 0 and name in _ADDRESSES:
                pending += [(result, part) for result in op.results]
            elif name == "scf.for" and number >= 3:
                pending += [(op.results[number - 3], part), (op.regions[0].blocks[0].arguments[number - 2], part)]
            elif number == 0 and name.startswith("fly."):
                pending += [(r, part) for r in op.results if isinstance(r.type, memory) or "llvm.ptr" in str(r.type)]
    return False
