"""Code objects as text, by the simulator's disassembler (LLVM's AMDGPU tables)."""

from __future__ import annotations

import ctypes
import json
import linecache
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class DisassembledInstruction:
    """One instruction: ELF address, function it belongs to, assembly text, ``file:line`` or ""."""

    address: int
    function: str
    text: str
    source: str


class Disassembly(tuple[DisassembledInstruction, ...]):
    """The instructions of a code object in address order; ``str()`` interleaves the source lines."""

    __slots__ = ()

    def __str__(self) -> str:
        lines: list[str] = []
        function = source = ""
        for i in self:
            if i.function != function:
                function, source = i.function, ""
                lines.append(f"{function}:")
            if i.source and i.source != source:
                source = i.source
                lines.append(f"  ; {source}  {source_text(source)}".rstrip())
            lines.append(f"    {i.address:6x}  {i.text}")
        return "\n".join(lines)


def source_text(location: str) -> str:
    """The line of source at ``file:line``, stripped; "" if the file is not there."""
    file, _, line = location.rpartition(":")
    return linecache.getline(file, int(line)).strip() if file and line.isdigit() else ""


def _ask(what: str, function: str, code_object: bytes | str | Path, *arguments: Any) -> Any:
    """What a function of the simulator library says of a code object. ValueError, with `what` failed, if it cannot."""
    from ._provider import SIMULATOR_LIBRARY, simulator_directory

    data = code_object if isinstance(code_object, bytes) else Path(code_object).read_bytes()
    library = ctypes.CDLL(str(simulator_directory() / SIMULATOR_LIBRARY))
    library.flysimLastErrorMessage.restype = ctypes.c_char_p
    if not hasattr(library, function):
        raise ValueError(f"cannot {what}: the simulator library is too old")
    text = ctypes.c_char_p()
    if getattr(library, function)(data, ctypes.c_size_t(len(data)), *arguments, ctypes.byref(text)):
        raise ValueError(f"cannot {what}: {library.flysimLastErrorMessage().decode()}")
    assert text.value is not None
    return json.loads(text.value)


def disasm(code_object: bytes | str | Path) -> Disassembly:
    """Disassemble a code object.

    :param code_object: ELF bytes, or the name of a file that holds them
    :raises ValueError: it is no AMDGPU code object of a simulated architecture
    """
    return Disassembly(DisassembledInstruction(**e) for e in _ask("disassemble", "flysimDisassemble", code_object))


@dataclass(frozen=True)
class LoopEstimate:
    """Clocks of one iteration, those in which the matrix unit works, and those in which the wave stalled, by cause (as
    in a profile)."""

    clocks: float
    matrix_busy: float
    stall: dict[str, float]


def loop_estimate(code_object: bytes | str | Path, first: int, last: int, iterations: int = 100) -> LoopEstimate:
    """One iteration of a loop in the timing model, for one wave alone on its compute unit: an estimate.

    Every access hits L1, no two lanes conflict and the branch back costs nothing, so that the figure shows the
    schedule alone and can be compared with that of a static analyser.

    :param first: ELF address of the loop's first instruction; ``last``: of its last one (:func:`disasm` lists them)
    :raises ValueError: no code object of a simulated architecture, or no instruction at these addresses
    """
    return LoopEstimate(**_ask("estimate", "flysimLoopEstimate", code_object, ctypes.c_uint64(first),
                               ctypes.c_uint64(last), ctypes.c_uint(iterations)))
