"""LLVM command-line options for the duration of a block.

They hold for the whole process: a compilation that is to have options to itself takes the compile hint
``llvm_options``, which the code generator sets under its own lock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from flydsl.runtime.forking import fork_safe_lock

_lock = fork_safe_lock()


@contextlib.contextmanager
def llvm_options(options: dict[str, bool | int | str]) -> Iterator[None]:
    """Set LLVM options by name and restore them in reverse order.

    Raises:
        RuntimeError: "Unknown LLVM option". TypeError: "Unsupported type" of a value.
    """
    from flydsl._mlir.dialects import fly

    previous: list[tuple[Any, str, Any]] = []
    with _lock:
        try:
            for name, value in options.items():
                setter = _setter(fly, name, value)
                try:
                    previous.append((setter, name, setter(name, value)))
                except RuntimeError as error:
                    # LLVM knows the option by this name, or with this type of value, or neither.
                    raise RuntimeError(f"Unknown LLVM option {name!r} for the value {value!r}: {error}") from None
            yield
        finally:
            for setter, name, value in reversed(previous):
                setter(name, value)


def _setter(fly: Any, name: str, value: Any) -> Any:
    for kind in (bool, int, str):
        if isinstance(value, kind):
            return getattr(fly, f"set_llvm_option_{kind.__name__}")
    raise TypeError(f"Unsupported type {type(value).__name__} for the LLVM option {name!r}")
