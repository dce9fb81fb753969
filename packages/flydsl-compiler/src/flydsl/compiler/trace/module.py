"""Tracing of a jit function: arguments become IR values, the Python function runs, a module comes out."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from flydsl.tracing.context import CompilationContext, create_gpu_module, effective_fastmath_hint
from flydsl.tracing.diagnostics import dsl_ir_diagnostics, locating_errors, warn_here
from flydsl.tracing.kept import traced_module
from flydsl.tracing.protocol import construct_from_ir_values, get_ir_types
from flydsl.utils import env

from ..plan.entries import plan_entries
from ..specialization.jit_argument import dsl_type_of
from ..specialization.signature import Parameters, is_compile_time, is_stream
from .lds_budget import check as check_lds


@contextmanager
def _collecting_later() -> Iterator[None]:
    """Without the cyclic garbage collector: a trace makes many objects, nearly all of which stay, and each of the
    collections that these start would walk all that the process has imported. Of traces that overlap, the first to end
    lets it run again."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def trace(
    function: Any, parameters: Parameters, arguments: dict[str, Any], target: Any, hints: dict[str, Any]
) -> tuple[Any, list[dict[str, Any]], str, CompilationContext]:
    """Run the rewritten function with symbolic arguments.

    Must be called with a current MLIR context.

    Returns:
        the traced module, the launch plan entries of the runtime arguments, the host function's name, and the
        context with the external bitcode and the module initialisers that the trace asked for.
    """
    from flydsl._mlir import ir

    code = function.__code__
    location = ir.Location.file(code.co_filename, code.co_firstlineno, 1)
    with location, CompilationContext.create() as context, traced_module() as module:
        module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
        context.target = target
        runtime = [
            _Argument(name, argument, parameters.annotations.get(name), get_ir_types(argument))
            for name, argument in arguments.items()
            if name != parameters.method_self and not is_compile_time(parameters.annotations.get(name))
        ]
        context.has_explicit_stream = any(is_stream(a.annotation) or is_stream(type(a.value)) for a in runtime)
        block = _host_function(context, module, function.__name__, runtime, location)
        with ir.InsertionPoint(block), CompilationContext.compile_hints(hints):
            _run(function, parameters, arguments, runtime, list(block.arguments), target, hints)
        for call, place in context.calls.items():
            warn_here(f"kernel {call.kernel.name!r} is called but not launched, so nothing runs: "
                      "add .launch(grid=..., block=...)", place)
        check_lds(module, target.arch)
        entries = _plan_entries(context, runtime)
    return module, entries, function.__name__, context


class _Argument(NamedTuple):
    """A runtime argument, and the IR types of the values that it is passed as."""

    name: str
    value: Any
    annotation: Any
    types: list[Any]


def _host_function(context: CompilationContext, module: Any, name: str, runtime: list[_Argument], location: Any) -> Any:
    """The body of an empty host function of the runtime arguments, and of a stream if none of them is one."""
    from flydsl._mlir import ir

    types = [t for argument in runtime for t in argument.types]
    if not context.has_explicit_stream:
        types.append(ir.Type.parse("!gpu.async.token"))
    with ir.InsertionPoint(module.body):
        context.gpu_module_op = create_gpu_module()
        host = ir.Operation.create(
            "func.func", regions=1,
            attributes={"sym_name": ir.StringAttr.get(name), "llvm.emit_c_interface": ir.UnitAttr.get(),
                        "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, []))})
    block = ir.Block.create_at_start(host.regions[0], types, [location] * len(types))
    if not context.has_explicit_stream:
        context.stream_arg = block.arguments[len(types) - 1]
    return block


def _run(function: Any, parameters: Parameters, arguments: dict[str, Any], runtime: list[_Argument],
         values: list[Any], target: Any, hints: dict[str, Any]) -> None:
    """Call the function with what its arguments are while tracing, made of these IR values."""
    from flydsl._mlir import ir
    from flydsl.expr._emit import fastmath_string
    from flydsl.tracing.ambient import tracing_context

    fastmath = effective_fastmath_hint(hints)
    if fastmath is not None:
        fastmath_string(fastmath)  # unknown flags are told before the trace, whether a float op needs them or not
    bound, remaining = dict(arguments), iter(values)
    with (
        tracing_context(function, fastmath=fastmath, arch=target.arch, max_loc_depth=env.debug.max_loc_depth),
        dsl_ir_diagnostics("invalid IR"),
    ):
        for name, argument, _, types in runtime:
            own = list(itertools.islice(remaining, len(types)))
            bound[name] = construct_from_ir_values(dsl_type_of(argument), argument, own)
        positional, keywords = parameters.unpack(bound)
        with locating_errors(), _collecting_later():
            function(*positional, **keywords)
        ir.Operation.create("func.return")


def _plan_entries(context: CompilationContext, runtime: list[_Argument]) -> list[dict[str, Any]]:
    """What the launch plan says of the arguments. Of tensors also how kernels use them, by number of the parameter."""
    facts: tuple[tuple[set[int], str, Any], ...] = (
        (context.uses.buffers, "max_bytes", 1 << 32), (context.uses.stored, "stored", True),
        (context.uses.words, "words", True), (context.uses.tables, "addresses", True))
    entries: list[dict[str, Any]] = []
    start = 0
    for name, argument, annotation, types in runtime:
        found = plan_entries(name, argument, annotation)
        if len(found) == len(types):
            for position, entry in enumerate(found, start):
                if entry["kind"] == "tensor":
                    entry.update({key: value for numbers, key, value in facts if position in numbers})
        entries += found
        start += len(types)
    return entries
