"""Output of the commands: tables with rich on a terminal, plain text when piped, JSON on request."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

__all__ = ["CliError", "Output", "size_text"]


class CliError(Exception):
    """A failure with a message for the user and an exit status."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def size_text(count: int) -> str:
    """Bytes for people: ``1.5 MiB``."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError


class Output:
    """Where results go. With ``json`` only `data` prints, and one document."""

    def __init__(self, json: bool = False, rich: bool | None = None) -> None:
        self.json = json
        self.rich = (sys.stdout.isatty() if rich is None else rich) and not json
        self._console: Any = None
        if self.rich:
            try:
                from rich.console import Console
            except ImportError:
                self.rich = False
            else:
                self._console = Console()

    def data(self, value: Any) -> None:
        """The result as data; printed with ``--json`` only."""
        if self.json:
            print(json.dumps(value, indent=2, default=str))

    def line(self, text: str = "", style: str = "") -> None:
        """A line for people."""
        if self.json:
            return
        if self.rich:
            self._console.print(text, style=style or None, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
        """A table for people: aligned columns when plain."""
        if self.json:
            return
        cells = [[str(c) for c in row] for row in rows]
        if self.rich:
            from rich.table import Table
            from rich.text import Text

            table = Table(title=title or None, title_justify="left")
            for column in columns:
                table.add_column(column, overflow="fold")
            for row in cells:
                table.add_row(*(Text(c) for c in row))
            self._console.print(table)
            return
        if title:
            print(title)
        widths = [max([len(c), *(len(row[i]) for row in cells)]) for i, c in enumerate(columns)]
        for row in [list(columns), *cells]:
            print("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip())

    def source(self, text: str, language: str) -> None:
        """Program text: coloured on a terminal."""
        if self.json:
            return
        if self.rich:
            from rich.syntax import Syntax

            lexer = {"mlir": "llvm", "asm": "gas", "diff": "diff"}.get(language, language)
            self._console.print(Syntax(text.rstrip("\n"), lexer, word_wrap=False, background_color="default"))
        else:
            print(text.rstrip("\n"))
