"""The autotuner with functions whose times are known, and with a kernel on the device."""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from known_times import Calls, tuned

from flydsl.autotune import Autotuner, Config, autotune, do_bench
from flydsl.utils import env


def test_config_round_trip() -> None:
    config = Config(num_warps=4, waves_per_eu=2, tile=64, name="a")
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert config.all_kwargs() == {"tile": 64, "name": "a", "num_warps": 4}
    assert config.compiler_opts() == {"waves_per_eu": 2}
    with pytest.raises(TypeError, match="maxnreg"):
        Config(maxnreg=3)


def test_names_of_the_namespace() -> None:
    import flydsl
    import flydsl.compiler as flyc
    from flydsl import Config as config  # type: ignore[attr-defined]
    from flydsl import autotune as decorator

    calls: Calls = []
    tuner = decorator([config(tile=2)], key=[])(lambda x, tile=0: calls.append((x, tile)))
    tuner(1)
    assert isinstance(tuner, Autotuner) and calls[-1] == (1, 2) and config is Config
    assert flydsl.__version__ == flyc.__version__  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="Konfig"):
        from flydsl import Konfig  # type: ignore[attr-defined]  # noqa: F401


def test_policies_have_positions_as_published() -> None:
    signature = inspect.signature(autotune)
    published = ("configs", "key", "warmup", "rep", "prune_configs_by", "reset_to_zero", "restore_value", "pre_hook",
                 "post_hook", "do_bench", "default", "artifact_name", "validate_hook", "select_config")
    positional = {name: p.default for name, p in signature.parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD}
    assert tuple(positional) == published and (positional["warmup"], positional["rep"]) == (5, 25)
    tuner = autotune([Config(tile=1)], ["n"], 2, 3, None, ["x"])(lambda x, tile, n: None)
    assert (tuner.keys, tuner.warmup, tuner.rep, tuner.reset_to_zero) == (["n"], 2, 3, ["x"])
    with pytest.raises(TypeError, match="warm_up"):
        autotune([Config(tile=1)], warm_up=3)


def test_picks_the_best_and_remembers_it(capsys: pytest.CaptureFixture[str]) -> None:
    calls: Calls = []
    function = tuned(calls)
    x = np.zeros(4)
    assert function(x, n=5) == "tile 2"
    assert [c[1] for c in calls] == [8, 2, 13, 4, 2]
    out = capsys.readouterr().out
    assert all(line.startswith("[autotune]") for line in out.splitlines())
    assert "Config(tile=13): failed: ValueError: unlucky tile" in out and "best Config(tile=2)" in out
    calls.clear()
    assert function(x, n=5) == "tile 2" and len(calls) == 1
    function(x, n=6)
    assert len(calls) == 6  # another key value: searched again
    calls.clear()
    again = tuned(calls)  # another process: the winners are on disk
    assert again(x, n=5) == "tile 2" and len(calls) == 1
    assert capsys.readouterr().out.count("configurations") == 1


def test_what_belongs_to_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Calls = []
    function = tuned(calls, key=[])
    x = np.zeros((4, 4))

    def searched(*args: Any, **kwargs: Any) -> bool:
        calls.clear()
        function(*args, **kwargs)
        return len(calls) > 1

    assert searched(x) and not searched(x) and not searched(x=np.zeros((9, 2)))
    assert searched(x.astype(np.float32)) and searched(x.T) and searched(np.broadcast_to(np.zeros(4), (4, 4)).copy().T)\
        is False
    monkeypatch.setenv("ARCH", "gfx950")
    assert searched(x)
    monkeypatch.setenv("FLYDSL_COMPILE_OPT_LEVEL", "1")
    assert searched(x) and not searched(x)
    (text, *_) = json.loads(function.cache.path.read_text())
    assert all(mark in text for mark in ("_env_", "_toolchain_", "_device_", "_arch_"))


def test_an_argument_that_configurations_give() -> None:
    """By keyword as by position: the caller's value neither is replaced nor keeps the configurations out."""
    x = np.zeros(4)
    for options in ({}, {"default": lambda *args, **kwargs: Config(tile=2)}):
        function = tuned([], **options)
        for call in (lambda f: f(x, tile=9), lambda f: f(x, 9), lambda f: f.resolve_config(x, tile=9)):
            with pytest.raises(TypeError, match="got an argument 'tile', which Config"):
                call(function)
        function(x)
        with pytest.raises(TypeError, match="got an argument 'tile', which Config"):
            function(x, tile=9)  # with a winner


