"""Exceptions of the device API."""

from __future__ import annotations


class HipError(RuntimeError):
    """A HIP call failed, or no usable HIP library was found.

    ``code`` is the ``hipError_t`` value and ``name`` its name (0 and "" if no HIP call was made).
    """

    def __init__(self, message: str, code: int = 0, name: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.name = name


class SimulatorError(HipError):
    """The simulator stopped a kernel or refused a call; the text says where and why."""
