"""The trace in progress: its GPU module, kernel names, hints and streams."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

from flydsl.runtime.forking import fork_safe_lock

__all__ = ["CompilationContext", "KernelUses", "create_gpu_func", "create_gpu_module", "effective_fastmath_hint",
    "get_gpu_module_body",
           "merge_compile_hints"]


class _ThreadState(threading.local):
    def __init__(self) -> None:
        self.contexts: list[CompilationContext] = []
        self.hints: list[dict[str, Any]] = []
        self.kernels: list[Any] = []


_state = _ThreadState()


class _Activity:
    """How many traces and hint scopes are open in all threads: while none is, a launch need not look for its own."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = fork_safe_lock()

    def change(self, by: int) -> None:
        """Count a scope that opens (1) or closes (-1)."""
        with self._lock:
            self.count += by


activity = _Activity()


def merge_compile_hints(*levels: dict[str, Any] | None) -> dict[str, Any]:
    """Shallow merge; later levels win, except that their ``None`` values leave an earlier value in place."""
    merged: dict[str, Any] = {}
    for level in levels:
        for key, value in (level or {}).items():
            if value is not None or key not in merged:
                merged[key] = value
    return merged


def effective_fastmath_hint(hints: dict[str, Any]) -> Any:
    """The ambient fast-math flags that the hints ask for, or None."""
    if hints.get("fastmath") is not None:
        return hints["fastmath"]
    return "fast" if hints.get("fast_fp_math") else None


class KernelUses(NamedTuple):
    """Numbers of the parameters that kernels use in a way which a launch must know."""

    buffers: set[int]
    """Addressed whole through a buffer resource, whose offsets have 32 bits."""
    stored: set[int]
    """Stored to: read-only memory is refused."""
    words: set[int]
    """Copied in whole 32-bit words through a buffer resource: an end inside of one would be left out."""
    tables: set[int]
    """Their 64-bit elements are addresses: the kernel reaches memory that is no argument."""


class CompilationContext:
    """State of one trace. Thread-local; nested traces restore the enclosing one."""

    _current: ClassVar[_ThreadState] = _state

    def __init__(self) -> None:
        self.gpu_module_op: Any = None
        self.stream_arg: Any = None
        self.has_explicit_stream = False
        self.target: Any = None
        self.link_libs: list[str] = []
        self.post_load_processors: list[Callable[[Any], None]] = []
        #: What kernels do with the host function's parameters.
        self.uses = KernelUses(set(), set(), set(), set())
        #: Calls of kernels that are not launched yet, and where they are.
        self.calls: dict[Any, tuple[Any, ...]] = {}
        self._next_id = 0
        self._names: set[str] = set()

    @classmethod
    def get_current(cls) -> CompilationContext | None:
        """The active trace of this thread, or None."""
        return _state.contexts[-1] if _state.contexts else None

    @classmethod
    @contextlib.contextmanager
    def create(cls) -> Iterator[CompilationContext]:
        """Push a fresh context for the duration of the block."""
        context = cls()
        _state.contexts.append(context)
        activity.change(1)
        try:
            yield context
        finally:
            activity.change(-1)
            _state.contexts.pop()

    @classmethod
    @contextlib.contextmanager
    def compile_hints(cls, hints: dict[str, Any]) -> Iterator[None]:
        """Merge ``hints`` over the enclosing ones of this thread."""
        _state.hints.append(merge_compile_hints(cls.get_compile_hints(), hints))
        activity.change(1)
        try:
            yield
        finally:
            activity.change(-1)
            _state.hints.pop()

    @classmethod
    def get_compile_hints(cls) -> dict[str, Any]:
        """The merged hints of this thread; ``{}`` when there are none."""
        return _state.hints[-1] if _state.hints else {}

    @property
    def gpu_module_body(self) -> Any:
        """The block of ``gpu.module @kernels``."""
        return get_gpu_module_body(self.gpu_module_op)

    def next_kernel_id(self) -> int:
        """A number for the next emitted kernel, from 0."""
        self._next_id += 1
        return self._next_id - 1

    def unique_kernel_name(self, base: str, number: int) -> str:
        """``base``, or ``base_<number>`` upwards when it is taken."""
        name = base
        while name in self._names:
            name, number = f"{base}_{number}", number + 1
        self._names.add(name)
        return name

    def add_link_lib(self, path: str) -> None:
        """Link external bitcode; first use decides the order."""
        if path not in self.link_libs:
            self.link_libs.append(path)

    def note_use(self, operands: list[Any], uses: KernelUses) -> None:
        """Note what a launch does with the parameters of the host function; `uses` has numbers of `operands`."""
        from flydsl._mlir import ir

        for numbers, parameters in zip(uses, self.uses, strict=True):
            for operand in (operands[n] for n in numbers):
                owner = ir.Value(operand).owner
                if isinstance(owner, ir.Block) and owner.owner.operation.name == "func.func":
                    parameters.add(ir.BlockArgument(operand).arg_number)


def current_kernel() -> Any:
    """The kernel whose body this thread is tracing, or None."""
    return _state.kernels[-1] if _state.kernels else None


@contextlib.contextmanager
def tracing_kernel(kernel: Any) -> Iterator[None]:
    """Mark that this thread traces the body of ``kernel``."""
    _state.kernels.append(kernel)
    try:
        yield
    finally:
        _state.kernels.pop()


def create_gpu_module(name: str = "kernels") -> Any:
    """An empty ``gpu.module`` at the insertion point."""
    from flydsl._mlir import ir

    op = ir.Operation.create("gpu.module", attributes={"sym_name": ir.StringAttr.get(name)}, regions=1)
    ir.Block.create_at_start(op.regions[0], [])
    return op


def get_gpu_module_body(op: Any) -> Any:
    """The block of a ``gpu.module``."""
    return op.regions[0].blocks[0]


def create_gpu_func(name: str, types: list[Any], attributes: dict[str, Any], location: Any) -> tuple[Any, Any]:
    """A kernel ``gpu.func`` at the insertion point: (operation, entry block)."""
    from flydsl._mlir import ir

    function_type = ir.TypeAttr.get(ir.FunctionType.get(types, []))
    op = ir.Operation.create(
        "gpu.func", regions=1, loc=location,
        attributes={"sym_name": ir.StringAttr.get(name), "function_type": function_type,
        "gpu.kernel": ir.UnitAttr.get(),
                    **attributes})
    block = ir.Block.create_at_start(op.regions[0], types, [location] * len(types))
    return op, block
