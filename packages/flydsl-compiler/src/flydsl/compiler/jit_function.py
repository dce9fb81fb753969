"""`flyc.jit`: the host launcher. A call looks up its specialisation, compiles it once, and launches."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from flydsl.utils import env

from .artifact import CompiledArtifact
from .ast_rewriter import ASTRewriter
from .backends import get_backend
from .cache import CacheInfo, FileLock, JitCacheManager, cache_root
from .context import CompilationContext, merge_compile_hints
from .diagnostics import install_excepthook
from .jit_argument import MemRefJitArg, PointerJitArg, resolve_argument
from .key import FunctionSnapshot, Identity, digest_of, stable_digest, toolchain_fingerprint
from .pipeline import MlirCompiler
from .protocol import cache_signature
from .signature import Parameters

__all__ = [
    "CacheInfo", "CompileCallable", "CompiledFunction", "EXTRA_SOURCE_DIRS", "FileLock", "JitCacheManager",
    "JitFunction",
    "MlirCompiler", "compile", "jit",
]  # fmt: skip

EXTRA_SOURCE_DIRS: list[str] = []
_KEY_VARIABLES = (
    "FLYDSL_COMPILE_OPT_LEVEL", "FLYDSL_COMPILE_BACKEND", "FLYDSL_COMPILE_LLVM_DIR", "FLYDSL_DEBUG_ENABLE_DEBUG_INFO",
    "FLYDSL_EXTRA_SOURCE_DIRS", "FLYDSL_KTRACE_ENABLE", "FLYDSL_KTRACE_BLOCKS", "FLYDSL_KTRACE_BUFFER_BYTES",
)  # fmt: skip


def _active_context() -> bool:
    """Whether a trace is running on this thread: then a jit function is an inlined helper."""
    return CompilationContext.get_current() is not None


def _constexpr_signature(name: str, value: Any) -> Any:
    """Type and value of a compile-time argument; TypeError names a value that cannot enter the key."""
    if type(value) in (bool, int, float, str):
        return (type(value).__name__, value)
    if isinstance(value, tuple):
        return ("tuple", tuple(_constexpr_signature(name, v) for v in value))
    if isinstance(value, type):
        return ("type", f"{value.__module__}.{value.__qualname__}")
    code = getattr(value, "__code__", None)
    if code is not None and value.__name__ == "<lambda>":
        if code.co_freevars or value.__kwdefaults__:
            raise TypeError(f"compile-time argument {name!r}: a lambda with captured variables or keyword-only "
                            f"defaults cannot "
                            "be part of a cache key; pass the values as arguments")  # fmt: skip
        return ("lambda", stable_digest(value))
    raise TypeError(f"compile-time argument {name!r} of type {type(value).__name__} is not supported: use int, bool, "
                    f"float, "
                    "str, a tuple of those, or a lambda without captured variables")  # fmt: skip


class CompiledFunction:
    """A specialisation that is ready to launch. Positional arguments only; compile-time ones are ignored."""

    def __init__(self, artifact: CompiledArtifact, runtime_positions: list[int], count: int) -> None:
        self.artifact = artifact
        self._positions, self._count = runtime_positions, count
        self._launcher: Any = None
        self._lock = threading.Lock()
        self._all = runtime_positions == list(range(count))

    def _make(self) -> Any:
        with self._lock:
            if self._launcher is None:
                from flydsl.runtime import Launcher

                self._launcher = Launcher(self.artifact.plan, self.artifact.hsaco, arch=self.artifact.arch)
        return self._launcher

    def __call__(self, *args: Any) -> None:
        if len(args) < self._count:
            raise IndexError(f"{self.artifact.name} needs {self._count} arguments, got {len(args)}")
        launcher = self._launcher or self._make()
        values = [args[i] for i in self._positions]
        launcher(*[_unwrap(v) for v in values])


def _unwrap(value: Any) -> Any:
    """What the runtime reads: the tensor in a wrapper, the number in a DSL scalar, the handle of a stream."""
    if isinstance(value, MemRefJitArg):
        return value.tensor
    if isinstance(value, PointerJitArg):
        return value.pointer or 0
    if type(value).__module__.startswith("flydsl.expr"):
        return value.value
    return value


class JitFunction:
    """A function decorated with ``@flyc.jit``."""

    def __init__(self, func: Callable[..., Any]) -> None:
        install_excepthook()
        self._original = FunctionSnapshot.of(func)
        self.func = ASTRewriter.transform(func)
        self.compile_hints: dict[str, Any] = {}
        self._parameters: Parameters | None = None
        self._compiled: dict[Any, CompiledFunction] = {}
        self._lock = threading.RLock()
        self._identity = Identity(self._original)
        self._managers: dict[str, JitCacheManager] = {}
        self._last_compiled: CompiledFunction | None = None
        self.__wrapped__ = self.func
        for attribute in ("__name__", "__qualname__", "__doc__", "__module__"):
            setattr(self, attribute, getattr(func, attribute, None))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else BoundJitFunction(self, instance)

    def _ensure_sig(self) -> Parameters:
        if self._parameters is None:
            from .diagnostics import warn_invalid_annotations

            self._parameters = Parameters(self.func)
            odd = self._parameters.odd_annotations()
            if odd:
                warn_invalid_annotations(self.func.__name__, odd)
        return self._parameters

    def _effective_compile_hints(self) -> dict[str, Any]:
        return merge_compile_hints(self.compile_hints, CompilationContext.get_compile_hints())

    # ---- calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _active_context():
            return self.func(*args, **kwargs)
        compiled, values = self._specialise(args, kwargs)
        if env.compile.compile_only:
            return None
        compiled(*values)
        return None

    def _specialise(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[CompiledFunction, list[Any]]:
        parameters = self._ensure_sig()
        bound = parameters.bind(args, kwargs)
        arguments, signature = self._resolve(parameters, bound)
        hints = self._effective_compile_hints()
        backend = get_backend()
        owner = bound.get(parameters.method_self) if parameters.method_self else None
        key = (self._environment(), backend.target, _hints_signature(hints), self._current_identity(owner), signature)
        compiled = self._compiled.get(key)
        if compiled is None:
            with self._lock:
                compiled = self._compiled.get(key)
                if compiled is None:
                    compiled = self._build(parameters, arguments, key, hints, backend)
                    self._compiled[key] = compiled
        self._last_compiled = compiled
        values = [arguments[n] if n in arguments else bound[n] for n in parameters.names]
        return compiled, values

    def _resolve(self, parameters: Parameters, bound: dict[str, Any]) -> tuple[dict[str, Any], tuple[Any, ...]]:
        static = parameters.compile_time_names
        arguments, signature = {}, []
        for name, value in bound.items():
            if name == parameters.method_self:
                arguments[name] = value
                continue
            if name in static:
                arguments[name] = value
                signature.append((name, _constexpr_signature(name, value)))
                continue
            argument = resolve_argument(name, parameters.annotations.get(name), value, parameters.function_name)
            arguments[name] = argument
            signature.append((name, _stable_signature(cache_signature(argument))))
        return arguments, tuple(signature)

    @staticmethod
    def _environment() -> tuple[Any, ...]:
        get = os.environ.get
        return tuple(get(v, "") for v in _KEY_VARIABLES)

    def _current_identity(self, owner: Any) -> str:
        """Digest of the function as it is now, and for a method of its class and instance."""
        if owner is None:
            return self._identity.digest()
        return digest_of(self._identity.digest(), stable_digest(type(owner)), stable_digest(owner))

    @property
    def manager_key(self) -> str:
        """Identity of the function together with the toolchain: the name of its cache directory."""
        return digest_of(toolchain_fingerprint(get_backend()), self._current_identity(None))

    # ---- compiling

    def _manager(self, backend: Any) -> JitCacheManager | None:
        root = cache_root()
        if env.runtime.run_only and root is None:
            raise RuntimeError("FLYDSL_RUNTIME_RUN_ONLY is set but FLYDSL_RUNTIME_CACHE_DIR is empty")
        if env.debug.dump_ir:
            if env.runtime.run_only:
                raise ValueError(
                    "FLYDSL_RUNTIME_RUN_ONLY cannot be combined with FLYDSL_DUMP_IR: dumping needs a compile"
                )
            return None
        if root is None:
            return None
        key = digest_of(str(root), toolchain_fingerprint(backend), self._current_identity(None))
        if key not in self._managers:
            identity = digest_of(toolchain_fingerprint(backend), self._current_identity(None))
            self._managers[key] = JitCacheManager(root, self.func.__name__, identity)
        return self._managers[key]

    @property
    def cache_manager(self) -> JitCacheManager | None:
        return self._manager(get_backend())

    def cache_info(self) -> CacheInfo | None:
        """Disk cache counts of this function; None when the disk cache is off."""
        if cache_root() is None:
            return None
        infos = [m.info() for m in self._managers.values()] or [self._manager(get_backend()).info()]  # type: ignore[union-attr]
        return CacheInfo(*(sum(column) for column in zip(*infos, strict=True)))

    def _build(
        self,
        parameters: Parameters,
        arguments: dict[str, Any],
        key: tuple[Any, ...],
        hints: dict[str, Any],
        backend: Any,
    ) -> CompiledFunction:
        manager = self._manager(backend)
        artifact = None
        if manager is None:
            artifact = self._compile(parameters, arguments, hints, backend)
        else:
            digest = digest_of(toolchain_fingerprint(backend), repr(key))
            artifact = manager.load(digest)
            if artifact is None and env.runtime.run_only:
                raise RuntimeError(
                    f"FLYDSL_RUNTIME_RUN_ONLY is set and {self.func.__name__} (manager key {self.manager_key}, key "
                    f"{digest[:16]}) is "
                    f"not in {manager.directory} ({'exists' if manager.directory.is_dir() else 'does not exist'})"
                )
            if artifact is None:
                with manager.compiling(digest):
                    artifact = manager.reload(digest)
                    if artifact is None:
                        artifact = self._compile(parameters, arguments, hints, backend)
                        artifact.key = digest
                        manager.store(digest, artifact)
        static = parameters.compile_time_names
        positions = [i for i, n in enumerate(parameters.names) if n not in static]
        return CompiledFunction(artifact, positions, len(parameters.names))

    def _compile(
        self, parameters: Parameters, arguments: dict[str, Any], hints: dict[str, Any], backend: Any
    ) -> CompiledArtifact:
        from .trace import trace

        with _mlir_context():
            module, entries, name = trace(self.func, parameters, arguments, backend.target, hints)
            return MlirCompiler.compile(
                module, arch=backend.target.arch, func_name=name, compile_hints=hints, arguments=entries
            )


@contextlib.contextmanager
def _mlir_context() -> Iterator[Any]:
    """A fresh context without threads; nothing of it stays active when the block fails."""
    from flydsl._mlir import ir

    context = ir.Context()
    context.enable_multithreading(False)
    with context:
        context.load_all_available_dialects() if hasattr(context, "load_all_available_dialects") else None
        yield context


def _hints_signature(hints: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted((k, type(v).__module__, type(v).__qualname__, repr(v)) for k, v in hints.items()))


def _stable_signature(value: Any) -> Any:
    """A signature whose ``repr`` is the same in every process: classes by name."""
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, tuple):
        return tuple(_stable_signature(v) for v in value)
    return value


class BoundJitFunction:
    """A jit method bound to an instance."""

    def __init__(self, function: JitFunction, instance: Any) -> None:
        self.__func__, self.__self__ = function, instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__func__(self.__self__, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__func__, name)


def jit(func: Any = None) -> Any:
    """Decorator of host launchers; usable bare or as ``@flyc.jit()``."""
    return JitFunction(func) if func is not None else JitFunction


class CompileCallable:
    """``flyc.compile(jf, *args)`` and ``flyc.compile[hints](jf, *args)``."""

    def __init__(self, hints: dict[str, Any] | None = None) -> None:
        self._hints = hints

    def __getitem__(self, hints: Any) -> CompileCallable:
        if not isinstance(hints, dict):
            raise TypeError(f"flyc.compile[...] expects a dict of compile hints, got {type(hints).__name__}")
        return CompileCallable(hints)

    def __call__(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """Specialise for the arguments, run once, return the `CompiledFunction`.

        Without arguments the function itself is returned (with the hints merged into it). With
        ``COMPILE_ONLY`` set nothing runs and the result is None.
        """
        target = func.__func__ if isinstance(func, BoundJitFunction) else func
        if not isinstance(target, JitFunction):
            raise TypeError(f"flyc.compile needs a @flyc.jit function, got {type(func).__name__}")
        if self._hints is not None:
            target.compile_hints.update(self._hints)
        if not args and not kwargs:
            return func
        if isinstance(func, BoundJitFunction):
            args = (func.__self__, *args)
        compiled, values = target._specialise(args, kwargs)
        if env.compile.compile_only:
            return None
        compiled(*values)
        return compiled


compile = CompileCallable()


def mlir_loaded() -> bool:
    """Whether MLIR was imported in this process; a start from the disk cache does without."""
    return "flydsl._mlir.ir" in sys.modules
