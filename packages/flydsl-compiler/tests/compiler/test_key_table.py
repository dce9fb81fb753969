"""What invalidates a compiled function and what does not, case by case, in this process and from disk.

Every case starts from the same program of two modules, changes one thing, and looks whether the next
process (a fresh import from the same or another folder) finds the artifact in the disk cache.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flydsl._mlir.dialects.fly")

import flydsl.compiler as flyc  # noqa: E402

HELPERS = '''
"""Helpers of the program."""
import functools
SCALE = 2
TABLE = [1, 2]
class Options:
    unroll = 1
    def twice(self, x):
        return x + x
def shift(x):
    return x + SCALE
def unrelated(x):
    return x
'''

PROGRAM = '''
import dataclasses
import enum
import os
import flydsl.compiler as flyc
import flydsl.expr as fx
import HELPERS as helpers
from HELPERS import Options

BIAS = 1
LIMITS = {"low": 0}
OPTIONS = Options()
NOT_READ = 5

class Mode(enum.Enum):
    ADD = 1
    MUL = 2

MODE = Mode.ADD

@dataclasses.dataclass(frozen=True)
class Config:
    tile: int = 64
    pad: tuple = (1, 2)

CONFIG = Config()

def make(captured):
    def inner(x):
        return x * captured
    return inner

factor = make(3)

def with_default(x, k=4, *, m=6):
    return x + k + m

@flyc.kernel
def kernel(X: fx.Tensor, n: fx.Int32, c: fx.Constexpr[int]):
    i = fx.block_idx.x * CONFIG.tile + fx.thread_idx.x
    if i < n:
        v = helpers.shift(n) + BIAS + c + LIMITS["low"] + helpers.TABLE[0]
        v = OPTIONS.twice(factor(with_default(v))) + Options.unroll
        if fx.const_expr(MODE is Mode.MUL):
            v = v * v
        X[0] = X[0]

@flyc.jit
def run(X: fx.Tensor, n: fx.Int32, c: fx.Constexpr[int], stream: fx.Stream = fx.Stream(None)):
    kernel(X, n, c).launch(grid=(n,), block=CONFIG.tile, stream=stream)

def not_reached():
    return 1
'''


class World:
    """The program on disk, and calls of it that compile only."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.program, self.helpers = root / "program", PROGRAM, HELPERS
        self.arguments: dict[str, Any] = {"X": np.zeros(8, np.float32), "n": 3, "c": 5}
        self.hints: dict[str, Any] = {}
        self.wrap: Callable[[Any], Any] = lambda x: x
        self.monkeypatch = monkeypatch
        self.count = 0

    def replace(self, old: str, new: str, where: str = "program") -> None:
        text = getattr(self, where)
        assert old in text
        setattr(self, where, text.replace(old, new))

    def load(self) -> Any:
        """The program as a new process would see it: module objects of their own."""
        self.folder.mkdir(exist_ok=True, parents=True)
        self.count += 1
        found = []
        for name, text in (("HELPERS", self.helpers), ("table_program", self.program)):
            path = self.folder / f"{name}{self.count}.py"
            path.write_text(text)
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
            found.append(module)
        return found[1]

    def hit(self, module: Any = None) -> bool:
        """Call, compile only; whether the artifact came from the disk cache."""
        module = module or self.load()
        module.run.compile_hints = dict(self.hints)
        before = module.run.cache_info()
        arguments = {**self.arguments, "X": self.wrap(self.arguments["X"])}
        module.run(**arguments)
        after = module.run.cache_info()
        assert after.hits + after.misses == before.hits + before.misses + 1, "no lookup at all"
        return bool(after.hits > before.hits)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("COMPILE_ONLY", "1")
    monkeypatch.setenv("ARCH", "gfx942")
    yield World(tmp_path, monkeypatch)
    for name in ("HELPERS", "table_program"):
        sys.modules.pop(name, None)


def setenv(name: str, value: str) -> Callable[[World], None]:
    return lambda w: w.monkeypatch.setenv(name, value)


