"""Views of memory by coordinates, of older kernels: `GTensor` of global memory, `STensor` of LDS."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import flydsl.expr as fx
from flydsl._mlir import ir
from flydsl.expr.numeric import Numeric, as_numeric
from flydsl.expr.smem_allocator import SmemPtr
from flydsl.kernels.common.memory import element_ptr
from flydsl.kernels.parts.memory import Buffer, lds_read, lds_write

__all__ = ["GTensor", "STensor"]

SHARED = 3  # LLVM's number of the address space
MOST_BYTES = 1 << 31  # that a buffer's 32-bit offsets reach


class _View:
    """Elements of one type by coordinates; ``view[i, j]`` reads and writes one of them."""

    def __init__(self, dtype: Any, shape: Sequence[int], stride: Sequence[int] | None, start: Any) -> None:
        if stride is None:
            stride = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
        if len(stride) != len(shape) or any(extent < 0 for extent in shape[1:] if isinstance(extent, int)):
            raise ValueError(f"a view has a stride for each extent, of which only the first may be -1, got shape "
                             f"{tuple(shape)} and stride {tuple(stride)}")
        self.dtype = Numeric.from_ir_type(dtype) if isinstance(dtype, ir.Type) else dtype
        self.shape, self.stride, self._start = tuple(shape), tuple(stride), start

    def linear_offset(self, coord: Any) -> Any:
        """Elements from the view's first to that at a coordinate. ValueError if it has another rank."""
        coord = coord if isinstance(coord, (tuple, list)) else (coord,)
        if len(coord) != len(self.shape):
            raise ValueError(f"a coordinate of {len(self.shape)} numbers is needed, got {len(coord)}")
        return sum((i * step for i, step in zip(coord, self.stride, strict=True)), self._start)

    def local_tile(self, tile_shape: Sequence[int], coord: Sequence[Any]) -> Any:
        """The tile of a shape at a coordinate that counts tiles."""
        tile = copy.copy(self)
        tile._start = self.linear_offset([i * extent for i, extent in zip(coord, tile_shape, strict=True)])
        tile.shape = tuple(tile_shape)
        return tile

    def __getitem__(self, coord: Any) -> Any:
        return self.vec_load(coord, 1)[0]

    def __setitem__(self, coord: Any, value: Any) -> None:
        self.vec_store(coord, fx.Vector.from_elements([as_numeric(value).to(self.dtype)], self.dtype))

    def vec_load(self, coord: Any, vec_size: int) -> Any:
        """The vector of `vec_size` consecutive elements from a coordinate on."""
        raise NotImplementedError

    def vec_store(self, coord: Any, value: Any, vec_size: int | None = None) -> None:
        """Store a vector of consecutive elements; ValueError if it has not `vec_size`, where that is said."""
        if vec_size is not None and value.numel != vec_size:
            raise ValueError(f"a vector of {vec_size} elements is needed, got {value.numel}")
        self._write(self.linear_offset(coord), value)

    def _write(self, at: Any, value: Any) -> None:
        raise NotImplementedError


class GTensor(_View):
    """A view of global memory, through a buffer descriptor: offsets in it have 32 bits.

    Args:
        memref: tensor, pointer, or 64-bit address.
        dtype: class or MLIR type of the elements.
        shape: the first extent may be -1.
        stride: in elements; row-major if None.
        base_offset: elements before the first, with 64 bits.
        cache_modifier: cache bits of all accesses.
        static_bytes_offset_i64: bytes before those.
    """

    def __init__(self, memref: Any, dtype: Any, shape: Sequence[int], stride: Sequence[int] | None = None,
                 base_offset: Any = 0, cache_modifier: int = 0, static_bytes_offset_i64: int = 0) -> None:
        super().__init__(dtype, shape, stride, 0)
        size = self.dtype.width // 8
        if static_bytes_offset_i64 % size:
            raise ValueError(f"the offset of {static_bytes_offset_i64} bytes is no multiple of an element's {size}")
        first = element_ptr(memref, fx.Int64(base_offset) + static_bytes_offset_i64 // size, self.dtype)
        self.cache_modifier, self._buffer = cache_modifier, Buffer(first, self.dtype, None, MOST_BYTES // size)

    def vec_load(self, coord: Any, vec_size: int) -> Any:
        return self._buffer.load(self.linear_offset(coord), vec_size, cache=self.cache_modifier)

    def _write(self, at: Any, value: Any) -> None:
        self._buffer.store(at, value, self.cache_modifier)


class STensor(_View):
    """A view of LDS.

    Args:
        memref: `SmemPtr`, or an array, tensor or pointer in LDS.
        dtype, shape, stride, base_offset: as of :class:`GTensor`.
    """

    def __init__(self, memref: Any, dtype: Any, shape: Sequence[int], stride: Sequence[int] | None = None,
                 base_offset: Any = 0) -> None:
        super().__init__(dtype, shape, stride, base_offset)
        if isinstance(memref, SmemPtr):
            kind = fx.PointerType.get(self.dtype.ir_type, fx.AddressSpace.Shared, self.dtype.width // 8)
            self._base = fx.inttoptr(kind, fx.Int32(fx.buffer_ops.extract_base_index(memref.get(), SHARED)))
        else:
            first = fx.get_iter(memref) if isinstance(memref, fx.Tensor) else getattr(memref, "ptr", memref)
            self._base = fx.recast_iter(self.dtype, first)

    def vec_load(self, coord: Any, vec_size: int) -> Any:
        return lds_read(self._base, self.linear_offset(coord), vec_size)

    def _write(self, at: Any, value: Any) -> None:
        lds_write(self._base, at, value)
