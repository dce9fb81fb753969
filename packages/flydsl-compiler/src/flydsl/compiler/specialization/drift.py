"""Module globals that a jit function was compiled with, and the error for one that has changed since."""

from __future__ import annotations

import reprlib
from typing import Any

from .key import Walker

__all__ = ["Globals"]

_MISSING = object()
_CONTAINERS = (list, dict, set, tuple, frozenset)
#: Globals that a trace has changed, such as a list in which traced code counts: effects and no inputs.
_effects: set[tuple[str, str]] = set()


def _shown(value: Any) -> str:
    return "undefined" if value is _MISSING else reprlib.repr(value)


class _Structure(Walker):
    """Text of a value where containers and scalars count by content, and any other object by being that object."""

    def _compound(self, value: Any) -> str:
        return super()._compound(value) if isinstance(value, _CONTAINERS) else f"object:{id(value)}"


class _Value:
    """A value as it was.

    It is the same as long as its structure is (what changes in an object is in the key), and where an equal one stands
    in its place.
    """

    def __init__(self, value: Any) -> None:
        self._value, self._walker = value, _Structure()  # which keeps the objects, so that no other has their identity
        self._structure = self._walker.text(value)
        # Of other objects only the error, if there is one, needs a text: that of a tensor may wait for a device.
        self._then = (Walker().text(value), _shown(value)) if isinstance(value, _CONTAINERS) else None

    @property
    def shown(self) -> str:
        return _shown(self._value) if self._then is None else self._then[1]

    def is_now(self, value: Any) -> bool:
        if callable(value) or _Structure().text(value) == self._structure:
            return True  # functions and classes may be replaced: they are in the key
        if value is _MISSING:
            return False
        return Walker().text(value) == (Walker().text(self._value) if self._then is None else self._then[0])


class Globals:
    """The values of module globals at one time.

    Args:
        reads: the globals: {(module, name): namespace of the module}.
    """

    def __init__(self, reads: dict[tuple[str, str], dict[str, Any]]) -> None:
        self._namespaces = dict(reads)
        self._values = {key: _Value(namespace.get(key[1], _MISSING)) for key, namespace in reads.items()}

    def _changed(self) -> dict[tuple[str, str], tuple[str, str]]:
        """What has changed, with the texts of the values then and now."""
        now = {key: namespace.get(key[1], _MISSING) for key, namespace in self._namespaces.items()}
        return {key: (was.shown, _shown(now[key])) for key, was in self._values.items() if not was.is_now(now[key])}

    def note_effects(self) -> None:
        """What has changed by now was changed by a trace, and may change again."""
        _effects.update(self._changed())

    def check(self, function: str) -> None:
        """Raises RuntimeError if a global was rebound, or a container changed, by anything but a trace."""
        for (module, name), (then, now) in self._changed().items():
            if (module, name) not in _effects:
                raise RuntimeError(
                    f"the global {name!r} of module {module!r}, which {function!r} reads, has changed since the first "
                    f"call: it was {then} and is {now} now. What traced code reads stays as it was; pass what varies "
                    "as a parameter, fx.Constexpr for a value that is known when it is compiled"
                )
