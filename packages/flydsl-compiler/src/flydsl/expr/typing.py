"""Value classes, type helpers and parameter annotations of the kernel language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from flydsl._mlir import ir
from flydsl.tracing.locations import needs_trace

from ._reductions import ReductionOp
from ._vector import Vector, empty_like, full, full_like, ones_like, zeros_like
from ._vector_alias import VectorAlias
from .gpu import Tuple3D

# Published kernels import the numeric classes from here.
from .numeric import (
    BFloat16,
    Boolean,
    Float,
    Float4E2M1FN,
    Float6E2M3FN,
    Float6E3M2FN,
    Float8E4M3,
    Float8E4M3B11FNUZ,
    Float8E4M3FN,
    Float8E4M3FNUZ,
    Float8E5M2,
    Float8E8M0FNU,
    Float16,
    Float32,
    Float64,
    Index,
    Int4,
    Int8,
    Int16,
    Int32,
    Int64,
    Int128,
    Integer,
    Numeric,
    NumericMeta,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Uint128,
    as_numeric,
)
from .primitive.types import AddressSpace
from .utils.convert import as_dsl_value, as_ir_value
from .values.atoms import CopyAtom, MmaAtom, TiledCopy, TiledMma
from .values.int_tuple import Basis, E, IntTuple
from .values.layout import ComposedLayout, CoordSwizzle, Layout, Swizzle, Tile
from .values.params import Stream
from .values.tensor import Pointer, Tensor

if TYPE_CHECKING:
    # A compile-time parameter is its value: a type checker sees `Constexpr[int]` as int.
    _Value = TypeVar("_Value")
    Constexpr = Annotated[_Value, "compile-time value"]
else:
    from .values.params import Constexpr

__all__ = [
    "Types", "T", "Basis", "E", "IntTuple", "Layout", "ComposedLayout", "Swizzle", "Tile", "Pointer", "Tensor",
    "CopyAtom", "TiledCopy", "TiledMma", "Tuple3D", "Constexpr", "Stream", "Vector", "VectorAlias", "ReductionOp",
    "full", "full_like", "empty_like", "ones_like", "zeros_like", "as_dsl_value", "as_ir_value",
    "is_generic_address_space", "is_target_address_space",
    "Float4E2M1FNx2", "Float4E2M1FNx4", "Float4E2M1FNx8", "Float4E2M1FNx16", "Float4E2M1FNx32", "Float8E5M2x1",
    "Float8E5M2x2", "Float8E5M2x4", "Float8E5M2x8", "Float8E5M2x16", "Float8E4M3x1", "Float8E4M3x2", "Float8E4M3x4",
    "Float8E4M3x8", "Float8E4M3x16", "Float8E4M3FNx1", "Float8E4M3FNx2", "Float8E4M3FNx4", "Float8E4M3FNx8",
    "Float8E4M3FNx16", "Float8E4M3FNUZx1", "Float8E4M3FNUZx2", "Float8E4M3FNUZx4", "Float8E4M3FNUZx8",
    "Float8E4M3FNUZx16", "Float8E4M3B11FNUZx1", "Float8E4M3B11FNUZx2", "Float8E4M3B11FNUZx4", "Float8E4M3B11FNUZx8",
    "Float8E4M3B11FNUZx16", "Float8E8M0FNUx1", "Float8E8M0FNUx2", "Float8E8M0FNUx4", "Float8E8M0FNUx8",
    "Float8E8M0FNUx16", "Float16x1", "Float16x2", "Float16x4", "Float16x8", "Float16x16", "BFloat16x1",
    "BFloat16x2", "BFloat16x4", "BFloat16x8", "BFloat16x16", "Float32x1", "Float32x2", "Float32x4", "Float32x8",
    "Float64x1", "Float64x2", "Float64x4", "Int4x2", "Int4x4", "Int4x8", "Int4x16", "Int4x32", "Int8x1", "Int8x2",
    "Int8x4", "Int8x8", "Int8x16", "Uint8x1", "Uint8x2", "Uint8x4", "Uint8x8", "Uint8x16", "Int16x1", "Int16x2",
    "Int16x4", "Int16x8", "Int16x16", "Uint16x1", "Uint16x2", "Uint16x4", "Uint16x8", "Uint16x16", "Int32x1",
    "Int32x2", "Int32x4", "Int32x8", "Uint32x1", "Uint32x2", "Uint32x4", "Uint32x8", "Int64x1", "Int64x2",
    "Int64x4", "Uint64x1", "Uint64x2", "Uint64x4", "Int128x1", "Uint128x1",
]

# Reachable here without being part of the stable list.
UNSTABLE = (
    MmaAtom, CoordSwizzle, Boolean, Float, Float6E2M3FN, Float6E3M2FN, Index, Integer, Numeric, NumericMeta, as_numeric,
)


class Types:
    """MLIR types as properties, for raw builders: ``T.f32``, ``T.i32x4``, ``T.vec(n, ty)``."""

    @needs_trace
    def __getattr__(self, name: str) -> ir.Type:
        scalar, _, lanes = name.partition("x") if name not in ("index",) else (name, "", "")
        if scalar == "f8" and lanes in ("", "2", "4", "8", "16"):  # an earlier spelling: the target's own f8
            from .compat import default_f8_type

            return ir.VectorType.get([int(lanes)], default_f8_type()) if lanes else default_f8_type()
        ty = _SCALARS.get(scalar)
        if ty is None or name not in _TYPE_NAMES:
            raise AttributeError(f"fx.T has no type {name!r}")
        return ir.VectorType.get([int(lanes)], ty()) if lanes else ty()

    def vec(self, n: int, elem_type: ir.Type) -> ir.Type:
        """``vector<n x elem_type>``; a Numeric class is accepted."""
        return ir.VectorType.get([n], getattr(elem_type, "ir_type", elem_type))

    def __dir__(self) -> list[str]:
        return [*_TYPE_NAMES, "vec"]


_SCALARS: dict[str, Any] = {
    "index": lambda: ir.IndexType.get(),
    **{f"i{n}": (lambda n=n: ir.IntegerType.get_signless(n)) for n in (8, 16, 32, 64, 128)},
    "f16": lambda: ir.F16Type.get(), "bf16": lambda: ir.BF16Type.get(), "f32": lambda: ir.F32Type.get(),
    "f64": lambda: ir.F64Type.get(),
}
_TYPE_NAMES = (
    "index i8 i8x2 i8x4 i8x8 i8x16 i16 i16x2 i16x4 i16x8 i32 i32x2 i32x4 i64 i64x2 i128 f16 f16x2 f16x4 f16x8 "
    "bf16 bf16x2 bf16x4 bf16x8 f32 f32x2 f32x4 f64"
).split()
T = Types()


def is_generic_address_space(space: Any, expected: Any) -> bool:
    """Whether `space` is the generic space `expected`, an `AddressSpace` (else TypeError)."""
    if not isinstance(expected, AddressSpace):
        raise TypeError(f"an fx.AddressSpace expected, got {type(expected).__name__}")
    if isinstance(space, int):
        return int(space) == int(expected)
    return str(space) in (str(expected), f"#fly<address_space {expected}>")


def is_target_address_space(space: Any, expected: Any) -> bool:
    """Whether `space` is the target attribute `expected` (an attribute, else TypeError)."""
    if not isinstance(expected, ir.Attribute):
        raise TypeError(f"a target address-space attribute expected, got {type(expected).__name__}")
    return isinstance(space, ir.Attribute) and space == expected


# --------------------------------------------------------------------------- vector aliases

Float4E2M1FNx2: Any = VectorAlias(Float4E2M1FN, 2)
Float4E2M1FNx4: Any = VectorAlias(Float4E2M1FN, 4)
Float4E2M1FNx8: Any = VectorAlias(Float4E2M1FN, 8)
Float4E2M1FNx16: Any = VectorAlias(Float4E2M1FN, 16)
Float4E2M1FNx32: Any = VectorAlias(Float4E2M1FN, 32)
Float8E5M2x1: Any = VectorAlias(Float8E5M2, 1)
Float8E5M2x2: Any = VectorAlias(Float8E5M2, 2)
Float8E5M2x4: Any = VectorAlias(Float8E5M2, 4)
Float8E5M2x8: Any = VectorAlias(Float8E5M2, 8)
Float8E5M2x16: Any = VectorAlias(Float8E5M2, 16)
Float8E4M3x1: Any = VectorAlias(Float8E4M3, 1)
Float8E4M3x2: Any = VectorAlias(Float8E4M3, 2)
Float8E4M3x4: Any = VectorAlias(Float8E4M3, 4)
Float8E4M3x8: Any = VectorAlias(Float8E4M3, 8)
Float8E4M3x16: Any = VectorAlias(Float8E4M3, 16)
Float8E4M3FNx1: Any = VectorAlias(Float8E4M3FN, 1)
Float8E4M3FNx2: Any = VectorAlias(Float8E4M3FN, 2)
Float8E4M3FNx4: Any = VectorAlias(Float8E4M3FN, 4)
Float8E4M3FNx8: Any = VectorAlias(Float8E4M3FN, 8)
Float8E4M3FNx16: Any = VectorAlias(Float8E4M3FN, 16)
Float8E4M3FNUZx1: Any = VectorAlias(Float8E4M3FNUZ, 1)
Float8E4M3FNUZx2: Any = VectorAlias(Float8E4M3FNUZ, 2)
Float8E4M3FNUZx4: Any = VectorAlias(Float8E4M3FNUZ, 4)
Float8E4M3FNUZx8: Any = VectorAlias(Float8E4M3FNUZ, 8)
Float8E4M3FNUZx16: Any = VectorAlias(Float8E4M3FNUZ, 16)
Float8E4M3B11FNUZx1: Any = VectorAlias(Float8E4M3B11FNUZ, 1)
Float8E4M3B11FNUZx2: Any = VectorAlias(Float8E4M3B11FNUZ, 2)
Float8E4M3B11FNUZx4: Any = VectorAlias(Float8E4M3B11FNUZ, 4)
Float8E4M3B11FNUZx8: Any = VectorAlias(Float8E4M3B11FNUZ, 8)
Float8E4M3B11FNUZx16: Any = VectorAlias(Float8E4M3B11FNUZ, 16)
Float8E8M0FNUx1: Any = VectorAlias(Float8E8M0FNU, 1)
Float8E8M0FNUx2: Any = VectorAlias(Float8E8M0FNU, 2)
Float8E8M0FNUx4: Any = VectorAlias(Float8E8M0FNU, 4)
Float8E8M0FNUx8: Any = VectorAlias(Float8E8M0FNU, 8)
Float8E8M0FNUx16: Any = VectorAlias(Float8E8M0FNU, 16)
Float16x1: Any = VectorAlias(Float16, 1)
Float16x2: Any = VectorAlias(Float16, 2)
Float16x4: Any = VectorAlias(Float16, 4)
Float16x8: Any = VectorAlias(Float16, 8)
Float16x16: Any = VectorAlias(Float16, 16)
BFloat16x1: Any = VectorAlias(BFloat16, 1)
BFloat16x2: Any = VectorAlias(BFloat16, 2)
BFloat16x4: Any = VectorAlias(BFloat16, 4)
BFloat16x8: Any = VectorAlias(BFloat16, 8)
BFloat16x16: Any = VectorAlias(BFloat16, 16)
Float32x1: Any = VectorAlias(Float32, 1)
Float32x2: Any = VectorAlias(Float32, 2)
Float32x4: Any = VectorAlias(Float32, 4)
Float32x8: Any = VectorAlias(Float32, 8)
Float64x1: Any = VectorAlias(Float64, 1)
Float64x2: Any = VectorAlias(Float64, 2)
Float64x4: Any = VectorAlias(Float64, 4)
Int4x2: Any = VectorAlias(Int4, 2)
Int4x4: Any = VectorAlias(Int4, 4)
Int4x8: Any = VectorAlias(Int4, 8)
Int4x16: Any = VectorAlias(Int4, 16)
Int4x32: Any = VectorAlias(Int4, 32)
Int8x1: Any = VectorAlias(Int8, 1)
Int8x2: Any = VectorAlias(Int8, 2)
Int8x4: Any = VectorAlias(Int8, 4)
Int8x8: Any = VectorAlias(Int8, 8)
Int8x16: Any = VectorAlias(Int8, 16)
Uint8x1: Any = VectorAlias(Uint8, 1)
Uint8x2: Any = VectorAlias(Uint8, 2)
Uint8x4: Any = VectorAlias(Uint8, 4)
Uint8x8: Any = VectorAlias(Uint8, 8)
Uint8x16: Any = VectorAlias(Uint8, 16)
Int16x1: Any = VectorAlias(Int16, 1)
Int16x2: Any = VectorAlias(Int16, 2)
Int16x4: Any = VectorAlias(Int16, 4)
Int16x8: Any = VectorAlias(Int16, 8)
Int16x16: Any = VectorAlias(Int16, 16)
Uint16x1: Any = VectorAlias(Uint16, 1)
Uint16x2: Any = VectorAlias(Uint16, 2)
Uint16x4: Any = VectorAlias(Uint16, 4)
Uint16x8: Any = VectorAlias(Uint16, 8)
Uint16x16: Any = VectorAlias(Uint16, 16)
Int32x1: Any = VectorAlias(Int32, 1)
Int32x2: Any = VectorAlias(Int32, 2)
Int32x4: Any = VectorAlias(Int32, 4)
Int32x8: Any = VectorAlias(Int32, 8)
Uint32x1: Any = VectorAlias(Uint32, 1)
Uint32x2: Any = VectorAlias(Uint32, 2)
Uint32x4: Any = VectorAlias(Uint32, 4)
Uint32x8: Any = VectorAlias(Uint32, 8)
Int64x1: Any = VectorAlias(Int64, 1)
Int64x2: Any = VectorAlias(Int64, 2)
Int64x4: Any = VectorAlias(Int64, 4)
Uint64x1: Any = VectorAlias(Uint64, 1)
Uint64x2: Any = VectorAlias(Uint64, 2)
Uint64x4: Any = VectorAlias(Uint64, 4)
Int128x1: Any = VectorAlias(Int128, 1)
Uint128x1: Any = VectorAlias(Uint128, 1)
