"""`SmemAllocator` and `SmemPtr`: one statically sized LDS global, as kernels used before `fx.SharedAllocator`.

The allocator lives outside the traced functions. Each trace materialises its global once with `finalize()` in
the GPU module; the kernel reads it through typed windows (`SmemPtr`).
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from flydsl.runtime.device import SMEM_CAPACITY_MAP, check_smem_capacity

__all__ = [
    "SMEM_CAPACITY_MAP", "SmemAllocator", "SmemPtr", "check_smem_capacity", "get_index_value", "get_mlir_type_align",
    "get_mlir_type_size", "get_op_result_or_value",
]

_ALIGNMENT = 128
_GLOBAL_ALIGNMENT = 1024
_warned = False


def _ir() -> Any:
    from flydsl._mlir import ir

    return ir


def _warn_once() -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn("SmemAllocator and SmemPtr are deprecated: use fx.SharedAllocator", DeprecationWarning,
                      stacklevel=3)


def get_mlir_type_size(ty: Any) -> int:
    """Bytes of an MLIR type: integers and floats by width, vectors lane count times element, others 4."""
    ir = _ir()
    if isinstance(ty, ir.VectorType):
        return math.prod(ty.shape) * get_mlir_type_size(ty.element_type)
    width = getattr(ty, "width", None)
    return width // 8 if width in (8, 16, 32, 64) else 4


def get_mlir_type_align(ty: Any) -> int:
    """Natural alignment of an MLIR type in bytes, at most 16."""
    return min(get_mlir_type_size(ty), 16)


def get_op_result_or_value(x: Any) -> Any:
    """The IR value of an operation with one result, a DSL scalar, or a value."""
    ir = _ir()
    if isinstance(x, ir.Value):
        return x
    if hasattr(x, "ir_value"):
        return x.ir_value()
    if hasattr(x, "result"):
        return x.result
    return x.value if hasattr(x, "value") else x


def get_index_value(x: Any) -> Any:
    """An `index` value of an int, a DSL integer or an integer value."""
    from flydsl.expr._emit import to_index

    ir = _ir()
    if isinstance(x, bool) or not isinstance(x, int):
        return to_index(get_op_result_or_value(x))
    from flydsl.expr._emit import constant

    return constant(ir.IndexType.get(), x)


class SmemAllocator:
    """Bump allocator over one LDS global.

    Attributes:
        ptr: the cursor in bytes; callers read and write it.
        finalized: whether the global of the current trace exists.
    """

    def __init__(self, ctx: Any, arch: str | None = None, global_sym_name: str = "smem_storage") -> None:
        _warn_once()
        self.ctx, self.arch, self.global_sym_name = ctx, arch, global_sym_name
        self.ptr = 0
        self.max_size = 0
        self.alignment = _ALIGNMENT
        self.finalized = False

    @staticmethod
    def _align(ptr: int, align: int) -> int:
        """``ptr`` rounded up to a multiple of ``align``."""
        return -(-ptr // align) * align

    @property
    def _bytes(self) -> int:
        return max(self.alignment, self._align(self.ptr, self.alignment))

    def _memref_type(self) -> Any:
        from flydsl.expr.gpu import smem_space

        ir = _ir()
        i8 = ir.IntegerType.get_signless(8)
        return ir.MemRefType.get([self._bytes], i8, memory_space=smem_space())

    def finalize(self) -> None:
        """Declare the global at the insertion point; does nothing when it was declared already."""
        if self.finalized:
            return
        ir = _ir()
        i64 = ir.IntegerType.get_signless(64)
        attributes = {
            "sym_name": ir.StringAttr.get(self.global_sym_name), "type": ir.TypeAttr.get(self._memref_type()),
            "initial_value": ir.UnitAttr.get(), "alignment": ir.IntegerAttr.get(i64, _GLOBAL_ALIGNMENT),
            "sym_visibility": ir.StringAttr.get("private"),
        }
        ir.Operation.create("memref.global", attributes=attributes)
        self.finalized = True

    def get_base(self) -> Any:
        """The global inside a kernel: ``memref<Nxi8, #gpu.address_space<workgroup>>``."""
        ir = _ir()
        name = ir.FlatSymbolRefAttr.get(self.global_sym_name)
        op = ir.Operation.create("memref.get_global", results=[self._memref_type()], attributes={"name": name})
        return op.result


class SmemPtr:
    """A typed window of an LDS global at a constant byte offset.

    Attributes:
        _view_cache: the view of the last access; None means that it was not created yet. A cached view that
            does not reach the current insertion point is created again.
    """

    def __init__(self, base_memref: Any, byte_offset: int, element_type: Any, shape: Any = None) -> None:
        _warn_once()
        self.base_memref, self.byte_offset = base_memref, byte_offset
        self.element_type = getattr(element_type, "ir_type", element_type)
        self.shape = (1,) if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
        self._view_cache: Any = None

    def get(self) -> Any:
        """The window as a builtin memref."""
        if self._view_cache is None or not _reaches_here(self._view_cache):
            from flydsl.expr.gpu import smem_space

            ir = _ir()
            ty = ir.MemRefType.get(list(self.shape), self.element_type, memory_space=smem_space())
            operands = [get_op_result_or_value(self.base_memref), get_index_value(self.byte_offset)]
            self._view_cache = ir.Operation.create("memref.view", results=[ty], operands=operands).result
        return self._view_cache

    def _indices(self, idxs: Any) -> list[Any]:
        if idxs is None:
            idxs = [0] * len(self.shape)
        elif not isinstance(idxs, (list, tuple)):
            idxs = [idxs]
        if len(idxs) != len(self.shape):
            raise ValueError(f"{len(idxs)} indices for an LDS window of shape {self.shape}")
        return [get_index_value(i) for i in idxs]

    def load(self, idxs: Any = None) -> Any:
        """The element at ``idxs`` (default: the first) as a raw value."""
        view = self.get()
        operands = [view, *self._indices(idxs)]
        op = _ir().Operation.create("memref.load", results=[view.type.element_type], operands=operands)
        return op.result.maybe_downcast()

    def store(self, val: Any, idxs: Any = None) -> None:
        """Store ``val`` unconverted; TypeError when its type is not the element type."""
        view = self.get()
        value = get_op_result_or_value(val)
        if not isinstance(value, _ir().Value):
            from flydsl.expr._emit import constant

            value = constant(view.type.element_type, value)
        if value.type != view.type.element_type:
            raise TypeError(f"a value of type {value.type} is stored into LDS elements of {view.type.element_type}")
        _ir().Operation.create("memref.store", operands=[value, view, *self._indices(idxs)])


def _reaches_here(value: Any) -> bool:
    """Whether a value's block encloses the insertion point."""
    home = value.owner.block if hasattr(value.owner, "block") else value.owner
    block = _ir().InsertionPoint.current.block
    while block is not None:
        if block == home:
            return True
        owner = block.owner
        owner = getattr(owner, "operation", owner)
        block = None if owner is None or owner.parent is None else owner.block
    return False
