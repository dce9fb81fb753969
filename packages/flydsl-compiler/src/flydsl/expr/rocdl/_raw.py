"""The builders of the MLIR `rocdl` dialect, taking DSL values.

`fx.rocdl` re-exports every builder of the generated module. Generated builders only take IR values; the
wrappers here also take DSL scalars and vectors, Python numbers where the op has an operand (ints become i32,
floats f32), and a Numeric class as the result type.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.lazy import rocdl as dialect
from flydsl.tracing.locations import dsl_loc_tracing

from ..numeric import Numeric, NumericMeta
from .utils import operand

__all__ = ["lookup", "names", "wrap"]


def _normal(name: str) -> str:
    return name.replace("_", "").lower()


@functools.cache
def _operand_positions(builder: FunctionType) -> tuple[frozenset[int], frozenset[str]]:
    """Which parameters of a generated builder are operands of its op: positions and names."""
    builder = inspect.unwrap(builder)
    op = next((c for n in builder.__code__.co_names if isinstance(c := getattr(dialect, n, None), type)), None)
    operands = set()
    for cls in op.__mro__ if op is not None else ():
        for name, member in vars(cls).items():
            getter = member.fget if isinstance(member, property) else None
            if isinstance(getter, FunctionType) and "operands" in getter.__code__.co_names:
                operands.add(_normal(name))
    names = list(inspect.signature(builder).parameters)
    chosen = [(i, n) for i, n in enumerate(names) if _normal(n) in operands]
    return frozenset(i for i, _ in chosen), frozenset(n for _, n in chosen)


def _convert(value: Any, is_operand: bool) -> Any:
    if isinstance(value, NumericMeta):
        return value.ir_type
    if isinstance(value, Numeric):
        return value.ir_value() if is_operand or not value.is_static() else value.value
    if isinstance(value, (list, tuple)):
        return [_convert(v, True) for v in value]
    if isinstance(value, ir.Value):
        return value
    if is_operand and isinstance(value, (bool, int, float)):
        return operand(value)
    if is_operand and hasattr(value, "ir_value"):
        return value.ir_value()
    return value


def wrap(builder: FunctionType) -> Callable[..., Any]:
    """``builder`` with DSL values, numbers and Numeric classes accepted."""

    @functools.wraps(builder)
    def call(*args: Any, **kwargs: Any) -> Any:
        positions, names = _operand_positions(builder)
        converted = [_convert(a, i in positions) for i, a in enumerate(args)]
        return builder(*converted, **{k: _convert(v, k in names) for k, v in kwargs.items()})

    call.__doc__ = builder.__doc__ or _describe(builder)
    return dsl_loc_tracing(call)


def _describe(builder: FunctionType) -> str:
    """A docstring for a generated builder: the operation, its operands and its attributes."""
    _, operands = _operand_positions(builder)
    rest = [n for n in inspect.signature(builder).parameters if n not in operands and n not in ("loc", "ip", "results")]
    op = next((c for n in builder.__code__.co_names if isinstance(c := getattr(dialect, n, None), type)), None)
    name = getattr(op, "OPERATION_NAME", builder.__name__)
    given = [n for n in inspect.signature(builder).parameters if n in operands]
    text = f"The operation ``{name}`` as LLVM has it: one instruction or intrinsic of the wave.\n\n"
    operands_text = ", ".join(given) or "none"
    text += f"Operands (DSL values, numbers or IR values, by lane unless the instruction is scalar): {operands_text}."
    if rest:
        text += f" Constants and result types: {', '.join(rest)}."
    return text + (" Offsets and sizes are those of the instruction set manual. An architecture without the "
                   "instruction is an error when code is generated.")


@functools.cache
def lookup(name: str) -> Any:
    """A public name of the generated dialect module; function builders come wrapped. AttributeError if absent."""
    value = getattr(dialect, name)
    if isinstance(value, FunctionType) and value.__module__.endswith("_ops_gen"):
        return wrap(value)
    if isinstance(value, type) and not value.__doc__ and hasattr(value, "OPERATION_NAME"):
        value.__doc__ = (
            f"The class of ``{value.OPERATION_NAME}`` operations, for code that walks IR; build with the function."
        )
    return value


def names() -> list[str]:
    """Public names of the generated dialect module."""
    return [n for n in dir(dialect._load()) if not n.startswith("_")]
