"""Function-style atomics and ordered memory access on pointers, as LLVM atomics."""

from __future__ import annotations

import struct as _struct
from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.lazy import arith
from flydsl.tracing.lazy import llvm as dialect
from flydsl.tracing.locations import dsl_loc_tracing
from flydsl.tracing.misuse import with_article

from . import _emit
from ._vector import Vector
from ._vector_alias import VectorAlias
from .enum import AtomicOrdering
from .numeric import Boolean, Float32, Float64, Int32, Int64, Numeric, NumericMeta, Uint8, as_numeric
from .primitive.memory import access_ptr
from .values.element import element_class, note_stored
from .values.tensor import Pointer, Tensor, check_literal

__all__ = [
    "atomic_add", "atomic_and", "atomic_cas", "atomic_fmax", "atomic_fmin", "atomic_max", "atomic_min", "atomic_or",
    "atomic_sub", "atomic_xchg", "atomic_xor", "generic_load", "generic_store", "memory_fence",
]

_INTEGER_WIDTHS = (8, 16, 32, 64)
_FLOATS = ("Float16", "BFloat16", "Float32", "Float64")
# kind: (signed op, unsigned op, float op or None)
_BIN_OPS = {
    "add": ("add", "add", "fadd"), "sub": ("sub", "sub", "fsub"), "min": ("min", "umin", "fmin"),
    "max": ("max", "umax", "fmax"), "and": ("_and", "_and", None), "or": ("_or", "_or", None),
    "xor": ("_xor", "_xor", None), "xchg": ("xchg", "xchg", "xchg"),
}
_LLVM_ORDERING = ("not_atomic", "unordered", "monotonic", "acquire", "release", "acq_rel", "seq_cst")
_RELEASING = (AtomicOrdering.Release, AtomicOrdering.AcqRel)
_ACQUIRING = (AtomicOrdering.Acquire, AtomicOrdering.AcqRel)
# Orders that an access of the kind cannot have.
_NOT_READ_AND_WRITTEN = (AtomicOrdering.NotAtomic, AtomicOrdering.Unordered)
_NOT_FAILED = (*_NOT_READ_AND_WRITTEN, *_RELEASING)
_NOT_FENCED = (*_NOT_READ_AND_WRITTEN, AtomicOrdering.Monotonic)


def _ordering(value: Any, what: str, refused: tuple[AtomicOrdering, ...]) -> ir.Attribute:
    """The attribute of an order; TypeError if it is none, ValueError if ``what`` cannot have it."""
    if not isinstance(value, AtomicOrdering):
        raise TypeError(f"an AtomicOrdering expected, got {value!r}")
    if value in refused:
        raise ValueError(f"{what} cannot have the order {value.name}")
    number = {"not_atomic": 0, "unordered": 1, "monotonic": 2, "acquire": 4, "release": 5, "acq_rel": 6, "seq_cst": 7}
    i64 = ir.IntegerType.get_signless(64)
    return ir.IntegerAttr.get(i64, number[_LLVM_ORDERING[int(value)]])


def _scope(syncscope: Any) -> ir.Attribute | None:
    return ir.StringAttr.get(str(syncscope)) if syncscope else None


def _address(ptr: Any, value: Any, what: str) -> tuple[ir.Value, Any, Any]:
    """LLVM pointer that `value` is stored through, `value` in the class of the element, and the latter (or None)."""
    if isinstance(ptr, Pointer):
        note_stored(ptr)
        typed = _value(value, ptr.element_type, what)
        return access_ptr(ptr, typed.ir_value().type), typed, ptr.element_type
    if isinstance(ptr, ir.Value) and str(ptr.type).startswith("!llvm.ptr"):
        return ptr, _value(value, None, what), None
    hint = ", whose elements have the addresses fx.get_iter(t) + i" if isinstance(ptr, Tensor) else ""
    raise TypeError(f"an fx.Pointer or !llvm.ptr expected, got {type(ptr).__name__}{hint}")


