"""What bytecode says of the world outside it: the globals that it loads, the attributes that it names, its imports."""

from __future__ import annotations

import dis
import functools
import re
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

__all__ = ["Facts", "facts_of", "nested"]

# Names by which code can get at attributes that its bytecode does not name.
_DYNAMIC_GLOBALS = frozenset({"globals", "eval", "exec"})
_DYNAMIC_ACCESS = _DYNAMIC_GLOBALS | {"getattr", "vars", "__dict__", "attrgetter"}
_IMPORT_NAME, _LOAD_CONST, _EXTENDED_ARG = dis.opmap["IMPORT_NAME"], dis.opmap["LOAD_CONST"], dis.EXTENDED_ARG
_SKIPPED = {_EXTENDED_ARG, dis.opmap.get("CACHE")}


class Facts(NamedTuple):
    """What a code object and those inside it say.

    Attributes:
        reads: distinct chains of globals that are loaded: ``("helpers", "scale")`` for ``helpers.scale(x)``.
        names: every attribute or global that is named; None when others may be reached, by ``getattr`` and the like.
        imports: import statements: (module, level, names after ``from``).
        reaches_globals: whether any global may be reached, by ``globals`` and the like.
    """

    reads: tuple[tuple[str, ...], ...]
    names: frozenset[str] | None
    imports: tuple[tuple[str, int, tuple[str, ...]], ...]
    reaches_globals: bool


def nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and those inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from nested(constant)


@functools.lru_cache(maxsize=4096)
def facts_of(code: types.CodeType) -> Facts:
    """The facts of a code object, found once: they are asked for by each function that reaches it."""
    # A cached start spends much of its time here: one pass, and nothing of code that names nothing.
    reads: dict[tuple[str, ...], None] = {}
    imports: dict[tuple[str, int, tuple[str, ...]], None] = {}
    names: set[str] = set()
    for part in nested(code):
        if part.co_names:
            names.update(part.co_names)
            words = part.co_code
            opcodes, arguments = words[::2], words[1::2]
            reads.update(dict.fromkeys(_chains(part, opcodes, arguments)))
            if _IMPORT_NAME in opcodes:
                imports.update(dict.fromkeys(_imports(part, opcodes, arguments)))
    return Facts(tuple(reads), frozenset(names) if names.isdisjoint(_DYNAMIC_ACCESS) else None, tuple(imports),
                 not names.isdisjoint(_DYNAMIC_GLOBALS))


def _opcodes() -> tuple[re.Pattern[bytes], dict[int, int]] | None:
    """A chain as a pattern of this Python's opcodes, and {opcode: shift of its name index}; None if it is unknown."""
    if not (3, 10) <= sys.version_info[:2] <= (3, 14):
        return None
    number = dis.opmap.get
    shift_global = 1 if sys.version_info >= (3, 11) else 0
    shift_attribute = 1 if sys.version_info >= (3, 12) else 0
    first = {number("LOAD_GLOBAL"): shift_global, number("LOAD_NAME"): 0}
    more = {number("LOAD_ATTR"): shift_attribute, number("LOAD_METHOD"): 0}

    def one_of(names: Iterable[int | None]) -> bytes:
        # Opcodes over 255 are the compiler's own and in no code.
        return b"[" + b"".join(re.escape(bytes([n])) for n in names if n is not None and n < 256) + b"]"

    # Between the names of a chain there is nothing that does anything. A pattern that begins with what it must have is
    # found three times as fast: what extends the first argument is looked for afterwards.
    skipped = one_of(map(number, ("PRECALL", "CACHE", "PUSH_NULL", "EXTENDED_ARG")))
    pattern = b"%b(?:%b*%b)*" % (one_of(first), skipped, one_of(more))
    shifts = {code: shift for code, shift in {**first, **more}.items() if code is not None}
    return re.compile(pattern, re.DOTALL), shifts


_OPCODES = _opcodes()


def _chains(code: types.CodeType, opcodes: bytes, arguments: bytes) -> list[tuple[str, ...]]:
    """Chains of loaded globals in one code object."""
    if _OPCODES is None:
        return _chains_by_dis(code)  # ten times slower
    pattern, shifts = _OPCODES
    names = code.co_names
    found: list[tuple[str, ...]] = []
    for match in pattern.finditer(opcodes):
        start, end = match.span()
        while start and opcodes[start - 1] == _EXTENDED_ARG:
            start -= 1
        chain, extended = [], 0
        for position in range(start, end):
            shift = shifts.get(opcodes[position])
            if shift is not None:
                chain.append(names[(arguments[position] | extended) >> shift])
                extended = 0
            elif opcodes[position] == _EXTENDED_ARG:
                extended = (arguments[position] | extended) << 8
        found.append(tuple(chain))
    return found


def _chains_by_dis(code: types.CodeType) -> list[tuple[str, ...]]:
    """`_chains` on a Python whose opcodes are not known here."""
    found: list[tuple[str, ...]] = []
    chain: list[str] = []
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("PRECALL", "CACHE", "PUSH_NULL", "EXTENDED_ARG"):
            continue
        if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            if chain:
                chain.append(str(instruction.argval))
            continue
        if chain:
            found.append(tuple(chain))
        chain = [str(instruction.argval)] if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME") else []
    return [*found, tuple(chain)] if chain else found


def _imports(code: types.CodeType, opcodes: bytes, arguments: bytes) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """(module, level, names after ``from``) of the import statements in one code object."""
    before: tuple[Any, Any] = (0, None)  # what the two instructions before load: the level, and the names
    extended = 0
    for opcode, argument in zip(opcodes, arguments, strict=True):
        argument |= extended << 8
        extended = argument if opcode == _EXTENDED_ARG else 0
        if opcode == _IMPORT_NAME:
            yield code.co_names[argument], before[0] or 0, before[1] or ()
        if opcode in _SKIPPED:
            continue
        loaded = code.co_consts[argument] if opcode == _LOAD_CONST else argument
        before = before[1], loaded
