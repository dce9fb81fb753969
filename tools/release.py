"""A release: what must hold before, the build, the trial of what was built, and where it came from.

`tools/versions.py release` calls this. Publishing is not part of it: `twine upload dist/*` is a decision of its own.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import workspace
from changelog import PLACEHOLDER, UNRELEASED

#: Done in the workspace's environment, one after the other.
STEPS = (["tools/public_names.py", "check"], ["tools/wheels.py", "build", "--prebuilt"], ["tools/wheels.py", "check"])
ROOT = Path(__file__).resolve().parent.parent


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def not_ready(root: Path, versions: dict[str, str]) -> list[str]:
    """Why the tree cannot be released as it is: changes outside a commit, empty changelogs."""
    found = []
    changed = subprocess.run(["git", "status", "--porcelain"], capture_output=True, text=True, cwd=root).stdout
    if changed:
        found.append(f"the tree has changes that are in no commit:\n{changed.rstrip()}")
    for package, version in versions.items():
        path = root / "packages" / package / "CHANGELOG.md"
        entry = re.search(rf"^## {re.escape(version)}\b.*?(?=^## |\Z)", path.read_text(), re.MULTILINE | re.DOTALL)
        body = entry[0].split("\n", 1)[-1].strip() if entry else ""
        if not body or PLACEHOLDER in body:
            found.append(f"packages/{package}/CHANGELOG.md: the entry of {version} says nothing")
        if UNRELEASED in path.read_text():
            found.append(f"packages/{package}/CHANGELOG.md: changes are under '{UNRELEASED}': `tools/versions.py bump "
                         f"{package} PART` makes them the entry of a version")
    return found


def provenance(dist: Path, versions: dict[str, str]) -> dict[str, Any]:
    """An in-toto statement (SLSA provenance 1) on every file in ``dist``: its digest, the commit, the tools."""
    files = sorted(p for p in dist.iterdir() if p.suffix in (".whl", ".gz"))
    tools = {"python": platform.python_version(), "system": platform.platform()}
    for name, command in {"clang": ("clang-22", "--version"), "cmake": ("cmake", "--version"),
                          "llvm": ("llvm-config-22", "--version")}.items():
        tools[name] = _output(*command).split("\n")[0]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": p.name, "digest": {"sha256": hashlib.sha256(p.read_bytes()).hexdigest()}} for p in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "tools/wheels.py build",
                "externalParameters": {"versions": versions},
                "resolvedDependencies": [{"uri": "git", "digest": {"gitCommit": _output("git", "rev-parse", "HEAD")}}],
                "internalParameters": tools,
            },
            "runDetails": {"metadata": {"finishedOn": datetime.datetime.now(datetime.timezone.utc).isoformat()}},
        },
    }


def release(root: Path, versions: dict[str, str]) -> int:
    """Check, set the workspace up, build with what is prebuilt, try, write dist/provenance.json; the exit status."""
    problems = not_ready(root, versions)
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 1
    workspace.prepare(with_torch=True)  # with torch, whose shapes the samples of prebuilt operators are
    for command in STEPS:
        print(f"== {' '.join(command)}", flush=True)
        done = subprocess.run([workspace.VENV / "bin" / "python", *command], cwd=root, env=workspace.environment())
        if done.returncode:
            return done.returncode
    dist = root / "dist"
    statement = provenance(dist, versions)
    (dist / "provenance.json").write_text(json.dumps(statement, indent=1) + "\n")
    print(f"dist/provenance.json: {len(statement['subject'])} files")
    return 0
