"""Function identity: what the code reads, wherever it lives."""

from __future__ import annotations

import argparse
import array
import ast
import collections
import contextvars
import ctypes
import dataclasses
import enum
import logging
import pathlib
import re
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

from flydsl.compiler.specialization import bytecode, snapshot
from flydsl.compiler.specialization.key import FunctionSnapshot, Identity, Reach, Walker, stable_digest


@dataclasses.dataclass(frozen=True)
class Config:
    tile: int


SCALES: list[int] = []


class Mode(enum.Enum):
    A = 1
    B = 2


def helper_module(text: str) -> Any:
    module = types.ModuleType("fly_key_helpers")
    exec(text, module.__dict__)
    sys.modules[module.__name__] = module
    return module


def identity(source: str, **names: Any) -> tuple[Identity, dict[str, Any]]:
    scope: dict[str, Any] = dict(names)
    exec(source, scope)
    return Identity(FunctionSnapshot.of(scope["f"])), scope


@pytest.mark.parametrize(
    ("first", "second"),
    [(1, 2), (1, True), ("a", "b"), ([1], [2]), ({"a": 1}, {"a": 2}), (Config(1), Config(2)), (Mode.A, Mode.B)],
)
def test_globals_enter_by_value(first: Any, second: Any) -> None:
    ident, scope = identity("def f():\n    return G\n", G=first)
    before = ident.digest()
    assert ident.digest() == before
    scope["G"] = second
    assert ident.digest() != before
    scope["G"] = first
    assert ident.digest() == before


def test_mutation_in_place() -> None:
    ident, scope = identity("def f():\n    return G[0]\n", G=[1])
    before = ident.digest()
    scope["G"][0] = 2
    assert ident.digest() != before


def test_attribute_names_are_not_reads() -> None:
    ident, scope = identity("def f(t):\n    return t.x\n", x=1)
    before = ident.digest()
    scope["x"] = 2
    assert ident.digest() == before


def test_helpers_behind_modules_and_closures() -> None:
    module = helper_module("def scale(x):\n    return x * K\nK = 2\n")
    ident, _ = identity("def f(x):\n    return helpers.scale(x)\n", helpers=module)
    before = ident.digest()
    module.K = 3
    assert ident.digest() != before
    box = [1]

    def f() -> Any:
        return box

    closure = Identity(FunctionSnapshot.of(f))
    before = closure.digest()
    box.append(2)
    assert closure.digest() != before


def test_recursion_ends() -> None:
    ident, _ = identity("def f(x):\n    return g(x)\ndef g(x):\n    return f(x)\n")
    assert len(ident.digest()) == 32


def test_opaque_objects_are_never_shared() -> None:
    a, b = object(), object()
    assert stable_digest(a) != stable_digest(b)


def test_instances_by_attributes() -> None:
    one, two = types.SimpleNamespace(a=1), types.SimpleNamespace(a=2)
    assert stable_digest(one) != stable_digest(two)
    assert stable_digest(one) == stable_digest(types.SimpleNamespace(a=1))


def test_instances_without_attributes_bring_their_class() -> None:
    class Plain:
        def scale(self) -> int:
            return 1

    class Slotted:
        __slots__ = ()

        def scale(self) -> int:
            return 1

    for cls in (Plain, Slotted):
        before = stable_digest(cls())
        assert stable_digest(cls()) == before
        cls.scale = lambda self: 2  # type: ignore[method-assign]
        assert stable_digest(cls()) != before


def test_common_configuration_objects_are_guarded() -> None:
    """Dataclasses, enums and namespaces must not send every call to the slow path."""
    pytest.importorskip("flydsl.runtime._native")
    ident, scope = identity("def f():\n    return C, M.A, N, M, Config\n", C=Config(3), M=Mode, Config=Config,
                            N=types.SimpleNamespace(a=[1]))
    before = ident.digest()
    assert ident.guards is not None and ident.guards.unchanged()
    scope["N"].a.append(2)
    assert not ident.guards.unchanged() and ident.digest() != before


