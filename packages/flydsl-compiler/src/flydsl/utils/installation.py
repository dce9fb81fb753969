"""What is installed of the stack, found out without importing any of it."""

from __future__ import annotations

import importlib
import importlib.metadata
import re

__all__ = ["import_problems", "pins", "version_of", "wrong_pins"]

_PIN = re.compile(r"^(flydsl-[a-z]+)\s*==\s*([^\s;,]+)")
# What must be importable of each package, in the order of their dependencies: the first that fails is the cause.
_REQUIRED = {"layout": "flydsl.layout", "ir": "flydsl._mlir.ir", "runtime": "flydsl.runtime._native",
             "compiler": "flydsl.compiler"}


def version_of(name: str) -> str:
    """Version of an installed distribution; empty if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def pins(name: str) -> dict[str, str]:
    """The exact requirements of a distribution on others of the stack, as installed."""
    try:
        requirements = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    return {m.group(1): m.group(2) for m in map(_PIN.match, requirements) if m}


def wrong_pins(name: str, versions: dict[str, str]) -> list[dict[str, str]]:
    """``what`` and ``remedy`` of each requirement of a distribution that ``versions`` (by name) does not meet."""
    return [
        {
            "what": f"{name} needs {pinned} {wanted}, found {versions[pinned]}",
            "remedy": f"pip install {pinned}=={wanted}",
        }
        for pinned, wanted in pins(name).items()
        if versions.get(pinned) and versions[pinned] != wanted
    ]


def import_problems() -> list[dict[str, str]]:
    """``what`` and ``remedy`` of the first required package that cannot be imported, dependencies first."""
    wanted = pins("flydsl-compiler")
    for package, module in _REQUIRED.items():
        name = f"flydsl-{package}"
        requirement = f"{name}=={wanted[name]}" if name in wanted else name
        try:
            importlib.import_module(module)
        except ImportError as error:
            if isinstance(error, ModuleNotFoundError) and error.name == ".".join(module.split(".")[:2]):
                return [{"what": f"{name} is not installed", "remedy": f"pip install {requirement}"}]
            remedy = f"pip install --force-reinstall {requirement}, for this Python and system"
            return [{"what": f"{name} cannot be imported: {error}", "remedy": remedy}]
    return []
