"""When a decorated function is rewritten: at its definition, or when it is first traced."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from flydsl.runtime.forking import fork_safe_lock

from ..specialization.snapshot import FunctionSnapshot
from .ast_rewriter import ASTRewriter, Source, provide_helpers

__all__ = ["Rewritten"]


def _traced_by_tests(module: str) -> bool:
    """Whether a package around the module says that its tests trace each of its functions.

    It does so by ``__traced_by_tests__ = True``: rewriting all functions of a library takes most of the time of its
    import, and a process traces few.
    """
    while module := module.rpartition(".")[0]:
        if getattr(sys.modules.get(module), "__traced_by_tests__", False):
            return True
    return False


class Rewritten:
    """What runs in a function's place while it is traced: call the object for it.

    What cannot be lowered is rejected at its definition. So only those are left until they are first traced in which
    nothing can be rejected, or is by tests: a call that a prebuilt or cached artifact answers never needs them.
    """

    def __init__(self, original: FunctionSnapshot, *, kernel: bool = False) -> None:
        self.original = original
        self._source, self._kernel = Source.of(original.function), kernel
        self._lock = fork_safe_lock()
        self._result: Callable[..., Any] | None = None
        provide_helpers(original.function)
        nothing_to_reject = original.straight and not kernel  # a kernel's may be the value that it returns
        if not (nothing_to_reject or _traced_by_tests(original.module)):
            self()

    @property
    def done(self) -> bool:
        return self._result is not None

    def __call__(self) -> Callable[..., Any]:
        if self._result is None:
            with self._lock:
                if self._result is None:
                    function = self.original.function
                    self._result = ASTRewriter.transform(function, kernel=self._kernel, source=self._source)
        return self._result