def test_dataclasses_enter_by_their_declaration() -> None:
    """What the decorator generates is neither walked nor, since it differs from Python to Python, named."""

    def made(text: str, options: str = "frozen=True") -> tuple[str, str]:
        scope: dict[str, Any] = {"__name__": __name__, "dataclass": dataclasses.dataclass, "field": dataclasses.field}
        exec(f"@dataclass({options})\nclass C:\n    {text}\n", scope)
        return Walker().text(scope["C"]), stable_digest(scope["C"])

    text, digest = made("a: int; b: list = field(default_factory=list)")
    assert (text, digest) == made("a: int; b: list = field(default_factory=list)")
    # To the letter: prebuilt artifacts are looked up by this in every Python.
    assert text == (f"class:{__name__}.C()dataclass:TrueTrueTrueFalseFalseTrue[a:str:'int'::"
                    ":TrueTrueNoneTrueFalse,b:str:'list'::class:builtins.list:TrueTrueNoneTrueFalse]"
                    "(__match_args__=tuple[str:'a',str:'b'])")
    others = [made("a: int; b: list"), made("a: float; b: list = field(default_factory=list)"),
              made("a: int; b: list = field(default_factory=tuple)"), made("a: int = 1; b: list = ()"),
              made("a: int = 2; b: list = ()"), made("a: int; b: list = field(default_factory=list)", "frozen=False"),
              made("a: int; b: list = field(default_factory=list, compare=False)"),
              made("a: int; b: list = field(default_factory=list, metadata={'unit': 'bytes'})"),
              made("a: int; b: list = field(default_factory=list); c = 3")]
    assert len({text, *(other for other, _ in others)}) == 1 + len(others)


def test_variables_of_a_dataclass_are_no_fields() -> None:
    """They have no `kw_only`: dataclasses put an object there whose text has an address, which no other process had."""

    @dataclasses.dataclass(frozen=True)
    class Tile:
        size: int
        names: ClassVar[dict[str, str]] = {"size": "n"}

    text, digest = Walker().text(Tile(3)), stable_digest(Tile)
    assert " at 0x" not in text and "names=dict[str:'size'=str:'n']" in text
    Tile.names["size"] = "m"
    assert stable_digest(Tile) != digest


class Extent(NamedTuple):
    """With annotations that are text, as all of this module: NamedTuple keeps them as code."""

    count: Any
    spaced: bool = False

    def twice(self) -> Any:
        return self.count * 2


def reached_extent() -> Any:
    return Extent(3).twice()


