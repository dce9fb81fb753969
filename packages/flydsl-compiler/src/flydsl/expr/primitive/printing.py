"""``printf`` of kernels and jit functions."""

from __future__ import annotations

import re
import string
from typing import Any

from flydsl._mlir import ir
from flydsl._mlir.dialects import fly
from flydsl.tracing.ambient import made_of_unknown
from flydsl.tracing.lazy import protocol
from flydsl.tracing.locations import dsl_loc_tracing
from flydsl.tracing.numbers import numpy_scalar

from .._lanes import numel
from .._vector import Vector
from ..numeric import Float32, Float64, Index, Int32, Int64, Numeric, NumericMeta
from ..values.tensor import Pointer, Tensor

# [align][sign][#][0][width][.precision][type] of Python's format language, as far as C's printf has it.
_SPEC = re.compile(r"([<>]?)([+ ]?)(#?)(0?)(\d*)((?:\.\d+)?)([dxXofeEgG]?)")
#: Elements of a tensor or fragment that one call prints.
_MAX_PRINTED = 4096


def _literal(arg: Any, spec: str = "") -> str | None:
    """Text of an argument that is known while tracing, else None."""
    if isinstance(arg, type):
        arg = arg.__name__
    arg = numpy_scalar(arg)
    return format(arg, spec) if isinstance(arg, (str, bool, int, float)) else None


def _print_operand(arg: Any) -> ir.Value:
    if isinstance(arg, Pointer):
        raise ValueError(f"printf cannot print {arg}: print what it points to, p.load(), or fx.ptrtoint(p)")
    if isinstance(arg, Tensor):
        arg = _elements(arg)
    cls = getattr(arg, "dtype", None)
    if isinstance(cls, NumericMeta) and isinstance(arg, (Numeric, Vector)):
        if cls.width > 64:
            _refuse_wide(cls)
        if cls.signed is False and cls is not Index:
            return _as_unsigned(arg.ir_value(), cls.width)
    if isinstance(arg, ir.Value):
        return arg
    if isinstance(arg, Numeric):
        return arg.ir_value()
    try:
        values = protocol.extract_to_ir_values(arg)
    except TypeError as error:
        raise ValueError(f"printf cannot print a {type(arg).__name__}") from error
    if len(values) != 1:
        raise ValueError(f"printf cannot print a {type(arg).__name__}: it has {len(values)} IR values")
    return values[0]


def _as_unsigned(value: ir.Value, width: int) -> ir.Value:
    """A number or vector of numbers as of an unsigned type, which values of the DSL do not have."""
    kind: ir.Type = ir.IntegerType.get_unsigned(width)
    if isinstance(value.type, ir.VectorType):
        kind = ir.VectorType.get(value.type.shape, kind)
    cast: ir.Value = ir.Operation.create("builtin.unrealized_conversion_cast", [kind], [value]).result
    return cast


def _refuse_wide(number: NumericMeta) -> None:
    half = "Int64" if number.signed else "Uint64"
    raise ValueError(f"printf prints numbers of at most 64 bits, got {number.__name__}: print the halves, "
                     f"fx.{half}(x >> 64) and fx.Uint64(x), or convert it")


def _elements(tensor: Tensor) -> Any:
    """The elements of a tensor of static shape as a vector, in colexicographic order."""
    if tensor.is_coord_tensor or not tensor.layout.is_static:
        raise ValueError(
            f"printf cannot print {tensor}: its number of elements is only known at run time. Print an element "
            "(t[i]), a part of static shape, or the layout (t.layout)"
        )
    count = numel(tensor.shape.to_py_value())
    if count > _MAX_PRINTED:
        raise ValueError(f"printf prints at most {_MAX_PRINTED} elements, {tensor} has {count}: print a part of it")
    return tensor.load()


def _fields(text: str) -> list[tuple[str, str | None]]:
    """(literal, spec) of each piece of a format; the last spec is None. ValueError for what `{}` cannot have here."""
    pieces: list[tuple[str, str | None]] = []
    literal = ""
    for before, name, spec, conversion in string.Formatter().parse(text):
        literal += before
        if name is None:
            continue
        if name or conversion:
            raise ValueError(f"printf: {{{name}{'!' + conversion if conversion else ''}}} in {text!r}: placeholders "
                             "are filled in order; write {} or {:format}")
        pieces.append((literal, spec or ""))
        literal = ""
    return [*pieces, (literal, None)]