def test_older_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`do_bench_fn`, the keys of calls, winners as a mapping, the file of an offline artifact."""
    calls: Calls = []
    times = {8: 3.0, 2: 2.0, 4: 1.0}

    def bench(call: Callable[[], Any], warmup: int, rep: int) -> float:
        call()
        return times[calls[-1][1]]

    function = tuned(calls, do_bench=None, do_bench_fn=bench, configs=[Config(tile=t) for t in times],
                     artifact_name="older")
    x = np.zeros(4)
    assert function(x, n=5) == "tile 4"
    key = function._make_key((x,), {"n": 5})
    assert isinstance(key, tuple) and key == function._make_key((x, 0), {"n": 5}) != function._make_key((x,), {"n": 6})
    assert function.cache[key] == Config(tile=4) and dict(function.cache) == {key: Config(tile=4)}
    function.cache.clear()
    assert len(function.cache) == 0 and key not in function.cache
    times[4] = 9.0
    assert function(x, n=5) == "tile 2"
    function.cache[key] = Config(tile=8)
    assert function(x, n=5) == "tile 8"
    with pytest.raises(TypeError, match="older name of do_bench"):
        tuned(calls, do_bench_fn=bench)

    assert function._artifact_ref((x,), {"n": 5}) is None
    monkeypatch.setenv("FLYDSL_AUTOTUNE_CONFIG_DIR", str(tmp_path))
    path, identity = function._artifact_ref((x,), {"n": 5}) or (None, None)
    assert path is not None and path.parent == tmp_path and identity["key"] == {"n": 5}
    path.write_text(json.dumps({"version": 1, "identity": identity, "config": Config(tile=2).to_dict()}))
    assert function._load_artifact((x,), {"n": 5}) == Config(tile=2)


def test_all_failing_is_an_error_with_its_cause() -> None:
    calls: Calls = []
    function = tuned(calls, configs=[Config(tile=13)])
    with pytest.raises(RuntimeError, match="all 1 configurations failed.*unlucky") as error:
        function(np.zeros(1))
    assert isinstance(error.value.__cause__, ValueError)
    assert not function.cache.path.exists()


@pytest.mark.parametrize("option", ["reset_to_zero", "restore_value"])
def test_a_tensor_that_is_no_parameter_is_an_error_at_the_decorator(option: str) -> None:
    with pytest.raises(ValueError, match=f"{option}: add_one has no parameter 'y'; it has x, tile"):
        tuned([], **{option: ["x", "y"]})


def test_a_key_that_is_no_parameter_warns() -> None:
    with pytest.warns(UserWarning, match="key: add_one has no parameter 'm'"):
        tuned([], key=["n", "m"])


def test_what_is_no_configuration_is_named() -> None:
    for options in ({"configs": [{"tile": 8}]}, {"default": lambda *args, **kwargs: {"tile": 8}}):
        with pytest.raises(TypeError, match=r"add_one: a configuration is a Config, got \{'tile': 8\}"):
            tuned([], **options)(np.zeros(1))
    with pytest.raises(ValueError, match="select_config must return one of the measured"):
        tuned([], select_config=lambda results: None)(np.zeros(1))


def test_order_of_hooks_and_state_of_tensors() -> None:
    calls: Calls = []
    seen: list[Any] = []

    def note(what: str) -> Callable[[dict[str, Any]], None]:
        return lambda kwargs: seen.append((what, kwargs["tile"], float(kwargs["x"][0]), float(kwargs["z"][0])))

    def body(x: Any, z: Any, tile: int = 0) -> None:
        seen.append(("kernel", tile, float(x[0]), float(z[0])))
        x += tile
        z += tile

    def bench(call: Callable[[], Any], warmup: int, rep: int) -> float:
        for _ in range(3):
            call()
        return 1.0

    configs = [Config(tile=3, pre_hook=note("config")), Config(tile=5)]
    function = autotune(configs, restore_value=["x"], reset_to_zero=["z"], pre_hook=note("pre"),
                        post_hook=note("post"), do_bench=bench)(body)
    x, z = np.full(2, 10.0), np.full(2, 7.0)
    function(x, z)
    one = [("config", 3, 10, 0), ("pre", 3, 10, 0), ("kernel", 3, 10, 0), ("post", 3, 13, 3)]
    assert seen[:12] == one * 3
    assert seen[12:] == [("pre", 5, 10, 0), ("kernel", 5, 10, 0), ("post", 5, 15, 5)] * 3 + [("kernel", 3, 10, 0)]
    assert x[0] == 13 and z[0] == 3  # run for real once
    function(x, z)
    assert x[0] == 16 and z[0] == 3  # reset on a cache hit too
    assert calls == []


def test_prune_default_callable_configs_select_and_validate() -> None:
    calls: Calls = []
    function = tuned(calls, prune_configs_by=lambda cs, args: [c for c in cs if c.kwargs["tile"] >= args["n"]])
    assert function(np.zeros(1), n=4) == "tile 4"
    calls.clear()
    function = tuned(calls, key=["x"], configs=lambda x, **kw: [Config(tile=len(x)), Config(tile=9)])
    assert function(np.zeros(5)) == "tile 5"
    calls.clear()
    function = tuned(calls, key=["n"], default=lambda x, n=1: Config(tile=n))
    assert function(np.zeros(1), n=77) == "tile 77" and len(calls) == 1
    function = tuned(calls, key=["x"], select_config=lambda results: max(results, key=lambda r: r[1]))
    assert function(np.zeros(2)) == "tile 8"
    function = tuned(calls, key=["x"], select_config=lambda results: (Config(tile=1), 0.0))
    with pytest.raises(ValueError, match="select_config"):
        function(np.zeros(3))

    @contextlib.contextmanager
    def validate(arguments: dict[str, Any]) -> Iterator[None]:
        yield
        if arguments["tile"] == 2:
            raise AssertionError("wrong result")

    function = tuned(calls, key=["x"], validate_hook=validate)
    assert function(np.zeros(6)) == "tile 4"


def test_forced_search(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Calls = []
    function = tuned(calls, default=lambda x, n=1: Config(tile=8))
    monkeypatch.setenv("FLYDSL_AUTOTUNE", "1")
    assert function(np.zeros(1)) == "tile 2"
    calls.clear()
    assert function(np.zeros(1)) == "tile 2" and len(calls) == 5
    monkeypatch.delenv("FLYDSL_AUTOTUNE")
    assert function(np.zeros(1)) == "tile 2"  # the search updated the cache, which comes before the default


# ---- on the device


def test_do_bench_validates() -> None:
    for wrong in ({"rep": 0}, {"warmup": -1}, {"rep": 2.5}, {"quantiles": [2]}):
        with pytest.raises(ValueError):
            do_bench(lambda: None, **wrong)


class Clock:
    """A timer that reads a list."""

    estimate, label = False, "test clock"

    def __init__(self, times: list[float]) -> None:
        self.times = times

    def measure(self, call: Callable[[], Any], repeat: int, stream: int) -> list[float]:
        return [(call(), self.times.pop(0))[1] for _ in range(repeat)]


def test_do_bench_takes_the_median_of_batches() -> None:
    pytest.importorskip("flydsl.runtime._native")
    count = [0]

    def call() -> None:
        count[0] += 1

    assert do_bench(call, warmup=2, rep=5, timer=Clock([1, 9, 2, 8, 3])) == 3
    assert count[0] == 7
    assert do_bench(call, rep=10, timer=Clock([1, 3, 5, 5, 5, 5, 5, 5, 100, 100])) == 5
    assert do_bench(call, rep=3, timer=Clock([1, 2, 4]), quantiles=[0, 0.5, 1]) == [1, 2, 4]
    assert env.autotune.force is False


KERNEL = """
import flydsl.compiler as flyc
import flydsl.expr as fx

