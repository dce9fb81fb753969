"""``python -m flydsl.kernels``: the documentation's table of operations, and prebuilt artifacts."""

from __future__ import annotations

import argparse

from .op import table
from .prebuilt import add_commands


def _table(options: argparse.Namespace) -> int:
    print(table())
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run a command; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m flydsl.kernels", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("table", help="print the table of operators as Markdown").set_defaults(run=_table)
    add_commands(commands)
    options = parser.parse_args(arguments)
    return int(options.run(options))


if __name__ == "__main__":
    raise SystemExit(main())
