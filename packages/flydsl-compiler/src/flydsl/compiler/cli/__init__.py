"""The command flydsl: what is installed, run, compile, look at IR and assembly, cache, bench."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .output import CliError, Output

__all__ = ["main"]


def _parser() -> argparse.ArgumentParser:
    from . import bench, cache, doctor, stages
    from . import run as run_command

    parser = argparse.ArgumentParser(prog="flydsl", description=__doc__)
    parser.add_argument("--version", action="store_true", help="print the versions of the packages and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for module in (doctor, run_command, stages, cache, bench):
        module.register(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns:
        0: done; 1: something is wrong with what was asked about (problems found, script failed, damaged
        files, a program that does not compile); 2: the command line itself is wrong.
    """
    parser = _parser()
    options = parser.parse_args(argv)
    if options.version:
        from flydsl.compiler.store.toolchain import package_versions

        for name, version in package_versions().items():
            print(f"{name} {version or 'not installed'}")
        return 0
    if options.command is None:
        parser.print_help()
        return 2
    output = Output(json=getattr(options, "json", False))
    try:
        return int(options.handler(options, output))
    except CliError as error:
        print(f"flydsl {options.command}: {error}", file=sys.stderr)
        return error.status
    except BrokenPipeError:
        sys.stderr.close()
        return 0
