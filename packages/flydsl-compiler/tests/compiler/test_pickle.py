"""Jit functions and kernels are copied and pickled as functions are: by their name in their module."""

from __future__ import annotations

import copy
import pickle
import sys
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def module(load: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = load("""
    import flydsl.compiler as flyc
    import flydsl.expr as fx

    @flyc.kernel
    def k(X: fx.Tensor):
        X[fx.thread_idx.x] = fx.Float32(7.0)

    @flyc.jit
    def run(X: fx.Tensor):
        k(X).launch(grid=1, block=64)

    class Holder:
        @flyc.jit
        def run(self, X: fx.Tensor):
            k(X).launch(grid=1, block=64)
    """)
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


@pytest.mark.parametrize("name", ["run", "k"])
def test_by_name(module: Any, name: str) -> None:
    function = getattr(module, name)
    for again in (copy.copy(function), copy.deepcopy(function), pickle.loads(pickle.dumps(function))):
        assert again is function
    assert copy.deepcopy({"f": function})["f"] is function


def test_a_called_function_a_variant_and_a_method(module: Any) -> None:
    x = np.zeros(64, np.float32)
    module.run(x)
    assert pickle.loads(pickle.dumps(module.run)) is module.run
    variant = pickle.loads(pickle.dumps(module.run.with_hints({"waves_per_eu": 2})))
    assert variant is not module.run and variant.compile_hints == {"waves_per_eu": 2}
    x[:] = 0
    variant(x)
    assert (x == 7).all()
    bound = pickle.loads(pickle.dumps(module.Holder().run))
    assert type(bound.__self__) is module.Holder


def test_local_functions_do_not_pickle() -> None:
    import flydsl.compiler as flyc
    import flydsl.expr as fx

    @flyc.jit
    def local(X: fx.Tensor) -> None:
        pass

    with pytest.raises((pickle.PicklingError, AttributeError), match="local"):
        pickle.dumps(local)
    assert "<jit function" in repr(local)


def test_compiled_functions_say_what_to_pickle_instead(module: Any) -> None:
    import flydsl.compiler as flyc

    compiled = flyc.compile(module.run, np.zeros(64, np.float32))
    with pytest.raises(TypeError, match=r"save it \(.save\(path\) and flydsl.runtime.load_artifact"):
        pickle.dumps(compiled)
