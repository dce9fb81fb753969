"""What may be decorated, and what a function has of the class that it is written in: as in Python itself."""

from __future__ import annotations

import functools
import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.frontend.ast_rewriter import ASTRewriter
from flydsl.tracing.diagnostics import DSLCompileError

METHODS = """
    def keywords(**given):
        return sorted(given)

    class Base:
        def twice(self, v):
            return 2 * v

    class _Shape(Base):
        def __init__(self):
            self.__side = 3

        def __hidden(self, v):
            return self.__side + v

        def twice(self, v):
            return -v

        def run(self, n, __more=5):
            import os.path as __path
            found = [self.__hidden(n), __more, keywords(__plain=1), __path.sep, self.__dict__]
            if n > 2:
                found.append(super().twice(n))
                self.__side = n
            for __i in (1, 2):
                found.append(super().twice(__i))
            class __Inner(Base):
                __own = 7
                def get(self):
                    return self.__own, super().twice(self.__own)
            def nested(other, __p):
                return super().twice(__p), [__q for __q in range(__p)]
            match {"a": 1, "b": 2}:
                case {"a": __one, **__rest}:
                    found += [__one, __rest]
            match [1, 2]:
                case [__first, *__others]:
                    found.append(__others)
            try:
                raise ValueError("x")
            except ValueError as __error:
                found.append(str(__error))
            found += [nested(self, 4), __Inner().get(), f"{self.__side}", (lambda __u: __u)(n)]
            return repr(found)
"""


@pytest.mark.parametrize("n", [1, 4])
def test_private_names_and_super(load: Callable[[str], Any], n: int) -> None:
    wanted = load(METHODS)._Shape().run(n)
    shape = load(METHODS)._Shape
    ASTRewriter.transform(shape.run)
    assert shape().run(n) == wanted


def test_function_in_a_method_has_the_names_of_the_class(load: Callable[[str], Any]) -> None:
    module = load("class C:\n    __x = 3\n    def m(self):\n        def inner(k):\n            return self.__x + k\n"
                  "        return inner\n\nclass __:\n    __y = 4\n    def m(self, k):\n        return self.__y + k\n")
    assert ASTRewriter.transform(module.C().m())(4) == 7
    ASTRewriter.transform(module.__.m)
    assert module.__().m(4) == 8


def test_bodies_of_classes_stay_python(load: Callable[[str], Any]) -> None:
    """What an `if` there binds is an attribute, whether or not the function names it elsewhere."""
    source = """
        def f(a, b):
            class __R:
                __v = a
                if __v:
                    __w = __v + 1
                else:
                    __w = b
                for __i in range(b):
                    __w += __i
                while __w < 3:
                    __w += 1
                    if __w == 2:
                        break
                def get(self):
                    if self.__v > b:
                        __r = self.__w
                    else:
                        __r = [self.__v for __k in (1,) if __k]
                    return __r
            return __R().get(), [k for k in vars(__R) if k[:2] == "_R"]
    """
    plain, rewritten = load(source).f, ASTRewriter.transform(load(source).f)
    for a in range(3):
        assert [rewritten(a, b) for b in range(4)] == [plain(a, b) for b in range(4)]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of Python 3.12")
def test_type_parameters(load: Callable[[str], Any]) -> None:
    module = load("def f[T](a: T, b):\n    if a:\n        r = [T, b]\n    else:\n        r = None\n    return r\n")
    assert ASTRewriter.transform(module.f)(1, 2) == [module.f.__type_params__[0], 2]


class Scaled:
    def factor(self, v: Any) -> Any:
        return v * 3.0


class Shifted(Scaled):
    def __init__(self, by: float) -> None:
        self.__by = by

    def factor(self, v: Any) -> Any:
        return v

    @flyc.kernel
    def __kernel(self, X: fx.Tensor, n: fx.Int32) -> None:
        i = fx.thread_idx.x
        if i < n:
            X[i] = super().factor(X[i]) + self.__by
        for _ in range(n - 8):
            X[i] = super().factor(X[i])

    @flyc.jit
    def run(self, X: fx.Tensor, n: fx.Int32) -> None:
        self.__kernel(X, n).launch(grid=1, block=64)


def test_private_names_and_super_in_run_time_branches_and_loops() -> None:
    x = np.random.default_rng(3).integers(-9, 9, 64).astype(np.float32)
    for by in (0.5, 4.0):
        got = x.copy()
        Shifted(by).run(got, 10)
        assert np.array_equal(got, np.where(np.arange(64) < 10, x * 3 + by, x) * 9)


