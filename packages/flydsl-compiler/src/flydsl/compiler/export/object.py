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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..backends import get_backend
from ..store.artifact import CompiledArtifact
from .code import KEYWORDS, header_text, source_text

__all__ = ["export_to_c"]

SCHEMA_VERSION = 2
_SCALARS = {  # plan type -> (ctype, bytes, encoding)
    "i1": ("bool", 1, ""), "i8": ("int8", 1, ""), "i16": ("int16", 2, ""), "i32": ("int32", 4, ""),
    "i64": ("int64", 8, ""), "u8": ("uint8", 1, ""), "u16": ("uint16", 2, ""), "u32": ("uint32", 4, ""),
    "u64": ("uint64", 8, ""), "index": ("int64", 8, ""), "f32": ("float", 4, ""), "f64": ("double", 8, ""),
    "f16": ("uint16", 2, "float16_bits"), "bf16": ("uint16", 2, "bfloat16_bits"),
}


@dataclass
class Slot:
    """One pointer of the ``args`` array.

    Attributes:
        plan_argument: index of the plan argument it belongs to; -1 for the unnamed stream.
        arg_index, arg_name: parameter of the jit function; None and "" for the unnamed stream.
    """

    plan_argument: int
    arg_index: int | None
    arg_name: str
    kind: str
    ctype: str
    size: int
    alignment: int
    encoding: str = ""
    shape_dims: list[int] = field(default_factory=list)
    stride_dims: list[int] = field(default_factory=list)
    stride_bits: int = 64

    def metadata(self) -> dict[str, Any]:
        """The slot's entry in the metadata."""
        found: dict[str, Any] = {"arg_index": self.arg_index, "arg_name": self.arg_name, "kind": self.kind,
                                 "ctype": self.ctype, "size": self.size, "alignment": self.alignment}
        if self.kind == "tensor_layout":
            found.update(shape_dims=self.shape_dims, stride_dims=self.stride_dims, shape_bits=32,
                         stride_bits=self.stride_bits)
        if self.encoding:
            found["encoding"] = self.encoding
        return found


def _slots(artifact: CompiledArtifact) -> list[Slot]:
    """ABI slots in parameter order. NotImplementedError for arguments that have none."""
    slots: list[Slot] = []
    for i, argument in enumerate(artifact.plan["args"]):
        position = artifact.positions[i]
        base = {"plan_argument": i, "arg_index": position, "arg_name": argument["name"]}
        kind = argument["kind"]
        if kind == "tensor":
            slots.append(Slot(**base, kind="tensor_data", ctype="pointer", size=8, alignment=8))
            shape = [d for d, extent in enumerate(argument["shape"]) if extent is None]
            stride = [d for d, step in enumerate(argument["strides"]) if step is None]
            widths = {argument["index_width"][d] for d in stride} or {64}
            if shape or stride:
                (bits,) = widths
                size = 4 * len(shape) + bits // 8 * len(stride)
                slots.append(Slot(**base, kind="tensor_layout", ctype="bytes", size=size, alignment=1,
                                  shape_dims=shape, stride_dims=stride, stride_bits=bits))
        elif kind == "scalar":
            if argument["type"] not in _SCALARS:
                raise NotImplementedError(f"argument {argument['name']!r}: {argument['type']} cannot be exported to C")
            ctype, size, encoding = _SCALARS[argument["type"]]
            slots.append(Slot(**base, kind="scalar", ctype=ctype, size=size, alignment=size, encoding=encoding))
        elif kind != "absent":
            slots.append(Slot(**base, kind=kind, ctype="pointer", size=8, alignment=8))
    streams = sum(s.kind == "stream" for s in slots)
    if streams > 1:
        raise NotImplementedError(f"{artifact.name}: {streams} stream parameters cannot be exported to C")
    if not streams:
        slots.append(Slot(-1, None, "", "stream", "pointer", 8, 8))
    return slots


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
    slots = _slots(artifact)
    metadata = json.dumps(_metadata(artifact, symbol, slots), sort_keys=True, separators=(",", ":"))
    header = header_text(artifact, symbol, slots, SCHEMA_VERSION)
    with tempfile.TemporaryDirectory() as work:
        (Path(work) / f"{file_name}.h").write_text(header)
        (Path(work) / "image.hsaco").write_bytes(artifact.hsaco)
        source, image = Path(work) / "launcher.c", str(Path(work) / "image.hsaco")
        source.write_text(source_text(artifact, symbol, slots, metadata, f"{file_name}.h", image))
        built = Path(work) / f"{file_name}.o"
        _compile(source, built)
        shutil.copyfile(built, folder / f"{file_name}.o")
    (folder / f"{file_name}.h").write_text(header)


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
