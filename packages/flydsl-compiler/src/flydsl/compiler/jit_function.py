"""`flyc.jit`: the host launcher. A call looks up its specialisation, compiles it once, and launches."""

from __future__ import annotations

import functools
import inspect
import sys
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from types import MethodType
from typing import Any, overload

from flydsl.runtime import PartialWordError
from flydsl.runtime.device_runtime import ensure_compile_runtime_pairing_from_env
from flydsl.runtime.forking import fork_safe_lock
from flydsl.tracing.context import CompilationContext, activity, merge_compile_hints
from flydsl.tracing.diagnostics import install_excepthook
from flydsl.tracing.protocol import cache_signature
from flydsl.utils import env

from .backends import get_backend
from .frontend.ast_rewriter import plain_function
from .frontend.rewritten import Rewritten
from .launch.compiled import CompiledFunction
from .launch.dispatch import FastPath
from .passes.lowered import LoweredModules
from .passes.mlir_utils import mlir_context
from .passes.pipeline import MlirCompiler
from .plan.entries import converters, positions
from .specialization.call import Call, constexpr_signature, stable_signature, warn_unknown_hints
from .specialization.drift import Globals
from .specialization.environment import key_environment, recorded_reads
from .specialization.jit_argument import resolve_parameter
from .specialization.key import FunctionSnapshot, Identity, digest_of
from .specialization.signature import Parameters
from .specialization.snapshot import with_places
from .store import prebuilt
from .store.artifact import CompiledArtifact
from .store.cache import CacheInfo, FileLock, JitCacheManager
from .store.root import cache_root
from .store.toolchain import EXTRA_SOURCE_DIRS, toolchain_fingerprint

__all__ = [
    "CacheInfo", "CompileCallable", "CompiledFunction", "EXTRA_SOURCE_DIRS", "FileLock", "JitCacheManager",
    "JitFunction",
    "MlirCompiler", "compile", "jit",
]


def _active_context() -> bool:
    """Whether a trace is running on this thread: then a jit function is an inlined helper."""
    return CompilationContext.get_current() is not None


def _undecided(*args: Any, **kwargs: Any) -> Any:
    """The dispatcher of a function that was not called yet."""
    return NotImplemented


class _Bound:
    """What belongs to one owner of a jit function: none for a plain function, the instance for a method."""

    def __init__(self, function: JitFunction, instance: Any, identity: Identity | None = None) -> None:
        self.identity = identity or Identity(function._original, instance)
        self.instance: Callable[[], Any] = lambda: None
        self.fast: FastPath | None = None
        self.dispatch: Callable[..., Any] = _undecided


