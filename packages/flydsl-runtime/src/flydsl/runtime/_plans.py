"""Launch plans of the kernels that were loaded, to read the arguments of a stopped kernel by name."""

from __future__ import annotations

import zlib
from collections import OrderedDict
from typing import Any

_LIMIT = 1024
_plans: OrderedDict[tuple[str, int], dict[str, Any]] = OrderedDict()


def remember(plan: dict[str, Any], hsaco: bytes) -> None:
    """Keep the plan for each kernel that it launches from this code object; the oldest go first."""
    checksum = zlib.crc32(hsaco)
    for instruction in plan.get("code", ()):
        if instruction[0] == "launch":
            _plans[instruction[1], checksum] = plan
    while len(_plans) > _LIMIT:
        _plans.popitem(last=False)


def find(kernel: str, checksum: int) -> dict[str, Any] | None:
    """The plan that launches a kernel of the code object with this CRC-32, or None."""
    return _plans.get((kernel, checksum))
