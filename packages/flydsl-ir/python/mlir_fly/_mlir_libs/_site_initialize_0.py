"""Registers the dialects and passes of FlyDSL when ``flydsl._mlir.ir`` is imported.

``_mlir_libs/__init__.py`` imports this module and calls :func:`register_dialects` once for the
registry that every ``ir.Context`` gets.
"""

from ._flyRegister import register_dialects, register_passes

__all__ = ["register_dialects"]

register_passes()
