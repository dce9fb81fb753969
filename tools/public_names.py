#!/usr/bin/env python3
"""The public names of each package: a list in the tree that is compared with what can be imported.

    tools/public_names.py check    the lists equal the modules (exit 1 otherwise)
    tools/public_names.py write    add new names to the lists; names that are gone must have been deprecated

`packages/NAME/public-names.txt` has one name a line. A name that is to go is first marked in a release,

    flydsl.layout.old_name  deprecated 0.3

and warns (DeprecationWarning) when it is used; it may go in the next minor release, not before.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import site_api
import versions

ROOT = Path(__file__).resolve().parent.parent
LINE = re.compile(r"(?P<name>flydsl[\w.]*)(?:\s+deprecated (?P<since>\d+\.\d+))?")


def listed(path: Path) -> dict[str, str | None]:
    """Name -> the release that deprecated it, or None; SystemExit names a line that says something else."""
    found: dict[str, str | None] = {}
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else [], 1):
        if not text or text.startswith("#"):
            continue
        match = LINE.fullmatch(text)
        if match is None:
            raise SystemExit(f"{path}:{number}: expected 'NAME' or 'NAME  deprecated X.Y', found {text!r}")
        found[match["name"]] = match["since"]
    return found


def present(package: str) -> set[str]:
    """The public names that the modules of a package have."""
    return {f"{module}.{entry.name}" for module in site_api.MODULES[package] for entry in site_api.entries(module)}


def may_go(since: str | None, version: str) -> bool:
    """Whether a name deprecated in release ``since`` may be absent from ``version``."""
    def minor(text: str) -> tuple[int, ...]:
        return tuple(int(n) for n in text.split(".")[:2])

    return since is not None and minor(version) > minor(since)


def differences(package: str, names: dict[str, str | None], now: set[str], version: str) -> list[str]:
    """What is wrong between the list of a package and its modules."""
    where = f"packages/{package}/public-names.txt"
    found = [f"{where}: {name} is public and not listed; `tools/public_names.py write` adds it"
             for name in sorted(now - names.keys())]
    for name in sorted(names.keys() - now):
        rule = "its deprecation is over: `write` drops it" if may_go(names[name], version) else (
            "it must be deprecated in one minor release before it may go")
        found.append(f"{where}: {name} is listed and gone; {rule}")
    return found


def write(package: str, path: Path, names: dict[str, str | None], now: set[str], version: str) -> list[str]:
    """Write the list anew; returns the names that may not go (they stay in it)."""
    kept = {name for name in names.keys() - now if not may_go(names[name], version)}
    lines = [f"# Public names of {package}; see tools/public_names.py."]
    lines += [f"{n}  deprecated {names[n]}" if names.get(n) else n for n in sorted(now | kept)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [f"{name} is gone but was not deprecated in an earlier minor release: it stays listed" for name in kept]


def main() -> int:
    """Entry point of the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("check", "write"))
    args = parser.parse_args()
    problems: list[str] = []
    for package, folder in versions.packages(ROOT).items():
        path, version = folder / "public-names.txt", versions.version_of(folder)
        names, now = listed(path), present(package)
        if args.command == "write":
            problems += write(package, path, names, now, version)
        else:
            problems += differences(package, names, now, version)
        print(f"{package:18} {len(now)} public names")
    print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