def argument(name: str, value: Any) -> Callable[[World], None]:
    return lambda w: w.arguments.update({name: value})


def edit(old: str, new: str, where: str = "program") -> Callable[[World], None]:
    return lambda w: w.replace(old, new, where)


def wrap(how: Callable[[Any], Any]) -> Callable[[World], None]:
    return lambda w: setattr(w, "wrap", how)


def package_version(w: World) -> None:
    import flydsl.runtime

    w.monkeypatch.setattr(flydsl.runtime, "__version__", "9.9.9")


def move(w: World) -> None:
    w.folder = w.folder.parent / "elsewhere" / "deep"


def extra_sources(w: World) -> None:
    folder = w.folder.parent / "extra"
    folder.mkdir()
    (folder / "more.py").write_text("x = 1\n")
    w.monkeypatch.setenv("FLYDSL_EXTRA_SOURCE_DIRS", str(folder))


MISS = {
    "the kernel's code": edit("v * v", "v + v"),
    "the jit function's code": edit("grid=(n,)", "grid=(n + 1,)"),
    "the kernel's name": edit("kernel(", "renamed("),
    "a helper in another module": edit("x + SCALE", "x - SCALE", "helpers"),
    "a global of that module": edit("SCALE = 2", "SCALE = 3", "helpers"),
    "an item of its list": edit("TABLE = [1, 2]", "TABLE = [7, 2]", "helpers"),
    "a method of a class there": edit("x + x", "x * 2", "helpers"),
    "an attribute of that class": edit("unroll = 1", "unroll = 2", "helpers"),
    "a global": edit("BIAS = 1", "BIAS = 2"),
    "the type of a global": edit("BIAS = 1", "BIAS = True"),
    "an item of a dictionary": edit('"low": 0', '"low": 1'),
    "an enum member": edit("MODE = Mode.ADD", "MODE = Mode.MUL"),
    "a field of a frozen dataclass": edit("tile: int = 64", "tile: int = 128"),
    "a captured value": edit("make(3)", "make(4)"),
    "a default": edit("k=4", "k=5"),
    "a keyword-only default": edit("m=6", "m=7"),
    "an annotation": edit("n: fx.Int32, c: fx.Constexpr[int]):\n    i", "n: fx.Int64, c: fx.Constexpr[int]):\n    i"),
    "a compile-time argument": argument("c", 6),
    "the dtype of a tensor": argument("X", np.zeros(8, np.float16)),
    "the rank of a tensor": argument("X", np.zeros((8, 1), np.float32)),
    "the leading axis of a tensor": argument("X", np.zeros((4, 4), np.float32, order="F")),
    "a static layout": wrap(flyc.from_dlpack),
    "the promised alignment": wrap(lambda x: flyc.from_dlpack(x, assumed_align=16).mark_layout_dynamic()),
    "32-bit strides": wrap(lambda x: flyc.from_dlpack(x, use_32bit_stride=True).mark_layout_dynamic()),
    "a promised divisibility": wrap(lambda x: flyc.from_dlpack(x).mark_layout_dynamic().mark_shape_dynamic(0, 4)),
    "the architecture": setenv("ARCH", "gfx950"),
    "the optimisation level": setenv("FLYDSL_COMPILE_OPT_LEVEL", "1"),
    "debug information": setenv("FLYDSL_DEBUG_ENABLE_DEBUG_INFO", "1"),
    "a variable of LLVM": setenv("LLVM_GFX1250_ANY_XNACK_CODEGEN", "1"),
    "extra sources": extra_sources,
    "a compile hint": lambda w: w.hints.update(waves_per_eu=2),
    "fast math": lambda w: w.hints.update(fastmath="fast"),
    "the type of a hint": lambda w: w.hints.update(waves_per_eu="2"),
    "the version of a package": package_version,
}