def test_named_tuples_enter_by_their_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes and Pythons find what was made with them: no object known here only, no generated code."""
    walker = Walker()
    assert Reach(FunctionSnapshot.of(reached_extent), walker).portable((__name__,)) and not walker.private
    text = Walker().text(Extent)
    assert "tuple[str:'count',str:'spaced']" in text and "_field_defaults=dict[str:'spaced'=bool:False]" in text
    digests = {stable_digest(Extent)}
    assert stable_digest(Extent) in digests
    for name, method in (("twice", lambda self: self.count * 3), ("__new__", lambda cls, count: (count, True))):
        monkeypatch.setattr(Extent, name, method)
        digests.add(stable_digest(Extent))
    assert len(digests) == 3


def test_methods_of_a_named_tuple_are_walked_wherever_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(self: Extent) -> Any:
        return self.count * len(SCALES)

    twice.__module__ = "collections_of_a_user"
    monkeypatch.setattr(Extent, "twice", twice)
    before = stable_digest(Extent)
    SCALES.append(1)
    assert stable_digest(Extent) != before


def test_methods_that_a_dataclass_was_given_are_walked() -> None:
    @dataclasses.dataclass
    class Given:
        a: int

        def __repr__(self) -> str:
            return str(SCALES)

    before = stable_digest(Given)
    SCALES.append(1)
    assert stable_digest(Given) != before
    before = stable_digest(Given)
    Given.__init__ = lambda self, a: SCALES.append(a)  # type: ignore[method-assign]
    assert stable_digest(Given) != before
    walked = Walker()
    walked.text(Given)
    assert {name.rpartition(".")[2] for name in walked.names} == {"__repr__", "<lambda>"}


def test_locks_wrappers_and_library_objects_have_a_stable_text() -> None:
    class Tuner:
        def __init__(self, fn: Any) -> None:
            self.__wrapped__, self.lock = fn, threading.Lock()

    def body(x: Any) -> Any:
        return x

    class Holder:
        def __init__(self) -> None:
            self.lock, self.path, self.pattern = threading.RLock(), pathlib.Path("a"), re.compile("b")
            self.log, self.dtype = logging.getLogger("c"), np.dtype("f4")

    assert stable_digest(Holder()) == stable_digest(Holder())
    assert stable_digest(Tuner(body)) == stable_digest(Tuner(body))
    other = Holder()
    other.pattern = re.compile("c")
    assert stable_digest(other) != stable_digest(Holder())


def test_name_loads_agree_with_dis(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick reading of bytecode finds what `dis` finds, over a library's functions."""
    import argparse
    import inspect

    functions = [f for _, f in inspect.getmembers(argparse.ArgumentParser, inspect.isfunction)]
    facts = bytecode.facts_of.__wrapped__
    quick = [facts(f.__code__).reads for f in functions]
    monkeypatch.setattr(bytecode, "_OPCODES", None)
    assert quick == [facts(f.__code__).reads for f in functions] and any(quick)


def test_a_trace_that_changes_what_it_reaches_is_not_repeated(load: Any) -> None:
    """A captured list that counts the traces does not make each call another one; a change by the user does."""
    module = load("""
import flydsl.compiler as flyc
import flydsl.expr as fx
traces = []

@flyc.kernel
def k(n: fx.Int32):
    fx.barrier()

@flyc.jit
def run(n: fx.Int32):
    traces.append("trace")
    k(n).launch(grid=1, block=64)
""")
    import flydsl.compiler as flyc

    first = flyc.compile(module.run, 1)
    assert flyc.compile(module.run, 2) is first and len(module.traces) == 1
    module.traces.append("mine")
    assert flyc.compile(module.run, 2) is not first and len(module.traces) == 3
    assert flyc.compile(module.run, 2) is not first and len(module.traces) == 3


CHANGED_BY_TRACES = {
    "a list": ("seen = []", "seen.append(1)"),
    "a cell": ("seen = 0", "nonlocal seen; seen += 1"),
    "a counter": ("import collections; seen = collections.Counter()", "seen['n'] += 1"),
    "an iterator": ("import itertools; seen = itertools.count()", "next(seen)"),
    "an array": ("import numpy; seen = numpy.zeros(1)", "seen[0] += 1"),
}


@pytest.mark.parametrize("how", CHANGED_BY_TRACES)
def test_specialisations_hold_after_the_trace_of_another(how: str, load: Any) -> None:
    """What a trace changes is no input of those before it either: two that take turns are compiled once each."""
    begin, change = CHANGED_BY_TRACES[how]
    module = load(f"""
import flydsl.compiler as flyc
import flydsl.expr as fx

def make():
    {begin}

    @flyc.jit
    def run(n, width: fx.Constexpr[int]):
        {change}

    return run

run = make()
""")
    from flydsl.tracing.context import CompilationContext

    for width in (1, 2, 1, 2, 1):
        module.run(1, width)
    assert len(module.run._call_state_cache) == 2
    with CompilationContext.compile_hints({"fast_fp_math": True}):
        for width in (1, 2, 1):
            module.run(1, width)
    assert len(module.run._call_state_cache) == 4
    assert list(module.run._sig.parameters) == ["n", "width"]