class JitFunction:
    """A function decorated with ``@flyc.jit``.

    Attributes:
        compile_hints: hints of every call of this function; may be assigned and changed.
    """

    __name__: str
    __qualname__: str

    def __init__(self, func: Callable[..., Any]) -> None:
        install_excepthook()
        func = plain_function(func, "@flyc.jit")
        self._original = FunctionSnapshot.of(func)
        self._rewritten = Rewritten(self._original)
        self.compile_hints: dict[str, Any] = {}
        self._parameters: Parameters | None = None
        self._compiled: dict[Any, CompiledFunction] = {}
        self._lowered = LoweredModules()
        self._lock = fork_safe_lock()
        self._plain = _Bound(self, None)
        self._dispatch: Callable[..., Any] = _undecided
        self._instances: dict[int, _Bound] = {}
        self._globals: dict[type | None, Globals] = {}  # of the first call, for each class of instances
        self._managers: dict[str, JitCacheManager] = {}
        self._environment_reads: set[str] = set()
        self._variants: dict[str, JitFunction] = {}
        self._hints_fixed = False  # the hints of the thread are in `compile_hints` already
        self._processors: dict[int, list[Any]] = {}
        self._last: tuple[Any, CompiledFunction] | None = None
        self._base: JitFunction | None = None  # of a variant with other hints: what it was made from
        self.__wrapped__ = func
        for attribute in ("__name__", "__qualname__", "__doc__", "__module__"):
            setattr(self, attribute, getattr(func, attribute, None))

    @property
    def func(self) -> Callable[..., Any]:
        """The rewritten function."""
        return self._rewritten()

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else BoundJitFunction(self, instance)

    def _ensure_sig(self) -> Parameters:
        if self._parameters is None:
            from flydsl.tracing.diagnostics import warn_invalid_annotations

            parameters = Parameters(self._original.function)
            odd = parameters.odd_annotations()
            if odd:
                warn_invalid_annotations(self.__name__, odd)
            self._parameters = parameters
        return self._parameters

    @property
    def _sig(self) -> inspect.Signature:
        return self._ensure_sig().signature

    def _effective_compile_hints(self) -> dict[str, Any]:
        if self._hints_fixed:
            return merge_compile_hints(self.compile_hints)
        return merge_compile_hints(self.compile_hints, CompilationContext.get_compile_hints())

    # ---- calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if activity.count:
            # Some thread traces, or has hints for the calls in a block: it may be this one.
            if _active_context():
                return self.func(*args, **kwargs)
            hints = CompilationContext.get_compile_hints()
            if hints and not self._hints_fixed:
                return self._under_hints(hints)(*args, **kwargs)
        try:
            if self._dispatch(*args, **kwargs) is None:
                return None
            return self._call(args, kwargs)
        except PartialWordError:
            return self._under_hints({"partial_words": True})(*args, **kwargs)

    def _under_hints(self, hints: dict[str, Any]) -> JitFunction:
        """The variant of this function for calls of a thread with these hints."""
        key = repr((list(self.compile_hints.items()), list(hints.items())))
        variant = self._variants.get(key)
        if variant is None:
            variant = self.with_hints(merge_compile_hints(self.compile_hints, hints))
            variant._hints_fixed = True
            self._variants[key] = variant
        return variant

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        compiled, values = self._specialise(args, kwargs)
        if not env.compile.compile_only:
            if env.debug.timing and "load" not in compiled.artifact.metadata.get("phases", {}):
                compiled.load_timed()
            compiled(*values)

    def with_hints(self, hints: dict[str, Any]) -> JitFunction:
        """The same function with other compile hints, sharing what was compiled."""
        variant = object.__new__(type(self))
        variant.__dict__.update(self.__dict__)
        variant._base = self if self._base is None else self._base
        variant.compile_hints = dict(hints)
        variant._plain = _Bound(variant, None, self._plain.identity)
        variant._dispatch = _undecided
        variant._instances = {}
        variant._variants = {}
        return variant

    def __reduce__(self) -> Any:
        """Pickled and copied like a plain function: by its name in its module. Variants also have their hints."""
        return self.__qualname__ if self._base is None else (_variant, (self._base, dict(self.compile_hints)))

    def __repr__(self) -> str:
        return f"<jit function {self.__module__}.{self.__qualname__}>"

    def _repr_html_(self) -> str | None:
        """What a notebook shows: the specialisation that was compiled or looked up last."""
        return None if self.last_compiled is None else self.last_compiled._repr_html_()

    def _bound(self, instance: Any) -> _Bound:
        if instance is None:
            return self._plain
        # By identity: instances that compare equal may differ in what the code reads.
        found = self._instances.get(id(instance))
        if found is not None and found.instance() is instance:
            return found
        bound, key, instances = _Bound(self, instance), id(instance), self._instances
        try:
            bound.instance = weakref.ref(instance, lambda _: instances.pop(key, None))
        except TypeError:  # without weak references nothing can be remembered safely
            return bound
        instances[key] = bound
        return bound

    def _specialise(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[CompiledFunction, list[Any]]:
        """The specialisation of a call, compiled if need be, and the values of its parameters as passed."""
        parameters = self._ensure_sig()
        owner, bound_arguments = self._bind(args, kwargs)
        call = self._resolve(owner, bound_arguments)
        compiled = self._compiled.get(call.key)
        if compiled is None:
            with self._lock:
                compiled = self._compiled.get(call.key)
                if compiled is None:
                    reads = len(self._environment_reads)
                    compiled = self._build_unchanged(call, bound_arguments.get(parameters.method_self or ""))
                    if len(self._environment_reads) != reads:
                        # The code reads the environment, which is part of the key and of the guards from now on.
                        call = self._resolve(owner, bound_arguments)
                    self._compiled[call.key] = compiled
        self._last = (call.key, compiled)
        values = [bound_arguments[n] for n in parameters.names]
        if owner.fast is not None and not env.compile.compile_only:
            owner.fast.add(call.guards, owner.identity, values, compiled)
        return compiled, values

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[_Bound, dict[str, Any]]:
        """The owner of a call with its fast path, and the arguments by name."""
        parameters = self._ensure_sig()
        bound_arguments = parameters.bind(args, kwargs)
        owner = self._bound(bound_arguments.get(parameters.method_self) if parameters.method_self else None)
        if owner.fast is None:
            owner.fast = FastPath(parameters, self)
            if owner.fast.dispatcher is not None:
                owner.dispatch = owner.fast.dispatcher
                if owner is self._plain:
                    self._dispatch = owner.dispatch
        return owner, bound_arguments

    def resolve_call(self, *args: Any, **kwargs: Any) -> Call:
        """What a call with these arguments depends on; compiles nothing. TypeError for arguments that do not fit."""
        return self._resolve(*self._bind(args, kwargs))

    def specialise(self, *args: Any, **kwargs: Any) -> CompiledFunction:
        """The specialisation for these arguments, compiled if need be; launches nothing."""
        return self._specialise(args, kwargs)[0]

    @staticmethod
    def prebuilt(call: Call) -> CompiledArtifact | None:
        """The artifact of a call that a package ships, None without one."""
        return prebuilt.find(call)

    @property
    def environment_reads(self) -> frozenset[str]:
        """Environment variables that the code was seen to read while it was traced."""
        return frozenset(self._environment_reads)

    def manager_of(self, call: Call) -> JitCacheManager | None:
        """The disk cache of a call's artifact, None when it is off. Adds what other processes know of the key."""
        manager = self._manager(call.backend, call.identity)
        reads = manager.environment_reads() - self._environment_reads if manager is not None else set()
        if reads:
            # Another process traced this function and saw what it reads.
            self._environment_reads |= reads
            call.environment = key_environment(self._environment_reads)
        return manager

    def explain(self, *args: Any, **kwargs: Any) -> Any:
        """Why a call with these arguments finds its artifact or not: a `disk_cache.Explanation`."""
        from .store.disk_cache import DiskCache

        return DiskCache().explain(self, *args, **kwargs)

    def _resolve(self, owner: _Bound, bound: dict[str, Any]) -> Call:
        """Everything that decides what a call runs."""
        parameters = self._ensure_sig()
        static = parameters.compile_time_names
        assert owner.fast is not None
        guards = owner.fast.guards(self._environment_reads)
        backend = get_backend()
        if not env.compile.compile_only:
            ensure_compile_runtime_pairing_from_env(backend.target.backend)
        arguments, signature = {}, []
        for name, value in bound.items():
            argument = value
            if name in static:
                annotation = parameters.annotations.get(name)
                signature.append((name, constexpr_signature(name, annotation, value, parameters.function_name)))
            elif name != parameters.method_self:
                argument = resolve_parameter(parameters, name, value)
                signature.append((name, stable_signature(cache_signature(argument))))
            arguments[name] = argument
        return Call(
            parameters=parameters, arguments=arguments, signature=tuple(signature), backend=backend, guards=guards,
            hints=self._effective_compile_hints(), reached=owner.identity.reach(), live=owner.identity,
            lines=with_places(), environment=key_environment(self._environment_reads),
        )

    # ---- caches

    @property
    def last_compiled(self) -> CompiledFunction | None:
        """The specialisation that was compiled or looked up last, None before the first call.

        Its ``source_ir`` is the text of the traced IR, with ``COMPILE_ONLY`` set and for a function that launches
        nothing, too.
        """
        return self._last[1] if self._last is not None else None

    @property
    def _last_compiled(self) -> tuple[Any, CompiledFunction] | None:
        """(key, specialisation): the older form of `last_compiled`."""
        return self._last

    @property
    def _mem_cache(self) -> dict[Any, CompiledArtifact]:
        """Artifacts of this process by key."""
        return {key: compiled.artifact for key, compiled in self._compiled.items()}

    @property
    def _call_state_cache(self) -> dict[Any, CompiledFunction]:
        """Ready launchers of this process by key."""
        return self._compiled

    @property
    def manager_key(self) -> str:
        """Identity of the function together with the toolchain: the name of its cache directory."""
        return digest_of(toolchain_fingerprint(get_backend()), self._plain.identity.digest())

    def body_digest(self) -> str:
        """Digest of the function and all that it reaches as of now, wherever their lines are."""
        return self._plain.identity.reach().digest(False)

    def _manager(self, backend: Any, identity: str) -> JitCacheManager | None:
        root = cache_root()
        if env.runtime.run_only and root is None:
            raise RuntimeError("FLYDSL_RUNTIME_RUN_ONLY is set but FLYDSL_RUNTIME_CACHE_DIR is empty")
        if env.debug.dump_ir or env.debug.dump_asm:
            if env.runtime.run_only:
                asked = "FLYDSL_DUMP_IR" if env.debug.dump_ir else "FLYDSL_DEBUG_DUMP_ASM"
                raise ValueError(f"FLYDSL_RUNTIME_RUN_ONLY cannot be combined with {asked}: dumping needs a compile")
            return None
        if root is None:
            return None
        name = digest_of(toolchain_fingerprint(backend), identity)
        key = f"{root}/{name}"
        if key not in self._managers:
            self._managers[key] = JitCacheManager(root, self.__name__, name)
        return self._managers[key]

    @property
    def cache_manager(self) -> JitCacheManager | None:
        return self._manager(get_backend(), self._plain.identity.digest())

    def cache_info(self) -> CacheInfo | None:
        """Disk cache counts of this function; None when the disk cache is off."""
        if cache_root() is None:
            return None
        managers = list(self._managers.values()) or [m for m in (self.cache_manager,) if m is not None]
        # While the IR is dumped there is no manager, and nothing is looked up.
        infos = [m.info() for m in managers] or [CacheInfo(0, 0, 0, 0)]
        return CacheInfo(*(sum(column) for column in zip(*infos, strict=True)))

    # ---- compiling

    def _build_unchanged(self, call: Call, instance: Any) -> CompiledFunction:
        """`_build`, if the module globals that the function reads are those of its first call. RuntimeError if not."""
        owner = None if instance is None else type(instance)
        if owner in self._globals:
            self._globals[owner].check(self.__qualname__)
        before = Globals(call.live.globals)
        try:
            compiled = self._build(call)
        finally:
            before.note_effects()
        self._globals[owner] = Globals(call.live.globals)
        return compiled

    def _build(self, call: Call) -> CompiledFunction:
        """The specialisation that a package ships or that the disk cache has, or compiled and stored there."""
        warn_unknown_hints(call.hints)
        env.warn_unknown_variables()
        # First what is prebuilt: the keys of the disk cache take longer, as they need the digest of all code.
        artifact = prebuilt.find(call)
        if artifact is None:
            manager = self.manager_of(call)
            artifact = self._compile(call) if manager is None else self._load_or_compile(call, manager)
        processors = self._processors.pop(id(artifact), [])
        return CompiledFunction(artifact, converters(call.runtime()), processors)

    def _load_or_compile(self, call: Call, manager: JitCacheManager) -> CompiledArtifact:
        """What the disk cache has, else compiled and stored there: once, where several processes ask for it."""
        digest = call.digest(toolchain_fingerprint(call.backend))

        def without_lines() -> CompiledArtifact | None:
            plain = self._without_lines(call)
            return None if plain is None else plain[0].reload(plain[1])

        artifact = manager.load(digest, otherwise=without_lines)
        if artifact is not None:
            return artifact
        if env.runtime.run_only:
            manager, digest = self._without_lines(call) or (manager, digest)  # what COMPILE_ONLY stores under
            raise RuntimeError(
                f"FLYDSL_RUNTIME_RUN_ONLY is set and {self.__name__} (manager key {manager.identity}, key "
                f"{digest[:16]}) is not in {manager.directory} "
                f"({'exists' if manager.directory.is_dir() else 'does not exist'})"
            )
        with manager.compiling(digest):
            artifact = manager.reload(digest)
            if artifact is None:
                artifact = self._compile(call)
                artifact.key = call.digest(toolchain_fingerprint(call.backend))  # tracing may have read variables
                artifact.pack_inputs(call.inputs(toolchain_fingerprint(call.backend)))
                if artifact.metadata.get("storable", True):
                    manager.store(artifact.key, artifact, self._environment_reads)
        return artifact

    def _without_lines(self, call: Call) -> tuple[JitCacheManager, str] | None:
        """Where a cache that was filled for another device (COMPILE_ONLY) has the same code: (manager, key).

        None unless line tables are on because nobody said otherwise: a program that asks for them gets them.
        """
        if not env.debug.enable_debug_info or env.debug.options["enable_debug_info"].source() != "default":
            return None
        with env.override(enable_debug_info=False):
            plain = replace(call, lines=False, environment=key_environment(self._environment_reads))
            manager = self._manager(plain.backend, plain.identity)
            return None if manager is None else (manager, plain.digest(toolchain_fingerprint(plain.backend)))

    def _compile(self, call: Call) -> CompiledArtifact:
        """Trace and lower, unless only back end options differ from an earlier compile; then generate code."""
        from flydsl.ir import compiling  # its native part is needed only here
        from flydsl.tracing.kept import keep_body

        from .trace.module import trace

        front = call.front_key()
        lowered = self._lowered.get(front)
        with compiling(), mlir_context():
            if lowered is None:
                start, known = time.perf_counter(), call.live.reach() == call.reached
                with recorded_reads() as reads:
                    module, entries, name, context = trace(
                        self.func, call.parameters, call.arguments, call.backend.target, call.hints
                    )
                traced = time.perf_counter() - start
                if known:
                    call.live.ascribe(call.reached)
                if reads - self._environment_reads:
                    self._environment_reads |= reads
                    call.environment = key_environment(self._environment_reads)
                    front = call.front_key()
                try:
                    lowered = MlirCompiler.lower(
                        module, arch=call.backend.target.arch, func_name=name, compile_hints=call.hints,
                        arguments=entries, link_libs=context.link_libs,
                    )
                finally:
                    keep_body(module)
                lowered.processors = list(context.post_load_processors)
                lowered.phases["trace"] = traced
                self._lowered.put(front, lowered)
            artifact = MlirCompiler.generate(lowered, compile_hints=call.hints)
        if lowered.link_libs or lowered.processors:
            # What is linked or run belongs to this process: the files may change, the functions are Python's.
            artifact.metadata["storable"] = False
            self._processors[id(artifact)] = lowered.processors
        artifact.parameters = call.parameters.names
        artifact.positions = positions(call.runtime(), call.parameters.names)
        return artifact


def _variant(base: JitFunction, hints: dict[str, Any]) -> JitFunction:
    return base.with_hints(hints)


class BoundJitFunction:
    """A jit method bound to an instance."""

    def __init__(self, function: JitFunction, instance: Any) -> None:
        self.__func__, self.__self__ = function, instance

    @property
    def _bound_self(self) -> Any:
        return self.__self__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function = self.__func__
        if activity.count:
            return function(self.__self__, *args, **kwargs)
        try:
            if function._bound(self.__self__).dispatch(*args, **kwargs) is None:
                return None
            return function._call((self.__self__, *args), kwargs)
        except PartialWordError:
            return function._under_hints({"partial_words": True})(self.__self__, *args, **kwargs)

    def __reduce__(self) -> Any:
        return BoundJitFunction, (self.__func__, self.__self__)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__func__, name)