@flyc.kernel
def kernel(X: fx.Tensor, n: fx.Int32, work: fx.Constexpr[int]):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        v = X[i]
        for j in range(work):
            v = v * fx.Float32(0.5) + X[i] * fx.Float32(0.5)  # v again, which no optimiser sees
        X[i] = v + X[i]

@flyc.jit
def run(X: fx.Tensor, n: fx.Int32, work: fx.Constexpr[int], stream: fx.Stream = fx.Stream(None)):
    kernel(X, n, work).launch(grid=((n + 63) // 64,), block=64, stream=stream)
"""


def test_a_kernel_on_the_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of variants that do more and more work the one with the least wins, on a GPU and by the estimate."""
    pytest.importorskip("flydsl._mlir.dialects.fly")
    import importlib.util

    path = tmp_path / "tuned_kernel.py"
    path.write_text(KERNEL)
    spec = importlib.util.spec_from_file_location("tuned_kernel", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    configs = [Config(work=w, waves_per_eu=e) for w, e in ((512, None), (1, 2), (64, 4))]
    function = autotune(configs, key=["n"], restore_value=["X"])(module.run)
    x = np.arange(1000, dtype=np.float32)
    function(x, 1000)
    np.testing.assert_array_equal(x, 2 * np.arange(1000, dtype=np.float32))
    out = capsys.readouterr().out
    assert "3 configurations" in out
    import flydsl.runtime
    from flydsl.runtime.timing import default_timer

    assert default_timer().label in out
    if flydsl.runtime.kind() == "sim":
        assert default_timer().estimate
    if "says nothing" not in out:  # the time of simulating depends on what else this CPU does
        assert function.resolve_config(x, 1000) == configs[1]
    assert len(function._variants) == 2
    function(x, 1000)
    used = module.run if function.resolve_config(x, 1000).waves_per_eu is None else None
    tuned_functions = [used] if used is not None else list(function._variants.values())
    assert any(f._plain.fast.dispatcher.current() for f in tuned_functions), "a tuned call takes the fast path"


PAIR = """
import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.autotune import Config, autotune

@flyc.kernel
def fill(X: fx.Tensor, TILE: fx.Constexpr[int]):
    X[fx.block_idx.x * TILE + fx.thread_idx.x] = fx.Float32(TILE)

@autotune([Config(TILE=t) for t in (64, 128)], key=["n"])
@flyc.jit
def run(X: fx.Tensor, n: fx.Int32, TILE: fx.Constexpr[int]):
    fill(X, TILE).launch(grid=n // TILE, block=TILE)

@flyc.jit
def outer(X: fx.Tensor, n: fx.Constexpr[int]):
    run(X, n)
"""


@pytest.fixture
def pair(tmp_path: Path) -> Callable[..., Any]:
    """Modules of ``PAIR``, with replacements."""
    pytest.importorskip("flydsl._mlir.dialects.fly")
    import importlib.util

    def load(name: str, *replacements: tuple[str, str]) -> Any:
        text = PAIR
        for old, new in replacements:
            text = text.replace(old, new)
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def test_winners_of_functions_of_the_same_name(pair: Callable[..., Any]) -> None:
    """They share a file, and each has its own; one whose parameters the function no longer has is searched anew."""
    x = np.zeros(128, np.float32)
    first, second = pair("first"), pair("second", ("(64, 128)", "(32,)"))
    first.run(x, 128)
    second.run(x, 128)
    assert set(x) == {32.0} and len(json.loads(second.run.cache.path.read_text())) == 2
    again = pair("first", ("TILE", "BLOCK"))
    again.run(x, 128)
    assert set(x) <= {64.0, 128.0}


def test_a_changed_body_is_searched_anew(pair: Callable[..., Any]) -> None:
    """That of a kernel which the function launches, too; where it stands in the file does not matter."""
    x = np.zeros(128, np.float32)

    def entries(*replacements: tuple[str, str]) -> int:
        function = pair("edited", *replacements).run
        function(x, 128)
        return len(json.loads(function.cache.path.read_text()))

    assert entries() == 1 and entries(("@flyc.kernel", "\n\n@flyc.kernel")) == 1
    assert entries(("fx.Float32(TILE)", "fx.Float32(TILE + 1)")) == 2 and set(x) <= {65.0, 129.0}


def test_a_file_with_other_things_in_it() -> None:
    function = tuned([])
    file = Path(function.cache.path)
    file.parent.mkdir(parents=True, exist_ok=True)
    entries = {"no list": {}, "[1": {}, "[]": 3, '["a"]': {"kwargs": [1]}, '["b"]': {"kwargs": {"tile": 1}}}
    file.write_text(json.dumps(entries), encoding="utf-8")
    assert dict(tuned([]).cache) == {("b",): Config(tile=1)}


def test_nothing_is_measured_while_tracing_or_compiling_ahead(
    pair: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, x = pair("third"), np.zeros(128, np.float32)
    with pytest.raises(RuntimeError, match="run is tuned and called in a traced function"):
        module.outer(x, 128)
    module.run.default = lambda X, n: Config(TILE=32)
    module.outer(x, 128)
    assert set(x) == {32.0}
    module.run.default = None
    monkeypatch.setenv("COMPILE_ONLY", "1")
    with pytest.raises(RuntimeError, match="COMPILE_ONLY is set"):
        module.run.resolve_config(x, 128)
    assert module.run(x, 128) is None and set(x) == {32.0} and not module.run.cache
    assert sorted(c.artifact.metadata["kernels"] for c in module.run.fn._compiled.values()) == [["fill_0"], ["fill_0"]]


def test_names_and_configurations_at_the_decorator() -> None:
    assert (tuned([], reset_to_zero="x").reset_to_zero, tuned([], key="n").keys) == (["x"], ["n"])
    with pytest.raises(TypeError, match="configs are a list of Config, or a function that gives one, got 5"):
        tuned([], configs=5)
