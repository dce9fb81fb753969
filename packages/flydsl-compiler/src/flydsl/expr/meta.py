"""Ambient tracing state and source locations under their public names, and the wrapping of results.

The state itself belongs to `flydsl.tracing.locations`.
"""

from __future__ import annotations

import functools
from typing import Any

from flydsl.tracing.ambient import tracing_context, tracing_option
from flydsl.tracing.locations import capture_user_location, dsl_loc_tracing

__all__ = ["capture_user_location", "dsl_loc_tracing", "dsl_wrap_result", "tracing_context", "tracing_option"]


def dsl_wrap_result(func: Any = None, target: type | None = None) -> Any:
    """Decorator: pass the function's result through `as_dsl_value` (to `target`, when given)."""
    if isinstance(func, type) and target is None:
        return functools.partial(dsl_wrap_result, target=func)
    if func is None:
        return functools.partial(dsl_wrap_result, target=target)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        from .utils.convert import as_dsl_value

        result = func(*args, **kwargs)
        return None if result is None else as_dsl_value(result, target)

    return wrapper
