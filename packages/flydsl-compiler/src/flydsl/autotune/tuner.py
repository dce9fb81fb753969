"""The autotuner: which configuration a call runs with, and the search for it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from flydsl.compiler.backends import current_target, get_backend
from flydsl.compiler.specialization.environment import key_environment
from flydsl.compiler.specialization.signature import Parameters
from flydsl.compiler.store.toolchain import toolchain_fingerprint
from flydsl.runtime.forking import fork_safe_lock
from flydsl.tracing.context import CompilationContext, merge_compile_hints
from flydsl.tracing.diagnostics import fail
from flydsl.utils import env

from .bench import copy_of, do_bench, fill_zero, on_stream, restore
from .config import Config
from .progress import Progress
from .results import MAX_BYTES, Results, difference, results_of
from .store import ARTIFACT_VERSION, OfflineConfigs, WinnerCache, validate_artifact_name

__all__ = ["Autotuner", "autotune"]

_EXACT = (bool, int, float, str)


def _is_tensor(value: Any) -> bool:
    tensor = getattr(value, "tensor", value)
    return hasattr(tensor, "shape") and hasattr(tensor, "dtype")


def _key_value(value: Any) -> Any:
    """What of a key argument matters: the shape of a tensor, the dtype of something that has one, else the value."""
    tensor = getattr(value, "tensor", value)
    if _is_tensor(value):
        return tuple(int(s) for s in tensor.shape)
    return str(value.dtype) if hasattr(value, "dtype") else value


def _stride_pattern(value: Any) -> str:
    """Strides in elements, each as ``0``, ``1`` or ``s``."""
    tensor = getattr(value, "tensor", value)
    strides = tensor.stride() if callable(getattr(tensor, "stride", None)) else None
    if strides is None and hasattr(tensor, "strides"):
        strides = [s // tensor.dtype.itemsize if s % tensor.dtype.itemsize == 0 else s for s in tensor.strides]
    return ",".join("01"[s] if s in (0, 1) else "s" for s in strides or ())


def _device() -> dict[str, Any] | None:
    """Name, architecture and compute units of the current device; None when there is none."""
    from flydsl.runtime import HipError, device_info

    try:
        info = device_info()
    except (HipError, ImportError, ValueError):
        return None
    return {"name": info.name, "arch": info.arch, "compute_units": info.compute_units}


def _names(value: Sequence[str] | None) -> list[str]:
    """Names of parameters; a string is one."""
    return [value] if isinstance(value, str) else list(value or ())


@dataclasses.dataclass
class _Call:
    """One call of a tuned function: arguments as passed and by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    by_name: dict[str, Any]

    @property
    def stream(self) -> Any:
        value = self.by_name.get("stream")
        return getattr(value, "value", value)