MODULE_USES = {
    "an import": "def f(x):\n    import fly_key_helpers\n    return fly_key_helpers.scale(x)",
    "an import of a name": "def f(x):\n    from fly_key_helpers import scale as s\n    return s(x)",
    "an import in a nested function": (
        "def f(x):\n    def g(y):\n        import fly_key_helpers as h\n        return h.scale(y)\n    return g(x)"
    ),
    "a local name": "def f(x):\n    h = helpers\n    return h.scale(x)",
    "an argument": "def apply(m, x):\n    return m.scale(x)\ndef f(x):\n    return apply(helpers, x)",
    "getattr": "def f(x):\n    return getattr(helpers, 'sc' + 'ale')(x)",
    "globals": "def f(x):\n    return globals()['helpers'].scale(x)",
    "a module in a module": "def f(x):\n    h = outer\n    return h.inner.scale(x)",
}


@pytest.mark.parametrize("how", MODULE_USES)
def test_modules_that_are_values_bring_what_the_code_reads_of_them(how: str) -> None:
    helpers = helper_module("def scale(x):\n    return x * 2\ndef other(x):\n    return 1")
    outer = types.ModuleType("fly_key_outer")
    outer.inner = helpers  # type: ignore[attr-defined]
    scope_module = types.ModuleType("fly_key_scope")
    sys.modules[scope_module.__name__] = scope_module
    scope = vars(scope_module)
    scope.update(helpers=helpers, outer=outer)
    exec(MODULE_USES[how], scope)
    found = Identity(FunctionSnapshot.of(scope["f"]))
    first = found.digest()
    if how not in ("getattr", "globals"):
        helpers.other = lambda x: 2
        assert found.digest() == first, "nothing reads it"
    exec("def scale(x):\n    return x * 3", vars(helpers))
    assert found.digest() != first


def test_a_module_in_a_closure() -> None:
    helpers = helper_module("K = 1\nUNUSED = 1")

    def make() -> Any:
        import fly_key_helpers as h

        def f(x: Any) -> Any:
            return x + h.K

        return f

    found = Identity(FunctionSnapshot.of(make()))
    first = found.digest()
    helpers.UNUSED = 2
    assert found.digest() == first
    helpers.K = 2
    assert found.digest() != first


def test_a_module_that_cannot_be_imported_is_left_to_the_trace() -> None:
    first, _ = identity("def f(x):\n    import fly_key_missing\n    return fly_key_missing.scale(x)")
    assert first.digest() == first.digest()


def test_names_in_bytecode_are_those_that_dis_finds() -> None:
    """Also with so many names that their numbers take an EXTENDED_ARG, before a chain and in it."""
    pending = [compile("".join(f"x = g{i}.a{i}.b(y{i})\n" for i in range(400)), "many names", "exec")]
    for module in (argparse, dataclasses, enum, pathlib, re, threading):
        pending.append(compile(pathlib.Path(module.__file__).read_text(encoding="utf-8"), module.__name__, "exec"))
    seen = 0
    while pending:
        code = pending.pop()
        pending += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        found = bytecode._chains(code, code.co_code[::2], code.co_code[1::2])
        assert found == bytecode._chains_by_dis(code), code
        seen += bool(found)
    assert seen > 300


def test_imports_in_bytecode_are_those_of_the_source() -> None:
    """Also with so many names that their numbers take an EXTENDED_ARG."""
    many = "".join(f"import m{i}.n{i}\nfrom {'.' * (i % 3 + 1)}p{i} import a{i}, b{i} as c\n" for i in range(400))
    sources = [many, *(pathlib.Path(module.__file__).read_text(encoding="utf-8")
                       for module in (argparse, dataclasses, enum, pathlib, re, threading))]
    for source in sources:
        expected = set()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                expected |= {(alias.name, 0, ()) for alias in node.names}
            if isinstance(node, ast.ImportFrom) and node.module != "__future__":
                expected.add((node.module or "", node.level, tuple(alias.name for alias in node.names)))
        found = set(bytecode.facts_of(compile(source, "imports", "exec", dont_inherit=True)).imports)
        assert {entry for entry in found if entry[0] != "__future__"} == expected


