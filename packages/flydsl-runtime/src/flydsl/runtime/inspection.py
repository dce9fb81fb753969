"""Breakpoints in simulated kernels: stop a wave, read its registers, LDS and arguments, step on.

    def look(state):
        print(state)                    # kernel, instruction, source line, work-group and wave
        print(state.vgpr(3, "f4"))      # one value per lane
        print(state.argument("X")[:8])  # a tensor of the call, by name
        return rt.STEP                  # stop again at this wave's next instruction

    with rt.breakpoints(rt.Breakpoint(source="kernel.py:12", workgroup=(0, 0, 0), wave=0), call=look):
        my_kernel(...)
"""

from __future__ import annotations

import contextlib
import ctypes
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

CONTINUE, STEP, ABANDON = 0, 1, 2


@dataclass(frozen=True)
class Breakpoint:
    """Where to stop: at an ELF address, at the code of a source line (the end of ``file:line``), or, with neither,
    at the kernel's first instruction; in every work-group and wave unless they are given."""

    address: int | None = None
    source: str | None = None
    workgroup: tuple[int, int, int] | None = None
    wave: int | None = None


class _State(ctypes.Structure):
    _fields_ = [
        ("kernel", ctypes.c_char_p), ("text", ctypes.c_char_p), ("source", ctypes.c_char_p),
        ("address", ctypes.c_uint64), ("exec", ctypes.c_uint64), ("workgroup", ctypes.c_uint32 * 3),
        ("wave", ctypes.c_uint32), ("lanes", ctypes.c_uint32), ("sgprs", ctypes.POINTER(ctypes.c_uint32)),
        ("num_sgprs", ctypes.c_uint32), ("vgprs", ctypes.POINTER(ctypes.c_uint32)), ("num_vgprs", ctypes.c_uint32),
        ("lds", ctypes.POINTER(ctypes.c_uint8)), ("lds_bytes", ctypes.c_uint32), ("scc", ctypes.c_uint32),
        ("kernarg", ctypes.POINTER(ctypes.c_uint8)), ("kernarg_bytes", ctypes.c_uint32),
        ("checksum", ctypes.c_uint32),
    ]


class _Point(ctypes.Structure):
    _fields_ = [("address", ctypes.c_int64), ("source", ctypes.c_char_p), ("workgroup", ctypes.c_int64 * 3),
                ("wave", ctypes.c_int64)]


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_State))
_ACC = 256  # row of a0 in the register file of gfx9
_VCC, _EXEC = 106, 126


class WaveState:
    """A wave that stands before an instruction. Valid only inside the callback."""

    def __init__(self, raw: _State) -> None:
        self._raw = raw
        self.kernel: str = raw.kernel.decode()
        self.text: str = raw.text.decode()
        self.source: str = raw.source.decode()
        self.address: int = raw.address
        self.exec: int = raw.exec
        self.scc: int = raw.scc
        self.workgroup: tuple[int, int, int] = tuple(raw.workgroup)
        self.wave: int = raw.wave
        self.lanes: int = raw.lanes

    def __repr__(self) -> str:
        x, y, z = self.workgroup
        place = f" {self.source}" if self.source else ""
        return f"{self.kernel} ({x},{y},{z}) wave {self.wave}{place}  {self.address:x}: {self.text}"

    @property
    def vcc(self) -> int:
        """The lane mask VCC."""
        return self.sgpr(_VCC) | self.sgpr(_VCC + 1) << 32

    def sgpr(self, index: int) -> int:
        """Scalar register s``index`` (106: VCC, 126: EXEC, low halves). Raises IndexError."""
        if not 0 <= index < self._raw.num_sgprs:
            raise IndexError(f"s{index} does not exist: 0..{self._raw.num_sgprs - 1}")
        return int(self._raw.sgprs[index])

    def vgpr(self, index: int, dtype: str = "u4"):
        """Vector register v``index`` as a NumPy array with one element per lane (a copy). Raises IndexError."""
        import numpy as np

        if not 0 <= index < self._raw.num_vgprs:
            raise IndexError(f"v{index} does not exist: 0..{self._raw.num_vgprs - 1}")
        row = np.ctypeslib.as_array(self._raw.vgprs, (self._raw.num_vgprs, 64))[index, : self.lanes]
        return row.copy().view(dtype)

    def agpr(self, index: int, dtype: str = "u4"):
        """Accumulation register a``index`` of gfx9, like :meth:`vgpr`."""
        return self.vgpr(_ACC + index, dtype)

    def lds(self, dtype: str = "u1"):
        """The work-group's LDS as a NumPy array (a copy)."""
        import numpy as np

        if not self._raw.lds_bytes:
            return np.empty(0, dtype)
        return np.ctypeslib.as_array(self._raw.lds, (self._raw.lds_bytes,)).copy().view(dtype)

    def arguments(self) -> tuple[str, ...]:
        """Names of the call's arguments that :meth:`argument` can show.

        They are the parameters of the function that launched the kernel; a code object that was launched by another
        way than a FlyDSL launcher has no names.
        """
        return tuple(self._arguments())

    def argument(self, name: str):
        """An argument of the launch by name: a tensor as a NumPy array (a copy of the memory as it is now), a scalar
        as a number.

        bfloat16 tensors become float32; formats that NumPy lacks come as their raw bytes. Raises KeyError for a name
        that the kernel does not get, with those that it gets.
        """
        known = self._arguments()
        if name not in known:
            have = ", ".join(known) or "none (not launched by a FlyDSL launcher)"
            raise KeyError(f"{self.kernel} has no argument {name!r}; it has: {have}")
        return known[name]()

    def _arguments(self) -> dict[str, Callable[[], Any]]:
        from ._plans import find
        from .inspection_arguments import readers

        plan = find(self.kernel, self._raw.checksum)
        segment = bytes(self._raw.kernarg[: self._raw.kernarg_bytes])
        return {} if plan is None else readers(plan, self.kernel, segment)