HIT = {
    "nothing": lambda w: None,
    "a comment": edit("BIAS = 1", "# why\nBIAS = 1  # one"),
    "a comment in the kernel": edit("    if i < n:", "    # inside\n    if i < n:  # and here"),
    "formatting": edit("X[0] = X[0]", "X[0] = (\n            X[0]\n        )"),
    "a docstring": edit('"""Helpers of the program."""', '"""Other words."""', "helpers"),
    "an unrelated function": edit("def not_reached():\n    return 1", "def not_reached():\n    return 2"),
    "an unrelated function there": edit("unrelated(x):\n    return x", "unrelated(x):\n    return 1", "helpers"),
    "a global that nothing reads": edit("NOT_READ = 5", "NOT_READ = 6"),
    "the place in the file": edit("BIAS = 1", "\n\n\nBIAS = 1"),
    "the folder": move,
    "the extent of a raw tensor": argument("X", np.zeros(100, np.float32)),
    "another array of the kind": argument("X", np.ones(8, np.float32)),
    "the value of a scalar": argument("n", 77),
    "the stream": argument("stream", 5),
    "the backend in other letters": setenv("FLYDSL_COMPILE_BACKEND", "ROCM"),
    "a default spelled out": setenv("FLYDSL_COMPILE_OPT_LEVEL", "2"),
    "an unrelated variable": setenv("SOME_OTHER_VARIABLE", "1"),
    "a hint that is unset again": lambda w: w.hints.update({}),
}


@pytest.mark.filterwarnings("ignore:.*is annotated Int64 but got Int32")
@pytest.mark.parametrize("case", MISS)
def test_changes_that_matter_miss(world: World, case: str) -> None:
    assert not world.hit()
    MISS[case](world)
    assert not world.hit(), f"{case} was changed and the old artifact was used"
    if case != "debug information":  # then the name of the file matters, which is a new one each time
        assert world.hit(), f"the artifact with {case} changed is not found again"


@pytest.mark.parametrize("case", HIT)
def test_changes_that_do_not_matter_hit(world: World, case: str) -> None:
    assert not world.hit()
    HIT[case](world)
    assert world.hit(), f"{case} was changed and the artifact was not found"


RUNTIME_CHANGES: dict[str, Callable[[Any], None]] = {
    "a function of another module is replaced": lambda m: setattr(m.helpers, "shift", lambda x: x),
    "a list is mutated": lambda m: m.helpers.TABLE.append(1),
    "an attribute of an instance is set": lambda m: setattr(m.OPTIONS, "extra", 3),
    "a method is replaced": lambda m: setattr(m.Options, "twice", lambda self, x: x),
    "a cell is rebound": lambda m: setattr(m.factor.__closure__[0], "cell_contents", 11),
    "defaults are replaced": lambda m: setattr(m.with_default, "__defaults__", (5,)),
    "code is replaced": lambda m: setattr(m.with_default, "__code__", (lambda x, k, *, m: x).__code__),
    "a hint is set": lambda m: m.run.compile_hints.update(waves_per_eu=3),
    "the hints are replaced": lambda m: setattr(m.run, "compile_hints", {"waves_per_eu": 4}),
}


@pytest.mark.parametrize("case", RUNTIME_CHANGES)
def test_changes_in_a_running_process(world: World, case: str) -> None:
    module = world.load()
    call = dict(world.arguments)
    module.run(**call)
    first = module.run.last_compiled
    module.run(**call)
    assert module.run.last_compiled is first
    RUNTIME_CHANGES[case](module)
    module.run(**call)
    assert module.run.last_compiled is not first, case


GLOBAL_CHANGES: dict[str, tuple[Callable[[Any], None], Callable[[Any], None], str]] = {
    "a global is rebound": (lambda m: setattr(m, "BIAS", 9), lambda m: setattr(m, "BIAS", 1),
                            r"'BIAS' of module .*, which 'run' reads, has changed .* was 1 and is 9 now.*Constexpr"),
    "a global of a helper's module is rebound": (
        lambda m: setattr(m.helpers, "SCALE", 9), lambda m: setattr(m.helpers, "SCALE", 2), "'SCALE' .*was 2 and is 9"),
    "a dictionary is mutated": (
        lambda m: m.LIMITS.update(low=3), lambda m: m.LIMITS.update(low=0), r"'LIMITS' .*\{'low': 0\} .*\{'low': 3\}"),
    "a global is deleted": (lambda m: delattr(m, "BIAS"), lambda m: setattr(m, "BIAS", 1), "'BIAS' .*is undefined now"),
}


