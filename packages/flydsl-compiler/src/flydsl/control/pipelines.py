"""Loops over the steps of a pipeline: what a rewritten ``for step in fx.pipeline_range(...)`` calls while tracing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flydsl.tracing.diagnostics import DSLTypeError, fail

from .flow import pack_carried, run_body, scf_if_dispatch, select_carried
from .loops import scf_for_dispatch
from .state import Names

__all__ = ["pipeline_for_dispatch"]


def pipeline_for_dispatch(
    pipeline: Any,
    body_fn: Callable[..., Any],
    *,
    result_names: tuple[str, ...] = (),
    result_values: tuple[Any, ...] = (),
) -> Any:
    """Trace ``for step in fx.pipeline_range(pipeline)`` with automatically carried variables."""
    if not hasattr(pipeline, "run") or not hasattr(pipeline, "producers"):
        fail(f"pipeline_range takes an fx.Pipeline, got {type(pipeline).__name__}", DSLTypeError)
    names, initial = Names.of(result_names), list(result_values)
    carried = set(select_carried(names, tuple(initial)))

    def kept(values: list[Any]) -> list[Any]:
        """Names that are local to the body have no value outside of it."""
        return [value if i in carried else initial[i] for i, value in enumerate(values)]

    def unpacked(packed: Any) -> list[Any]:
        return [] if not names else [packed] if len(names) == 1 else list(packed)

    def body(step: Any, values: list[Any]) -> list[Any]:
        return kept(run_body(body_fn, (step,), names, values))

    def loop(start: Any, stop: Any, run: Callable[[Any, list[Any]], list[Any]], values: list[Any]) -> list[Any]:
        def turn(index: Any, _names: Any, *inputs: Any) -> dict[str, Any]:
            return dict(zip(names, run(index, list(inputs)), strict=True))

        return kept(unpacked(
            scf_for_dispatch(start, stop, 1, turn, result_names=names, result_values=tuple(values))))

    def guarded(condition: Any, run: Callable[[list[Any]], list[Any]], values: list[Any]) -> list[Any]:
        def branch(_names: Any, *inputs: Any) -> dict[str, Any]:
            return dict(zip(names, run(list(inputs)), strict=True))

        return kept(unpacked(scf_if_dispatch(
            condition, branch, result_names=names, result_values=tuple(values), auto_else=True)))

    return pack_carried(pipeline.run(body, loop, guarded, initial))
