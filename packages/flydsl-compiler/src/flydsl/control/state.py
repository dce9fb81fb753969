"""Values carried through structured control flow, as a tree of DSL values.

`promote` gives every leaf a type, `flatten` yields the SSA values, `rebuild` makes the same tree around
the arguments of a region, and `flatten_like` checks what a region produced against the entry.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from flydsl.tracing.ambient import trace_table
from flydsl.tracing.diagnostics import DSLNameError, DSLTypeError, fail, warn_here
from flydsl.tracing.numbers import numpy_scalar
from flydsl.tracing.protocol import construct_from_ir_values, extract_to_ir_values


class Unbound:
    """Stands for a name that has no value on the path taken; every use raises and says where it was bound."""

    __slots__ = ("_name", "_why")

    def __init__(self, name: str, why: str) -> None:
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_why", why)

    def _raise(self, *args: Any, **kwargs: Any) -> Any:
        fail(f"name {self._name!r} is not defined here: {self._why}. Initialise it before.", DSLNameError)

    def __getattr__(self, attr: str) -> Any:
        # Protocol probes must see an object without the protocol, not an error.
        if attr.startswith("__"):
            raise AttributeError(attr)
        return self._raise()

    def __repr__(self) -> str:
        return f"<unbound {self._name}>"


def _poison_operators() -> None:
    names = (
        "add sub mul truediv floordiv mod pow and or xor lshift rshift matmul radd rsub rmul rtruediv rfloordiv rmod "
        "rand ror rxor rlshift rrshift rmatmul lt le gt ge eq ne neg pos invert abs bool int float index len iter "
        "getitem setitem call contains enter"
    )
    for name in names.split():
        setattr(Unbound, f"__{name}__", Unbound._raise)
    Unbound.__hash__ = object.__hash__  # type: ignore[method-assign]


_poison_operators()


def without_ended(names: tuple[str, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values of names before a construct, less those that belong to an explicit loop which has ended.

    The body of such a loop is no function of its own, so the names of its temporaries live on in Python.
    """
    if not trace_table("explicit_loops"):
        return values
    from flydsl._mlir import ir

    around, block = [], ir.InsertionPoint.current.block
    while True:
        around.append(block)
        op = block.owner.operation
        if op.parent is None:
            break
        block = op.block

    def has_ended(value: Any) -> bool:
        if isinstance(value, Unbound) or not holds_ir_values(value):
            return False
        owners = [leaf.owner for leaf in flatten(value)]
        return any((o if isinstance(o, ir.Block) else o.operation.block) not in around for o in owners)

    return tuple(Unbound(name, "its value is of a loop that has ended") if has_ended(value) else value
                 for name, value in zip(names, values, strict=True))


def value_class() -> Any:
    """`ir.Value` when MLIR is loaded, else an empty tuple (no object is dynamic then)."""
    module = sys.modules.get("flydsl._mlir.ir")
    return module.Value if module is not None else ()


def is_dynamic(value: Any) -> bool:
    """Whether ``value`` is known only on the device: an `ir.Value`, or a wrapper with one in ``value``."""
    kind = value_class()
    return isinstance(value, kind) or isinstance(getattr(value, "value", None), kind)


def is_carriable(value: Any) -> bool:
    """Whether ``value`` holds at least one SSA value (or could: a DSL number)."""
    if isinstance(numpy_scalar(value), (bool, int, float)) or is_dynamic(value):
        return True
    if isinstance(value, SimpleNamespace):
        return any(is_carriable(v) for v in vars(value).values())
    if isinstance(value, dict):
        return any(is_carriable(v) for v in value.values())
    if isinstance(value, (list, tuple)):
        return any(is_carriable(v) for v in value)
    return getattr(type(value), "__extract_to_ir_values__", None) is not None


def holds_ir_values(value: Any) -> bool:
    """Whether ``value`` already has SSA values in it; nothing is emitted to find out."""
    if is_dynamic(value):
        return True
    if isinstance(value, SimpleNamespace):
        return any(holds_ir_values(v) for v in vars(value).values())
    if isinstance(value, dict):
        return any(holds_ir_values(v) for v in value.values())
    if isinstance(value, (list, tuple)):
        return any(holds_ir_values(v) for v in value)
    if getattr(type(value), "__extract_to_ir_values__", None) is None:
        return False
    return type(value).__module__ != "flydsl.expr.numeric"


