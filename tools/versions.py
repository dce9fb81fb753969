#!/usr/bin/env python3
"""Check or bump the versions and the exact pins between the five packages.

    tools/versions.py check              every pin equals the version in the tree (exit 1 otherwise)
    tools/versions.py bump PACKAGE PART  raise PART (major, minor, patch) and rewrite all pins on PACKAGE
    tools/versions.py release            check, build the whole set, try it, write where it came from (dist/)
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from changelog import PLACEHOLDER, UNRELEASED

ROOT = Path(__file__).resolve().parent.parent
VERSION_LINE = re.compile(r'^version\s*=\s*"(?P<version>\d+\.\d+\.\d+)"', re.MULTILINE)
# Any mention of one of our packages as a requirement, with whatever follows the name.
REQUIREMENT = re.compile(
    r"""["'\s](?P<name>flydsl-[a-z]+)(?:\[[a-z,]+\])?(?P<spec>\s*(?:==|~=|>=|<=|!=|<|>)[^"',;\s]*|(?=["']))"""
)
# Where a package says its version again: what it reports when it is imported, or asked in C.
RESTATEMENT = re.compile(r'^(?P<what>__version__ = |set\(FLYSIM_VERSION )"(?P<version>[\d.]+)"', re.MULTILINE)
RESTATED_IN = ("src/flydsl/*/__init__.py", "python/flydsl/*/__init__.py", "sim/CMakeLists.txt")
PARTS = ("major", "minor", "patch")


@dataclass(frozen=True)
class Pin:
    """One inter-package requirement: where it stands and what it says."""

    path: Path
    line: int
    name: str
    spec: str


def packages(root: Path) -> dict[str, Path]:
    """Name -> folder of every package of the workspace."""
    return {p.parent.name: p.parent for p in sorted((root / "packages").glob("*/pyproject.toml"))}


def version_of(folder: Path) -> str:
    """The version that the package's pyproject.toml declares."""
    match = VERSION_LINE.search((folder / "pyproject.toml").read_text())
    if match is None:
        raise SystemExit(f"{folder / 'pyproject.toml'}: no line of the form version = \"X.Y.Z\"")
    return match["version"]


def pins(root: Path) -> Iterator[Pin]:
    """Every requirement on one of our packages in the workspace's pyproject.toml and tox.ini files."""
    known = packages(root)
    for folder in known.values():
        for path in (folder / "pyproject.toml", folder / "tox.ini"):
            if not path.exists():
                continue
            for number, text in enumerate(path.read_text().splitlines(), 1):
                if text.lstrip().startswith(("name", "#", "description")):
                    continue
                for match in REQUIREMENT.finditer(text):
                    if match["name"] in known:
                        yield Pin(path, number, match["name"], match["spec"].replace(" ", ""))


def restatements(folder: Path) -> Iterator[tuple[Path, re.Match[str]]]:
    """(file, match of `RESTATEMENT`) of every place where a package says its version again."""
    for path in sorted(p for pattern in RESTATED_IN for p in folder.glob(pattern)):
        for match in RESTATEMENT.finditer(path.read_text()):
            yield path, match


def problems(root: Path) -> list[str]:
    """What is inconsistent, one ``file:line: message`` each."""
    versions = {name: version_of(folder) for name, folder in packages(root).items()}
    found = []
    for pin in pins(root):
        want = f"=={versions[pin.name]}"
        if pin.spec != want:
            where = f"{pin.path.relative_to(root)}:{pin.line}"
            found.append(f"{where}: {pin.name}{pin.spec or ' (no pin)'} must be pinned as {pin.name}{want}")
    for name, folder in packages(root).items():
        for path, match in restatements(folder):
            if match["version"] != versions[name]:
                line = path.read_text().count("\n", 0, match.start()) + 1
                found.append(f"{path.relative_to(root)}:{line}: version {match['version']}, but {name} is "
                             f"{versions[name]}")
        changelog = folder / "CHANGELOG.md"
        if not changelog.exists() or f"## {versions[name]}" not in changelog.read_text():
            found.append(f"{changelog.relative_to(root)}:1: no entry '## {versions[name]}' for the version in the tree")
    return found


def raised(version: str, part: str) -> str:
    """``version`` with ``part`` raised by one and the smaller parts set to zero."""
    numbers = [int(n) for n in version.split(".")]
    at = PARTS.index(part)
    return ".".join(map(str, numbers[:at] + [numbers[at] + 1] + [0] * (2 - at)))


def bump(root: Path, name: str, part: str) -> str:
    """Raise the version of ``name`` where it is said: in its pyproject.toml, its code, every pin on it, its CHANGELOG.

    What the CHANGELOG has as unreleased becomes the entry of the new version.
    """
    known = packages(root)
    if name not in known:
        raise SystemExit(f"unknown package {name!r}: expected one of {', '.join(known)}")
    old = version_of(known[name])
    new = raised(old, part)
    for pin in [p for p in pins(root) if p.name == name]:
        lines = pin.path.read_text().splitlines(keepends=True)
        lines[pin.line - 1] = re.sub(rf"({name}(?:\[[a-z,]+\])?)\s*==\s*[\d.]+", rf"\g<1>=={new}", lines[pin.line - 1])
        pin.path.write_text("".join(lines))
    project = known[name] / "pyproject.toml"
    project.write_text(VERSION_LINE.sub(f'version = "{new}"', project.read_text(), count=1))
    for path, _ in list(restatements(known[name])):
        path.write_text(RESTATEMENT.sub(rf'\g<what>"{new}"', path.read_text()))
    changelog = known[name] / "CHANGELOG.md"
    entry = f"## {new} ({datetime.date.today().isoformat()})\n\n- {name}: {PLACEHOLDER}.\n\n"
    text = changelog.read_text()
    if UNRELEASED in text:
        text = text.replace(UNRELEASED, entry.splitlines()[0], 1)
    else:
        text = text.replace(f"## {old}", f"{entry}## {old}", 1)
    changelog.write_text(text)
    return new


def main(argv: list[str] | None = None) -> int:
    """Entry point of the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT, help="workspace folder (default: this one)")
    sub = parser.add_subparsers(dest="command", required=True)
    sub.add_parser("check", help="verify pins and changelogs")
    sub.add_parser("release", help="check, build, try the built set, write its provenance")
    bumper = sub.add_parser("bump", help="raise one package's version and the pins on it")
    bumper.add_argument("package")
    bumper.add_argument("part", choices=PARTS)
    args = parser.parse_args(argv)
    if args.command == "bump":
        print(f"{args.package} is now {bump(args.root, args.package, args.part)}")
        return 0
    found = problems(args.root)
    for problem in found:
        print(problem, file=sys.stderr)
    if found:
        return 1
    versions = {name: version_of(folder) for name, folder in packages(args.root).items()}
    for name, version in versions.items():
        print(f"{name:18} {version}")
    if args.command == "release":
        import release
        import workspace

        return workspace.guarded(lambda: release.release(args.root, versions))
    return 0


if __name__ == "__main__":
    sys.exit(main())
