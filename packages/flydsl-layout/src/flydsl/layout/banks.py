"""LDS bank conflicts of an access, and the smallest swizzle that removes them.

The model: an access of ``bits`` per lane is served in phases (groups of lanes); within a phase, lanes that touch
different dwords of one bank serialise, and lanes that touch the same dword share it.  A phase takes as many cycles as
the fullest bank has distinct dwords.  Phase groups per architecture: CDNA3/CDNA4 measurements by public kernel authors;
the grouping of wave32 parts is the documented number of lanes per phase.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .algebra import linear_of
from .core import ComposedLayout, Layout, Swizzle
from .errors import LayoutError

Phases = tuple[tuple[int, ...], ...]


def _consecutive(lanes: int, group: int) -> Phases:
    return tuple(tuple(range(i, i + group)) for i in range(0, lanes, group))


def _ranges(*groups: Sequence[tuple[int, int]]) -> Phases:
    """Phases of lanes 0-31 given as inclusive ranges, repeated for lanes 32-63."""
    first = [tuple(x for a, b in g for x in range(a, b + 1)) for g in groups]
    return (*first, *(tuple(x + 32 for x in g) for g in first))


_OCTETS = _ranges(((0, 3), (20, 23)), ((4, 7), (16, 19)), ((8, 11), (28, 31)), ((12, 15), (24, 27)))
_HALVES = _ranges(((0, 3), (12, 15), (20, 27)), ((4, 11), (16, 19), (28, 31)))

#: (architecture, direction, bits) -> (number of banks, phases)
PHASES: dict[tuple[str, str, int], tuple[int, Phases]] = {
    ("gfx942", "read", 32): (32, _consecutive(64, 32)),
    ("gfx942", "read", 64): (32, _consecutive(64, 16)),
    ("gfx942", "read", 96): (32, _consecutive(64, 8)),
    ("gfx942", "read", 128): (32, _OCTETS),
    ("gfx950", "read", 32): (64, _consecutive(64, 64)),
    ("gfx950", "read", 64): (64, _consecutive(64, 32)),
    ("gfx950", "read", 96): (32, _OCTETS),
    ("gfx950", "read", 128): (64, _HALVES),
    **{
        (arch, "write", bits): (32, _consecutive(64, group))
        for arch in ("gfx942", "gfx950")
        for bits, group in ((32, 32), (64, 16), (96, 8), (128, 8))
    },
    **{
        (arch, op, bits): (64 if arch == "gfx1250" else 32, _consecutive(32, group))
        for arch in ("gfx1200", "gfx1201", "gfx1250")
        for op in ("read", "write")
        for bits, group in ((32, 32), (64, 16), (96, 8), (128, 8))
    },
}


@dataclass(frozen=True)
class BankReport:
    """The cost of one access of a wave."""

    arch: str
    op: str
    bits: int
    banks: int
    phases: Phases
    cycles_per_phase: tuple[int, ...]
    ideal_per_phase: tuple[int, ...]
    addresses: tuple[int, ...]

    @property
    def cycles(self) -> int:
        """LDS cycles of the access."""
        return sum(self.cycles_per_phase)

    @property
    def ideal(self) -> int:
        """Cycles without any conflict."""
        return sum(self.ideal_per_phase)

    @property
    def degree(self) -> int:
        """The worst phase's slowdown: 1 is conflict-free, n is an n-way conflict."""
        return max(-(-c // i) for c, i in zip(self.cycles_per_phase, self.ideal_per_phase, strict=True))

    @property
    def conflict_free(self) -> bool:
        """Whether the access takes no more cycles than its bytes need."""
        return self.cycles == self.ideal

    def __str__(self) -> str:
        verdict = "conflict-free" if self.conflict_free else f"{self.degree}-way conflict"
        return (
            f"{self.arch} ds_{self.op}_b{self.bits}: {verdict}, {self.cycles} cycles"
            f" (ideal {self.ideal}) in {len(self.phases)} phases over {self.banks} banks"
        )


def lane_addresses(layout: Any, lanes: int, element_bits: int) -> list[int]:
    """Byte address of every lane: element offset at (lane) or (lane, value 0), times the element size."""
    out = []
    two = False
    if not callable(layout) or isinstance(layout, (Swizzle, type)):
        raise LayoutError(f"bank conflicts need a layout or a function of the lane, not {layout}")
    if isinstance(layout, (Layout, ComposedLayout)):
        lin = linear_of(layout)
        two = lin.rank == 2 and lin[0].size() == lanes
        if not two and lin.size() != lanes:
            raise LayoutError(f"{layout}: expected (lane) or (lane, value) modes for {lanes} lanes")
    for lane in range(lanes):
        e = layout(lane, 0) if two else layout(lane)
        if type(e) is not int or e * element_bits % 8:
            raise LayoutError(f"lane {lane} has the offset {e!r}, which is not a whole byte address")
        out.append(e * element_bits // 8)
    return out


def _phase_table(arch: str, op: str, bits: int) -> tuple[int, Phases]:
    # Bytes and halves are served like the dwords that hold them.
    key = (arch, op, 32 if bits in (8, 16) else bits)
    try:
        return PHASES[key]
    except (KeyError, TypeError):
        have = ", ".join(sorted({k[0] for k in PHASES}))
        widths = "8, 16, 32, 64, 96 or 128"
        raise LayoutError(f"no bank model for {op} of {bits} bits on {arch!r}; known: {have}; {widths} bits") from None


def bank_conflicts(
    layout: Layout | ComposedLayout | Callable[[int], int],
    *,
    arch: str = "gfx942",
    bits: int = 128,
    element_bits: int = 16,
    op: str = "read",
) -> BankReport:
    """Bank conflicts of one LDS access of ``bits`` per lane.

    ``layout`` maps the lane (or (lane, value), values contiguous) to an offset in elements of ``element_bits`` bits;
    any function of the lane will do.
    """
    banks, phases = _phase_table(arch, op, bits)
    if type(element_bits) is not int or not 0 < element_bits <= 1024:
        raise LayoutError(f"elements have between 1 and 1024 bits, not {element_bits!r}")
    lanes = sum(len(p) for p in phases)
    return _report(lane_addresses(layout, lanes, element_bits), arch, op, bits, banks, phases)


def _report(addresses: list[int], arch: str, op: str, bits: int, banks: int, phases: Phases) -> BankReport:
    words = max(bits // 32, 1)
    align = 8 if bits == 96 else bits // 8
    cycles: list[int] = []
    ideal: list[int] = []
    for group in phases:
        touched: dict[int, set[int]] = {}
        for lane in group:
            a = addresses[lane]
            if a % (4 if bits == 96 else align):
                raise LayoutError(f"lane {lane}: the byte address {a} is not aligned for {bits}-bit accesses")
            for w in range(words):
                dword = a // 4 + w
                touched.setdefault(dword % banks, set()).add(dword)
        total = sum(len(v) for v in touched.values())
        cycles.append(max(len(v) for v in touched.values()))
        ideal.append(-(-total // banks))
    return BankReport(arch, op, bits, banks, phases, tuple(cycles), tuple(ideal), tuple(addresses))


@dataclass(frozen=True)
class SwizzleSearch:
    """The best swizzle found: ``swizzle`` acts on byte addresses, ``element_swizzle`` on element offsets."""

    swizzle: Swizzle
    element_swizzle: Swizzle | None
    before: BankReport
    after: BankReport


def find_swizzle(
    layout: Layout | ComposedLayout | Callable[[int], int],
    *,
    arch: str = "gfx942",
    bits: int = 128,
    element_bits: int = 16,
    op: str = "read",
    also: Sequence[tuple[Any, str, int]] = (),
) -> SwizzleSearch:
    """The swizzle with the fewest mask bits (then the smallest shift) that minimises the cycles of an access.

    Only swizzles that keep each lane's access contiguous are tried.  ``also`` lists further accesses
    ``(layout, op, bits)`` of the same buffer that must not get slower.  The result is proven by enumeration: ``after``
    is the bank report of the swizzled addresses.
    """
    before = bank_conflicts(layout, arch=arch, bits=bits, element_bits=element_bits, op=op)
    others = [bank_conflicts(x, arch=arch, bits=b, element_bits=element_bits, op=o) for x, o, b in also]
    top = max(a for r in (before, *others) for a in r.addresses).bit_length()
    low = max((r.bits // 8 - 1).bit_length() for r in (before, *others))

    def apply(r: BankReport, s: Swizzle) -> BankReport:
        return _report([s(a) for a in r.addresses], r.arch, r.op, r.bits, r.banks, r.phases)

    best, best_key = (Swizzle(0, low, max(top - low, 0)), before), (before.cycles, 0, 0, 0)
    for mask in range(1, 7):
        for shift in range(mask, top):
            for base in range(low, top - shift):
                s = Swizzle(mask, base, shift)
                r = apply(before, s)
                key = (r.cycles, mask, shift, base)
                if key < best_key and all(apply(o, s).cycles <= o.cycles for o in others):
                    best, best_key = (s, r), key
        if best[1].conflict_free:
            break
    s = best[0]
    log2 = (element_bits // 8).bit_length() - 1
    exact = element_bits % 8 == 0 and (element_bits // 8) == 1 << log2 and s.base >= log2
    return SwizzleSearch(s, Swizzle(s.mask, s.base - log2, s.shift) if exact else None, before, best[1])
