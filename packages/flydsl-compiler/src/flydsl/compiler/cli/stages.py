"""``flydsl compile``, ``flydsl ir`` and ``flydsl asm``: artifacts, the IR after each stage, assembly."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import sys
import tempfile
from pathlib import Path
from typing import Any

from .output import CliError, Output, size_text
from .target import add_arguments, load_function, run_script, split_target, variables

__all__ = ["register"]


def register(commands: Any) -> None:
    """Add the commands to the parser."""
    parser = commands.add_parser("compile", help="compile ahead of time, into the cache or a file")
    add_arguments(parser, several=True)
    parser.add_argument("-o", "--output", default="", metavar="FILE", help="write the artifact (FILE.py:FUNCTION only)")
    parser.add_argument("--c", default="", metavar="FOLDER/NAME", help="export NAME.o and NAME.h for C programs")
    parser.set_defaults(handler=run_compile)
    parser = commands.add_parser("ir", help="the IR after each stage, or what a stage changed")
    add_arguments(parser)
    parser.add_argument("--stage", default="", help="number or part of the name of one stage")
    parser.add_argument("--diff", action="store_true", help="what each stage changed instead of its result")
    parser.add_argument("--locations", action="store_true", help="keep the source locations")
    parser.add_argument("--list", action="store_true", help="names and sizes of the stages only")
    parser.add_argument("--kernel", default="", help="only kernels whose name has this text")
    parser.set_defaults(handler=run_ir)
    parser = commands.add_parser("asm", help="the machine code as assembly")
    add_arguments(parser)
    parser.add_argument("--kernel", default="", help="only kernels whose name has this text")
    parser.set_defaults(handler=run_asm)


def _settings(options: argparse.Namespace, **more: str) -> dict[str, str]:
    arch = options.arch
    return {"ARCH": arch, "FLYDSL_SIM_ARCH": arch, "FLYDSL_RUNTIME_KIND": "sim" if arch else "", **more}


def run_compile(options: argparse.Namespace, output: Output) -> int:
    """Compile for each architecture of a comma-separated list."""
    from flydsl.compiler.store.disk_cache import DiskCache

    path, name = split_target(options.target)
    if not name:
        if options.output or options.c:
            raise CliError("-o and --c need a target FILE.py:FUNCTION", 2)
        before, status = {str(p) for p in DiskCache().files()}, 0
        for arch in options.arch.split(","):
            with variables({"ARCH": arch, "COMPILE_ONLY": "1"}), _quiet(options.json):
                status = status or run_script(path, [])
        found = [e for e in DiskCache().entries() if e.path not in before]
        output.data([e.as_dict() for e in found])
        output.table(("function", "arch", "kernels", "seconds", "file"),
                     [(e.name, e.arch, ", ".join(e.kernels), f"{e.compile_seconds:.3f}", e.path) for e in found],
                     f"{len(found)} artifacts compiled"
                     + ("" if found else ": no jit function was called, or all were in the cache"))
        return status
    for option, text in (("-o", options.output), ("--c", options.c)):
        folder = Path(text).parent
        if text and not folder.is_dir():
            raise CliError(f"{option} {text}: there is no folder {folder}; make it first: mkdir -p {folder}", 2)
    rows = []
    for arch in options.arch.split(","):
        with variables({"ARCH": arch}):
            compiled = _compile(path, name, options.arg)
        artifact = compiled.artifact
        row = {"function": artifact.name, "arch": artifact.arch, "kernels": artifact.metadata["kernels"],
               "bytes": len(artifact.hsaco), "phases": artifact.metadata["phases"], "file": ""}
        if options.output:
            file = Path(options.output)
            if "," in options.arch:
                file = file.with_stem(f"{file.stem}-{artifact.arch}")
            row["file"] = str(compiled.save(file))
        if options.c:
            target = Path(options.c)
            compiled.export_to_c(target.parent, target.name)
            row["c"] = str(target.with_suffix(".h"))
        rows.append(row)
    output.data(rows)
    for row in rows:
        phases = ", ".join(f"{k} {v * 1e3:.1f} ms" for k, v in row["phases"].items())
        output.line(f"{row['function']} for {row['arch']}: {', '.join(row['kernels'])}, "
                    f"{size_text(row['bytes'])} ({phases})")
        for key in ("file", "c"):
            if row.get(key):
                output.line(f"  wrote {row[key]}")
    return 0


def _compile(path: Path, name: str, arguments: list[str]) -> Any:
    function, args, kwargs = load_function(path, name, arguments)
    try:
        return function.specialise(*args, **kwargs)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise CliError(f"{name} does not compile: {type(error).__name__}: {error}") from None


@contextlib.contextmanager
def _quiet(active: bool) -> Any:
    """Keep a script's output out of JSON."""
    with contextlib.redirect_stdout(io.StringIO()) if active else contextlib.nullcontext():
        yield


