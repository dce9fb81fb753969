"""Which arguments a kernel stores to by their raw address, and which hold addresses.

Stores through tensors and pointers are noted where they are traced. Buffer resources, LLVM pointers and the
descriptors of tensor moves are plain values: the uses of an argument's address lead to the stores through them, the
uses of its elements to pointers made of them.
"""

from __future__ import annotations

from typing import Any

__all__ = ["pointer_tables", "raw_stores"]

#: Writing operations and the number of their address.
_WRITES = {
    "llvm.store": 1, "llvm.atomicrmw": 0, "llvm.cmpxchg": 0, "memref.store": 1, "vector.store": 1,
    "rocdl.raw.ptr.buffer.store": 1, "rocdl.raw.buffer.store": 1,
    **{f"rocdl.raw.{kind}.atomic.{name}": 1
       for kind in ("buffer", "ptr.buffer") for name in ("fadd", "fmax", "smax", "umin")},
    "rocdl.raw.buffer.atomic.cmpswap": 2, "rocdl.raw.ptr.buffer.atomic.cmpswap": 2,
}

#: Operations whose result is an address made from their first operand. Other operands are sizes and offsets.
_ADDRESSES = frozenset({
    "rocdl.make.buffer.rsrc", "llvm.ptrtoint", "llvm.inttoptr", "llvm.getelementptr", "llvm.addrspacecast",
    "llvm.bitcast", "arith.index_cast", "arith.index_castui", "builtin.unrealized_conversion_cast", "fly.ptrtoint",
    "memref.extract_aligned_pointer_as_index",
})

#: Operations by which the words of an address become part of a descriptor.
_PARTS = frozenset({
    "arith.trunci", "arith.extui", "arith.shrui", "arith.andi", "arith.ori", "vector.from_elements", "vector.insert",
    "vector.insertelement", "llvm.insertelement", "vector.bitcast",
})

_LOADS = frozenset({
    "fly.memref.load", "fly.memref.load_vec", "fly.ptr.load", "llvm.load", "memref.load", "vector.load",
    "rocdl.raw.ptr.buffer.load", "rocdl.raw.buffer.load",
})

#: Operations that move or join the words of a loaded address.
_MOVES = _PARTS | {
    "arith.bitcast", "arith.shli", "arith.index_cast", "arith.index_castui", "vector.extract", "vector.extractelement",
    "vector.extract_strided_slice", "llvm.bitcast", "llvm.extractelement", "rocdl.readfirstlane", "rocdl.readlane",
}

_POINTERS = frozenset({"llvm.inttoptr", "fly.inttoptr"})

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


def pointer_tables(block: Any) -> set[int]:
    """Numbers of the kernel's arguments with 64-bit integer elements of which pointers are made.

    Elements that are copied to fragments are not followed.
    """
    from flydsl._mlir import ir
    from flydsl._mlir.dialects import fly

    memory = (fly.MemRefType, fly.PointerType)
    return {
        number
        for number, argument in enumerate(block.arguments)
        if isinstance(argument.type, memory)
        and isinstance(argument.type.element_type, ir.IntegerType)
        and argument.type.element_type.width == 64
        and any(_makes_pointer(loaded) for loaded in _loads(argument, memory))
    }


def _loads(argument: Any, memory: tuple[type, ...]) -> list[Any]:
    """Values that are loaded through an argument, its views and its address."""
    pending, found = [argument], []
    while pending:
        for use in pending.pop().uses:
            op, first = use.owner.operation, use.operand_number == 0
            if first and op.name in _LOADS:
                found += op.results
            elif first and (op.name.startswith("fly.") or op.name in _ADDRESSES):
                pending += [r for r in op.results if isinstance(r.type, memory) or "llvm.ptr" in str(r.type)]
    return found


def _makes_pointer(loaded: Any) -> bool:
    pending = [loaded]
    seen = set()
    while pending:
        value = pending.pop()
        key = _identity(value)
        if key in seen:
            continue
        seen.add(key)
        for use in value.uses:
            op, number = use.owner.operation, use.operand_number
            if op.name in _POINTERS or op.name.startswith(_DESCRIPTOR_STORE):
                return True
            # An integer that is added to an address is an offset.
            if op.name == "arith.addi":
                moved = not _is_address(op.operands[1 - number])
            else:
                moved = op.name in _MOVES or op.name == "arith.select" and number > 0
            pending += op.results if moved else []
            if op.name == "scf.for" and number >= 3:
                pending += [op.results[number - 3], op.regions[0].blocks[0].arguments[number - 2]]
    return False


def _is_address(value: Any) -> bool:
    """Whether an integer is computed from the address of a pointer."""
    from flydsl._mlir import ir

    pending = [value]
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, ir.Block):
            continue
        if owner.name in ("llvm.ptrtoint", "fly.ptrtoint", "memref.extract_aligned_pointer_as_index"):
            return True
        if owner.name in ("arith.addi", "arith.index_cast", "arith.index_castui"):
            pending += owner.operands
    return False


def _identity(value: Any) -> int:
    """Identity of an SSA value: the value classes overload or share `==`."""
    from flydsl._mlir import ir

    return int(ir.Value.__hash__(value))


def _is_stored(argument: Any, memory: tuple[type, ...]) -> bool:
    """Whether a kernel stores to the memory of an argument: where the argument, or a part of it, gets to."""
    pending: list[tuple[Any, bool]] = [(argument, False)]
    seen = set()
    while pending:
        value, part = pending.pop()
        key = (_identity(value), part)
        if key in seen:
            continue
        seen.add(key)
        for use in value.uses:
            op, number = use.owner.operation, use.operand_number
            if op.name.startswith(_DESCRIPTOR_STORE) or not part and _WRITES.get(op.name) == number:
                return True
            pending += _carriers(op, number, part, memory)
    return False


def _carriers(op: Any, number: int, part: bool, memory: tuple[type, ...]) -> list[tuple[Any, bool]]:
    """Values through which an operation hands on its operand ``number``, and whether these are parts of it."""
    name = op.name
    if name in _PARTS:
        return [(result, True) for result in op.results]
    if name == "arith.addi" or name == "arith.select" and number > 0 or name in _ADDRESSES and number == 0:
        return [(result, part) for result in op.results]
    if name == "scf.for" and number >= 3:
        return [(op.results[number - 3], part), (op.regions[0].blocks[0].arguments[number - 2], part)]
    if name.startswith("fly.") and number == 0:
        return [(r, part) for r in op.results if isinstance(r.type, memory) or "llvm.ptr" in str(r.type)]
    return []
