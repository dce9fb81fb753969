"""Errors in the user's terms: file, line and caret of the user's own code, never a raw MLIR dump."""

from __future__ import annotations

import contextlib
import functools
import linecache
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from types import CodeType, FrameType, TracebackType
from typing import Any, NoReturn

from flydsl.utils.frames import is_framework_file

from .ambient import boundary_code
from .misuse import missing_in_module, misuse

__all__ = [
    "DSLCompileError", "DSLSyntaxError", "DiagRecord", "SourceFrame", "current_user_frames",
    "diag_records_from_mlir_error",
    "dsl_ir_diagnostics", "fail", "install_excepthook", "warn_annotation_value_mismatch", "warn_invalid_annotations",
]

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

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the user's frames and the message, no internal frames."""
        return _report(type(self), self, self.__traceback__).splitlines()


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


class DSLNotImplementedError(DSLSyntaxError, NotImplementedError):
    """A statement that has a meaning but no lowering."""


class DSLValueError(DSLCompileError, ValueError):
    """A value that an operation does not take."""


class DSLIndexError(DSLCompileError, IndexError):
    """An index out of range."""


class DSLAttributeError(DSLCompileError, AttributeError):
    """A name that an object of the DSL does not have."""


class DSLKeyError(DSLCompileError, KeyError):
    """A missing key."""


class DSLArithmeticError(DSLCompileError, ZeroDivisionError, OverflowError):
    """A static computation without a result."""


class DSLRecursionError(DSLCompileError, RecursionError):
    """A helper that calls itself for ever while tracing."""


class DSLUnsupportedError(DSLCompileError, NotImplementedError):
    """An operation that has a meaning but is not implemented."""


# What an error raised by an operation becomes when it leaves the traced function.
_LOCATED: dict[type, type[DSLCompileError]] = {
    TypeError: DSLTypeError, ValueError: DSLValueError, RuntimeError: DSLCompileError, IndexError: DSLIndexError,
    AttributeError: DSLAttributeError, KeyError: DSLKeyError, NameError: DSLNameError,
    RecursionError: DSLRecursionError, NotImplementedError: DSLUnsupportedError,
    ZeroDivisionError: DSLArithmeticError, OverflowError: DSLArithmeticError,
}


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
    """User frames of the running call, innermost first, up to the traced function."""
    frames: list[SourceFrame] = []
    boundary = boundary_code()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(frames) < limit:
        if not is_framework_file(frame.f_code.co_filename):
            _append_frame(frames, frame_position(frame))
            if boundary is None or frame.f_code is boundary:
                break
        frame = frame.f_back
    return tuple(frames)


def _append_frame(frames: list[SourceFrame], new: SourceFrame) -> None:
    """Add a frame further out. The generated function of a branch and the function that calls it are one place."""
    if not any(f.filename == new.filename and f.line == new.line for f in frames):
        frames.append(new)


def located(error: BaseException) -> BaseException:
    """The same error with the user's file, line and caret, when an operation of ours raised it; else ``error``.

    Errors that the user's own code raises are left alone.
    """
    kind = _LOCATED.get(type(error))
    entries, running = [], []
    tb = error.__traceback__
    while tb is not None:
        entries.append((tb.tb_frame.f_code, tb.tb_lasti, tb.tb_lineno))
        running.append(tb.tb_frame)
        tb = tb.tb_next
    if kind is None or not entries:
        return error
    reason = _ENDLESS if isinstance(error, RecursionError) else _missing_value(error, entries, running)
    if not reason and not is_framework_file(entries[-1][0].co_filename):
        reason = misuse(error)
        if not reason:
            return error
    frames: list[SourceFrame] = []
    for code, lasti, line in reversed(entries):
        if not is_framework_file(code.co_filename):
            _append_frame(frames, _position(code, lasti, line))
    message = reason or (str(error.args[0]) if len(error.args) == 1 else str(error))
    if isinstance(error, AttributeError) and not reason:
        message += missing_in_module(message)
    return kind(message, [DiagRecord(message, tuple(frames[:5]))])


_ENDLESS = ("a helper calls itself for ever while tracing: a condition that is known only at run time does not end a "
            "recursion, since both of its branches are traced; write a loop")


