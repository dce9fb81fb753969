"""What the kernels need to know of an architecture, as an immutable value that is passed.

An operation asks for the target once (:func:`target`); everything below it takes the value it is given, and every
memoised builder has it in its key (:func:`builder`), so that one process builds for several architectures.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

__all__ = ["MATRIX_ARCHS", "Target", "builder", "current_arch", "default_f8_type", "kept", "target"]


@dataclass(frozen=True)
class Target:
    """Facts about one architecture.

    Attributes:
        arch: the row of the table it belongs to, e.g. ``"gfx120"``.
        wave: lanes of a wave.
        lds_bytes: LDS of a workgroup.
        compute_units: of the largest part, used to choose between kernels and for occupancy.
        matrix: ``"mfma"`` or ``"wmma"``.
        half_k: k of the 16-bit matrix instruction with 16 rows and columns that the kernels use.
        fp8_name: fp8 flavour, or None.
        fp8_max: its largest finite value.
        mx: whether it has block-scaled matrix instructions and conversions.
        dma128: whether global memory can be copied to LDS 16 bytes a lane.
        xcds: number of accelerator dies that workgroups are dealt to in turn.
        wave_registers: vector registers that a lane of a wave can have.
        simd_registers: of a lane in all waves of a SIMD (gfx11: of the largest part).
        transposing_reads: bytes that a lane gets of an LDS read that transposes, or 0.
        repeats_operands: whether both halves of a wave hold the operands of its matrix instructions.
        simds: of a compute unit.
        peer_writes: whether eight devices sum large arrays faster by writing to each other than by reading.
        name: the architecture itself, e.g. ``"gfx1201"``.
    """

    arch: str
    wave: int
    lds_bytes: int
    compute_units: int
    matrix: str
    fp8_name: str | None
    fp8_max: float
    half_k: int
    mx: bool = False
    dma128: bool = False
    xcds: int = 1
    wave_registers: int = 256
    simd_registers: int = 512
    transposing_reads: int = 0
    repeats_operands: bool = False
    simds: int = 4
    peer_writes: bool = False
    name: str = ""

    @property
    def fp8(self) -> Any:
        """Element class of the native fp8; TypeError where there is none."""
        if self.fp8_name is None:
            raise TypeError(f"{self.name} has no fp8 type")
        return getattr(fx, self.fp8_name)

    @property
    def tensor_moves(self) -> bool:
        """Whether one instruction moves a tile between memory and LDS."""
        return self.matrix == "wmma" and self.mx

    @property
    def split_barriers(self) -> bool:
        """Whether a wave goes on between its arrival at a barrier and the wait for the others."""
        return self.matrix == "wmma" and not self.repeats_operands

    @property
    def register_quarters(self) -> bool:
        """Whether waves have so many registers that an instruction says which quarter those after it mean, and two of
        them on a SIMD 512 each."""
        return self.wave_registers > 512

    @property
    def bank_bytes(self) -> int:
        """Bytes that LDS delivers in one cycle."""
        return 256 if self.mx else 128

    @property
    def converts_fp4(self) -> bool:
        """Whether an instruction converts two fp4 with a scale to 16-bit floats, and back."""
        return self.dma128

    def adds(self, dtype: str) -> bool:
        """Whether buffer instructions add f32, or pairs of ``"f16"`` or ``"bf16"``, to memory."""
        return dtype == "f32" or (self.mx if dtype == "bf16" else not self.repeats_operands)

    def require(self, what: str, *prefixes: str) -> None:
        """ValueError that says what is supported, unless the architecture's name starts with one of `prefixes`."""
        if not self.name.startswith(prefixes):
            raise ValueError(f"{what} is not available on {self.name}: it needs {' or '.join(prefixes)}")

    def require_fp8(self, what: str) -> None:
        """ValueError where the architecture has no fp8."""
        if self.fp8_name is None:
            raise ValueError(f"{what}: {self.name} has no fp8 type")

    def require_traced(self) -> None:
        """While tracing: ValueError if the code is for another architecture than the configuration was made for."""
        if current_arch() != self.name:
            raise ValueError(f"this launcher was built for {self.name} and cannot be compiled for {current_arch()}: "
                             "call its builder again where that architecture is the current one")