class Autotuner:
    """A jit function with configurations. Calling it picks one and runs the function, whose value it returns.

    The order is: cache of winners (memory, then disk), offline artifact, ``default``, search. With
    ``FLYDSL_AUTOTUNE`` set it always searches, and writes the artifact.
    """

    def __init__(
        self,
        fn: Any,
        configs: Sequence[Config] | Callable[..., Iterable[Config]],
        key: Sequence[str] | None = None,
        warmup: int = 5,
        rep: int = 25,
        prune_configs_by: Callable[[list[Config], dict[str, Any]], list[Config]] | None = None,
        reset_to_zero: Sequence[str] | None = None,
        restore_value: Sequence[str] | None = None,
        pre_hook: Callable[[dict[str, Any]], None] | None = None,
        post_hook: Callable[[dict[str, Any]], None] | None = None,
        do_bench: Callable[..., Any] | None = None,
        default: Callable[..., Config] | None = None,
        artifact_name: str | None = None,
        validate_hook: Callable[[dict[str, Any]], Any] | None = None,
        select_config: Callable[[list[tuple[Config, Any]]], tuple[Config, Any]] | None = None,
        *,
        do_bench_fn: Callable[..., Any] | None = None,
        check: Sequence[str] | bool = True,
    ) -> None:
        if do_bench_fn is not None and do_bench is not None:
            raise TypeError("do_bench_fn is the older name of do_bench: give one of them")
        do_bench = do_bench if do_bench is not None else do_bench_fn
        if not callable(configs) and not hasattr(configs, "__iter__"):
            raise TypeError(f"configs are a list of Config, or a function that gives one, got {configs!r}")
        self.fn, self.configs = fn, configs
        self.keys = _names(key)
        self.warmup, self.rep = warmup, rep
        self.prune_configs_by = prune_configs_by
        self.reset_to_zero, self.restore_value = _names(reset_to_zero), _names(restore_value)
        self.pre_hook, self.post_hook = pre_hook, post_hook
        self.default, self.validate_hook, self.select_config = default, validate_hook, select_config
        self.check = check if isinstance(check, bool) else list(check)
        self._do_bench = do_bench
        self._signature = inspect.signature(getattr(fn, "func", fn))
        self.__name__ = getattr(fn, "__name__", type(fn).__name__)
        self.__doc__ = getattr(fn, "__doc__", None)
        self.__wrapped__ = fn
        self._artifacts: OfflineConfigs | None = None
        if artifact_name is not None:
            self._artifacts = OfflineConfigs(validate_artifact_name(artifact_name))
            unknown = [k for k in self.keys if k not in self._signature.parameters]
            if unknown or len(set(self.keys)) != len(self.keys):
                raise ValueError(f"artifact keys must be unique parameter names, got {self.keys}")
        self._check_names()
        self.cache = WinnerCache(self.__name__)
        self._variants: dict[str, Any] = {}
        self._lock = fork_safe_lock()

    def _check_names(self) -> None:
        """ValueError for a tensor that is no parameter; a warning for such a key, which tells no calls apart."""
        known = self._signature.parameters
        for option in ("reset_to_zero", "restore_value"):
            for name in getattr(self, option):
                if name not in known:
                    raise ValueError(f"{option}: {self.__name__} has no parameter {name!r}; it has {', '.join(known)}")
        for name in self.keys:
            if name not in known:
                warnings.warn(f"key: {self.__name__} has no parameter {name!r}; it has {', '.join(known)}",
                              UserWarning, stacklevel=4)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else _BoundAutotuner(self, instance)

    # ---- calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = self._bind(args, kwargs)
        config = self._known(call)
        if config is None and self._cannot_measure():
            self._compile_all(call)
            return None
        config = self._found(call) if config is None else config
        with on_stream(call.stream):
            for name in self.reset_to_zero:
                fill_zero(call.by_name[name])
            return self._run(config, call)

    def resolve_config(self, *args: Any, **kwargs: Any) -> Config:
        """The configuration that a call would run with, searched if need be."""
        call = self._bind(args, kwargs)
        return self._known(call) or self._found(call)

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call:
        bound = self._signature.bind_partial(*args, **kwargs)
        by_name = dict(bound.arguments)
        for name, parameter in self._signature.parameters.items():
            if name not in by_name and parameter.default is not parameter.empty:
                by_name[name] = parameter.default
        return _Call(args, kwargs, by_name)

    def _run(self, config: Config, call: _Call) -> Any:
        arguments = {**call.kwargs, **config.all_kwargs()}
        hints = config.compiler_opts()
        if not hints:
            return self.fn(*call.args, **arguments)
        variant = self._variant(hints)
        if variant is not None:
            return variant(*call.args, **arguments)
        with CompilationContext.compile_hints(hints):
            return self.fn(*call.args, **arguments)

    def _variant(self, hints: dict[str, Any]) -> Any:
        """The jit function with these hints, which has a fast path of its own; None where there is none."""
        make = getattr(self.fn, "with_hints", None)
        if make is None:
            return None
        merged = merge_compile_hints(self.fn.compile_hints, hints)
        text = repr(sorted(merged.items(), key=repr))
        if text not in self._variants:
            self._variants[text] = make(merged)
        return self._variants[text]

    # ---- which configuration

    def _known(self, call: _Call) -> Config | None:
        """What a call runs with, unless that is to be searched."""
        traced = CompilationContext.get_current() is not None
        config = None
        if not traced and not env.autotune.force:
            config = self._winner(self._key(call), call) or self._offline(call)
        if config is None and self.default is not None and (traced or not env.autotune.force):
            config = self._configuration(self.default(*call.args, **call.kwargs), call)
        if config is None and traced:
            fail(f"{self.__name__} is tuned and called in a traced function, where nothing can be measured: choose on "
                 f"the host ({self.__name__}.resolve_config(...)) and pass the choice to {self.__name__}.fn, or give "
                 "autotune a default=")
        return config

    def _winner(self, key: list[str], call: _Call) -> Config | None:
        """The winner of an earlier search; None also for one whose parameters the function no longer has."""
        config, parameters = self.cache.get(key), self._signature.parameters
        takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        if config is None or not takes_all and not config.all_kwargs().keys() <= parameters.keys():
            return None
        return self._configuration(config, call)

    def _cannot_measure(self) -> bool:
        return env.compile.compile_only and self._do_bench is None

    def _compile_all(self, call: _Call) -> None:
        """Compile all candidates, of which a later search takes the best; RuntimeError when none can be."""
        configs, failures = self._candidates(call), []
        for config in configs:
            try:
                self._run(config, call)
            except Exception as error:
                failures.append((config, error))
        if len(failures) == len(configs):
            raise self._all_failed(failures)

    def _all_failed(self, failures: list[tuple[Config, Exception]]) -> RuntimeError:
        config, error = failures[-1]
        found = RuntimeError(f"{self.__name__}: all {len(failures)} configurations failed; the last: {config}: "
                             f"{type(error).__name__}: {error}")
        found.__cause__ = error
        return found

    def _found(self, call: _Call) -> Config:
        """The winner of a search, which is kept."""
        if self._cannot_measure():
            raise RuntimeError(f"{self.__name__}: COMPILE_ONLY is set, so nothing can be measured")
        forced, key = env.autotune.force, self._key(call)
        with self._lock:
            if not forced:
                config = self._winner(key, call)  # another thread may have searched meanwhile
                if config is not None:
                    return config
            config = self._search(call)
            if forced and self._artifacts is not None and env.autotune.config_dir:
                identity = self._identity(call)
                self._artifacts.check(identity, config)
                assert identity is not None
                self._artifacts.store(identity, config)
            self.cache.put(key, config)
            return config

    def _key(self, call: _Call) -> list[str]:
        """What decides the winner, as strings; everything is read now."""
        backend = get_backend()
        tensors = {n: getattr(v, "tensor", v) for n, v in call.by_name.items() if _is_tensor(v)}
        hints = merge_compile_hints(getattr(self.fn, "compile_hints", {}), CompilationContext.get_compile_hints())
        key = [f"_function_:{getattr(self.fn, '__module__', '')}.{getattr(self.fn, '__qualname__', self.__name__)}"]
        if hasattr(self.fn, "body_digest"):
            key.append(f"_body_:{self.fn.body_digest()}")  # what was best of another body need not be of this one
        key += [f"{name}={_key_value(call.by_name.get(name))!r}" for name in self.keys]
        key += [f"{name}:{tensor.dtype}" for name, tensor in sorted(tensors.items())]
        key += [f"{name}:{_stride_pattern(tensor)}" for name, tensor in sorted(tensors.items())]
        key.append(f"_env_:{key_environment(frozenset())!r}")
        key.append(f"_toolchain_:{toolchain_fingerprint(backend)}")
        key.append(f"_arch_:{current_target().arch}")
        key.append(f"_device_:{json.dumps(_device(), sort_keys=True)}")
        if self._artifacts is not None:
            key.append(f"_artifact_:{ARTIFACT_VERSION}:{self._artifacts.name}")
        if hints:
            key.append(f"_hints_:{sorted((k, type(v).__name__, repr(v)) for k, v in hints.items())!r}")
        return key

    # ---- older names, which tools of kernel libraries use

    def _make_key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, ...]:
        """The key of a call in `cache`."""
        return tuple(self._key(self._bind(args, kwargs)))

    def _artifact_ref(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Path, dict[str, Any]] | None:
        """(file, identity) of a call's offline artifact, whether it exists or not; None when there can be none."""
        identity = self._identity(self._bind(args, kwargs)) if self._artifacts is not None else None
        path = self._artifacts.path(identity) if self._artifacts is not None and identity is not None else None
        return None if path is None or identity is None else (path, identity)

    def _load_artifact(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Config | None:
        """The configuration of a call's offline artifact; None, with a warning, where it does not fit."""
        return self._offline(self._bind(args, kwargs))

    # ---- offline artifacts

    def _identity(self, call: _Call) -> dict[str, Any] | None:
        assert self._artifacts is not None
        key = {name: _key_value(call.by_name.get(name)) for name in self.keys}
        return self._artifacts.identity(key, _device())

    def _offline(self, call: _Call) -> Config | None:
        if self._artifacts is None or not env.autotune.config_dir:
            return None
        identity = self._identity(call)
        data = None if identity is None else self._artifacts.load(identity)
        if data is None or identity is None:
            return None
        problem = self._problem(data, call)
        if problem:
            self._artifacts.ignore(self._artifacts.path(identity), problem)
            return None
        return Config.from_dict(data)

    def _problem(self, data: dict[str, Any], call: _Call) -> str:
        """Why a stored configuration does not fit this call; empty if it does."""
        kwargs = dict(data.get("kwargs", {}))
        if data.get("num_warps") is not None:
            kwargs["num_warps"] = data["num_warps"]
        for option in ("num_warps", "waves_per_eu"):
            if data.get(option) is not None and type(data[option]) is not int:
                return f"{option} is no int"
        unknown = set(data) - {"kwargs", "num_warps", "waves_per_eu"}
        if unknown:
            return f"unknown compiler option {sorted(unknown)[0]!r}"
        passed = set(self._signature.bind_partial(*call.args, **call.kwargs).arguments)
        for name, value in kwargs.items():
            if name not in self._signature.parameters:
                return f"unknown parameter {name!r}"
            if name in passed:
                return f"it would override the argument {name!r}"
            if name in self.keys:
                return f"it would override the key {name!r}"
            problem = self._type_problem(name, value)
            if problem:
                return problem
        try:
            self._signature.bind(*call.args, **call.kwargs, **kwargs)
        except TypeError as error:
            return f"it does not complete the call ({error})"
        return ""

    @functools.cache  # noqa: B019 (tuners live as long as the program)
    def _annotations(self) -> dict[str, Any]:
        return Parameters(getattr(self.fn, "func", self.fn)).annotations

    def _type_problem(self, name: str, value: Any) -> str:
        annotation = self._annotations().get(name)
        coerce = getattr(annotation, "__coerce__", None)
        if coerce is not None:
            try:
                coerce(value)
            except (TypeError, ValueError) as error:
                return f"parameter {name!r}: {error}"
        elif annotation in _EXACT and type(value) is not annotation:
            return f"parameter {name!r} is {annotation.__name__}, got {value!r}"
        return ""

    # ---- the search

    def _candidates(self, call: _Call) -> list[Config]:
        configs = list(self.configs(*call.args, **call.kwargs) if callable(self.configs) else self.configs)
        if self.prune_configs_by is not None:
            configs = list(self.prune_configs_by(configs, dict(call.by_name)))
        if not configs:
            raise ValueError(f"{self.__name__}: no configuration is left to choose from")
        return [self._configuration(config, call) for config in configs]

    def _configuration(self, value: Any, call: _Call) -> Config:
        """``value``. TypeError if it is no configuration, or one of a parameter for which the call has an argument."""
        if not hasattr(value, "all_kwargs"):
            raise TypeError(f"{self.__name__}: a configuration is a Config, got {value!r}")
        passed = self._signature.bind_partial(*call.args, **call.kwargs).arguments
        for name in value.all_kwargs():
            if name in passed:
                raise TypeError(f"{self.__name__}() got an argument {name!r}, which {value} gives too: leave it out, "
                                f"or call {self.__name__}.fn, which is not tuned")
        return value

    def _search(self, call: _Call) -> Config:
        """The best of the candidates. RuntimeError when all fail, chained to the last failure."""
        configs = self._candidates(call)
        results: list[tuple[Config, Any]] = []
        failures: list[tuple[Config, Exception]] = []
        with on_stream(call.stream), Progress(self.__name__, len(configs), self._label()) as progress:
            first: Results | None = None
            for config in configs:
                try:
                    time, found = self._measure(config, call)
                    problem = difference(first, found) if first is not None else ""
                    if problem and self.check is not True:
                        raise ValueError(f"its results are not those of {results[0][0]}: {problem}")
                except Exception as error:
                    failures.append((config, error))
                    progress.failed(config, error)
                    continue
                results.append((config, time))
                first = found if first is None else first
                progress.measured(config, time)
                if problem:
                    progress.differs(config, results[0][0], problem)
            if results:
                best = self._select(results)
                progress.done(best[0], best[1], failures)
                progress.kept(self.cache.path, self._artifacts.name if self._artifacts is not None else None)
        if not results:
            raise self._all_failed(failures)
        return best[0]

    def _select(self, results: list[tuple[Config, Any]]) -> tuple[Config, Any]:
        if self.select_config is None:
            return min(results, key=lambda pair: pair[1][0] if isinstance(pair[1], list) else pair[1])
        chosen = self.select_config(list(results))
        if chosen not in results:
            raise ValueError(f"{self.__name__}: select_config must return one of the measured (config, time) pairs")
        return chosen

    def _label(self) -> str:
        if self._do_bench is not None:
            return "do_bench of the caller"
        from flydsl.runtime.timing import default_timer

        return default_timer().label

    def _checked(self, call: _Call) -> dict[str, Any]:
        """The tensors whose results are compared: those named, or all unless they are large."""
        if self.check is False:
            return {}
        if isinstance(self.check, list):
            return {name: call.by_name[name] for name in self.check}
        tensors = {name: value for name, value in call.by_name.items() if _is_tensor(value)}
        size = sum(int(getattr(getattr(v, "tensor", v), "nbytes", 0)) for v in tensors.values())
        return tensors if size <= MAX_BYTES else {}

    def _measure(self, config: Config, call: _Call) -> tuple[Any, Results]:
        """Time of one candidate, and what it computed. The tensors in ``restore_value`` are as before afterwards."""
        arguments = {**call.by_name, **config.all_kwargs()}
        copies = {name: copy_of(call.by_name[name]) for name in self.restore_value}

        def prepare() -> None:
            for name, copy in copies.items():
                restore(call.by_name[name], copy)
            for name in self.reset_to_zero:
                fill_zero(call.by_name[name])

        def run() -> None:
            prepare()
            if config.pre_hook is not None:
                config.pre_hook(arguments)
            if self.pre_hook is not None:
                self.pre_hook(arguments)
            self._run(config, call)
            if self.post_hook is not None:
                self.post_hook(arguments)

        try:
            if self.validate_hook is not None:
                prepare()
                with _entered(self.validate_hook(arguments)):
                    self._run(config, call)
            if self._do_bench is not None:
                time = self._do_bench(run, warmup=self.warmup, rep=self.rep)
            else:
                time = do_bench(run, warmup=self.warmup, rep=self.rep, stream=call.stream)
            return time, results_of(self._checked(call), filter(_is_tensor, call.by_name.values()))
        finally:
            for name, copy in copies.items():
                restore(call.by_name[name], copy)


@contextlib.contextmanager
def _entered(manager: Any) -> Iterator[None]:
    """A validate hook's context manager; a hook that returns none has checked already."""
    if manager is None or not hasattr(manager, "__enter__"):
        yield
        return
    with manager:
        yield


class _BoundAutotuner:
    """A tuned method with its instance."""

    def __init__(self, tuner: Autotuner, instance: Any) -> None:
        self.__func__, self.__self__ = tuner, instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__func__(self.__self__, *args, **kwargs)

    def resolve_config(self, *args: Any, **kwargs: Any) -> Config:
        return self.__func__.resolve_config(self.__self__, *args, **kwargs)


def autotune(
    configs: Any, key: Sequence[str] | None = None, *policy: Any, **options: Any
) -> Callable[[Any], Autotuner]:
    """Decorator of a ``@flyc.jit`` function that picks one of several configurations per call.

    Args:
        configs: `Config` objects, or a function of the call's arguments that gives them.
        key: parameters on which the best configuration depends.
        warmup, rep: runs before and during a measurement.
        prune_configs_by: ``(configs, arguments by name) -> configs``.
        reset_to_zero: tensors zeroed before every run. restore_value: tensors restored around every measured run.
        pre_hook, post_hook: called with the arguments by name around each measured run.
        do_bench: replacement of the measurement: ``(call, warmup=..., rep=...) -> comparable``; ``do_bench_fn`` is its
            older name.
        default: heuristic choice instead of a search. artifact_name: enables offline artifacts.
        validate_hook: context manager around one untimed run of each candidate; raising rejects it.
        check: compare what each candidate leaves in the tensors with the first one's. True: all tensors (up to 256 MiB
            together), a difference is reported; names of tensors: these, and a difference rejects the candidate; False:
            not at all (for example when a workspace has other contents).
        select_config: chooses among the measured ``(config, time)``; default: the least time.
    """
    inspect.signature(autotune).bind(configs, key, *policy, **options)  # a wrong option is an error at its own line
    return lambda fn: Autotuner(fn, configs, key, *policy, **options)


# What the tuner takes, but for the function.
autotune.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    list(inspect.signature(Autotuner).parameters.values())[1:]
)
