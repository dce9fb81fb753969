"""Choices that a search found: which tile an operation takes for a size, and where that is known from.

``tuned/<operation>-<architecture>.json`` beside the families has an entry a problem. An operation asks :func:`known`
before its own rules; :func:`forced` makes it take one choice, which is how a search tries those that the operation's
:class:`Tuning` names.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..target import Target

__all__ = ["FORMAT", "FOLDER", "Entry", "Problem", "Tuning", "forced", "known", "read", "write"]

FORMAT = 1
FOLDER = Path(__file__).parents[1] / "tuned"

_forced: ContextVar[dict[str, Any] | None] = ContextVar("forced choice", default=None)


@dataclass(frozen=True)
class Problem:
    """An operation, the kind of its operands, and a size, which the operation's own words explain (:class:`Tuning`)."""

    operation: str
    kind: str
    m: int
    n: int
    k: int


@dataclass(frozen=True)
class Tuning:
    """What is searched for an operation.

    Attributes:
        kinds: of its operands: their types and layouts.
        choices: ``choices(target, problem)``: what could be taken; KeyError where an architecture has nothing.
        sample: ``sample(op, draw, problem)``: arguments of a call.
        sizes: what m, n and k are.
        tolerances: of results, by kind, relative to the largest, where it is not that of the operation.
    """

    kinds: tuple[str, ...]
    choices: Callable[[Target, Problem], Iterable[dict[str, Any]]]
    sample: Callable[[Any, Any, Problem], tuple[Any, ...]]
    sizes: str
    tolerances: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """What is best for a problem.

    Attributes:
        kind: of the operands: types and layouts, as the operation says.
        m, n, k: the problem; it stands for `least` to m rows.
        choice: fields of a tile, or options of a builder.
        ms: its time, `usual_ms` that of the operation's own rule.
        provenance: what measured it, when, and with which versions.
    """

    kind: str
    m: int
    n: int
    k: int
    least: int
    choice: dict[str, Any]
    ms: float
    usual_ms: float
    provenance: dict[str, str] = field(default_factory=dict)


@contextmanager
def forced(choice: dict[str, Any] | None) -> Iterator[None]:
    """Every choice in this context is `choice`; None: none that is known."""
    token = _forced.set({} if choice is None else choice)
    try:
        yield
    finally:
        _forced.reset(token)


def read(file: Path) -> tuple[Entry, ...]:
    """The entries of a file, none where there is none.

    Raises:
        ValueError: the file is of another format.
    """
    if not file.exists():
        return ()
    data = json.loads(file.read_text(encoding="utf-8"))
    if data.get("format") != FORMAT:
        raise ValueError(f"{file}: a table of format {FORMAT} is needed, this is one of {data.get('format')!r}")
    return tuple(Entry(**entry) for entry in data["entries"])


def write(file: Path, entries: list[Entry]) -> None:
    """Put `entries` into a file, in place of those of the same problems."""
    kept = {(e.kind, e.n, e.k, e.m): e for e in (*read(file), *entries)}
    rows = [asdict(kept[key]) for key in sorted(kept)]
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(".new")
    temporary.write_text(json.dumps({"format": FORMAT, "entries": rows}, indent=1) + "\n")
    temporary.replace(file)
    _table.cache_clear()


@functools.cache
def _table(operation: str, arch: str) -> tuple[Entry, ...]:
    return read(FOLDER / f"{operation}-{arch}.json")


def known(operation: str, target: Target, kind: str, m: int, n: int, k: int) -> dict[str, Any] | None:
    """The choice for a problem, if one is forced or was found; None: the operation's own rule decides."""
    choice = _forced.get()
    if choice is not None:
        return dict(choice) or None
    fitting = (e for e in _table(operation, target.arch) if (e.kind, e.n, e.k) == (kind, n, k) and e.least <= m <= e.m)
    found = next(fitting, None)
    return dict(found.choice) if found else None
