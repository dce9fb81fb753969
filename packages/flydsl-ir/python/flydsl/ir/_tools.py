"""Finds the files that the wheel installs beside the Python modules."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def library_dir() -> Path:
    """The folder of the native library and the extension modules."""
    # Not relative to this file: with an editable install the sources are elsewhere.
    from flydsl._mlir import _mlir_libs

    return Path(next(iter(_mlir_libs.__path__))).resolve()


def find_tool(name: str = "fly-opt") -> Path:
    """The path of an executable of this package: that of the installation or build, else the one on ``PATH``.

    Raises ``FileNotFoundError`` if there is none.
    """
    libs = library_dir()
    # Installed: flydsl/_bin beside flydsl/_mlir; build tree: <build>/bin above python_packages.
    candidates = [libs.parents[1] / "_bin" / name, libs.parents[3] / "bin" / name]
    for path in candidates:
        if path.is_file():
            return path
    elsewhere = shutil.which(name)
    if elsewhere is None:
        raise FileNotFoundError(f"{name} not found; looked at: {', '.join(map(str, candidates))}, PATH")
    return Path(elsewhere)


def _run(name: str) -> None:
    path = find_tool(name)
    os.execv(path, [str(path), *sys.argv[1:]])


def fly_opt() -> None:
    """Entry point of the console script ``fly-opt``: replaces this process by the tool."""
    _run("fly-opt")


def fly_lsp_server() -> None:
    """Entry point of the console script ``fly-lsp-server``: replaces this process by the tool."""
    _run("fly-lsp-server")