def test_what_is_reached_is_a_value_whose_code_is_digested_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "def g(x):\n    return x + K\ndef f(x):\n    return g(x)"
    (first, names), (second, _), (other, _) = identity(source, K=1), identity(source, K=1), identity(source, K=2)
    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "_code_text", lambda code, lines: pytest.fail("code was digested"))
        before = first.reach()
        assert before == second.reach() and hash(before) == hash(second.reach()) and before != other.reach()
        names["K"] = 3
        assert first.reach() != before and second.reach() == before
    assert before.digest(snapshot.with_places()) == second.digest() != first.digest()


class _Total(NamedTuple):
    values: list[int]

    def total(self) -> int:
        return sum(self.values)


def _subclass_of(base: type, *arguments: Any) -> Any:
    made = type("Made", (base,), {"__module__": __name__, "factor": lambda self: 1})(*arguments)
    if base is not int:
        made.note = 1
    return made


@pytest.mark.parametrize(
    "value",
    [_Total([1]), Mode.A, *(_subclass_of(base) for base in (list, dict, tuple, set, frozenset, int)),
     _subclass_of(collections.deque), _subclass_of(bytearray), _subclass_of(collections.OrderedDict)],
    ids=lambda value: type(value).__mro__[1].__name__,
)
def test_methods_of_a_value_are_reached_through_it(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code reads the value, not its class: `CONFIG.total()` is what the method is."""
    ident, _ = identity("def f():\n    return G.total()\n", G=value)
    before = ident.digest()
    assert ident.digest() == before
    monkeypatch.setattr(type(value), "total", lambda self: 2, raising=False)
    assert ident.digest() != before


@pytest.mark.parametrize("base", [list, dict, tuple, set, frozenset, collections.deque, bytearray])
def test_attributes_of_containers(base: type) -> None:
    value = _subclass_of(base)
    ident, _ = identity("def f():\n    return G.note\n", G=value)
    before = ident.digest()
    value.note = 2
    assert ident.digest() != before


def _changes() -> dict[str, tuple[Any, Callable[[], Any]]]:
    """Values that hold something apart from attributes, and what changes it."""
    octets, numbers, shared = bytearray(b"a"), array.array("i", [1]), ctypes.c_int(1)
    elements = _subclass_of(collections.deque)
    variable, own, config = contextvars.ContextVar("variable", default=1), threading.local(), Config(1)
    made, target = collections.defaultdict(int), argparse.Namespace(tile=1)
    own.tile = 1

    def helper() -> None: ...

    helper.tile = 1  # type: ignore[attr-defined]
    return {
        "bytearray": (octets, lambda: octets.append(1)),
        "memoryview": (memoryview(shared), lambda: setattr(shared, "value", 3)),
        "array": (numbers, lambda: numbers.append(1)),
        "ctypes": (shared, lambda: setattr(shared, "value", 2)),
        "deque": (elements, lambda: elements.append(1)),
        "context": (variable, lambda: variable.set(config)),
        "local": (own, lambda: setattr(own, "tile", 2)),
        "default": (made, lambda: setattr(made, "default_factory", list)),
        "weak": (weakref.ref(target), lambda: setattr(target, "tile", 2)),
        "function": (helper, lambda: setattr(helper, "tile", 2)),
    }


@pytest.mark.parametrize("kind", list(_changes()))
def test_content_that_is_no_attribute(kind: str) -> None:
    kept = _changes()
    value, change = kept[kind]
    ident, _ = identity("def f():\n    return G\n", G=value)
    before = ident.digest()
    assert ident.digest() == before
    change()
    assert ident.digest() != before


def test_an_instance_that_answers_to_any_name() -> None:
    class Echo:
        def __getattr__(self, name: str) -> int:
            return 1

    ident, _ = identity("def f():\n    return G.tile\n", G=Echo())
    assert ident.digest() == ident.digest()