@pytest.mark.parametrize("case", GLOBAL_CHANGES)
def test_module_globals_that_changed_in_a_running_process_are_an_error(world: World, case: str) -> None:
    change, undo, message = GLOBAL_CHANGES[case]
    module = world.load()
    call = dict(world.arguments)
    module.run(**call)
    first = module.run.last_compiled
    change(module)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=message):
            module.run(**call)
    undo(module)
    module.run(**call)
    assert module.run.last_compiled is first


OBJECTS = """
import types
import numpy as np
import flydsl.compiler as flyc
import flydsl.expr as fx

STEPS = [types.SimpleNamespace(size=64), np.zeros(4)]

@flyc.kernel
def kernel():
    fx.barrier()

@flyc.jit
def run():
    kernel().launch(grid=1, block=STEPS[0].size)
"""


def test_objects_in_a_global_list_may_change(load: Callable[[str], Any]) -> None:
    """What is in the list is in the key, as for any object; another list of equal objects is no change."""
    module, other = load(OBJECTS), load(OBJECTS)
    module.run()
    first = module.run.last_compiled
    module.STEPS = [types.SimpleNamespace(size=64), np.zeros(4)]
    module.run()
    assert module.run.last_compiled is first
    other.run()
    first = other.run.last_compiled
    other.STEPS[0].size, other.STEPS[1][0] = 128, 1
    other.run()
    assert other.run.last_compiled is not first


def test_globals_of_methods_are_compared_for_each_class(load: Callable[[str], Any]) -> None:
    """A second instance finds the globals of the first one's first call; equal values may be rebound."""
    module = load("""
import flydsl.compiler as flyc
import flydsl.expr as fx

SIZES = [64]

class Base:
    @flyc.kernel
    def kernel(self):
        fx.barrier()

    @flyc.jit
    def run(self):
        self.kernel().launch(grid=1, block=SIZES[0])

class Derived(Base):
    pass
""")
    module.Base().run()
    module.SIZES = [64]
    module.Base().run()
    module.SIZES = [128]
    with pytest.raises(RuntimeError, match=r"'SIZES' .*'Base.run' reads, .*was \[64\] and is \[128\]"):
        module.Base().run()
    module.Derived().run()
    with pytest.raises(RuntimeError, match="'SIZES'"):
        module.Base().run()


ENVIRONMENT = """
import os
import flydsl.compiler as flyc
import flydsl.expr as fx

def switch():
    return {expression}

@flyc.kernel
def kernel(X: fx.Tensor):
    if fx.const_expr(switch()):
        X[0] = X[0] + X[0]
    else:
        X[0] = X[0]

@flyc.jit
def run(X: fx.Tensor, n: fx.Int32 = 1, c: fx.Constexpr[int] = 1):
    kernel(X).launch(grid=(1,), block=64)
"""


@pytest.mark.parametrize(
    "expression",
    ["os.environ.get('MY_SWITCH') == '1'", "os.getenv('MY_SWITCH') == '1'", "'MY_SWITCH' in os.environ",
     "dict(os.environ).get('MY_SWITCH') == '1'"],
)
def test_variables_that_traced_code_reads(world: World, expression: str) -> None:
    world.program = ENVIRONMENT.format(expression=expression)
    world.monkeypatch.delenv("MY_SWITCH", raising=False)
    assert not world.hit()
    assert world.hit()
    world.monkeypatch.setenv("MY_SWITCH", "1")
    assert not world.hit()
    assert world.hit()
    world.monkeypatch.delenv("MY_SWITCH")
    assert world.hit()
    # The same in one process.
    module = world.load()
    module.run(world.arguments["X"])
    first = module.run.last_compiled
    world.monkeypatch.setenv("MY_SWITCH", "1")
    module.run(world.arguments["X"])
    assert module.run.last_compiled is not first
    assert type(os.environ) is os._Environ


