"""``python -m flydsl.kernels table``: the documentation's table of operations, from their declarations."""

from __future__ import annotations

import argparse

from .op import table


def main(arguments: list[str] | None = None) -> int:
    """Run a command; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m flydsl.kernels", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("table", help="print the table of operators as Markdown")
    parser.parse_args(arguments)
    print(table())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