def _missing_value(error: BaseException, entries: list[tuple[CodeType, int, int]], running: list[FrameType]) -> str:
    """What to say of an error because something is None: which argument, or that a function gave it."""
    said = str(error)
    if not isinstance(error, (AttributeError, TypeError)) or "NoneType" not in said:
        return ""
    users = [i for i, (code, _, _) in enumerate(entries) if not is_framework_file(code.co_filename)]
    if not users:
        return ""
    place = _position(*entries[users[-1]])
    text = linecache.getline(place.filename, place.line)
    named = re.findall(r"(?<![.\w])[A-Za-z_]\w*", text[place.col : place.end_col])
    empty = [name for name in named if running[users[-1]].f_locals.get(name, name) is None]
    for i in reversed(users):
        code = entries[i][0]
        parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        found = next((name for name in empty if name in parameters), None)
        if found:
            return (f"{said}: the argument {found!r} of {code.co_name} is None. Pass a value for it, or use it only "
                    f"where `fx.const_expr({found} is not None)`")
    if isinstance(error, AttributeError) and error.obj is not None or is_framework_file(entries[-1][0].co_filename):
        return ""
    if getattr(error, "name", None) == "launch":
        return f"{said}: only kernels are launched, functions that @flyc.kernel decorates; this one ran while tracing"
    return f"{said}: a value is None. A function that has no `return` on some path gives None; return its result"


@contextlib.contextmanager
def locating_errors() -> Iterator[None]:
    """Give errors that operations raise in the block the user's location (see :func:`located`)."""
    from flydsl.utils import env

    try:
        yield
    except DSLCompileError:
        raise
    except Exception as error:
        new = located(error)
        if new is error:
            raise
        if env.debug.show_stacktrace:
            raise new from error
        raise new from None


# Source spans (file, first line, last line) of functions whose control flow was rewritten.
rewritten_spans: set[tuple[str, int, int]] = set()


def _is_rewritten(code: CodeType) -> bool:
    return any(f == code.co_filename and a <= code.co_firstlineno <= b for f, a, b in rewritten_spans)


def fail_dynamic(kind: str, what: str) -> NoReturn:
    """A device value (of type ``kind``) is used where Python needs a ``what`` (bool, int, index, float) now."""
    text = f"cannot evaluate dynamic '{kind}' as Python {what}: its value is only known at run time. "
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_framework_file(frame.f_code.co_filename):
        frame = frame.f_back
    code = frame.f_code if frame is not None else None
    if what == "bool" and code is not None and not _is_rewritten(code):
        text += (f"{code.co_name!r} (line {code.co_firstlineno}) is not a traced function, so its `if`, `while` and "
                 "boolean operators are plain Python: decorate it with @flyc.jit")
    elif what == "bool":
        text += ("`in`, `match`, `any`, `sorted`, filters of comprehensions and bool(...) need a value known while "
                 "tracing; compare with == and combine with `or`/`and`, or branch with `if`")
    elif what == "int" and "loat" in kind:
        text += "x.to(fx.Int32) converts it on the device, towards zero as int(x) does"
    elif what in ("int", "index"):
        text += ("A run-time loop variable or argument cannot index a Python list or bound range_constexpr: unroll "
                 "with fx.range_constexpr over static bounds, or pass the value as fx.Constexpr")
    else:
        text += ("Pass it as fx.Constexpr, or keep it a DSL value: fx.sqrt(x) instead of math.sqrt(x), "
                 "x.to(fx.Float32) instead of float(x)")
    fail(text)


def fail(message: str, kind: type[DSLCompileError] = DSLCompileError) -> NoReturn:
    """Raise ``kind`` with the message and the user's current line."""
    raise kind(message, [DiagRecord(message, current_user_frames())])


def warn_here(message: str, frames: tuple[SourceFrame, ...] | None = None) -> None:
    """A UserWarning at the innermost of `frames`, the user's current line by default."""
    frames = current_user_frames() if frames is None else frames
    where = (frames[0].filename, frames[0].line) if frames else ("<kernel>", 0)
    warnings.warn_explicit(message, UserWarning, *where)


def location_frames(location: Any) -> tuple[SourceFrame, ...]:
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
    records = [_record(info) for info in infos]
    # An unrolled copy says the same of each of its calls: once is enough.
    records = list({(r.message, r.chain): r for r in reversed(records)}.values())[::-1]
    # A conversion that fails reports once more that it failed, as does the call of an atom; the reason was said before.
    again = ("failed to legalize operation", " op cannot emit ")
    return [r for i, r in enumerate(records) if not (i and any(text in r.message for text in again))]


def _record(info: Any) -> DiagRecord:
    message, chain = _elide(str(info.message)), location_frames(info.location)
    notes = list(getattr(info, "notes", ()))
    if "does not dominate this use" in message:
        return _dominance_record(chain, notes)
    if "using value defined outside the region" in message:
        text = ("a value of the host function is used inside the kernel: pass it as a kernel argument, or make it a "
                "compile-time constant (fx.Constexpr)")
        return DiagRecord(text, chain)
    if any("<<UNKNOWN SSA VALUE>>" in str(n.message) for n in notes):
        text = ("a value of another trace is used: a Python object (a list, dict, attribute or global variable) "
                "carried it out of the kernel that computes it. Values exist while their kernel is traced")
        return DiagRecord(text, chain)
    return DiagRecord(message, chain, tuple(_elide(str(n.message)) for n in notes))


