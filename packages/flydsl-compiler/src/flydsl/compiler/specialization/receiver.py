"""What a method reads of the instance that it is bound to, found in its bytecode and in that of methods it names."""

from __future__ import annotations

import dis
import functools
import types
from typing import Any, NamedTuple

from .bytecode import nested
from .snapshot import FunctionSnapshot, is_library

__all__ = ["attributes_read", "member_of"]

# Names by which code gets at the variables of a frame, the receiver among them, without loading them.
_FRAME_ACCESS = frozenset({"locals", "vars", "dir", "eval", "exec", "super", "_getframe", "currentframe"})
_VARIABLES = frozenset(code for code in (*dis.haslocal, *dis.hasfree))
_LOADS = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_DEREF", "LOAD_FAST_LOAD_FAST",
                    "LOAD_FAST_BORROW_LOAD_FAST_BORROW", "STORE_FAST_LOAD_FAST"})
_CELLS = frozenset({"LOAD_CLOSURE", "MAKE_CELL"})
_READS, _WRITES = frozenset({"LOAD_ATTR", "LOAD_METHOD"}), frozenset({"STORE_ATTR", "DELETE_ATTR"})
_COPIES = frozenset({"COPY", "DUP_TOP"})
# Descriptors that run no code with the instance.
_INDEPENDENT = (staticmethod, types.MemberDescriptorType)
_SKIPPED = frozenset({"CACHE", "EXTENDED_ARG", "NOP"})


class _Uses(NamedTuple):
    """Names of the attributes that code reads and writes of its first parameter."""

    reads: frozenset[str]
    writes: frozenset[str]


@functools.lru_cache(maxsize=1024)
def _uses(code: types.CodeType) -> _Uses | None:
    """What code does with its first parameter; None if it is anything else than naming attributes of it."""
    if not code.co_argcount or any(not _FRAME_ACCESS.isdisjoint(part.co_names) for part in nested(code)):
        return None
    uses = _Uses(frozenset(), frozenset())
    name, pending = code.co_varnames[0], [code]
    while pending:
        part = pending.pop()
        found = _uses_in(part, name)
        if found is None:
            return None
        uses = _Uses(uses.reads | found.reads, uses.writes | found.writes)
        pending += [c for c in part.co_consts if isinstance(c, types.CodeType) and name in c.co_freevars]
    return uses


def _uses_in(code: types.CodeType, name: str) -> _Uses | None:
    """`_uses` of a variable in one code object, without those inside it."""
    reads: set[str] = set()
    writes: set[str] = set()
    in_cell = name in code.co_cellvars or name in code.co_freevars
    found = [i for i in dis.get_instructions(code) if i.opname not in _SKIPPED]
    for position, instruction in enumerate(found):
        # Since Python 3.13 one instruction may load two variables, the second on top.
        variables = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        if instruction.opcode not in _VARIABLES or name not in variables:
            continue
        if instruction.opname in _CELLS or (in_cell and "DEREF" not in instruction.opname):
            continue  # a closure is made, whose code is looked at by itself
        if instruction.opname not in _LOADS or name in variables[:-1]:
            return None
        after = found[position + 1]
        if after.opname in _COPIES and found[position + 2].opname in _READS:  # self.count += 1
            after = found[position + 2]
            writes.add(after.argval)
        if after.opname in _READS:
            reads.add(after.argval)
        elif after.opname in _WRITES:
            writes.add(after.argval)
        else:
            return None
    return _Uses(frozenset(reads), frozenset(writes))


def member_of(cls: type, name: str) -> list[tuple[type, Any]]:
    """[(class, member)] that an attribute of instances of a class is looked up as; empty without one."""
    return [(c, vars(c)[name]) for c in cls.__mro__ if name in vars(c)][:1]


def _is_plain(cls: type) -> bool:
    """Whether attributes of its instances are found by nothing but the usual lookup."""
    usual = ("__getattribute__", "__setattr__", "__delattr__")
    return not member_of(cls, "__getattr__") and all(member_of(cls, name)[0][0] is object for name in usual)


def _code_of(function: Any) -> types.CodeType | None:
    """The code of a function as it was written; None for what is none of a user's."""
    snapshot = getattr(function, "_original", function)
    if isinstance(snapshot, FunctionSnapshot):
        return snapshot.code
    if isinstance(function, types.FunctionType) and not is_library(function.__module__):
        return function.__dict__.get("__fly_original__") or function.__code__
    return None


def attributes_read(function: Any, instance: Any) -> frozenset[str] | None:
    """Names that a method, with the methods and properties that it names, reads of its instance.

    Args:
        function: a function, its snapshot, or a jit function or kernel, whose first parameter is the instance.

    Returns:
        The names, of methods, too; None if the instance may be read in a way that names no attribute.
    """
    cls = type(instance)
    if not _is_plain(cls):
        return None
    names: set[str] = set()
    pending, seen = [function], set()
    while pending:
        code = _code_of(pending.pop())
        uses = _uses(code) if code is not None else None
        if uses is None:
            return None
        if code in seen:
            continue
        seen.add(code)
        names |= uses.reads
        for name in uses.reads | uses.writes:
            if name.startswith("__"):
                return None
            for _, member in member_of(cls, name):
                if isinstance(member, _INDEPENDENT):
                    continue
                if isinstance(member, property):
                    pending += [member.fget] * (name in uses.reads)
                    pending += [f for f in (member.fset, member.fdel) if f is not None and name in uses.writes]
                elif isinstance(member, functools.cached_property):
                    pending.append(member.func)
                elif isinstance(member, types.FunctionType) or hasattr(member, "_original"):
                    pending.append(member)
                elif hasattr(type(member), "__get__"):
                    return None
    return frozenset(names)
