"""The functions that methods of the value classes are short for.

``tensor.load()`` is ``memref_load_vec(tensor)``: the class lies below the function, which takes and returns values of
several classes. So the function is announced here when its module is imported, and the method finds it by its name.
Only methods (and what they are made of) look here; everything else imports what it calls.
"""

from __future__ import annotations

import importlib
from typing import Any, TypeVar

F = TypeVar("F")


class Functions:
    """The announced functions and classes, as attributes. AttributeError for a name that nobody announced."""

    def __init__(self) -> None:
        self._later: dict[str, str] = {}

    def announce(self, function: F) -> F:
        """Decorator: the function is found under its own name."""
        setattr(self, function.__name__, function)  # type: ignore[attr-defined]
        return function

    def announce_later(self, module: str, *names: str) -> None:
        """`module`, which announces these names when it is imported, is imported when one of them is needed."""
        self._later.update(dict.fromkeys(names, module))

    def __getattr__(self, name: str) -> Any:  # of a name that is not announced yet
        module = vars(self).get("_later", {}).get(name)
        if module is None:
            raise AttributeError(f"no module of the language has announced the function {name!r}")
        importlib.import_module(module)
        return vars(self)[name]


functions = Functions()
