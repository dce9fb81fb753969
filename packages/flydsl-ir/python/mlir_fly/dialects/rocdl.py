"""The rocdl dialect.

Immediates of the buffer instructions are SSA operands in MLIR 22 and attributes in other releases. The builders here
take both forms: a value, an int or an IntegerAttr, and None (or nothing) for the cache policy ``aux``.
"""

import functools

from .. import ir as _ir
from ._rocdl_ops_gen import *  # noqa: F403
from ._rocdl_ops_gen import _Dialect  # noqa: F401

_IMMEDIATES = ("size", "offset", "voffset", "soffset", "aux")


def _operand(value, name):
    if value is None and name == "aux":
        value = 0
    if hasattr(value, "ir_value"):
        value = value.ir_value()
    if isinstance(value, _ir.IntegerAttr):
        value = value.value
    if isinstance(value, int):
        i32 = _ir.IntegerType.get_signless(32)
        attributes = {"value": _ir.IntegerAttr.get(i32, value)}
        return _ir.Operation.create("arith.constant", results=[i32], attributes=attributes).result
    return value


def _both_forms(builder, parameters):
    """``builder``, a function or an ``__init__``, with immediates as values or attributes."""

    @functools.wraps(builder)
    def build(*args, **kwargs):
        given = dict(zip(parameters, args, strict=False))
        given.setdefault("aux", kwargs.pop("aux", None))
        for name in _IMMEDIATES:
            if name in given:
                given[name] = _operand(given[name], name)
            elif name in kwargs:
                kwargs[name] = _operand(kwargs[name], name)
        if len(args) > len(parameters):
            raise TypeError(f"{builder.__qualname__}() takes {len(parameters)} operands, got {len(args)}")
        return builder(**given, **kwargs)

    return build


def _parameters(builder):
    return builder.__code__.co_varnames[: builder.__code__.co_argcount]


for _name, _value in list(globals().items()):
    if _name.startswith("RawPtrBuffer"):
        _value.__init__ = _both_forms(_value.__init__, _parameters(_value.__init__))
    elif _name.startswith("raw_ptr_buffer"):
        globals()[_name] = _both_forms(_value, _parameters(_value))