@contextlib.contextmanager
def breakpoints(*points: Breakpoint, call: Callable[[WaveState], int | None]) -> Iterator[None]:
    """Stop the launches of the ``with`` block at ``points`` and call ``call`` with the wave's state.

    ``call`` returns CONTINUE (or None), STEP or ABANDON; one wave is shown at a time. An exception in it abandons
    the launch and is raised when the block ends. :func:`flydsl.runtime.console` is a ``call`` that asks the user.
    A point that no instruction of the launched kernels belongs to is told as a RuntimeWarning.

    Raises RuntimeError where the process uses a GPU, ValueError without points or for a negative place.
    """
    raw = _raw_points(points)
    library = _breakpoint_library()
    from ._errors import HipError

    failures: list[BaseException] = []

    def stop(state: ctypes._Pointer[_State]) -> int:
        try:
            return call(WaveState(state.contents)) or CONTINUE
        except BaseException as error:  # a callback from C cannot let it through
            failures.append(error)
            return ABANDON

    function = _CALLBACK(stop)
    library.flysimSetBreakpoints(raw, ctypes.c_size_t(len(points)), function)
    try:
        yield
    except HipError:
        if failures:
            raise failures[0] from None
        raise
    finally:
        found = (ctypes.c_uint8 * len(points))()
        launches = library.flysimBreakpointsMatched(found, ctypes.c_size_t(len(points)))
        library.flysimSetBreakpoints(None, ctypes.c_size_t(0), _CALLBACK())
        if launches:
            _tell_unmatched([point for point, there in zip(points, found, strict=True) if not there])
    if failures:
        raise failures[0]


def _raw_points(points: tuple[Breakpoint, ...]) -> Any:
    """The points as the library takes them; ValueError without any, or for a negative place."""
    if not points:
        raise ValueError("breakpoints() needs at least one Breakpoint; Breakpoint() stops every wave at its start")
    raw = (_Point * len(points))()
    for at, point in zip(raw, points, strict=True):
        if any(v is not None and v < 0 for v in (point.address, point.wave, *(point.workgroup or ()))):
            raise ValueError(f"{point}: addresses, work-groups and waves count from 0")
        at.address = -1 if point.address is None else point.address
        at.source = (point.source or "").encode()
        at.workgroup[:] = point.workgroup or (-1, -1, -1)
        at.wave = -1 if point.wave is None else point.wave
    return raw


def _breakpoint_library() -> ctypes.CDLL:
    """The simulator; RuntimeError where the process uses another HIP library."""
    from . import _provider

    if _provider.kind() != "sim":
        raise RuntimeError("breakpoints exist on the simulator only; this process uses a GPU")
    library = ctypes.CDLL(str(_provider.library_path()))
    if not hasattr(library, "flysimBreakpointsMatched"):
        raise RuntimeError(f"{_provider.library_path()} is too old for breakpoints")
    return library


def _tell_unmatched(missed: list[Breakpoint]) -> None:
    if not missed:
        return
    lines = any(point.source for point in missed)
    hint = "; line numbers need FLYDSL_DEBUG_ENABLE_DEBUG_INFO=1 when the kernel is compiled" if lines else ""
    warnings.warn(f"no instruction of the launched kernels belongs to {missed[0]}{hint}", RuntimeWarning, stacklevel=4)