def _dumps(options: argparse.Namespace, folder: str, **more: str) -> list[tuple[str, list[Path]]]:
    """Run the target with dumps into a folder; (kernel or function, its files in order)."""
    path, name = split_target(options.target)
    settings = _settings(options, FLYDSL_DUMP_IR="1", FLYDSL_DUMP_DIR=folder, **more)
    chatter = io.StringIO()
    with variables(settings), contextlib.redirect_stdout(chatter):
        try:
            status = 0
            if name:
                with variables({"COMPILE_ONLY": ""}):
                    _compile(path, name, options.arg)
            else:
                status = run_script(path, [])
        except CliError:
            raise
        except Exception:
            # What was dumped until then is what the user wants to see. The hook leaves out internal frames.
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
            status = 1
    if status:
        print(f"flydsl: {path} ended with status {status}", file=sys.stderr)
    found = []
    for sub in sorted(p for p in Path(folder).iterdir() if p.is_dir()):
        if getattr(options, "kernel", "") in sub.name:
            found.append((sub.name, sorted(sub.iterdir())))
    if not found:
        raise CliError("nothing was compiled" + (f" with {options.kernel!r} in its name" if options.kernel else ""))
    return found


def run_ir(options: argparse.Namespace, output: Output) -> int:
    """Show the stages."""
    with tempfile.TemporaryDirectory() as folder:
        dumps = _dumps(options, folder)
        texts = [(name, [(f.stem, f.suffix, f.read_text(encoding="utf-8")) for f in files]) for name, files in dumps]
    if not options.locations:
        texts = [(name, [(*s[:2], without_locations(s[2])) for s in stages]) for name, stages in texts]
    document = []
    for name, stages in texts:
        chosen = [i for i, s in enumerate(stages) if _matches(s[0], options.stage)]
        if not chosen:
            known = ", ".join(s[0] for s in stages)
            raise CliError(f"{name} has no stage {options.stage!r}; it has {known}", 2)
        if options.list:
            rows = [(*stages[i][0].split("_", 1), len(stages[i][2].splitlines())) for i in chosen]
            columns = ("number", "stage", "lines")
            document.append({"name": name, "stages": [dict(zip(columns, row, strict=True)) for row in rows]})
            output.table(columns, rows, name)
            continue
        found = []
        for i in chosen:
            label, suffix, text = stages[i]
            if options.diff and suffix == ".mlir" and i > 0:
                text = "\n".join(difflib.unified_diff(
                    stages[i - 1][2].splitlines(), text.splitlines(), stages[i - 1][0], label, lineterm="", n=2
                ))
                text = text or f"{label} changes nothing"
            found.append({"stage": label, "text": text})
            output.line(f"// ---- {name} {label}", "bold")
            output.source(text, "diff" if options.diff and i > 0 else "asm" if suffix == ".s" else "mlir")
        document.append({"name": name, "stages": found})
    output.data(document)
    return 0


def without_locations(text: str) -> str:
    """MLIR without its ``loc(...)``, which drown what a pass changed."""
    lines = []
    for line in text.splitlines():
        if line.startswith("#loc"):
            continue
        start = line.find("loc(")
        while start >= 0:
            depth, end, quoted = 0, start + 3, False
            while end < len(line):
                quoted ^= line[end] == '"'
                depth += 0 if quoted else (line[end] == "(") - (line[end] == ")")
                end += 1
                if depth == 0 and not quoted:
                    break
            line = line[:start].rstrip(" ") + line[end:]
            start = line.find("loc(", start)
        lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


def _matches(stem: str, wanted: str) -> bool:
    if wanted.isdigit():
        return int(stem.split("_", 1)[0]) == int(wanted)
    return wanted in stem


def run_asm(options: argparse.Namespace, output: Output) -> int:
    """Show the assembly of the kernels."""
    with tempfile.TemporaryDirectory() as folder:
        dumps = _dumps(options, folder)
        texts = [(name, f.read_text(encoding="utf-8")) for name, files in dumps for f in files if f.suffix == ".s"]
    output.data([{"name": name, "asm": text} for name, text in texts])
    for name, text in texts:
        output.line(f"; ---- {name}", "bold")
        output.source(text, "asm")
    return 0