def test_back_end_options_reuse_the_lowered_module(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from flydsl.compiler.trace import module as trace

    traces = []
    original = trace.trace

    def counting(*args: Any) -> Any:
        traces.append(args)
        return original(*args)

    monkeypatch.setattr(trace, "trace", counting)
    module = world.load()
    codes = set()
    for hints in ({}, {"waves_per_eu": 1}, {"waves_per_eu": (2, 4)}, {"waves_per_eu": 8}):
        module.run.compile_hints = hints
        module.run(**world.arguments)
        codes.add(module.run.last_compiled.artifact.hsaco)
    assert len(traces) == 1 and len(codes) >= 2
    world.monkeypatch.setenv("FLYDSL_COMPILE_OPT_LEVEL", "1")
    module.run(**world.arguments)
    assert len(traces) == 1
    module.run.compile_hints = {"fastmath": "fast"}
    module.run(**world.arguments)
    assert len(traces) == 2
    module.run.compile_hints = {"fastmath": "quick"}
    with pytest.raises(ValueError, match="unknown fast-math flags 'quick'"):
        module.run(**world.arguments)


def test_calls_under_other_settings_are_not_remembered_for_all(world: World) -> None:
    """A call inside `override` or under hints of this thread says nothing of later calls."""
    from flydsl.tracing.context import CompilationContext
    from flydsl.utils import env

    world.monkeypatch.delenv("COMPILE_ONLY")
    module = world.load()
    compiled = {}
    with env.override(arch="gfx950"):
        compiled["override"] = flyc.compile(module.run, **world.arguments)
    with CompilationContext.compile_hints({"waves_per_eu": 2}):
        compiled["hints"] = flyc.compile(module.run, **world.arguments)
    assert not module.run._plain.fast.dispatcher.current()
    compiled["plain"] = flyc.compile(module.run, **world.arguments)
    assert len({id(c) for c in compiled.values()}) == 3 and compiled["plain"].artifact.arch == "gfx942"


def test_two_architectures_in_one_process(world: World) -> None:
    from flydsl.utils import env

    module = world.load()
    found = {}
    for arch in ("gfx942", "gfx950", "gfx942"):
        with env.override(arch=arch):
            module.run(**world.arguments)
        found.setdefault(arch, module.run.last_compiled)
        assert module.run.last_compiled is found[arch] and found[arch].artifact.arch == arch
    assert len(module.run._mem_cache) == 2


def test_hints_of_a_block_have_a_fast_path_of_their_own(world: World) -> None:
    """Calls inside `CompilationContext.compile_hints` run what was compiled with the hints, others do not."""
    from flydsl.tracing.context import CompilationContext

    world.monkeypatch.delenv("COMPILE_ONLY")
    world.program = world.program.replace("        X[0] = X[0]", "        X[0] = X[0] + X[0]")
    module = world.load()
    x = np.ones(8, np.float32)
    call = {**world.arguments, "X": x, "n": 1}
    for _ in range(2):
        with CompilationContext.compile_hints({"waves_per_eu": 2}):
            module.run(**call)
        module.run(**call)
    import flydsl.runtime as rt

    rt.synchronize()
    assert x[0] == 16 and len(module.run._mem_cache) == 2
    (variant,) = module.run._variants.values()
    for function in (variant, module.run):
        fast, identity = function._plain.fast, function._plain.identity
        assert fast.dispatcher.current(), [g.first_change() for g in (identity.guards, *fast.guards(set()))]
    with CompilationContext.compile_hints({"waves_per_eu": 4}):
        module.run(**call)
    module.run.compile_hints["fastmath"] = "fast"
    with CompilationContext.compile_hints({"waves_per_eu": 4}):
        module.run(**call)
    assert len(module.run._mem_cache) == 4