def promote(value: Any) -> Any:
    """``value`` with bare scalars and raw values turned into DSL values, recursively."""
    value = numpy_scalar(value)
    if isinstance(value, (bool, int, float)) and type(value) in (bool, int, float):
        from flydsl.expr import numeric

        return numeric.as_numeric(value)
    if isinstance(value, SimpleNamespace):
        return SimpleNamespace(**{k: promote(v) for k, v in vars(value).items()})
    if isinstance(value, dict):
        return type(value)({k: promote(v) for k, v in value.items()})
    if isinstance(value, (list, tuple)):
        members = [promote(v) for v in value]
        return type(value)(*members) if hasattr(value, "_fields") else type(value)(members)
    if isinstance(value, value_class()):
        from flydsl.expr.utils.convert import as_dsl_value

        return as_dsl_value(value)
    return value


def copy_containers(value: Any) -> Any:
    """The same leaves in fresh lists, dicts and namespaces."""
    if isinstance(value, SimpleNamespace):
        return SimpleNamespace(**{k: copy_containers(v) for k, v in vars(value).items()})
    if type(value) is dict:
        return {k: copy_containers(v) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(copy_containers(v) for v in value)
    return value


def flatten(value: Any) -> list[Any]:
    """The SSA values of a promoted tree, depth first."""
    return extract_to_ir_values(value)


def rebuild(exemplar: Any, values: list[Any]) -> Any:
    """The tree of ``exemplar`` around new values."""
    return construct_from_ir_values(type(exemplar), exemplar, values)


def _describe(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__} of {len(value)}"
    if isinstance(value, dict):
        return f"dict with keys {sorted(map(str, value))}"
    if isinstance(value, SimpleNamespace):
        return f"namespace with members {sorted(vars(value))}"
    return type(value).__name__


def spelling(value: Any) -> str:
    """A value's type as the user writes it, with the IR types."""
    types = ", ".join(str(v.type) for v in flatten(value))
    name = _describe(value)
    return types if isinstance(value, value_class()) and name in ("Value", "ArithValue") else f"{name} ({types})"


def _mismatch(place: str, path: str, expected: str, produced: str) -> None:
    hint = ""
    floats, integers = ("Float", "BFloat"), ("Int", "Uint", "Boolean")
    if expected.startswith(floats) and produced.startswith(integers):
        hint = "; write a float literal (2.0) or convert, e.g. fx.Float32(x)"
    elif expected.startswith(integers) and produced.startswith(floats):
        hint = "; give the variable a float initial value, e.g. fx.Float32(0)"
    fail(f"{place}: variable {path} does not match the region entry: expected {expected}, produced {produced}{hint}",
         DSLTypeError)


def flatten_like(exemplar: Any, produced: Any, place: str, path: str) -> list[Any]:
    """SSA values of ``produced``, checked against the tree and the types of ``exemplar``.

    TypeError ("does not match the region entry") names the place, the path in the variable and both types.
    """
    if isinstance(produced, Unbound):
        produced._raise()
    if isinstance(exemplar, (SimpleNamespace, dict)):
        return _flatten_mapping(exemplar, produced, place, path)
    if isinstance(exemplar, (list, tuple)) and not hasattr(type(exemplar), "__extract_to_ir_values__"):
        if not isinstance(produced, (list, tuple)) or len(produced) != len(exemplar):
            _mismatch(place, path, _describe(exemplar), _describe(produced))
        pairs = zip(exemplar, produced, strict=True)
        return [v for i, (e, p) in enumerate(pairs) for v in flatten_like(e, p, place, f"{path}[{i}]")]
    if produced is None or not is_carriable(produced):
        _mismatch(place, path, type(exemplar).__name__, "None" if produced is None else type(produced).__name__)
    promoted = promote(produced)
    values = flatten(promoted)
    if [v.type for v in values] != [v.type for v in flatten(exemplar)] or not _same_kind(exemplar, promoted):
        _mismatch(place, path, spelling(exemplar), spelling(promoted))
    _compare_meaning(exemplar, promoted, place, path)
    return values


def _same_kind(exemplar: Any, produced: Any) -> bool:
    """Whether the variable, which stays of the exemplar's class, may hold ``produced``, whose IR types are the same.

    Numbers and raw values may stand for each other; a container, a struct or a class of the user is what it is.
    """
    from flydsl.expr import numeric

    plain = (numeric.Numeric, value_class())
    if isinstance(exemplar, plain) and isinstance(produced, plain):
        return True
    return isinstance(exemplar, type(produced)) or isinstance(produced, type(exemplar))


def _compare_meaning(exemplar: Any, produced: Any, place: str, path: str) -> None:
    """What an IR type does not say: whether integers are signed, and which coordinate a lane of a vector has.

    Memory cannot change what its elements are. A number stays of the class that it had before, with its bits.
    """
    memory: list[Any] = [getattr(v, "element_class", None) for v in (exemplar, produced)]
    if len({getattr(cls, "signed", None) for cls in memory}) > 1:
        _mismatch(place, path, f"elements of {memory[0].__name__}", f"elements of {memory[1].__name__}")
    from flydsl.expr._vector import Vector, flatten_shape

    kinds = [v.dtype if isinstance(v, Vector) else type(v) for v in (exemplar, produced)]
    if len({getattr(kind, "signed", None) for kind in kinds} - {None}) > 1:
        before, after = (kind.__name__ for kind in kinds)
        warn_here(f"{place}: variable {path} is {before} before and {after} here; it stays {before}, with the bits of "
                  f"the {after}: convert one side, e.g. fx.{before}(...)")
    if isinstance(exemplar, Vector) and isinstance(produced, Vector):
        # What raw builders give is flat: it has the lanes of any shape.
        modes = [[n for n in flatten_shape(v.shape) if n != 1] for v in (exemplar, produced)]
        if modes[0] != modes[1] and min(map(len, modes)) > 1:
            _mismatch(place, path, f"a vector of shape {exemplar.shape}", f"one of shape {produced.shape}")


def _flatten_mapping(exemplar: Any, produced: Any, place: str, path: str) -> list[Any]:
    namespace = isinstance(exemplar, SimpleNamespace)
    same_kind = isinstance(produced, SimpleNamespace if namespace else dict)
    want = vars(exemplar) if namespace else exemplar
    have = (vars(produced) if namespace else produced) if same_kind else {}
    if not same_kind or set(want) != set(have):
        _mismatch(place, path, _describe(exemplar), _describe(produced))
    values: list[Any] = []
    for key, item in want.items():
        values += flatten_like(item, have[key], place, f"{path}.{key}" if namespace else f"{path}[{key!r}]")
    return values


class Names(tuple[str, ...]):
    """The names that a construct may carry: a tuple of them, and what the rewriter knows of their use.

    `invoked`: those of which only methods are called; `mutated`: of these, those that a method changes, as `append`
    does; `lines`: of the assignment before the construct (0: none) and of the first one inside it.
    """

    invoked: tuple[str, ...]
    mutated: tuple[str, ...]
    lines: dict[str, tuple[int, int]]

    def __new__(
        cls, names: Iterable[str], invoked: tuple[str, ...] = (), mutated: tuple[str, ...] = (),
        lines: dict[str, tuple[int, int]] | None = None,
    ) -> Names:
        self = super().__new__(cls, names)
        self.invoked, self.mutated, self.lines = invoked, mutated, lines or {}
        return self

    @classmethod
    def of(cls, names: tuple[str, ...]) -> Names:
        """Names from a program that calls a dispatcher itself: nothing else is known."""
        return names if isinstance(names, cls) else cls(names)


class Carried:
    """The carried variables of one construct: names, promoted initial values, their SSA values and types."""

    def __init__(
        self, names: tuple[str, ...], values: tuple[Any, ...], lines: dict[str, tuple[int, int]]
    ) -> None:
        self.lines = lines
        none = [name for name, value in zip(names, values, strict=True) if value is None]
        if none:
            fail(f"the initial value of {', '.join(none)} is None, which a run-time construct cannot carry: give a "
                 f"typed "
                 "initial value such as fx.Int32(0), or decide at trace time with const_expr(...)",
                 DSLTypeError)
        for name, value in zip(names, values, strict=True):
            if not is_carriable(value):
                fail(f"{name} is assigned inside a run-time construct but holds no IR values "
                     f"({type(value).__name__}): only DSL values can be carried, and lists, tuples, dicts and "
                     "SimpleNamespaces of them", DSLTypeError)
        self.names = names
        promoted = [promote(v) for v in values]
        self.leaves = [flatten(e) for e in promoted]
        # Rebuilt around the SSA values, so that a literal is materialised once only.
        self.exemplars = [rebuild(e, leaf) for e, leaf in zip(promoted, self.leaves, strict=True)]
        self.initial = [v for leaf in self.leaves for v in leaf]
        self.types = [v.type for v in self.initial]

    def rebuild(self, values: list[Any]) -> list[Any]:
        """The variables around new SSA values (block arguments or results)."""
        rebuilt, start = [], 0
        for exemplar, leaf in zip(self.exemplars, self.leaves, strict=True):
            rebuilt.append(rebuild(exemplar, list(values[start : start + len(leaf)])))
            start += len(leaf)
        return rebuilt

    def flatten(self, produced: list[Any], place: str) -> list[Any]:
        """SSA values that a region hands on, checked against the entry."""
        return [
            v for name, e, p in zip(self.names, self.exemplars, produced, strict=True)
            for v in flatten_like(e, p, self._place(name, place), name)
        ]

    def _place(self, name: str, place: str) -> str:
        before, inside = self.lines.get(name, (0, 0))
        if not inside:
            return place
        return f"{place} (assigned at line {inside}{f', before at line {before}' if before else ''})"
