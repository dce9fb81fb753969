"""Errors in the user's terms: file, line and caret of the user's own code, never a raw MLIR dump."""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from types import CodeType, FrameType, TracebackType
from typing import Any, NoReturn

__all__ = [
    "DSLCompileError", "DSLSyntaxError", "DiagRecord", "SourceFrame", "current_user_frames",
    "diag_records_from_mlir_error",
    "dsl_ir_diagnostics", "fail", "install_excepthook", "warn_annotation_value_mismatch", "warn_invalid_annotations",
]  # fmt: skip

_NOTE_LIMIT = 200


@dataclass(frozen=True)
class SourceFrame:
    """A place in the user's source. Columns count from 0."""

    filename: str
    line: int
    col: int = 0
    end_col: int | None = None

    def render(self) -> str:
        """``File`` line, source line and caret; only the first when the source cannot be read."""
        head = f'  File "{self.filename}", line {self.line}'
        source = linecache.getline(self.filename, self.line).rstrip("\n")
        if not source.strip():
            return head
        indent = len(source) - len(source.lstrip())
        width = self.end_col - self.col if self.end_col is not None and self.end_col > self.col else 1
        width = max(1, min(width, len(source.rstrip()) - self.col))
        return f"{head}\n    {source.strip()}\n    {' ' * max(0, self.col - indent)}{'^' * width}"