@overload
def jit(func: Callable[..., Any]) -> JitFunction: ...
@overload
def jit(func: None = None) -> Callable[[Callable[..., Any]], JitFunction]: ...
def jit(func: Any = None) -> Any:
    """Decorator of host launchers; usable bare or as ``@flyc.jit()``.

    Raises:
        TypeError: what is decorated was not written with ``def``.
    """
    if isinstance(func, MethodType):
        return JitFunction(func.__func__).__get__(func.__self__)
    return JitFunction(func) if func is not None else JitFunction


class CompileCallable:
    """``flyc.compile(jf, *args)`` and ``flyc.compile[hints](jf, *args)``."""

    def __init__(self, hints: dict[str, Any] | None = None) -> None:
        self._hints = hints

    def __getitem__(self, hints: Any) -> CompileCallable:
        if not isinstance(hints, dict):
            raise TypeError(f"flyc.compile[...] expects a dict of compile hints, got {type(hints).__name__}")
        return CompileCallable(hints)

    @overload
    def __call__(self, func: JitFunction) -> JitFunction: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, func: Any, *args: Any, **kwargs: Any) -> CompiledFunction: ...
    def __call__(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """Specialise for the arguments and return the `CompiledFunction`. Nothing is launched.

        The arguments only say what to compile for: host tensors, ``None`` streams and null pointers do as well
        as those of a later call. Without arguments the function itself is returned (with the hints merged into
        it). With ``COMPILE_ONLY`` set the artifact is cached and the result is None.

        Earlier releases launched once. For programs that rely on it ``FLYDSL_COMPILE_AND_LAUNCH=1`` does so in every
        case, null pointers included; the first use in a process says so.

        Raises:
            TypeError: ``func`` is no jit function, or an argument does not fit.
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
        if env.compile.and_launch:
            _say_once("flyc.compile launches as well (FLYDSL_COMPILE_AND_LAUNCH=1)")
            compiled(*values)
        else:
            compiled._load_if_possible()
        return compiled


@functools.cache
def _say_once(text: str) -> None:
    sys.stderr.write(f"flydsl: {text}\n")


compile = CompileCallable()
