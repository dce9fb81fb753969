"""Registers the dialects and passes of FlyDSL when ``flydsl._mlir.ir`` is imported.

``_mlir_libs/__init__.py`` imports this module and calls :func:`register_dialects` once for the
registry that every ``ir.Context`` gets.
"""

from functools import lru_cache

from . import _flyCodegen
from ._flyRegister import register_dialects, register_passes
from ._mlir import ir as _ir

__all__ = ["register_dialects"]

register_passes()

_check = lru_cache(maxsize=256)(_flyCodegen.check_assembly)


def _guard(kind: int, parse):
    """``parse`` of text that would end the process is a ValueError; bytecode goes through as it is."""

    def guarded(source, *args, **kwargs):
        if isinstance(source, str):
            _check(source, kind)
        return parse(source, *args, **kwargs)

    guarded.__doc__ = parse.__doc__
    return staticmethod(guarded)


_ir.Module.parse = _guard(0, _ir.Module.parse)
_ir.Operation.parse = _guard(0, _ir.Operation.parse)
_ir.Attribute.parse = _guard(1, _ir.Attribute.parse)