def _value(value: Any, element: Any, what: str) -> Any:
    """`value` as a DSL value of the pointer's element type; TypeError when it has another one."""
    if isinstance(value, (bool, int, float)):
        if element is None:
            return as_numeric(value)
        check_literal(value, element)
        return element(value)
    if not isinstance(value, (Numeric, Vector)):
        value = as_numeric(value)
    have = value.dtype
    if element is not None and have.ir_type != element.ir_type:
        raise TypeError(f"{what}: {with_article(str(have))} for a pointer to {element}")
    return value


def _rmw(kind: str, ptr: Any, value: Any, syncscope: Any, ordering: Any) -> Any:
    what = f"atomic_{kind}"
    address, typed, element = _address(ptr, value, what)
    signed_op, unsigned_op, float_op = _BIN_OPS[kind]
    dtype = typed.dtype
    # Memory that is unsigned is compared so, whatever the class of the value.
    signed = dtype.signed and (element is None or element.signed is not False)
    if isinstance(typed, Vector):
        if not dtype.is_float or kind not in ("add", "sub", "min", "max"):
            raise TypeError(f"{what} takes vectors of floats for add, sub, min and max only")
    if dtype.is_float:
        if float_op is None or str(dtype) not in _FLOATS:
            raise TypeError(f"{what} does not take {dtype}")
        op = float_op
    elif dtype is Boolean or dtype.width not in _INTEGER_WIDTHS:
        raise TypeError(f"{what} does not take {dtype}")
    else:
        op = signed_op if signed else unsigned_op
    raw = dialect.atomicrmw(
        getattr(dialect.AtomicBinOp, op), address, typed.ir_value(),
        _ordering(ordering, what, _NOT_READ_AND_WRITTEN), syncscope=_scope(syncscope)
    )
    return typed._like(raw, dtype) if isinstance(typed, Vector) else dtype(raw)


def _define(kind: str, text: str) -> Any:
    def operation(ptr: Any, value: Any, *, syncscope: Any = None, ordering: Any = AtomicOrdering.Monotonic) -> Any:
        return _rmw(kind, ptr, value, syncscope, ordering)

    operation.__name__ = operation.__qualname__ = f"atomic_{kind}"
    operation.__doc__ = (
        f"{text}; returns the previous value in the type of `value`.\n\n"
        "Raises:\n    TypeError: `value` has another type than the pointer, or one without this atomic."
    )
    return dsl_loc_tracing(operation)  # named before: errors of a call name what is wrapped


atomic_add = _define("add", "Atomic ``*ptr += value``")
atomic_sub = _define("sub", "Atomic ``*ptr -= value``")
atomic_min = _define("min", "Atomic minimum, unsigned for unsigned classes")
atomic_max = _define("max", "Atomic maximum, unsigned for unsigned classes")
atomic_and = _define("and", "Atomic bitwise and")
atomic_or = _define("or", "Atomic bitwise or")
atomic_xor = _define("xor", "Atomic bitwise exclusive or")
atomic_xchg = _define("xchg", "Atomic exchange")


def _bits(value: Any) -> Any:
    """The bit pattern of a float as a signed integer."""
    integer = Int32 if value.dtype is Float32 else Int64
    if value.is_static():
        code = "f" if integer is Int32 else "d"
        return integer(int.from_bytes(_struct.pack(f"<{code}", value.value), "little", signed=True))
    return value.bitcast(integer)


