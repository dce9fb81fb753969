"""Entry of the command ``flydsl``: the command line, or, where the stack cannot be imported, what is wrong with it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from flydsl.utils.installation import import_problems, version_of, wrong_pins

__all__ = ["main"]

_PACKAGES = tuple(f"flydsl-{name}" for name in ("compiler", "ir", "kernels", "layout", "runtime"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, see `flydsl.compiler.cli.main`; 1 when a package of the stack cannot be imported."""
    try:
        from flydsl.compiler.cli import main as run
    except ImportError as error:
        return _broken(list(sys.argv[1:] if argv is None else argv), error)
    return run(argv)


def _broken(arguments: list[str], error: ImportError) -> int:
    if "doctor" not in arguments:
        print(f"flydsl: the installation is broken ({error}); `flydsl doctor` says what to do", file=sys.stderr)
        return 1
    versions = {name: version_of(name) for name in _PACKAGES}
    problems = [p for name in versions for p in wrong_pins(name, versions)]
    problems += import_problems() or [{"what": str(error), "remedy": "reinstall flydsl-compiler"}]
    if "--json" in arguments:
        found = {name: version or "not installed" for name, version in versions.items()}
        print(json.dumps({"packages": found, "problems": problems}, indent=2))
        return 1
    for name, version in versions.items():
        print(f"{name:16} {version or 'not installed'}")
    print("\nproblems")
    for problem in problems:
        print(f"  {problem['what']}\n    {problem['remedy']}")
    return 1
