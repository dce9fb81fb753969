"""What the simulator's checks find: out-of-bounds accesses, races, uninitialised values, barriers, NaNs.

``FLYDSL_SIM_CHECK=race,uninit`` makes the first finding the error of its launch. Here the same findings are data::

    with rt.checked("race", "uninit") as report:
        my_kernel(...)
        rt.synchronize()
    for finding in report:
        print(finding)
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from . import requested_checks
from ._handed_out import handed_out
from .requested_checks import CHECKS, USUAL


@dataclass(frozen=True)
class Access:
    """An instruction that a wave ran, with what it did.

    ``lane`` is None if the finding is not about one lane, ``source`` is ``file:line`` (empty without debug
    information), ``pc`` the offset in the code object.
    """

    access: str
    instruction: str
    pc: int
    source: str
    workgroup: tuple[int, int, int]
    wave: int
    lane: int | None

    @classmethod
    def _of(cls, raw: dict[str, Any]) -> Access:
        x, y, z = raw["workgroup"]
        return cls(raw["access"], raw["instruction"], raw["pc"], raw["source"], (x, y, z), raw["wave"], raw.get("lane"))

    def __str__(self) -> str:
        lane = "" if self.lane is None else f", lane {self.lane}"
        source = f" ({self.source})" if self.source else ""
        return f"'{self.instruction}' at pc {self.pc:#x}, workgroup {self.workgroup}, wave {self.wave}{lane}{source}"


@dataclass(frozen=True)
class Finding:
    """One thing that a check found.

    ``space`` is "global" (``address`` is an address), "lds" or "private" (an offset), or "" if there is no address.
    ``other`` is the earlier access that a race conflicts with, or the load that fetched an uninitialised value.
    """

    check: str
    message: str
    kernel: str
    arch: str
    site: Access
    space: str = ""
    address: int = 0
    bytes: int = 0
    other: Access | None = None

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Finding:
        """A finding from the simulator's JSON. Raises KeyError for anything else."""
        other = Access._of(raw["other"]) if "other" in raw else None
        return cls(
            raw["check"],
            raw["message"],
            raw["kernel"],
            raw["arch"],
            Access._of(raw),
            raw.get("space", ""),
            raw.get("address", 0),
            raw.get("bytes", 0),
            other,
        )

    def __str__(self) -> str:
        return f"check {self.check}: kernel {self.kernel} ({self.arch}), {self.site}: {self.message}"


@dataclass
class CheckReport:
    """The findings of a ``with checked(...)`` block; false if there are none.

    ``approximations`` has, if ``approx`` was checked, how often waves ran each instruction that the fidelity table
    calls approximate; the findings of that check are the branches, active lanes and addresses that depend on one.
    """

    findings: list[Finding] = field(default_factory=list)
    approximations: dict[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings)) or "no findings"


def _library() -> ctypes.CDLL:
    """The simulator library that this process uses. Raises RuntimeError on a GPU."""
    from . import _provider

    if _provider.kind() != "sim":
        raise RuntimeError("checks are made by the simulator; this process uses a GPU. Set FLYDSL_RUNTIME_KIND=sim")
    library = ctypes.CDLL(str(_provider.library_path()))
    library.flysimCheck.argtypes = [ctypes.c_char_p, ctypes.c_uint]
    return library


def _approximations(library: ctypes.CDLL) -> dict[str, int]:
    if not hasattr(library, "flysimApproximations"):  # an older simulator
        return {}
    return handed_out(library, "flysimApproximations")


def _take(library: ctypes.CDLL) -> list[Finding]:
    return [Finding.from_json(entry) for entry in handed_out(library, "flysimCheckTake")]


def findings() -> list[Finding]:
    """The findings of launches that ended with one (``FLYDSL_SIM_CHECK``), since the last call; at most the last 64."""
    return _take(_library())


@contextlib.contextmanager
def checked(*checks: str, limit: int = 100) -> Iterator[CheckReport]:
    """Check the launches of the ``with`` block and collect what is found; the launches go on.

    :param checks: names of :data:`CHECKS` (default: oob, race, uninit, barrier). Device memory counts as never
        written only if it was allocated while ``uninit`` was on.
    :param limit: findings to keep; the same pair of instructions is told once a launch and thread.

    Raises ValueError for an unknown name, RuntimeError if the process uses a GPU. Of blocks within each other the
    innermost decides what is checked and gets what is found.
    """
    names = [name for text in checks or USUAL for name in text.replace(",", " ").split()]
    if unknown := [name for name in names if name not in CHECKS]:
        raise ValueError(f"unknown check {unknown[0]!r}; there are {', '.join(CHECKS)}")
    if limit < 1:
        raise ValueError("limit must be at least 1")
    library = _library()
    outer = _open[-1] if _open else None
    _collect(library, outer)
    block = _Block(",".join(names), limit, CheckReport())
    _open.append(block)
    _choose(library, block)
    try:
        yield block.report
    finally:
        _collect(library, block)
        _open.pop()
        _choose(library, outer)


@dataclass
class _Block:
    """A ``with checked(...)`` block that has not ended."""

    names: str
    limit: int
    report: CheckReport


_open: list[_Block] = []


def _choose(library: ctypes.CDLL, block: _Block | None) -> None:
    """Launches from now on make the checks of this block; without one, those of the environment."""
    requested_checks.active = None if block is None else block.names
    if block is None:
        library.flysimCheck(None, 0)
    else:
        library.flysimCheck(block.names.encode(), block.limit)


def _collect(library: ctypes.CDLL, block: _Block | None) -> None:
    """What was found so far belongs to this block; to none if there is none."""
    found, approximations = _take(library), _approximations(library)
    if block is None:
        return
    block.report.findings += found
    for name, count in approximations.items():
        block.report.approximations[name] = block.report.approximations.get(name, 0) + count


def unwritten(tensor: Any) -> Any:
    """Tell the ``uninit`` check that nobody has written this host memory yet, and return it.

        out = rt.unwritten(np.empty(n, np.float32))

    NumPy and torch do not say which arrays come from ``empty``; device memory of ``rt.malloc`` needs no call. The
    contents are overwritten (on a GPU nothing is done). Raises ValueError for a tensor that is not contiguous,
    TypeError for an object that is none.
    """
    from . import _provider
    from .memory import _extent

    address, size = _extent(tensor)
    if size is None:
        raise TypeError(f"unwritten: a tensor is expected, not {type(tensor).__name__}")
    if _provider.kind() == "sim":
        _library().flysimUnwritten(ctypes.c_void_p(address), ctypes.c_size_t(size))
    return tensor


def unsupported() -> list[str]:
    """HIP functions that the simulator has only as entry points that return hipErrorNotSupported."""
    from . import _provider

    library = ctypes.CDLL(str(_provider.library_path()))
    if not hasattr(library, "flysimUnsupported"):  # a simulator that implements only what it has
        return []
    library.flysimUnsupported.restype = ctypes.c_char_p
    return sorted(library.flysimUnsupported().decode().split())