def _float_by_integer(kind: str, ptr: Any, value: Any, is_positive: Any, syncscope: Any, ordering: Any) -> Any:
    """Ordered floats compare like signed integers when positive, and reversed as unsigned ones when negative."""
    address, typed, _ = _address(ptr, value, f"atomic_f{kind}")
    if typed.dtype not in (Float32, Float64):
        raise TypeError(f"atomic_f{kind} takes Float32 and Float64, got {typed.dtype}")
    bits = _bits(typed)
    unsigned_kind = "max" if kind == "min" else "min"

    def run(op: str) -> ir.Value:
        return dialect.atomicrmw(getattr(dialect.AtomicBinOp, op), address, bits.ir_value(),
                                 _ordering(ordering, f"atomic_f{kind}", _NOT_READ_AND_WRITTEN),
                                 syncscope=_scope(syncscope))

    if is_positive is None and bits.is_static():
        is_positive = bits.value >= 0
    if is_positive is not None:
        old = run(kind if is_positive else f"u{unsigned_kind}")
    else:
        positive = arith.cmpi(arith.CmpIPredicate.sge, bits.ir_value(), _emit.constant(bits.dtype.ir_type, 0))
        branch = ir.Operation.create("scf.if", results=[bits.dtype.ir_type], operands=[positive], regions=2)
        for region, op in zip(branch.regions, (kind, f"u{unsigned_kind}"), strict=True):
            with ir.InsertionPoint(ir.Block.create_at_start(region, [])):
                ir.Operation.create("scf.yield", operands=[run(op)])
        old = branch.result
    return bits.dtype(old).bitcast(typed.dtype)


@dsl_loc_tracing
def atomic_fmin(ptr: Any, value: Any, *, is_positive: bool | None = None, syncscope: Any = None,
                ordering: Any = AtomicOrdering.Monotonic) -> Any:
    """Atomic minimum of Float32 or Float64 by integer atomics on the bit pattern; NaNs order by bit pattern.

    `is_positive` asserts the sign of `value`; None tests it (at run time when the value is dynamic).
    """
    return _float_by_integer("min", ptr, value, is_positive, syncscope, ordering)


@dsl_loc_tracing
def atomic_fmax(ptr: Any, value: Any, *, is_positive: bool | None = None, syncscope: Any = None,
                ordering: Any = AtomicOrdering.Monotonic) -> Any:
    """Atomic maximum of Float32 or Float64; see `atomic_fmin`."""
    return _float_by_integer("max", ptr, value, is_positive, syncscope, ordering)


@dsl_loc_tracing
def atomic_cas(ptr: Any, cmp: Any, val: Any, *, syncscope: Any = None,
               success_ordering: Any = AtomicOrdering.Monotonic, failure_ordering: Any = AtomicOrdering.Monotonic,
               weak: bool = False) -> tuple[Any, Boolean]:
    """Compare and exchange integers: ``(old value, success)``."""
    address, val, element = _address(ptr, val, "atomic_cas")
    cmp = _value(cmp, element, "atomic_cas")
    if cmp.dtype is not val.dtype:
        raise TypeError(f"atomic_cas: cmp is {cmp.dtype} and val is {val.dtype}")
    if cmp.dtype.is_float or cmp.dtype is Boolean or cmp.dtype.width not in _INTEGER_WIDTHS:
        raise TypeError(f"atomic_cas does not take {cmp.dtype}")
    pair = dialect.cmpxchg(
        address, cmp.ir_value(), val.ir_value(), _ordering(success_ordering, "atomic_cas", _NOT_READ_AND_WRITTEN),
        _ordering(failure_ordering, "atomic_cas that fails", _NOT_FAILED),
        syncscope=_scope(syncscope), weak=bool(weak) or None,
    )
    i1 = ir.IntegerType.get_signless(1)

    def part(ty: ir.Type, index: int) -> ir.Value:
        position = ir.DenseI64ArrayAttr.get([index])
        return ir.Operation.create("llvm.extractvalue", results=[ty], operands=[pair],
                                   attributes={"position": position}).result

    return cmp.dtype(part(cmp.dtype.ir_type, 0)), Boolean(part(i1, 1))


def _access(order: Any, syncscope: Any, refused: tuple[AtomicOrdering, ...], what: str,
            accessed: ir.Type) -> dict[str, Any]:
    """Attributes of a load or store of a type."""
    ordering = _ordering(order, what, refused)
    if order is not AtomicOrdering.NotAtomic and isinstance(accessed, ir.VectorType):
        raise ValueError(f"{what} with the order {order.name} is of one number, got {accessed}: access each, or a "
                         "wider integer")
    if syncscope is not None and order is AtomicOrdering.NotAtomic:
        raise ValueError("syncscope needs an atomic memory_order")
    return {"ordering": ordering, "syncscope": _scope(syncscope)}


