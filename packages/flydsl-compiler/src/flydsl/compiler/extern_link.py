"""Linking of external bitcode into kernels."""

from __future__ import annotations

from typing import Any


def link_extern(function: Any, *, bitcode_path: str | None = None, module_init_fn: Any = None) -> Any:
    """Attach bitcode to an external function. Raises NotImplementedError: bitcode cannot be linked yet."""
    raise NotImplementedError("linking external bitcode (extern_link.link_extern)")
