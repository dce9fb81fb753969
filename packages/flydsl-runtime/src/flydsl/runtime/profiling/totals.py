"""Where the time of several launches goes: one total for each kernel, as text and as a picture."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass

from .charts import COLOURS
from .model import LaunchProfile


@dataclass(frozen=True)
class KernelTotal:
    """Launches of one kernel: how many, and their estimated microseconds together."""

    kernel: str
    launches: int
    microseconds: float


def by_kernel(launches: Iterable[LaunchProfile]) -> list[KernelTotal]:
    """Longest first. Raises ValueError for launches that were profiled without timing."""
    sums: dict[str, tuple[int, float]] = {}
    for launch in launches:
        if launch.microseconds is None:
            raise ValueError("the launches have no estimated times: profile them with profile(timing=True)")
        count, time = sums.get(launch.kernel, (0, 0.0))
        sums[launch.kernel] = count + 1, time + launch.microseconds
    return sorted((KernelTotal(name, *both) for name, both in sums.items()), key=lambda t: -t.microseconds)


def text(totals: list[KernelTotal], title: str = "") -> str:
    """A line for each kernel, with a bar of up to 40 characters."""
    everything, longest = sum(t.microseconds for t in totals), max((t.microseconds for t in totals), default=0.0) or 1.0
    width = max((len(t.kernel) for t in totals), default=0)
    head = f"{title or 'all launches'}: {everything:.2f} µs, estimated"
    return "\n".join([head, *(
        f"  {t.kernel:{width}} {t.launches:4}x {t.microseconds:9.2f} µs {'#' * round(40 * t.microseconds / longest)}"
        for t in totals)])


def picture(totals: list[KernelTotal], title: str = "") -> str:
    """The same as an SVG document with a white ground."""
    everything, longest = sum(t.microseconds for t in totals), max((t.microseconds for t in totals), default=0.0) or 1.0
    margin = 20 + 7 * max((len(t.kernel) for t in totals), default=0)
    rows = []
    for i, total in enumerate(totals):
        y, length = 46 + 22 * i, 300 * total.microseconds / longest
        rows.append(f'<text x="{margin - 10}" y="{y}" text-anchor="end">{html.escape(total.kernel)}</text>'
                    f'<rect x="{margin}" y="{y - 12}" height="16" width="{length:.1f}" fill="{COLOURS[0]}"/>'
                    f'<text x="{margin + 6 + length:.1f}" y="{y}">{total.microseconds:.2f} µs'
                    f'{f", {total.launches} launches" * (total.launches > 1)}</text>')
    head = html.escape(f"{title or 'all launches'}: {everything:.1f} µs, estimated")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{margin + 460}" height="{46 + 22 * len(totals)}" '
            'font-size="12" font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>'
            f'<text x="10" y="18" font-weight="bold">{head}</text>{"".join(rows)}</svg>\n')
