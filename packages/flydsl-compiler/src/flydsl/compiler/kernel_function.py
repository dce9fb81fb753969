"""`flyc.kernel`: a device function, emitted into the GPU module when it is launched."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, overload

from flydsl.control.state import is_dynamic
from flydsl.tracing.context import (
    CompilationContext,
    KernelUses,
    create_gpu_func,
    create_gpu_module,
    current_kernel,
    effective_fastmath_hint,
    get_gpu_module_body,
    merge_compile_hints,
    tracing_kernel,
)
from flydsl.tracing.diagnostics import (
    DSLTypeError,
    current_user_frames,
    fail,
    install_excepthook,
    locating_errors,
    warn_annotation_value_mismatch,
)
from flydsl.tracing.kept import keep_operation
from flydsl.tracing.protocol import construct_from_ir_values, extract_to_ir_values
from flydsl.utils import env

from .frontend.ast_rewriter import plain_function
from .frontend.rewritten import Rewritten
from .specialization.signature import Parameters, class_refusal, is_compile_time, is_number_for_tensor
from .specialization.snapshot import FunctionSnapshot
from .trace.launch import (
    attribute_dict,
    check_cluster,
    check_smem,
    dims,
    emit_launch,
    resolve_block,
    static_int,
    validate_block_size,
)
from .trace.raw_addresses import pointer_tables, raw_stores

__all__ = [
    "CompilationContext", "KernelFunction", "KernelLauncher", "create_gpu_func", "create_gpu_module",
    "effective_fastmath_hint", "get_gpu_module_body", "kernel", "merge_compile_hints",
]


def _as_declared(annotation: Any, value: Any) -> Any:
    """An extent (a leaf of a shape) as the number that an integer parameter declares; all else as it is."""
    if not getattr(annotation, "is_integer", False) or not hasattr(value, "to_py_value") or not value.is_leaf:
        return value
    number = value.to_py_value()
    fits = isinstance(number, int) or type(number).width <= annotation.width
    return annotation(number) if fits else value


class KernelFunction:
    """A function decorated with ``@flyc.kernel``. Calling it while a jit function is traced records the call."""

    __name__: str
    __qualname__: str

    def __init__(
        self,
        func: Callable[..., Any],
        name: str | None = None,
        known_block_size: Any = None,
        bound_self: Any = None,
        rewritten: Rewritten | None = None,
    ) -> None:
        install_excepthook()
        func = plain_function(func, "@flyc.kernel")
        self._original = FunctionSnapshot.of(func) if rewritten is None else rewritten.original
        self._rewritten = Rewritten(self._original, kernel=True) if rewritten is None else rewritten
        self._name = name
        self._bound_self = bound_self
        self.known_block_size = validate_block_size(known_block_size)
        self._parameters: Parameters | None = None
        self.__wrapped__ = func
        for attribute in ("__name__", "__qualname__", "__doc__", "__module__"):
            setattr(self, attribute, getattr(func, attribute, None))

    def __repr__(self) -> str:
        return f"<kernel {self.__module__}.{self.__qualname__}>"

    def __reduce__(self) -> Any:
        """Pickled and copied like a plain function: by its name in its module; bound to an instance, through that."""
        return (getattr, (self._bound_self, self.__name__)) if self._bound_self is not None else self.__qualname__

    @property
    def func(self) -> Callable[..., Any]:
        """The rewritten function."""
        return self._rewritten()

    @property
    def name(self) -> str:
        return self._name or self.__name__

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return KernelFunction(
            self._original.function, self._name, self.known_block_size, bound_self=instance, rewritten=self._rewritten
        )

    @staticmethod
    def get_current() -> Any:
        """The `KernelLauncher` emission in progress on this thread, or None."""
        return current_kernel()

    def __call__(
        self, *args: Any, unit_attrs: list[str] | None = None, value_attrs: dict[str, Any] | None = None, **kwargs: Any
    ) -> KernelLauncher:
        context = CompilationContext.get_current()
        if context is None:
            raise RuntimeError(
                f"kernel {self.name!r} was called outside a jit function: call it inside a function decorated with "
                "@flyc.jit, followed by .launch(grid=..., block=...)"
            )
        if current_kernel() is not None:
            fail(f"kernel {self.name!r} is called inside kernel {current_kernel().kernel.name!r}: kernels are "
                 f"launched from "
                 "jit functions only; make the callee a @flyc.jit helper")
        if self._parameters is None:
            self._parameters = Parameters(self._original.function)
        head = () if self._bound_self is None else (self._bound_self,)
        launcher = KernelLauncher(self, self._parameters.bind((*head, *args), kwargs), unit_attrs, value_attrs)
        context.calls[launcher] = current_user_frames()
        return launcher


class KernelLauncher:
    """A recorded kernel call; nothing is emitted until `launch`."""

    def __init__(self, kernel_: KernelFunction, arguments: dict[str, Any], unit_attrs: Any, value_attrs: Any) -> None:
        self.kernel = kernel_
        self._parameters: Parameters = kernel_._parameters  # type: ignore[assignment]
        self.arguments = {name: self._each(name, value, _as_declared) for name, value in arguments.items()}
        self._unit_attrs, self._value_attrs = unit_attrs, value_attrs
        self._emitted: dict[Any, tuple[str, list[Any], Any, KernelUses]] = {}

    def launch(
        self,
        *,
        grid: Any = (1, 1, 1),
        block: Any = (1, 1, 1),
        smem: Any = None,
        stream: Any = None,
        cluster: Any = None,
        unit_attrs: list[str] | None = None,
        value_attrs: dict[str, Any] | None = None,
    ) -> None:
        """Emit the kernel (once per block size) and its launch.

        Args:
            grid, block, cluster: an int, an integer DSL value, or 1 to 3 of those.
            smem: dynamic LDS bytes; None: what the kernel's dynamic allocator asked for.
            stream: a `fx.Stream` parameter, its ``value``, or None for the jit function's implicit stream.
        """
        from flydsl.tracing.locations import capture_user_location

        context = CompilationContext.get_current()
        if context is None:
            raise RuntimeError(f"kernel {self.kernel.name!r}: .launch(...) outside a jit function")
        context.calls.pop(self, None)
        name = self.kernel.name
        grid_dims, block_dims = dims(grid, "grid", name), dims(block, "block", name)
        cluster_dims = None if cluster is None else dims(cluster, "cluster", name)
        if cluster_dims is not None:
            check_cluster(cluster_dims, (self._value_attrs or {}).get("rocdl.cluster_dims"), name)
        size = resolve_block(block_dims, self.kernel.known_block_size, name)
        with capture_user_location():
            operands = self._operands()
            if size not in self._emitted:
                self._emitted[size] = self._emit(context, operands, size)
            symbol, emitted_types, wanted, uses = self._emitted[size]
            context.note_use(operands, uses)
            if emitted_types != [v.type for v in operands]:
                fail(f"{name}: the launch passes other types than the kernel was traced with", DSLTypeError)
            emit_launch(symbol, grid_dims, block_dims, operands, smem=self._smem(smem, wanted), cluster=cluster_dims,
                        stream=self._stream(context, stream), attributes=attribute_dict(unit_attrs,
                        value_attrs))

    def _check_compile_time(self) -> None:
        for name, value in self.arguments.items():
            if is_compile_time(self._parameters.annotations.get(name)) and is_dynamic(value):
                fail(f"{self.kernel.name}: argument {name!r} is known only at run time but the parameter is "
                     "fx.Constexpr: make it a runtime parameter (fx.Int32), or a compile-time parameter of the jit "
                     "function as well", DSLTypeError)

    def _operands(self) -> list[Any]:
        self._check_compile_time()
        values: list[Any] = []
        for name, value in self._runtime():
            self._each(name, value, functools.partial(self._check, name))
            leaves = extract_to_ir_values(value)
            if any(str(v.type) == "!gpu.async.token" for v in leaves):
                fail(f"{self.kernel.name}: argument {name!r} is or holds a Stream, which orders launches on the host "
                     "and cannot be passed to a kernel: leave it out, and give it to .launch(stream=...)",
                     DSLTypeError)
            values += leaves
        return values

    def _runtime(self) -> list[tuple[str, Any]]:
        annotations, skip = self._parameters.annotations, self._parameters.method_self
        return [(n, v) for n, v in self.arguments.items() if n != skip and not is_compile_time(annotations.get(n))]

    def _each(self, name: str, argument: Any, function: Callable[[Any, Any], Any]) -> Any:
        """``function(annotation, value)`` of an argument, or of each argument of a ``*name`` or ``**name``."""
        annotation = self._parameters.annotations.get(name)
        return self._parameters.each(name, argument, lambda value: function(annotation, value))

    def _check(self, name: str, annotation: Any, value: Any) -> None:
        from flydsl._mlir import ir
        from flydsl.expr.numeric import NumericMeta, as_numeric

        if isinstance(value, (bool, int, float)):
            cls = annotation if isinstance(annotation, NumericMeta) else as_numeric(value).dtype
            fail(f"{self.kernel.name}: argument {name!r} is the bare Python value {value!r}: wrap it, e.g. "
                 f"fx.{cls}({value!r}), or annotate the parameter fx.Constexpr", DSLTypeError)
        if isinstance(value, type):
            fail(f"{self.kernel.name}: {class_refusal(name, value)}", DSLTypeError)
        if (
            type(value) is ir.Value
            or isinstance(value, ir.Value)
            and getattr(value, "__get_ir_types__", None) is None
            and getattr(type(value), "__construct_from_ir_values__", None) is None
        ):
            fail(f"{self.kernel.name}: argument {name!r} is a raw value of type {value.type}: wrap it, e.g. "
                 f"fx.Int32({name})",
                 DSLTypeError)
        if annotation is not None and is_number_for_tensor(annotation, type(value)):
            got = type(value).__name__
            fail(f"{self.kernel.name}: argument {name!r} is declared {annotation.__name__}, got a {got}", DSLTypeError)
        if annotation is not None:
            warn_annotation_value_mismatch(self.kernel.name, name, annotation, type(value))

    def _emit(
        self, context: CompilationContext, operands: list[Any], size: Any
    ) -> tuple[str, list[Any], Any, KernelUses]:
        from flydsl._mlir import ir
        from flydsl.tracing.ambient import kernel_scope, tracing_context

        kernel_ = self.kernel
        number = context.next_kernel_id()
        symbol = context.unique_kernel_name(kernel_._name or f"{kernel_.__name__}_{number}", number)
        attributes = attribute_dict(self._unit_attrs, self._value_attrs)
        if size is not None:
            attributes["known_block_size"] = ir.DenseI32ArrayAttr.get(list(size))
        function = kernel_.func
        code = function.__code__
        location = ir.Location.file(code.co_filename, code.co_firstlineno, 1)
        types = [v.type for v in operands]
        with ir.InsertionPoint(context.gpu_module_body):
            op, block = create_gpu_func(symbol, types, attributes, location)
        fastmath = effective_fastmath_hint(CompilationContext.get_compile_hints())
        try:
            with ir.InsertionPoint(block), tracing_kernel(self), location:
                with tracing_context(function, fastmath=fastmath, known_block_size=size), locating_errors():
                    scope = kernel_scope() or {}
                    if env.extents_checked():
                        from flydsl.expr.primitive.extents import mark_copy, mark_store

                        scope.update(on_element_store=mark_store, on_copy=mark_copy)
                    arguments = self._rebuild(list(block.arguments))
                    _start_ktrace(context, symbol, scope)
                    positional, keywords = self._parameters.unpack(arguments)
                    returned = function(*positional, **keywords)
                    if returned is not None:
                        fail(
                            f"kernel {kernel_.name!r} returns a value; kernels return nothing, write results to memory"
                        )
                    ir.Operation.create("gpu.return")
        except BaseException:
            keep_operation(op)
            raise
        allocator = scope.get("shared_allocator")
        wanted = None if allocator is None or allocator.is_static else allocator.allocated_bytes
        stored = scope.get("stored_arguments", set()) | raw_stores(block)
        uses = KernelUses(scope.get("buffer_arguments", set()), stored, scope.get("word_arguments", set()),
                          pointer_tables(block))
        return symbol, types, wanted, uses

    def _rebuild(self, values: list[Any]) -> dict[str, Any]:
        arguments = dict(self.arguments)
        start = 0
        for name, value in self._runtime():
            count = len(extract_to_ir_values(value))
            arguments[name] = construct_from_ir_values(type(value), value, values[start : start + count])
            start += count
        return arguments

    def _smem(self, smem: Any, wanted: Any) -> Any:
        if smem is None:
            return wanted
        check_smem(smem, self.kernel.name)
        given = static_int(smem)
        if given is not None and wanted is not None and given < wanted:
            raise ValueError(
                f"{self.kernel.name}: smem={given} bytes is smaller than the {wanted} bytes the kernel allocates"
            )
        return smem

    def _stream(self, context: CompilationContext, stream: Any) -> Any:
        from flydsl._mlir import ir

        if stream is None:
            if context.has_explicit_stream:
                warnings.warn(f"{self.kernel.name}: launched without stream= although the jit function has a stream "
                              "parameter: the launch goes to the default stream",
                              UserWarning, stacklevel=3)
                return None
            return context.stream_arg
        value = stream if isinstance(stream, ir.Value) else getattr(stream, "value", None)
        if not is_dynamic(value):
            fail(
                f"{self.kernel.name}: stream= must be a parameter of the jit function annotated fx.Stream", DSLTypeError
            )
        return value


def _start_ktrace(context: CompilationContext, symbol: str, scope: dict[str, Any]) -> None:
    """With in-kernel tracing on, the wave takes its slots of the trace buffer where the kernel begins."""
    if not (CompilationContext.get_compile_hints().get("ktrace") or env.ktrace.enable):
        return
    from flydsl.expr.ktrace import begin_kernel

    scope["ktrace"] = begin_kernel(context, symbol)


@overload
def kernel(func: Callable[..., Any], *, name: str | None = None, known_block_size: Any = None) -> KernelFunction: ...
@overload
def kernel(
    func: None = None, *, name: str | None = None, known_block_size: Any = None
) -> Callable[[Callable[..., Any]], KernelFunction]: ...
def kernel(func: Any = None, *, name: str | None = None, known_block_size: Any = None) -> Any:
    """Decorator of device functions.

    Args:
        name: symbol of the kernel, shown by profilers; default ``<function name>_<number>``.
        known_block_size: three positive ints; a launch with another static block is an error.
    """
    if func is None:
        return lambda f: KernelFunction(f, name, known_block_size)
    return KernelFunction(func, name, known_block_size)
