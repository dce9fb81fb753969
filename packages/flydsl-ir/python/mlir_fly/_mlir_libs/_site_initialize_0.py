"""Registers the dialects and passes of FlyDSL when ``flydsl._mlir.ir`` is imported.

``_mlir_libs/__init__.py`` imports this module and calls :func:`register_dialects` once for the
registry that every ``ir.Context`` gets.
"""

from functools import lru_cache

from . import _flyCodegen
from ._flyRegister import register_dialects, register_passes
from ._mlir import ir as _ir

__all__ = ["parse_own_bytecode", "register_dialects"]

register_passes()

_parse_module = _ir.Module.parse


def parse_own_bytecode(bytecode, context=None):
    """The `ir.Module` of bytecode that this process wrote and kept, in ``context`` or the current one.

    Nothing is checked: bytecode from anywhere else could damage the memory of the process and belongs to
    ``ir.Module.parse``, which has another process read it. Raises ``ir.MLIRError`` for bytecode of another version.
    """
    return _parse_module(bytecode, context)


_OPERATION, _ATTRIBUTE, _TYPE = range(3)
_check = lru_cache(maxsize=256)(_flyCodegen.check_assembly)


def _guard(kind: int, parse):
    """``parse`` of text that would end the process is a ValueError; bytecode is translated to text elsewhere."""

    def guarded(source, *args, **kwargs):
        if isinstance(source, (bytes, bytearray, memoryview)):
            source = _text(bytes(source))
        if isinstance(source, str):
            _check(source, kind)
        return parse(source, *args, **kwargs)

    guarded.__doc__ = parse.__doc__
    return staticmethod(guarded)


def _text(source: bytes) -> str:
    """The assembly of bytes: text, or bytecode.

    MLIR's reader of bytecode trusts what it reads; damaged bytecode damages the heap. So another process reads it.
    """
    if not source.startswith(b"ML\xefR"):
        return source.decode("utf-8")
    import subprocess

    from flydsl.ir import find_tool

    command = [str(find_tool("fly-opt")), "--allow-unregistered-dialect", "--mlir-print-op-generic",
               "--mlir-print-debuginfo"]
    done = subprocess.run(command, input=source, capture_output=True)
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip() or f"its reader ended with status {done.returncode}"
        raise ValueError(f"the bytecode cannot be read: {reason}")
    return done.stdout.decode("utf-8")


_ir.Module.parse = _guard(_OPERATION, _ir.Module.parse)
_ir.Operation.parse = _guard(_OPERATION, _ir.Operation.parse)
_ir.Attribute.parse = _guard(_ATTRIBUTE, _ir.Attribute.parse)
_ir.Type.parse = _guard(_TYPE, _ir.Type.parse)
