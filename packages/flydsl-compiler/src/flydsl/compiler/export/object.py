"""Export of a specialisation as an object file and a header for C and C++ programs.

The object holds the code object, the launch plan as C code, and a small adapter to the HIP module API; it
needs ``libamdhip64`` at link time and nothing of FlyDSL. Only the five symbols of the interface are global.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..backends import get_backend
from ..store.artifact import CompiledArtifact
from .code import header_text, source_text
from .slots import KEYWORDS, Slot, slots_of

__all__ = ["export_to_c"]

SCHEMA_VERSION = 2


def _symbol(file_name: str, function_prefix: str) -> str:
    symbol = function_prefix or file_name
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", symbol) or "__" in symbol or symbol in KEYWORDS:
        raise ValueError(f"{symbol!r} cannot be a symbol: use letters, digits and single underscores, no keyword of C")
    return symbol


def export_to_c(
    artifact: CompiledArtifact, file_path: str | os.PathLike[str], file_name: str, function_prefix: str = ""
) -> None:
    """Write ``<file_path>/<file_name>.o`` and ``.h``.

    Raises:
        FileNotFoundError: ``file_path`` does not exist. ValueError: ``file_name`` is no bare name, or the symbol no
            identifier. NotImplementedError: the arguments or this host cannot be exported.
        RuntimeError: no C compiler (``CC``, cc, gcc, clang), or it failed.
    """
    folder = Path(file_path)
    if not folder.is_dir():
        raise FileNotFoundError(f"the folder {folder} does not exist")
    if not file_name or file_name != os.path.basename(file_name) or file_name in (".", ".."):
        raise ValueError(f"file_name must be a bare name, got {file_name!r}")
    symbol = _symbol(file_name, function_prefix)
    if sys.platform != "linux" or sys.byteorder != "little" or sys.maxsize < 2**63 - 1:
        raise NotImplementedError("objects can be exported on 64-bit little-endian Linux only")
    slots = slots_of(artifact, symbol)
    metadata = json.dumps(_metadata(artifact, symbol, slots), sort_keys=True, separators=(",", ":"))
    header = header_text(artifact, symbol, slots, SCHEMA_VERSION)
    with tempfile.TemporaryDirectory() as work:
        (Path(work) / f"{file_name}.h").write_text(header, encoding="utf-8")
        (Path(work) / "image.hsaco").write_bytes(artifact.hsaco)
        source, image = Path(work) / "launcher.c", str(Path(work) / "image.hsaco")
        source.write_text(source_text(artifact, symbol, slots, metadata, f"{file_name}.h", image), encoding="utf-8")
        built = Path(work) / f"{file_name}.o"
        _compile(source, built)
        shutil.copyfile(built, folder / f"{file_name}.o")
    (folder / f"{file_name}.h").write_text(header, encoding="utf-8")


def _metadata(artifact: CompiledArtifact, symbol: str, slots: list[Slot]) -> dict[str, Any]:
    from ..store.toolchain import package_versions

    return {
        "schema_version": SCHEMA_VERSION, "symbol": symbol, "module_init_symbol": f"{symbol}__module_init",
        "module_load_symbol": f"{symbol}__module_load", "module_unload_symbol": f"{symbol}__module_unload",
        "metadata_symbol": f"{symbol}__metadata", "backend": "rocm", "arch": artifact.arch,
        "host_triple": f"{platform.machine()}-unknown-linux-gnu",
        "flydsl_version": package_versions()["flydsl-compiler"],
        "runtime_libraries": [{"link_name": "amdhip64"}],
        "linker_flags": list(get_backend(arch=artifact.arch).aot_runtime_config().linker_flags),
        "return_abi": {"kind": "status", "ctype": "int32", "success": 0}, "abi": [slot.metadata() for slot in slots],
    }


def _compile(source: Path, output: Path) -> None:
    compiler = os.environ.get("CC") or next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise RuntimeError("exporting to C needs a C compiler: install gcc or clang, or set CC")
    command = [compiler, "-std=c11", "-O2", "-fPIC", "-Wall", "-Wextra", "-fvisibility=hidden", "-c", str(source), "-o",
               str(output)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(f"{compiler} cannot compile the exported launcher:\n{result.stderr[-2000:]}")