@dsl_loc_tracing
def generic_load(ptr: Pointer, *, dtype: Any = None, count: int | None = None,
                 memory_order: Any = AtomicOrdering.NotAtomic, syncscope: Any = None, nontemporal: bool = False,
                 volatile: bool = False, invariant: bool = False) -> Any:
    """Load a scalar, or a `Vector` of `count` lanes, with memory order and cache hints.

    Args:
        invariant: nothing writes this global memory while the kernel runs. At an address that a wave has in common it
            is then loaded by the scalar unit, whatever stands before it: a plain load behind a barrier, assembly or a
            store becomes one of all lanes, whose wait includes theirs.

    Raises:
        TypeError: not an fx.Pointer. ValueError: a release order, an atomic order of a vector, `syncscope` without an
            atomic order, a `count` that is not positive or given together with a vector type, or `invariant` of
            memory that is not global, of a volatile or of an atomic load.
    """
    if not isinstance(ptr, Pointer):
        raise TypeError(f"an fx.Pointer expected, got {type(ptr).__name__}")
    if invariant and (volatile or memory_order is not AtomicOrdering.NotAtomic or ptr.address_space.name != "Global"):
        raise ValueError(f"an invariant load is a plain one of global memory, got {ptr.address_space.name} memory, the "
                         f"order {getattr(memory_order, 'name', memory_order)}, volatile={volatile}")
    dtype = dtype if dtype is not None else ptr.element_type
    if isinstance(dtype, ir.Type):
        dtype = element_class(dtype)
    vector = isinstance(dtype, type) and issubclass(dtype, Vector)
    if count is not None and (vector or count <= 0):
        raise ValueError("count goes with a scalar dtype" if vector else f"count must be positive, got {count}")
    if not vector and not isinstance(dtype, NumericMeta):
        raise TypeError(f"dtype must be a Numeric or Vector class, got {dtype!r}")
    result: Any = VectorAlias(dtype, count) if count is not None and count > 1 else dtype
    booleans = getattr(result, "alias_dtype", None) is Boolean
    stored = VectorAlias(Uint8, result.alias_shape) if booleans else result  # a byte each, not a bit
    order = _access(memory_order, syncscope, _RELEASING, "a load", stored.ir_type)
    raw = dialect.load(stored.ir_type, access_ptr(ptr, stored.ir_type), alignment=ptr.alignment,
                       volatile_=volatile or None, nontemporal=nontemporal or None, invariant=invariant or None,
                       **order)
    value = stored(raw)
    return result(value.to(Boolean)) if booleans else value


@dsl_loc_tracing
def generic_store(ptr: Pointer, value: Any, *, memory_order: Any = AtomicOrdering.NotAtomic, syncscope: Any = None,
                  nontemporal: bool = False, volatile: bool = False) -> None:
    """Store a scalar or vector with memory order and cache hints; errors as in `generic_load`."""
    if not isinstance(ptr, Pointer):
        raise TypeError(f"an fx.Pointer expected, got {type(ptr).__name__}")
    typed = _value(value, ptr.element_type, "generic_store")
    if isinstance(typed, Vector) and typed.dtype is Boolean:
        typed = typed.to(Uint8)  # a byte each, not a bit
    raw = typed.ir_value()
    order = _access(memory_order, syncscope, _ACQUIRING, "a store", raw.type)
    note_stored(ptr)
    dialect.store(raw, access_ptr(ptr, raw.type), alignment=ptr.alignment, volatile_=volatile or None,
                  nontemporal=nontemporal or None, **order)


@dsl_loc_tracing
def memory_fence(*, syncscope: Any = None, ordering: Any = AtomicOrdering.SeqCst) -> None:
    """Order the memory accesses of this thread (`llvm.fence`). ValueError for an order weaker than Acquire."""
    attributes = {"ordering": _ordering(ordering, "a fence", _NOT_FENCED)}
    if scope := _scope(syncscope):
        attributes["syncscope"] = scope
    _emit.create("llvm.fence", attributes=attributes)
