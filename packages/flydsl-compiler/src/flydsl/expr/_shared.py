"""`SharedAllocator`: LDS for the kernel being traced."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl._mlir.dialects import fly
from flydsl.tracing.ambient import kernel_scope
from flydsl.tracing.lazy import LazyModule, protocol
from flydsl.tracing.locations import dsl_loc_tracing

from ._storage import Arena, Array, Storage, unaligned
from .numeric import Int8, NumericMeta
from .primitive import get_dyn_shared, make_ptr

_context = LazyModule("flydsl.tracing.context")


class SharedAllocator(Arena):
    """Bump allocator of shared memory; one per kernel.

    ``static=True``: one LDS allocation per struct leaf and per union, sized by the compiler.
    ``static=False``: constant offsets into dynamic shared memory; the launch's ``smem`` follows `allocated_bytes`.
    """

    def __init__(self, base_alignment: int = 16, *, static: bool = True) -> None:
        scope = kernel_scope()
        if scope is None:
            raise RuntimeError("SharedAllocator can only be used inside a @kernel function while it is traced")
        if scope.get("shared_allocator") is not None:
            raise RuntimeError("Only one SharedAllocator per kernel: allocate everything from the first")
        super().__init__(base_alignment)
        self._static = static
        self._base: Any = None
        scope["shared_allocator"] = self
        emission = _context.current_kernel()
        if not static and emission is not None:
            emission.shared_allocator = self  # its size becomes the launch's default for smem

    @property
    def is_static(self) -> bool:
        """Whether each allocation is an array of its own in the code object."""
        return self._static

    @property
    def base_ptr(self) -> Any:
        """Where dynamic LDS begins; RuntimeError of a static allocator."""
        if self._static:
            raise RuntimeError("a static SharedAllocator has no shared base pointer")
        if self._base is None:
            self._base = get_dyn_shared()
        return self._base

    @dsl_loc_tracing
    def allocate(self, what: Any, alignment: int | None = None) -> Any:
        if not self._static:
            _ = self.base_ptr  # emitted at the first allocation, so that it dominates later ones
        return super().allocate(what, alignment)

    def _place(self, ty: Any, offset: int, alignment: int) -> Any:
        return _allocate_leaf(ty, alignment) if self._static else super()._place(ty, offset, alignment)


def _allocate_leaf(ty: Any, alignment: int) -> Any:
    """Static allocation: structs recurse, everything else is one `fly.make_ptr`."""
    core = unaligned(ty)
    if getattr(core, "__dsl_is_struct__", False):
        fields = {}
        for name, offset in core.__dsl_field_offsets__().items():
            field = core.__dsl_fields__[name]
            # The alignment asked for concerns the start of the allocation.
            fields[name] = _allocate_leaf(field, max(protocol.dsl_align_of(field), alignment if offset == 0 else 1))
        return Storage[ty](None, fields)  # type: ignore[misc]
    element = core if isinstance(core, NumericMeta) else core.dtype if _is_numeric_array(core) else Int8
    size = max(1, protocol.dsl_size_of(ty))
    pointer_type = fly.PointerType.get(element.ir_type, fly.AddressSpace.Shared, alignment)
    i64 = ir.IntegerType.get_signless(64)
    attrs = {"allocBytes": ir.IntegerAttr.get(i64, size), "allocAlign": ir.IntegerAttr.get(i64, alignment)}
    return Storage[ty](make_ptr(pointer_type, [], dict_attrs=attrs))  # type: ignore[misc]


def _is_numeric_array(ty: Any) -> bool:
    return isinstance(ty, type) and issubclass(ty, Array) and ty._is_numeric()
