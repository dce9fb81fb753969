"""``python -m flydsl.kernels prebuilt``: artifacts of the operators for common models, made before they are called.

``build`` compiles, for each architecture, what each operator's declaration lists for the models, into folders that
:mod:`flydsl.compiler.store.prebuilt` reads. The same sources give the same files, bit by bit.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from flydsl.compiler.store.prebuilt import PrebuiltFolder, folders
from flydsl.utils import env
from flydsl.utils.parallel import process_count

from .host.models import MODELS, Model, model
from .op import Op, operations
from .target import target

__all__ = ["ARCHITECTURES", "PACKAGE", "add_commands", "build", "check", "default_root"]

ARCHITECTURES = ("gfx942", "gfx950", "gfx1201", "gfx1250")
PACKAGE = "flydsl.kernels"


def default_root() -> Path:
    """Where this distribution's prebuilt artifacts lie: ``flydsl/prebuilt`` beside ``flydsl/kernels``."""
    return Path(__file__).resolve().parent.parent / "prebuilt"


def folder_of(root: Path, arch: str) -> Path:
    """Of the artifacts for an architecture."""
    return root / arch / PACKAGE


def _calls(op: Op, arch: str, models: Iterable[Model]) -> Iterator[tuple[Any, ...]]:
    """Arguments of an operator for the models, each once; only their shapes and dtypes mean something."""
    from .testing import Shapes

    found = target(arch)
    draw, seen = Shapes(found), set()
    for sizes in models:
        for arguments in op.prebuilt(op, draw, sizes) if op.available(found) else ():
            key = tuple((tuple(a.shape), str(a.dtype)) if hasattr(a, "shape") else repr(a) for a in arguments)
            if key not in seen:
                seen.add(key)
                yield arguments


def build(root: Path, arch: str, models: Iterable[Model] = MODELS, names: Iterable[str] = (),
          progress: Callable[[str, int], None] = lambda name, count: None) -> PrebuiltFolder:
    """Make the folder of an architecture anew.

    Args:
        root: the folder of all architectures.
        models: for whose sizes.
        names: of operators; all if there are none.
        progress: called with each operator's name and the number of files so far.

    Raises:
        ValueError: an operator or an architecture is not known.
        OSError: a file cannot be written.
    """
    models, declared = tuple(models), vars(operations())
    unknown = [name for name in names if name not in declared]
    if unknown:
        raise ValueError(f"no operator {', '.join(unknown)}: known are {', '.join(sorted(declared))}")
    folder = PrebuiltFolder.write_index(folder_of(root, arch), PACKAGE)
    stale, made = set(folder.files()), set[Path]()
    with env.override(arch=arch, compile_only=True):
        for name in names or declared:
            progress(name, len(made))
            for arguments in _calls(declared[name], arch, models):
                launcher, operands, _ = declared[name].prepare(*arguments)
                made.add(folder.add(launcher, *operands, stream=None))
    for path in stale - made:
        path.unlink()
    return folder


def check(root: Path, arch: str, again: bool = False, models: Iterable[Model] = MODELS,
          names: Iterable[str] = ()) -> list[str]:
    """What is wrong with the folder of an architecture: made from other sources, damaged, or, if all is to be made
    `again`, different from that.

    Raises:
        ValueError: an operator or an architecture is not known, or the folder's index is no index.
        OSError: there is no such folder.
    """
    folder = PrebuiltFolder(folder_of(root, arch))
    found = [f"{folder.path}: {folder.problem}"] if folder.problem else []
    found += [f"{path}: {reason}" for path, reason in folder.damaged()]
    if again:
        with tempfile.TemporaryDirectory() as temporary:
            fresh = build(Path(temporary), arch, models, names)
            for path in fresh.files():
                here = folder.file(path.stem)
                if not here.exists() or here.read_bytes() != path.read_bytes():
                    found.append(f"{here}: not what its sources give")
    return found


# --------------------------------------------------------------------------------------------------------- commands


