"""Progress of a search: lines that start with ``[autotune]``, and a bar on a terminal."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["Progress"]


class Progress:
    """Reports a search on standard output."""

    def __init__(self, name: str, total: int, label: str) -> None:
        self._name, self._total, self._label = name, total, label
        self._number = 0
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        print(f"[autotune] {self._name}: {self._total} configurations, time: {self._label}", flush=True)
        if sys.stdout.isatty():
            try:
                from rich.progress import Progress as Bar
            except ImportError:
                return self
            self._bar = Bar(transient=True)
            self._task = self._bar.add_task(f"[autotune] {self._name}", total=self._total)
            self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _line(self, text: str) -> None:
        self._number += 1
        print(f"[autotune] {self._name} {self._number}/{self._total} {text}", flush=True)
        if self._bar is not None:
            self._bar.advance(self._task)

    def measured(self, config: Any, time: Any) -> None:
        """A candidate with its time."""
        self._line(f"{config}: {_milliseconds(time)}")

    def failed(self, config: Any, error: Exception) -> None:
        """A candidate that raised."""
        first = (str(error).splitlines() or [""])[0]
        self._line(f"{config}: failed: {type(error).__name__}: {first}")

    def differs(self, config: Any, first: Any, problem: str) -> None:
        """A candidate whose results are not those of the first."""
        print(f"[autotune] {self._name}: WARNING: the results of {config} are not those of {first}: {problem} "
              "(check=[names of the outputs] rejects such a configuration, check=False does not look)", flush=True)

    def kept(self, file: Any, artifact: str | None) -> None:
        """Where the winner is, and how it gets into a product."""
        name = f"artifact_name={artifact!r}" if artifact else "artifact_name='...' in @autotune"
        print(f"[autotune] {self._name}: the winner is kept in {file}; to ship it: {name}, FLYDSL_AUTOTUNE_CONFIG_DIR="
              "FOLDER and once FLYDSL_AUTOTUNE=1, which writes FOLDER; read it with .resolve_config(...)", flush=True)

    def done(self, config: Any, time: Any, failures: list[Any]) -> None:
        """The result, with the number of candidates that failed."""
        rest = f", {len(failures)} failed" if failures else ""
        print(f"[autotune] {self._name}: best {config} with {_milliseconds(time)}{rest}", flush=True)


def _milliseconds(time: Any) -> str:
    if isinstance(time, (list, tuple)):
        return ", ".join(_milliseconds(t) for t in time)
    return f"{time:.6g} ms" if isinstance(time, (int, float)) else repr(time)
