"""The one exception type of the layout algebra."""

from __future__ import annotations

__all__ = ["LayoutError"]


class LayoutError(ValueError):
    """An operation has no exact layout answer, or its operands are malformed.

    The message shows the operands, the mode that fails and the condition that it breaks.
    """