def _rows(root: Path | None) -> list[dict[str, Any]]:
    found: list[PrebuiltFolder] = []
    for arch in ARCHITECTURES:
        if root is None:
            found += folders(arch)
        elif (folder_of(root, arch) / "index.json").exists():
            found.append(PrebuiltFolder(folder_of(root, arch)))
    return [{"arch": folder.path.parent.name, "package": folder.package, "artifacts": len(folder.files()),
             "bytes": sum(path.stat().st_size for path in folder.files()), "problem": folder.problem,
             "folder": str(folder.path)} for folder in found]


def _list(options: argparse.Namespace) -> int:
    rows = _rows(options.root)
    if options.json:
        print(json.dumps(rows, indent=1))
        return 0
    for row in rows:
        state = row["problem"] or "usable"
        print(f"{row['arch']:8} {row['artifacts']:5} artifacts {row['bytes'] / 1e6:7.2f} MB  {state}  {row['folder']}")
    if not rows:
        print("no prebuilt artifacts: python -m flydsl.kernels prebuilt build makes them")
    return 0


def _show(text: str) -> None:
    """In place of what is shown, where somebody looks."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{text}\033[K")
        sys.stderr.flush()


def _build_one(options: argparse.Namespace, arch: str, said: Any) -> str:
    """The line about an architecture, made in a process of its own."""
    folder = build(options.root or default_root(), arch, [model(name) for name in options.model] or MODELS, options.op,
                   lambda name, count: said.put(f"{arch}: {count} artifacts, {name}"))
    size = sum(path.stat().st_size for path in folder.files())
    return f"{arch}: {len(folder.files())} artifacts, {size / 1e6:.2f} MB in {folder.path}"


def _build(options: argparse.Namespace) -> int:
    """Architectures side by side, since what a build overrides is of its process."""
    spawn = multiprocessing.get_context("spawn")
    with spawn.Manager() as manager, ProcessPoolExecutor(options.jobs, spawn) as pool:
        said = manager.Queue()
        waiting = {pool.submit(_build_one, options, arch, said) for arch in options.arch or ARCHITECTURES}
        while waiting:
            done, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
            while not said.empty():
                _show(said.get())
            for future in done:
                _show("")
                print(future.result(), flush=True)
    return 0


def _check(options: argparse.Namespace) -> int:
    root, problems = options.root or default_root(), []
    there = [arch for arch in ARCHITECTURES if (folder_of(root, arch) / "index.json").exists()]
    missing = [arch for arch in options.arch if arch not in there]
    if missing or not there:
        raise ValueError(f"{root} has no prebuilt artifacts{' for ' * bool(missing)}{', '.join(missing)}: "
                         "python -m flydsl.kernels prebuilt build makes them")
    for arch in options.arch or there:
        problems += check(root, arch, options.again, [model(name) for name in options.model] or MODELS)
    print(json.dumps(problems, indent=1) if options.json else "\n".join(problems) or "nothing is wrong")
    return 1 if problems else 0


def add_commands(commands: Any) -> None:
    """Add ``prebuilt list|build|check`` to the package's command line."""
    inner = commands.add_parser("prebuilt", help="artifacts of operators that are made before they are called")
    actions = inner.add_subparsers(dest="action", required=True)
    for name, run, text in (("list", _list, "the folders that calls are looked up in"),
                            ("build", _build, "compile the operators for the models"),
                            ("check", _check, "whether files are intact and of these sources; exit status 1 if not")):
        parser = actions.add_parser(name, help=text)
        parser.add_argument("--root", type=Path, help="folder of all architectures (default: that of this package)")
        parser.set_defaults(run=run)
        if name != "build":
            parser.add_argument("--json", action="store_true", help="for machines")
        if name != "list":
            parser.add_argument("--arch", action="append", default=[], choices=ARCHITECTURES, help="default: all")
            parser.add_argument("--model", action="append", default=[], metavar="NAME",
                                help=f"default: all of {', '.join(m.name for m in MODELS)}")
        if name == "build":
            parser.add_argument("--op", action="append", default=[], metavar="NAME", help="default: all operators")
            parser.add_argument("--jobs", type=process_count, default=os.cpu_count(),
                                help="architectures at the same time (default: one for each processor)")
        if name == "check":
            parser.add_argument("--again", action="store_true", help="compile everything again and compare")
