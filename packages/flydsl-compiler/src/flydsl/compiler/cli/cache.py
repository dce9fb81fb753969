"""``flydsl cache``: list, stats, verify, clear, prune, explain."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path
from typing import Any

from .output import CliError, Output, size_text
from .target import architecture, load_function, split_target, variables

__all__ = ["register"]


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("cache", help="the kernel cache on disk")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    texts = {
        "list": "every artifact, from its header", "stats": "number and size of the artifacts",
        "verify": "read and check every artifact", "clear": "delete artifacts",
        "prune": "delete the least recently used artifacts above a size",
        "explain": "why a call misses, or what an artifact was made from",
    }
    for name, text in texts.items():
        action = actions.add_parser(name, help=text)
        action.add_argument("--dir", default="", help="cache directory (default: that of the settings)")
        action.add_argument("--json", action="store_true", help="print as JSON")
        action.set_defaults(handler=globals()[f"run_{name}"])
        if name == "verify":
            action.add_argument("--delete", action="store_true", help="delete what is damaged")
        elif name == "clear":
            action.add_argument("function", nargs="?", default="", help="only artifacts of this jit function")
        elif name == "prune":
            action.add_argument("megabytes", type=int, help="size to keep, in MiB")
        elif name == "explain":
            action.add_argument("target", help="FILE.py:FUNCTION with --arg, an artifact file, or the start of a key")
            action.add_argument("--arg", action="append", default=[], metavar="[NAME=]VALUE")
            action.add_argument("--arch", default="", type=architecture, help="architecture to compile for")


def _cache(options: argparse.Namespace) -> Any:
    from flydsl.compiler.store.disk_cache import DiskCache

    cache = DiskCache(Path(options.dir) if options.dir else None)
    if cache.root is None:
        raise CliError("the disk cache is off (FLYDSL_RUNTIME_ENABLE_CACHE, FLYDSL_RUNTIME_CACHE_DIR)")
    if cache.root.exists() and not cache.root.is_dir():
        raise CliError(f"{cache.root} is no folder", 2)
    return cache


def run_list(options: argparse.Namespace, output: Output) -> int:
    """Every artifact, most recently used first."""
    entries = sorted(_cache(options).entries(), key=lambda e: -e.used)
    output.data([e.as_dict() for e in entries])
    rows = []
    for e in entries:
        used = datetime.datetime.fromtimestamp(e.used).strftime("%Y-%m-%d %H:%M")
        kernels = e.problem or ", ".join(e.kernels)
        rows.append((e.name, e.arch or "-", size_text(e.size), used, kernels, Path(e.path).stem))
    output.table(("function", "arch", "size", "last use", "kernels", "key"), rows)
    return 0


def run_stats(options: argparse.Namespace, output: Output) -> int:
    """Number and size."""
    stats = _cache(options).stats()
    output.data(stats)
    output.line(f"{stats['files']} artifacts of {stats['functions']} functions, {size_text(stats['bytes'])} "
                f"in {stats['root']}")
    return 0


def run_verify(options: argparse.Namespace, output: Output) -> int:
    """Check every artifact; 1 if something is damaged and stays."""
    cache = _cache(options)
    total = len(list(cache.files()))
    bad = cache.verify(delete=options.delete)
    output.data({"files": total, "damaged": [e.as_dict() for e in bad], "deleted": options.delete})
    for e in bad:
        output.line(f"{e.path}: {e.problem}" + (" (deleted)" if options.delete else ""), "red")
    output.line(f"{total} artifacts, {len(bad)} damaged", "bold")
    return 1 if bad and not options.delete else 0


def run_clear(options: argparse.Namespace, output: Output) -> int:
    """Delete artifacts."""
    count = _cache(options).clear(options.function)
    output.data({"deleted": count})
    output.line(f"{count} artifacts deleted")
    return 0


def run_prune(options: argparse.Namespace, output: Output) -> int:
    """Delete the least recently used."""
    if options.megabytes < 0:
        raise CliError(f"the size to keep is at least 0 MiB, got {options.megabytes}", 2)
    count = _cache(options).prune(options.megabytes << 20)
    output.data({"deleted": count})
    output.line(f"{count} artifacts deleted")
    return 0


def run_explain(options: argparse.Namespace, output: Output) -> int:
    """Why a call misses (1) or where its artifact is (0); or the inputs of an artifact."""
    from flydsl.runtime.artifact import Artifact, ArtifactError

    cache = _cache(options)
    file = Path(options.target)
    if not file.is_file() and ":" not in options.target:
        matches = [p for p in cache.files() if p.stem.startswith(options.target)]
        if len(matches) != 1:
            raise CliError(f"{len(matches)} artifacts have a key that starts with {options.target!r}", 2)
        file = matches[0]
    if file.is_file() and file.suffix == ".fly":
        try:
            artifact = Artifact.parse(file.read_bytes())
            inputs = artifact.inputs
        except ArtifactError as error:
            raise CliError(f"{file}: {error}") from None
        output.data({"file": str(file), "name": artifact.name, "arch": artifact.arch, "inputs": inputs})
        output.line(f"{artifact.name} for {artifact.arch}, kernels {', '.join(artifact.metadata.get('kernels', ()))}")
        rows: list[tuple[str, Any]] = []
        for key, value in inputs.items():
            rows += [(key, f"{k} = {v}") for k, v in value.items()] if isinstance(value, dict) else [(key, value)]
        output.table(("input", "value"), rows)
        return 0
    path, name = split_target(options.target)
    if not name:
        raise CliError("explain needs FILE.py:FUNCTION, an artifact file, or the start of a key", 2)
    with variables({"ARCH": options.arch}):
        function, args, kwargs = load_function(path, name, options.arg)
        try:
            explanation = cache.explain(function, *args, **kwargs)
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise CliError(f"{name} does not compile: {type(error).__name__}: {error}") from None
    output.data(vars(explanation))
    for line in str(explanation).splitlines():
        output.line(line)
    return 0 if explanation.found else 1