@dataclass(frozen=True)
class DiagRecord:
    """One message and the user frames it came from, innermost first."""

    message: str
    chain: tuple[SourceFrame, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def render(self) -> str:
        """The text of the record, outermost frame first."""
        lines = [self.message, *(f"  note: {note[:_NOTE_LIMIT]}" for note in self.notes)]
        frames = [f for f in self.chain if not f.filename.startswith("<") or linecache.getline(f.filename, f.line)]
        if frames:
            lines += ["", "DSL Traceback (most recent operation last):"]
            lines += [f.render() for f in reversed(frames)]
        return "\n".join(lines)


class DSLCompileError(RuntimeError):
    """A kernel or jit function cannot be compiled; ``diagnostics`` has the located records."""

    def __init__(self, message: str, diagnostics: list[DiagRecord] | tuple[DiagRecord, ...] = ()) -> None:
        self.diagnostics = list(diagnostics)
        super().__init__("\n\n".join(r.render() for r in self.diagnostics) if self.diagnostics else message)


class DSLSyntaxError(DSLCompileError, SyntaxError):
    """A statement that cannot be lowered, found while the function is decorated."""

    def __init__(self, message: str, frame: SourceFrame) -> None:
        DSLCompileError.__init__(self, message, [DiagRecord(message, (frame,))])
        self.msg, self.filename, self.lineno = message, frame.filename, frame.line
        self.offset = frame.col + 1
        self.text = linecache.getline(frame.filename, frame.line)

    def __str__(self) -> str:
        return self.diagnostics[0].render()


class DSLTypeError(DSLCompileError, TypeError):
    """A value whose type control flow or a launch cannot carry."""


class DSLNameError(DSLCompileError, NameError):
    """A name that has no value on every path."""


@functools.cache
def _framework_roots() -> tuple[str, ...]:
    import flydsl

    return tuple(os.path.join(p, "") for p in flydsl.__path__)


@functools.lru_cache(maxsize=4096)
def is_framework_file(filename: str) -> bool:
    """Whether frames of this file are ours. Kernels that ship with FlyDSL count as user code."""
    if filename.startswith("<"):
        return filename not in linecache.cache
    return any(
        filename.startswith(root) and not filename.startswith(os.path.join(root, "kernels", ""))
        for root in _framework_roots()
    )


def _position(code: CodeType, lasti: int, lineno: int) -> SourceFrame:
    if hasattr(code, "co_positions"):
        found = next(islice(code.co_positions(), lasti // 2, None), None)
        if found is not None and found[0] is not None:
            line, end_line, col, end_col = found
            return SourceFrame(code.co_filename, line, col or 0, end_col if end_line == line else None)
    return SourceFrame(code.co_filename, lineno)


def frame_position(frame: FrameType) -> SourceFrame:
    """Current place of a running frame."""
    return _position(frame.f_code, frame.f_lasti, frame.f_lineno)


def current_user_frames(limit: int = 5) -> tuple[SourceFrame, ...]:
    """The innermost user frames of the running call, innermost first."""
    frames: list[SourceFrame] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(frames) < limit:
        if not is_framework_file(frame.f_code.co_filename):
            frames.append(frame_position(frame))
            break
        frame = frame.f_back
    return tuple(frames)


def fail(message: str, kind: type[DSLCompileError] = DSLCompileError) -> NoReturn:
    """Raise ``kind`` with the message and the user's current line."""
    raise kind(message, [DiagRecord(message, current_user_frames())])


def _chain_of(location: Any) -> tuple[SourceFrame, ...]:
    """User frames of an MLIR location, innermost first."""
    frames: list[SourceFrame] = []
    pending = [location]
    while pending:
        loc = pending.pop(0)
        if loc is None:
            continue
        if getattr(loc, "is_a_callsite", lambda: False)():
            pending[:0] = [loc.callee, loc.caller]
        elif getattr(loc, "is_a_name", lambda: False)():
            pending.insert(0, loc.child_loc)
        elif getattr(loc, "is_a_fused", lambda: False)():
            pending[:0] = list(loc.locations)
        elif getattr(loc, "is_a_file", lambda: False)():
            end = loc.end_col - 1 if loc.end_line == loc.start_line and loc.end_col > loc.start_col else None
            frames.append(SourceFrame(loc.filename, loc.start_line, max(0, loc.start_col - 1), end))
    return tuple(f for f in frames if not is_framework_file(f.filename) and f.filename != "-")


def _elide(text: str) -> str:
    """The first line of an operation dump, without its regions."""
    head = text.split("\n", 1)[0]
    return head if head == text else head.rstrip(" {(") + " ({...})"


def diag_records_from_mlir_error(error: Any) -> list[DiagRecord]:
    """Records of an ``MLIRError`` (or of one ``DiagnosticInfo``)."""
    infos = getattr(error, "error_diagnostics", None)
    infos = [error] if infos is None else infos
    return [
        DiagRecord(_elide(str(info.message)), _chain_of(info.location),
                   tuple(_elide(str(n.message)) for n in getattr(info, "notes", ())))
        for info in infos
    ]  # fmt: skip


@contextlib.contextmanager
def dsl_ir_diagnostics(what: str) -> Iterator[None]:
    """Turn MLIR errors of the block into :class:`DSLCompileError` with user locations."""
    from flydsl._mlir import ir

    try:
        yield
    except ir.MLIRError as error:
        records = diag_records_from_mlir_error(error)
        raise DSLCompileError(what if records else f"{what}: {_elide(str(error))}", records) from None


# ---- uncaught errors ---------------------------------------------------------------------------------------------


def _user_traceback(tb: TracebackType | None) -> list[str]:
    kept = [s for s in traceback.extract_tb(tb) if not is_framework_file(s.filename)]
    return traceback.format_list(kept)


def _hook(previous: Callable[..., Any], kind: type, error: BaseException, tb: TracebackType | None) -> None:
    from flydsl.utils import env

    if not isinstance(error, DSLCompileError) or env.debug.show_stacktrace:
        previous(kind, error, tb)
        return
    lines = ["Traceback (most recent call last):\n", *_user_traceback(tb), "-" * 40 + "\n"]
    sys.stderr.write("".join(lines) + f"{kind.__name__}: {error}\n")


def install_excepthook() -> None:
    """Print uncaught compile errors without internal frames. Idempotent."""
    if not getattr(sys.excepthook, "_flydsl", False):
        hook = functools.partial(_hook, sys.excepthook)
        hook._flydsl = True  # type: ignore[attr-defined]
        sys.excepthook = hook


# ---- annotations -------------------------------------------------------------------------------------------------


def warn_invalid_annotations(function: str, bad: dict[str, Any]) -> None:
    """Warn about runtime parameters whose annotation is no DSL type."""
    for name, annotation in bad.items():
        warnings.warn(
            f"{function}: parameter {name!r} is annotated with {annotation!r}, which is not a DSL type; "
            "the value's own type is used", UserWarning, stacklevel=4)  # fmt: skip


def warn_annotation_value_mismatch(function: str, name: str, annotation: Any, actual: Any) -> None:
    """Warn that a value's type wins over a differing annotation."""
    warnings.warn(
        f"{function}: parameter {name!r} is annotated {getattr(annotation, '__name__', annotation)} but got "
        f"{getattr(actual, '__name__', actual)}; the value's type is used", UserWarning, stacklevel=4)  # fmt: skip
