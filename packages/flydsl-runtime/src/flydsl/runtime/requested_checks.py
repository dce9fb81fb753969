"""Which checks the simulator makes of launches from now on. Small: compilers look at it before each compile."""

from __future__ import annotations

import os

CHECKS = ("oob", "race", "uninit", "barrier", "nan", "buffer", "approx", "late", "stale")
#: Those that ``all`` stands for, and that are made if none is named.
USUAL = CHECKS[:4]

#: Checks of the innermost ``rt.checked`` block, as one text; None outside of blocks. Caches of compiled code watch it.
active: str | None = None


def requested() -> frozenset[str]:
    """Names of :data:`CHECKS`: of the innermost ``rt.checked`` block, else of ``FLYDSL_SIM_CHECK``.

    They matter to a compiler that marks places for a check. An unknown name is left to the simulator to refuse.
    """
    text = os.environ.get("FLYDSL_SIM_CHECK", "") if active is None else active
    names = frozenset(text.replace(",", " ").split())
    return names | frozenset(USUAL) if "all" in names else names
