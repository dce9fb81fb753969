"""Annotations that are strings, as ``from __future__ import annotations`` leaves them."""

from __future__ import annotations

from typing import Any

__all__ = ["evaluate_annotation"]


def evaluate_annotation(annotation: Any, names: dict[str, Any]) -> Any:
    """What an annotation stands for; one that is no string is returned as it is.

    The text is the user's own source, written where the function or class was, so evaluating it runs nothing
    that importing that module without the future statement would not have run. `typing.get_type_hints` does the
    same but refuses annotations that are no types, and gives up on all when one name is unknown.

    Args:
        names: what the text may refer to: globals and locals of the place of definition, in a dictionary of the
            caller's own, which gains ``__builtins__``.

    Raises:
        Exception: whatever evaluating the text raises, a NameError for an unknown name.
    """
    return eval(annotation, names) if isinstance(annotation, str) else annotation
