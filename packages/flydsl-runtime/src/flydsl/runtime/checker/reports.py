"""Findings as text, as JSON and as SARIF (the format that code hosts and editors show beside the source)."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import __version__
from .._names import plain_name
from ..checking import Access, Finding
from .findings import Record
from .hints import DESCRIPTIONS, hint

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def _near(source: str) -> str:
    """``file:line`` with the file relative to the working folder if it lies below it."""
    here = os.getcwd().rstrip(os.sep) + os.sep
    return source.removeprefix(here)


def _access(label: str, access: Access) -> str:
    what = f"{access.access} by " if access.access in ("read", "write") else ""
    lane = "" if access.lane is None else f", lane {access.lane}"
    source = f"{_near(access.source)}, " if access.source else ""
    return (f"  {label} {source}{what}'{access.instruction}' at pc {access.pc:#x}, "
            f"workgroup {access.workgroup}, wave {access.wave}{lane}")


def finding_text(finding: Finding) -> str:
    """A finding as some lines: what, both accesses, and what to do."""
    where = f" at {_near(finding.site.source)}" if finding.site.source else ""
    lines = [f"{finding.check}: kernel {plain_name(finding.kernel)} ({finding.arch}){where}"]
    lines += [f"  {line.strip()}" for line in finding.message.splitlines()]
    if finding.site.instruction:
        lines.append(_access("here:   ", finding.site))
    if finding.other is not None:
        lines.append(_access("before: " if finding.check == "race" else "from:   ", finding.other))
    return "\n".join([*lines, f"  hint:    {hint(finding)}"])


def text(record: Record, checks: list[str]) -> str:
    """Everything for people."""
    parts = [finding_text(finding) for finding in record.findings]
    kernels = ", ".join(f"{plain_name(name)} ({arch})" for name, arch in record.kernels)
    found = f"{len(record.findings)} finding{'' if len(record.findings) == 1 else 's'}" if parts else "no findings"
    return "\n\n".join([*parts, f"{found}; checked {', '.join(checks)} in {kernels or 'no kernel'}"])


def as_json(record: Record, checks: list[str], status: int) -> str:
    """Everything as one JSON object; ``status`` is the exit status of the program."""
    findings = [{**asdict(finding), "hint": hint(finding)} for finding in record.findings]
    kernels = [{"kernel": name, "arch": arch} for name, arch in record.kernels]
    return json.dumps({"checks": checks, "program_status": status, "kernels": kernels, "findings": findings}, indent=2)


def _location(access: Access, note: str = "") -> dict[str, Any]:
    logical = {"fullyQualifiedName": f"{access.instruction} at pc {access.pc:#x}", "kind": "instruction"}
    location: dict[str, Any] = {"logicalLocations": [logical]}
    file, _, line = access.source.rpartition(":")
    if file and line.isdigit() and int(line) > 0:
        uri = _near(file) if not os.path.isabs(_near(file)) else Path(file).as_uri()
        location["physicalLocation"] = {
            "artifactLocation": {"uri": uri}, "region": {"startLine": int(line)},
        }
    if note:
        location["message"] = {"text": note}
    return location


def _result(finding: Finding) -> dict[str, Any]:
    text = f"kernel {plain_name(finding.kernel)} ({finding.arch}): {finding.message}. {hint(finding)}"
    result: dict[str, Any] = {
        "ruleId": finding.check,
        "level": "warning" if finding.check in ("buffer", "approx", "unsupported") else "error",
        "message": {"text": text},
        "locations": [_location(finding.site)],
        "partialFingerprints": {"instruction/v1": f"{finding.check}/{finding.kernel}/{finding.site.instruction}"},
    }
    if finding.other is not None:
        result["relatedLocations"] = [_location(finding.other, "the other access")]
    return result


def sarif(record: Record, checks: list[str]) -> str:
    """Everything as a SARIF 2.1.0 log; a rule for each check."""
    names = [*checks, *sorted({f.check for f in record.findings} - set(checks))]
    rules = [{"id": name, "shortDescription": {"text": DESCRIPTIONS.get(name, name)}} for name in names]
    driver = {"name": "flydsl-runtime", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "results": [_result(finding) for finding in record.findings]}
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)