_FNUZ, _FN = "Float8E4M3FNUZ", "Float8E4M3FN"
_TARGETS = (
    ("gfx90a", Target("gfx90a", 64, 65536, 110, "mfma", None, 0.0, 16, wave_registers=512)),
    ("gfx942", Target("gfx942", 64, 65536, 304, "mfma", _FNUZ, 240.0, 16, xcds=8, wave_registers=512,
                      peer_writes=True)),
    ("gfx950", Target("gfx950", 64, 163840, 256, "mfma", _FN, 448.0, 32, mx=True, dma128=True, xcds=8,
                      wave_registers=512, transposing_reads=8)),
    ("gfx120", Target("gfx120", 32, 65536, 64, "wmma", _FN, 448.0, 16, simd_registers=1536, simds=2)),
    ("gfx1250", Target("gfx1250", 32, 327680, 256, "wmma", _FN, 448.0, 32, mx=True, wave_registers=1024,
                       simd_registers=1024, transposing_reads=16)),
    ("gfx11", Target("gfx11", 32, 65536, 96, "wmma", None, 0.0, 16, simd_registers=1536, repeats_operands=True,
                     simds=2)),
)

#: Where kernels run whose loops hold each operand of a matrix instruction once: everywhere but on gfx11.
MATRIX_ARCHS = tuple(prefix for prefix, row in _TARGETS if not row.repeats_operands)


def current_arch() -> str:
    """Architecture that the next kernel is compiled for; inside a trace, the one that is being traced."""
    return flyc.get_backend().target.arch


@functools.lru_cache
def _lookup(arch: str) -> Target:
    for prefix, row in _TARGETS:
        if arch.startswith(prefix):
            return replace(row, name=arch)
    raise ValueError(f"flydsl.kernels does not know the architecture {arch!r}: known are gfx90a, gfx942, gfx950, "
                     f"gfx11xx, gfx120x, gfx1250")


def target(arch: str | Target | None = None) -> Target:
    """Facts about `arch` (the current one if None). ValueError for an architecture without a row."""
    return arch if isinstance(arch, Target) else _lookup(arch or current_arch())


def default_f8_type() -> Any:
    """Element class of the current architecture's fp8. RuntimeError where there is none."""
    found = target()
    if found.fp8_name is None:
        raise RuntimeError(f"{found.name} has no fp8 type")
    return found.fp8


def kept(build: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: one result for each set of arguments, kept; lists among them are tuples. By itself only for what asks
    for the target when the result is called, see :func:`builder`."""
    found = functools.lru_cache(maxsize=1024)(build)

    @functools.wraps(build)
    def chosen(*arguments: Any, **options: Any) -> Any:
        return found(*map(_hashable, arguments), **{name: _hashable(value) for name, value in options.items()})

    return chosen


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def builder(build: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: one result for each target and each set of arguments, kept.

    `build` declares a keyword ``target: Target``. Callers may pass one (or an architecture's name), and the current
    one is taken if they do not: so the target is in every key, and `build` never asks for it.

    Raises:
        TypeError: `build` does not declare the keyword.
    """
    signature = inspect.signature(build)
    declared = signature.parameters.get("target")
    if declared is None or declared.kind is not inspect.Parameter.KEYWORD_ONLY:
        raise TypeError(f"a builder takes its target as a keyword: {build.__name__}(..., *, target: Target)")
    found = functools.lru_cache(maxsize=1024)(build)  # launches come by here: no look at each argument

    @functools.wraps(build)
    def chosen(*arguments: Any, target: str | Target | None = None, **options: Any) -> Any:
        return found(*arguments, target=_of(target), **options)

    parameters = [p.replace(default=None) if p is declared else p for p in signature.parameters.values()]
    chosen.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return chosen


_of = target