def _conversion(value: Numeric, spec: str) -> tuple[str, ir.Value]:
    """C's conversion of a run-time number with a Python format, and the value in the type that it takes."""
    found = _SPEC.fullmatch(spec)
    if found is None:
        raise ValueError(f"printf: the format {{:{spec}}} is not supported for run-time values; there are width, "
                         "precision, sign, 0, #, < and the types d, x, X, o, f, e, E, g, G")
    align, sign, alternate, zero, width, precision, kind = found.groups()
    number = type(value)
    if number.width > 64:
        _refuse_wide(number)
    if number.is_integer and kind in ("f", "e", "E", "g", "G") or not number.is_integer and kind and kind in "dxXo":
        raise ValueError(
            f"printf: the format {{:{spec}}} does not fit a {number.__name__} value; convert it with .to()"
        )
    flags = ("-" if align == "<" else "") + sign + alternate + zero
    wide = number.width > 32
    if number.is_integer:
        if precision:
            raise ValueError(f"printf: the format {{:{spec}}} has a precision, which integers do not take")
        kind = kind or "d"
        if kind == "d" and not number.signed:
            kind = "u"
        return f"%{flags}{width}{'l' if wide else ''}{kind}", value.to(Int64 if wide else Int32).ir_value()
    kind = kind or ("g" if precision or width else "f")
    return f"%{flags}{width}{precision}{'l' if wide else ''}{kind}", value.to(Float64 if wide else Float32).ir_value()


def _formatted(arg: Any, spec: str) -> tuple[str, list[ir.Value]]:
    """C's format and the operands of an argument."""
    text = _literal(arg, spec)
    if text is not None:
        return text.replace("%", "%%"), []
    if isinstance(arg, Tensor):
        arg = _elements(arg)
    if isinstance(arg, Vector):
        parts = [_formatted(arg[i], spec) for i in range(len(arg))]
        return f"[{', '.join(p[0] for p in parts)}]", [value for p in parts for value in p[1]]
    if isinstance(arg, Numeric):
        if not spec and not type(arg).is_integer:
            spec = ".2f"  # as without formats
        conversion, value = _conversion(arg, spec)
        return conversion, [value]
    raise ValueError(
        f"printf cannot print a {type(arg).__name__} in a format that has {{:...}}: print it in a call of its own"
    )


def _in_kernel() -> bool:
    owner = ir.InsertionPoint.current.block.owner
    while owner is not None:
        if owner.operation.name == "gpu.func":
            return True
        owner = owner.operation.parent
    return False


@dsl_loc_tracing
def printf(*args: Any, format_str: str | None = None) -> None:
    """Print at run time. ``printf(fmt, *args)`` with ``{}`` placeholders; without a format or with an empty one, the
    values.

    In kernels a placeholder may have a format: ``{:.3f}``, ``{:6d}``, ``{:08x}`` (width, precision, sign, ``0``,
    ``#``, ``<`` and the types d, x, X, o, f, e, E, g, G). Strings, types and Python numbers are substituted while
    tracing. Vectors, fragments and tensors of static shape are printed element by element.

    Raises:
        ValueError: more or fewer placeholders than arguments, a format that the value does not take, a tensor whose
            shape is only known at run time. TypeError: a format that is no string.
    """
    if format_str is None and args and isinstance(args[0], str):
        format_str, args = args[0], args[1:]
    if not isinstance(format_str, str | None):
        raise TypeError(f"printf: a format is a string, got {format_str!r:.60}")
    if not format_str:
        format_str = " ".join(["{}"] * len(args))
    if "?" in format_str and made_of_unknown():
        raise ValueError(f"printf: {format_str!r} was made while tracing, when a run-time value has no text: write "
                         "{} and pass the value, printf('n is {}', n) for printf(f'n is {n}')")
    # Braces that are no placeholder of Python's are text, as they have always been.
    if re.search(r"\{[^{}]+\}", format_str) is None:
        _print_plain(format_str, args)
        return
    fields = _fields(format_str)
    if len(fields) - 1 != len(args):
        raise ValueError(f"printf: {len(fields) - 1} placeholders in {format_str!r} but {len(args)} arguments")
    if not _in_kernel():
        if any(_literal(arg) is None and spec for arg, (_, spec) in zip(args, fields, strict=False)):
            raise ValueError("printf: formats such as {:.3f} are for kernels; the host prints run-time values with {}")
        text = "".join(
            before + (_literal(arg, spec or "") or "{}") for arg, (before, spec) in zip(args, fields, strict=False)
        )
        fly.print_(text + fields[-1][0], [_print_operand(arg) for arg in args if _literal(arg) is None])
        return
    text, operands = "", []
    for arg, (before, spec) in zip(args, fields, strict=False):
        conversion, values = _formatted(arg, spec or "")
        text += before.replace("%", "%%") + conversion
        operands += values
    text += fields[-1][0].replace("%", "%%") + "\n"
    ir.Operation.create("gpu.printf", operands=operands, attributes={"format": ir.StringAttr.get(text)})


def _print_plain(format_str: str, args: tuple[Any, ...]) -> None:
    pieces = format_str.split("{}")
    if len(pieces) - 1 != len(args):
        is_c = re.search(r"%[-+ #0-9.l]*[a-zA-Z]", format_str)
        raise ValueError(f"printf: {len(pieces) - 1} placeholders in {format_str!r} but {len(args)} arguments"
                         + (": C's %d is {} here" if is_c else ""))
    text, operands = pieces[0], []
    for arg, piece in zip(args, pieces[1:], strict=True):
        literal = _literal(arg)
        if literal is None:
            operands.append(_print_operand(arg))
            literal = "{}"
        text += literal + piece
    fly.print_(text, operands)
