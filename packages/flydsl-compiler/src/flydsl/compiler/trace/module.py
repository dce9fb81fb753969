"""Tracing of a jit function: arguments become IR values, the Python function runs, a module comes out."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flydsl.tracing.context import CompilationContext, create_gpu_module, effective_fastmath_hint
from flydsl.tracing.diagnostics import dsl_ir_diagnostics, locating_errors, warn_here
from flydsl.tracing.kept import traced_module
from flydsl.tracing.protocol import construct_from_ir_values, get_ir_types
from flydsl.utils import env

from ..plan.entries import plan_entries
from ..specialization.jit_argument import dsl_type_of
from ..specialization.signature import Parameters, is_compile_time, is_stream
from .lds_budget import check as check_lds


def _is_stream_argument(argument: Any, annotation: Any) -> bool:
    return is_stream(annotation) or is_stream(type(argument))


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
    from flydsl.expr._emit import fastmath_string
    from flydsl.tracing.ambient import tracing_context

    code = function.__code__
    location = ir.Location.file(code.co_filename, code.co_firstlineno, 1)
    runtime = [
        (n, a) for n, a in arguments.items()
        if n != parameters.method_self and not is_compile_time(parameters.annotations.get(n))
    ]
    name = function.__name__
    with location, CompilationContext.create() as context, traced_module() as module:
        module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
        context.target = target
        types = [(n, a, get_ir_types(a)) for n, a in runtime]
        flat = [t for _, _, ts in types for t in ts]
        context.has_explicit_stream = any(_is_stream_argument(a, parameters.annotations.get(n)) for n, a in runtime)
        if not context.has_explicit_stream:
            flat.append(ir.Type.parse("!gpu.async.token"))
        with ir.InsertionPoint(module.body):
            context.gpu_module_op = create_gpu_module()
            host = ir.Operation.create(
                "func.func", regions=1,
                attributes={"sym_name": ir.StringAttr.get(name), "llvm.emit_c_interface": ir.UnitAttr.get(),
                            "function_type": ir.TypeAttr.get(ir.FunctionType.get(flat, []))})
        block = ir.Block.create_at_start(host.regions[0], flat, [location] * len(flat))
        values = list(block.arguments)
        if not context.has_explicit_stream:
            context.stream_arg = values[-1]
        bound, start = dict(arguments), 0
        fastmath, depth = effective_fastmath_hint(hints), env.debug.max_loc_depth
        if fastmath is not None:
            fastmath_string(fastmath)  # unknown flags are told before the trace, whether a float op needs them or not
        with ir.InsertionPoint(block), CompilationContext.compile_hints(hints):
            with (
                tracing_context(function, fastmath=fastmath, arch=target.arch, max_loc_depth=depth),
                dsl_ir_diagnostics("invalid IR"),
            ):
                for n, argument, ts in types:
                    bound[n] = construct_from_ir_values(
                        dsl_type_of(argument), argument, values[start : start + len(ts)]
                    )
                    start += len(ts)
                positional, keywords = parameters.unpack(bound)
                with locating_errors(), _collecting_later():
                    function(*positional, **keywords)
                ir.Operation.create("func.return")
        for call, place in context.calls.items():
            warn_here(f"kernel {call.kernel.name!r} is called but not launched, so nothing runs: "
                      "add .launch(grid=..., block=...)", place)
        check_lds(module, target.arch)
        entries, start = [], 0
        for n, argument, ts in types:
            found = plan_entries(n, argument, parameters.annotations.get(n))
            if len(found) == len(ts):
                for position, entry in enumerate(found, start):
                    if position in context.uses.buffers and entry["kind"] == "tensor":
                        entry["max_bytes"] = 1 << 32
                    if position in context.uses.stored and entry["kind"] == "tensor":
                        entry["stored"] = True
                    if position in context.uses.words and entry["kind"] == "tensor":
                        entry["words"] = True
                    if position in context.uses.tables and entry["kind"] == "tensor":
                        entry["addresses"] = True
            entries += found
            start += len(ts)
    return module, entries, name, context
