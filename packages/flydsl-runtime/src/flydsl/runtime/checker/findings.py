"""The file in which the simulator records the findings of a process (``FLYDSL_SIM_FINDINGS``)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..checking import Finding

_NOWHERE = {"access": "", "instruction": "", "pc": 0, "source": "", "workgroup": (0, 0, 0), "wave": 0}


@dataclass
class Record:
    """What a program did: the kernels that ran, as (name, architecture), and what was found."""

    kernels: list[tuple[str, str]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def unique(findings: Iterable[Finding]) -> list[Finding]:
    """The first finding of each pair of instructions; later launches and other processes find the same again."""
    first: dict[tuple[Any, ...], Finding] = {}
    for finding in findings:
        other = finding.other.pc if finding.other else None
        first.setdefault((finding.check, finding.kernel, finding.arch, finding.site.pc, other), finding)
    return list(first.values())


def read(path: str | Path) -> Record:
    """Reads such a file; one that is absent is that of a program which launched nothing.

    Raises ValueError for a line of another form.
    """
    record = Record()
    path = Path(path)
    text = path.read_text(errors="replace") if path.exists() else ""
    for number, line in enumerate(text.splitlines(), 1):
        try:
            raw: dict[str, Any] = json.loads(line)
            if raw.get("event") == "kernel":
                if (kernel := (raw["kernel"], raw["arch"])) not in record.kernels:
                    record.kernels.append(kernel)
                continue
            record.findings.append(Finding.from_json(raw if "instruction" in raw else {**_NOWHERE, **raw}))
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}:{number}: no finding of the simulator: {error}") from None
    record.findings = unique(record.findings)
    return record
