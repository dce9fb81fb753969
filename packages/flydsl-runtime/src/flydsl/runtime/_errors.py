"""Exceptions of the device API."""

from __future__ import annotations

import linecache
import re


class HipError(RuntimeError):
    """A HIP call failed, or no usable HIP library was found.

    ``code`` is the ``hipError_t`` value and ``name`` its name (0 and "" if no HIP call was made).
    """

    def __init__(self, message: str, code: int = 0, name: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.name = name


class PartialWordError(ValueError):
    """An array is no multiple of a 32-bit word, as a kernel needs it that was compiled without ``partial_words``."""


class HostAssertionError(AssertionError, ValueError):
    """A call does not meet a condition that its function states (`fx.host_assert`): its arguments do not fit.

    It is a ValueError as well, so that callers who try configurations catch it like one that is refused at once.
    """


# In the first line of a fault: "..., file.py:12, workgroup (0,0,0), ...", or "..., source file.py:12, workgroup ...".
_PLACE = re.compile(r", ([^\n]+?):(\d+), workgroup \(")


class SimulatorError(HipError):
    """The simulator stopped a kernel or refused a call; the text says where and why.

    ``source`` is ``(file, line)`` of the Python code at fault, None if it is not known; the line itself is part of the
    text.
    """

    def __init__(self, message: str, code: int = 0, name: str = "") -> None:
        self.source: tuple[str, int] | None = None
        found = _PLACE.search(message)
        if found is not None:
            file, line = found.group(1).rpartition(", ")[2].removeprefix("source "), int(found.group(2))
            self.source = (file, line)
            text = linecache.getline(file, line).strip()  # of notebook cells as well
            if text:
                head, newline, rest = message.partition("\n")
                message = f"{head}\n    {text}{newline}{rest}"
        super().__init__(message, code, name)
