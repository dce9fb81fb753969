"""Calls of external device functions."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.lazy import LazyModule
from flydsl.tracing.locations import dsl_loc_tracing

from . import _emit
from .numeric import Numeric
from .utils.convert import as_ir_value

__all__ = ["ExternFunction", "ffi"]

_context = LazyModule("flydsl.tracing.context")
_TYPES = ("int32", "uint32", "int64", "uint64", "float32", "float64")


def _type(name: str) -> ir.Type:
    bits = int(name[-2:])
    if name.startswith("float"):
        return ir.F32Type.get() if bits == 32 else ir.F64Type.get()
    return ir.IntegerType.get_signless(bits)


class ExternFunction:
    """``ffi(symbol, arg_types, ret_type)``: an external function callable inside kernels.

    Types are ``int32 uint32 int64 uint64 float32 float64``, and ``void`` for the result; ValueError otherwise.
    """

    def __init__(self, symbol: str, arg_types: Any, ret_type: str, is_pure: bool = False, **options: Any) -> None:
        if options:
            raise TypeError(
                f"ffi does not take {', '.join(options)}: use flydsl.compiler.extern_link.link_extern(ffi(...), ...)"
            )
        for name in arg_types:
            if name not in _TYPES:
                raise ValueError(f"unknown argument type {name!r}; expected one of {', '.join(_TYPES)}")
        if ret_type not in (*_TYPES, "void"):
            raise ValueError(f"unknown result type {ret_type!r}; expected void or one of {', '.join(_TYPES)}")
        self.symbol = symbol
        self.arg_types = list(arg_types)
        self.ret_type = ret_type
        self.is_pure = is_pure

    @dsl_loc_tracing
    def __call__(self, *args: Any) -> Any:
        if _context.current_kernel() is None:
            raise RuntimeError(f"extern function {self.symbol!r} can only be called inside a kernel")
        if len(args) != len(self.arg_types):
            raise TypeError(f"{self.symbol} takes {len(self.arg_types)} arguments, got {len(args)}")
        operands = [self._operand(a, t) for a, t in zip(args, self.arg_types, strict=True)]
        self._declare()
        results = [] if self.ret_type == "void" else [_type(self.ret_type)]
        empty = ir.DenseI32ArrayAttr.get([])
        attributes = {
            "callee": ir.FlatSymbolRefAttr.get(self.symbol),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands), 0]),
            "op_bundle_sizes": empty,
        }
        op = ir.Operation.create("llvm.call", results=results, operands=operands, attributes=attributes)
        return op.results[0] if results else None

    def _operand(self, value: Any, name: str) -> ir.Value:
        ty = _type(name)
        if isinstance(value, Numeric) and value.is_static():
            value = value.value
        if isinstance(value, (bool, int, float)):
            self._check_constant(value, name)
            return _emit.constant(ty, value)
        raw = as_ir_value(value)
        if isinstance(raw.type, ir.IntegerType) and isinstance(ty, ir.IntegerType):
            return _emit.int_resize(raw, ty, not name.startswith("u"))
        if raw.type != ty:
            raise TypeError(f"{self.symbol}: expected a {name} argument, got {raw.type}")
        return raw

    def _check_constant(self, value: bool | int | float, name: str) -> None:
        """TypeError for a fraction where an integer is expected, ValueError for one that has more bits."""
        if name.startswith("float"):
            return
        if isinstance(value, float):
            raise TypeError(f"{self.symbol}: expected a {name} argument, got {value!r}")
        bits = int(name[-2:])
        if not -(1 << (bits - 1)) <= value < 1 << bits:
            raise ValueError(f"{self.symbol}: {value} does not fit in {name}")

    def _declare(self) -> None:
        body = _context.CompilationContext.get_current().gpu_module_body
        for op in body.operations:
            attributes = op.operation.attributes
            if "sym_name" in attributes and ir.StringAttr(attributes["sym_name"]).value == self.symbol:
                return
        result = "void" if self.ret_type == "void" else str(_type(self.ret_type))
        signature = f"!llvm.func<{result} ({', '.join(str(_type(t)) for t in self.arg_types)})>"
        with ir.InsertionPoint.at_block_begin(body), ir.Location.unknown():
            ir.Operation.create(
                "llvm.func",
                regions=1,
                attributes={
                    "sym_name": ir.StringAttr.get(self.symbol),
                    "function_type": ir.TypeAttr.get(ir.Type.parse(signature)),
                    "sym_visibility": ir.StringAttr.get("private"),
                    "linkage": ir.Attribute.parse("#llvm.linkage<external>"),
                    "CConv": ir.Attribute.parse("#llvm.cconv<ccc>"),
                },
            )


ffi = ExternFunction
