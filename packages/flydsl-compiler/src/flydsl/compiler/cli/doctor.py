"""``flydsl doctor``: what is installed, on what kernels run, and what is wrong with it."""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import warnings
from typing import Any

from flydsl.utils.installation import import_problems, version_of, wrong_pins

from .output import Output, size_text

__all__ = ["collect", "register"]


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("doctor", help="what is installed, what is wrong, and how to mend it")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Print the report; 1 if there are problems."""
    facts = collect()
    output.data(facts)
    for section, values in facts.items():
        if section == "problems":
            continue
        output.table(("what", "value"), [(k, "" if v is None else v) for k, v in values.items()], section)
        output.line()
    if facts["problems"]:
        output.line("problems", "bold red")
        for problem in facts["problems"]:
            output.line(f"  {problem['what']}", "red")
            output.line(f"    {problem['remedy']}")
    else:
        output.line("no problems found", "bold green")
    return 1 if facts["problems"] else 0


def collect() -> dict[str, Any]:
    """The report as data: sections of facts, and ``problems`` with ``what`` and ``remedy``."""
    problems: list[dict[str, str]] = []
    return {
        "packages": _packages(problems), "libraries": _libraries(problems), "device": _device(problems),
        "cache": _cache(problems), "settings": _settings(problems), "problems": problems,
    }


def _report(problems: list[dict[str, str]], what: str, remedy: str) -> None:
    problems.append({"what": what, "remedy": remedy})


def _packages(problems: list[dict[str, str]]) -> dict[str, Any]:
    from flydsl.compiler.store.toolchain import package_versions

    versions = package_versions()
    for name in versions:
        problems += wrong_pins(name, versions)
    problems += import_problems()
    found: dict[str, Any] = {name: version or "not installed" for name, version in versions.items()}
    found["python"] = platform.python_version()
    for name in ("numpy", "torch", "rich"):
        found[name] = version_of(name) or "not installed"
    if found["numpy"] == found["torch"] == "not installed":
        _report(problems, "neither NumPy nor torch is installed", "pip install numpy")
    return found


def _libraries(problems: list[dict[str, str]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    try:
        from flydsl.ir import llvm_version

        found["LLVM"] = llvm_version()
    except ImportError:  # reported with the packages
        found["LLVM"] = None
    from flydsl.runtime import HipError, simulator_directory

    try:
        found["simulator"] = str(simulator_directory())
    except HipError as error:
        found["simulator"] = None
        _report(problems, str(error), "reinstall flydsl-runtime, or set FLYDSL_RUNTIME_KIND=rocm where there is a GPU")
    return found


def _device(problems: list[dict[str, str]]) -> dict[str, Any]:
    import flydsl.runtime as runtime
    from flydsl.compiler.backends import current_target

    found: dict[str, Any] = {}
    try:
        found["target of compiling"] = current_target().arch
    except (ValueError, ImportError) as error:
        found["target of compiling"] = None
        _report(problems, str(error), "set ARCH to a supported architecture, or unset it")
    try:
        info = runtime.device_info()
        found.update(
            {"kind": runtime.kind(), "library": runtime.library_path(), "device": info.name, "arch": info.arch,
             "devices": runtime.device_count(), "compute units": info.compute_units, "wave": info.warp_size,
             "LDS bytes": info.lds_bytes}
        )
    except (runtime.HipError, ValueError) as error:
        _report(problems, f"no device can be used: {error}", "unset FLYDSL_RUNTIME_KIND and FLYDSL_HIP_LIBRARY for the "
                "simulator, or install ROCm for a GPU")
        return found
    target = found["target of compiling"]
    if target and info.arch.split(":")[0] != target.split(":")[0].split("-")[0]:
        _report(problems, f"compiling is for {target}, but the device is {info.arch}",
                f"unset ARCH, or set FLYDSL_SIM_ARCH={target} to simulate it")
    return found


def _cache(problems: list[dict[str, str]]) -> dict[str, Any]:
    from flydsl.compiler.store.disk_cache import DiskCache
    from flydsl.utils import env

    cache = DiskCache()
    if cache.root is None:
        return {"root": "off"}
    stats = cache.stats()
    unusable = [entry for entry in cache.entries() if entry.problem]
    damaged = [e for e in unusable if not e.outdated]
    if damaged:
        _report(problems, f"{len(damaged)} damaged files in the kernel cache (they are recompiled when needed)",
                "flydsl cache verify --delete")
    probe = cache.root if cache.root.exists() else next(p for p in cache.root.parents if p.exists())
    try:
        with tempfile.TemporaryFile(dir=probe):
            writable = True
    except OSError:
        writable = False
    if not writable:
        _report(problems, f"the kernel cache {cache.root} cannot be written: every process compiles again",
                "set FLYDSL_RUNTIME_CACHE_DIR to a writable directory")
    limit = env.runtime.cache_size_mb
    return {"root": str(cache.root), "writable": "yes" if writable else "no", "artifacts": stats["files"],
            "of other versions": len(unusable) - len(damaged),
            "size": size_text(stats["bytes"]), "bound": f"{limit} MiB" if limit else "none"}


def _settings(problems: list[dict[str, str]]) -> dict[str, Any]:
    from flydsl.utils import env

    found: dict[str, Any] = {}
    for manager in env.managers:
        for name, option in manager.options.items():
            if option.source() == "default":
                continue
            try:
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    found[option.var] = getattr(manager, name)
                for warning in caught:
                    _report(problems, str(warning.message), f"correct the value of {option.var}")
            except ValueError as error:
                found[option.var] = os.environ.get(option.var)
                _report(problems, str(error), f"unset {option.var}, or give it a valid value")
    messages: list[str] = []
    env.warn_unknown_variables(messages.append)
    for message in messages:
        _report(problems, message, "correct the name")
    return found or {"all": "default"}