def _dominance_record(chain: tuple[SourceFrame, ...], notes: list[Any]) -> DiagRecord:
    """A value of a region used after it, in the user's terms."""
    made = next((c for n in notes if (c := location_frames(n.location)) and "defined here" in str(n.message)), ())
    where = f" at line {made[0].line}" if made else ""
    text = (f"a value computed inside a run-time branch or loop{where} is used outside of it, where it does not exist. "
            "A Python object (a list, dict, attribute or nonlocal variable) carried it out. Assign it to a local "
            "variable that has a value before the branch or loop, or compute it outside")
    return DiagRecord(text, chain, tuple(f"computed here: {f.filename}:{f.line}" for f in made[:1]))


def value_error(error: Any, context: str = "") -> DSLValueError:
    """What an ``MLIRError`` from building one op becomes: its operands do not go together, at the user's line.

    ``context`` says what was asked for, in front of a reason that does not.
    """
    records = diag_records_from_mlir_error(error)
    if records:
        # Layouts in the notation of the algebra, as `context` and the user's own print have them.
        message = re.sub(r"#fly\.(?:layout|int_tuple|tile)<([^<>]*)>", r"\1", records[0].message)
        operation, _, operands = context.partition(" of ")
        said = not context or f"{operation} of " in message
        if not said:
            # What the operation is made of names the same operands, or the operation in other words.
            _, same, reason = message.partition(f" of {operands}: ")
            head, _, rest = (reason if same else message).partition(": ")
            message = f"{context}: {rest if head and head.replace(' ', '_') in operation else reason or message}"
        records[0] = replace(records[0], message=message)
    return DSLValueError(_elide(str(error)), records)


@contextlib.contextmanager
def dsl_ir_diagnostics(what: str) -> Iterator[None]:
    """Turn MLIR errors of the block into :class:`DSLCompileError` with user locations."""
    from flydsl._mlir import ir

    try:
        yield
    except ir.MLIRError as error:
        records = diag_records_from_mlir_error(error)
        raise DSLCompileError(what if records else f"{what}: {_elide(str(error))}", records) from None


@contextlib.contextmanager
def warnings_of(context: Any) -> Iterator[None]:
    """Turn MLIR warnings of the block into Python warnings at the user's line; an error of the block goes before."""
    from flydsl._mlir import ir

    found: list[tuple[str, Any]] = []

    def handle(diagnostic: Any) -> bool:
        if diagnostic.severity != ir.DiagnosticSeverity.WARNING:
            return False
        found.append((diagnostic.message, diagnostic.location))
        return True

    handler = context.attach_diagnostic_handler(handle)
    try:
        yield
    finally:
        handler.detach()
    for message, location in found:
        frames = location_frames(location)
        where = frames[-1] if frames else None
        warnings.warn_explicit(
            message, UserWarning, where.filename if where else "<kernel>", where.line if where else 0
        )


# ---- uncaught errors ---------------------------------------------------------------------------------------------


def _user_traceback(tb: TracebackType | None) -> list[str]:
    kept = [s for s in traceback.extract_tb(tb) if not is_framework_file(s.filename)]
    return traceback.format_list(kept)


def _report(kind: type, error: BaseException, tb: TracebackType | None) -> str:
    lines = ["Traceback (most recent call last):\n", *_user_traceback(tb), "-" * 40 + "\n"]
    return "".join(lines) + f"{kind.__name__}: {error}\n"


def _hook(previous: Callable[..., Any], kind: type, error: BaseException, tb: TracebackType | None) -> None:
    from flydsl.utils import env

    if not isinstance(error, DSLCompileError) or env.debug.show_stacktrace:
        previous(kind, error, tb)
        return
    sys.stderr.write(_report(kind, error, tb))


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
            "the value's own type is used", UserWarning, stacklevel=4)


def warn_annotation_value_mismatch(function: str, name: str, annotation: Any, actual: Any) -> None:
    """Warn, at the user's line, that a value of the DSL type ``actual`` was given for another annotation.

    None leaves an argument out, whatever it is annotated with.
    """
    if not isinstance(annotation, type) or not isinstance(actual, type) or not _is_dsl_type(annotation):
        return
    if actual is type(None):
        return
    if issubclass(actual, annotation) or issubclass(annotation, actual):
        return
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and is_framework_file(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    warnings.warn(f"{function}: parameter {name!r} is annotated {annotation.__name__} but got {actual.__name__}; the "
                  "value's type is used", UserWarning, stacklevel=level)


def _is_dsl_type(annotation: type) -> bool:
    return hasattr(annotation, "__construct_from_ir_values__") or hasattr(annotation, "__c_abi_spec__")