def _plain(X: fx.Tensor) -> None:
    X[fx.thread_idx.x] = fx.Float32(1)


@pytest.mark.parametrize("decorator", [flyc.jit, flyc.kernel])
@pytest.mark.parametrize(
    "thing, text",
    [
        (lambda: 5, "got the int 5"),
        (lambda: Scaled, "got the class Scaled: decorate its methods"),
        (lambda: functools.partial(_plain, None), "got the partial .*decorate the function itself, with parameters"),
        (lambda: staticmethod(_plain), "got the staticmethod _plain: put @staticmethod above"),
        (lambda: classmethod(_plain), "got the classmethod _plain: use @staticmethod"),
        (lambda: len, "got the builtin_function_or_method len"),
        (lambda: flyc.kernel(type(_plain)(_plain.__code__, globals())), "got the KernelFunction _plain"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_function(decorator: Any, thing: Callable[[], Any], text: str) -> None:
    with pytest.raises(TypeError, match=rf"@flyc.{decorator.__name__} needs a function written with `def`, {text}"):
        decorator(thing())


def test_lambdas_and_coroutines(load: Callable[[str], Any]) -> None:
    """Also where Python drops its own `assert`."""
    module = load("async def f(n):\n    return n\n")
    for decorator in (flyc.jit, flyc.kernel, ASTRewriter.transform):
        for function in (lambda X: None, module.f):
            with pytest.raises(AssertionError, match="only plain `def`"):
                decorator(function)  # type: ignore[operator]
    source = "from flydsl.compiler.frontend.ast_rewriter import plain_function\nplain_function(lambda: 0, 'it')"
    out = subprocess.run([sys.executable, "-O", "-c", source], capture_output=True, text=True)
    assert "AssertionError: only plain `def`" in out.stderr


def test_wrappers_bound_methods_and_class_methods(load: Callable[[str], Any]) -> None:
    """A wrapper is traced as the function that it is, from its own source and with its own parameters."""
    module = load("""
        import functools
        import flydsl.compiler as flyc
        import flydsl.expr as fx

        @flyc.kernel
        def fill(X: fx.Tensor, v: fx.Float32):
            X[fx.thread_idx.x] = v

        def twice(function):
            @functools.wraps(function)
            def wrapper(X, *args):
                for i in fx.range_constexpr(2):
                    function(X, args[i])
            return wrapper

        @flyc.jit
        @twice
        def run(X: fx.Tensor, v: fx.Float32):
            fill(X, v).launch(grid=1, block=64)

        class Filler:
            def run(self, X: fx.Tensor, v: fx.Float32):
                fill(X, v + self.extra).launch(grid=1, block=64)

            @classmethod
            @flyc.jit
            def of_class(cls, X: fx.Tensor):
                fill(X, 1.0).launch(grid=1, block=64)
    """)
    x = np.zeros(64, np.float32)
    module.run(x, 2.0, 5.0)
    assert set(x) == {5.0}
    filler = module.Filler()
    filler.extra = 3.0
    flyc.jit(filler.run)(x, 4.0)
    assert set(x) == {7.0}
    with pytest.raises(TypeError, match="'cls' is the class Filler.*no class method: use @staticmethod"):
        filler.of_class(x)


@pytest.mark.parametrize("traced_by_tests", [False, True])
def test_functions_of_a_library_may_wait_for_their_first_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, traced_by_tests: bool
) -> None:
    """What cannot be lowered is rejected at its definition, or when it is first traced if its package says so."""
    name = f"library_{traced_by_tests}"
    (tmp_path / name / "inner").mkdir(parents=True)
    (tmp_path / name / "__init__.py").write_text(f"__traced_by_tests__ = {traced_by_tests}\n")
    (tmp_path / name / "inner" / "__init__.py").write_text(
        "import flydsl.compiler as flyc\n\n@flyc.jit\ndef f(n):\n    async def g():\n        return n\n    return g\n")
    monkeypatch.syspath_prepend(tmp_path)
    if not traced_by_tests:
        with pytest.raises(DSLCompileError):
            importlib.import_module(f"{name}.inner")
        return
    function = importlib.import_module(f"{name}.inner").f
    with pytest.raises(DSLCompileError):
        _ = function.func
