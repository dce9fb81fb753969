"""The compiled artifact: one self-describing file, checked on every read, launched without a compiler.

Layout: magic (8 bytes), header length (8 bytes, little endian), header (JSON, UTF-8), code object, traced IR and
what it was compiled from (zlib, may be absent), SHA-256 of everything before. Nothing in the file is executed by
reading it. A header is short: what neither a launch nor a list of files needs stands behind it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

__all__ = ["FORMAT", "Artifact", "ArtifactError", "load_artifact", "read_header"]

MAGIC = b"FLYDSL\x00\x01"
FORMAT = 3
_START, _DIGEST = len(MAGIC) + 8, 32  # bytes before the header, and behind everything


class ArtifactError(ValueError):
    """A file that is no intact artifact of this version."""


#: What the header of a file holds.
_HEADER = {"name": str, "arch": str, "plan": dict, "key": str, "parameters": list, "positions": list, "metadata": dict,
           "hsaco_size": int, "source_size": int, "inputs_size": int}
#: What follows it, in this order, each with its length in bytes.
_SECTIONS = ("hsaco_size", "source_size", "inputs_size")


@dataclass
class Artifact:
    """A compiled function: launch plan and code object.

    Attributes:
        name: the function's name.
        arch: architecture of the code object.
        plan: launch plan (data for `flydsl.runtime.Launcher`).
        hsaco: AMDHSA code object.
        key: digest of what it was compiled from.
        metadata: whatever else describes it (kernel names, times, versions).
        parameters: names of the function's parameters in order.
        positions: for each argument of the plan its position among the parameters.
        source: text of the traced IR, compressed by `zlib`; empty in artifacts that are shipped.
        packed_inputs: what it was compiled from, likewise, in JSON (see `pack_inputs`).
    """

    name: str
    arch: str
    plan: dict[str, Any]
    hsaco: bytes
    key: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    parameters: list[str] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    source: bytes = b""
    packed_inputs: bytes = b""

    def pack_inputs(self, inputs: dict[str, Any]) -> None:
        """Keep what the artifact was compiled from, for people who ask why a call does not find it."""
        self.packed_inputs = zlib.compress(json.dumps(inputs, separators=(",", ":")).encode(), 1)

    @property
    def inputs(self) -> dict[str, Any]:
        """What was given to `pack_inputs`; empty where the artifact does not hold it. ArtifactError if that is damaged
        (whoever wrote a file also made its checksum)."""
        try:
            found = json.loads(zlib.decompress(self.packed_inputs)) if self.packed_inputs else {}
        except (zlib.error, ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ArtifactError("damaged: what it was compiled from is no JSON object")
        return found

    @property
    def source_ir(self) -> str:
        """Text of the IR as it was traced, before any pass; empty where the artifact does not hold it."""
        return zlib.decompress(self.source).decode() if self.source else ""

    def to_bytes(self) -> bytes:
        """The file content."""
        header = {
            "format": FORMAT, "name": self.name, "arch": self.arch, "plan": self.plan, "key": self.key,
            "parameters": self.parameters, "positions": self.positions, "metadata": self.metadata,
            "hsaco_size": len(self.hsaco), "source_size": len(self.source), "inputs_size": len(self.packed_inputs),
        }
        text = json.dumps(header, separators=(",", ":")).encode()
        body = MAGIC + len(text).to_bytes(8, "little") + text + self.hsaco + self.source + self.packed_inputs
        return body + hashlib.sha256(body).digest()

    @classmethod
    def from_bytes(cls, data: bytes, *, key: str | None = None) -> Artifact | None:
        """The artifact, or None for anything that is not an intact artifact of this format (and key)."""
        try:
            artifact = cls.parse(data)
        except ArtifactError:
            return None
        return artifact if key is None or artifact.key == key else None

    @classmethod
    def parse(cls, data: bytes) -> Artifact:
        """The artifact in a file's content. ArtifactError says what is wrong with it."""
        view = memoryview(data)
        if _begins(data, len(data)) and hashlib.sha256(view[:-_DIGEST]).digest() != data[-_DIGEST:]:
            raise ArtifactError("damaged: the checksum does not match")
        header = read_header(io.BytesIO(data), len(data))
        sections, end = [], len(data) - _DIGEST
        for name in reversed(_SECTIONS):
            sections.append(bytes(view[end - header[name] : end]))
            end -= header[name]
        inputs, source, hsaco = sections
        return cls(header["name"], header["arch"], header["plan"], hsaco, header["key"], header["metadata"],
                   header["parameters"], header["positions"], source, inputs)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the artifact to a file (replaced in one step). OSError if that fails."""
        target = Path(path)
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            temporary.write_bytes(self.to_bytes())
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
        return target

    def launcher(self) -> Any:
        """A callable that takes the function's parameters by position; compile-time ones are ignored.

        Nothing is loaded on a device before the first call. Raises ValueError for a plan that this version
        of the runtime does not know.
        """
        from ._native import Launcher
        from ._plans import remember

        placed: dict[str, Any] = {}
        if self.parameters or self.positions:
            placed = {"positions": self.positions, "parameters": len(self.parameters)}
        launcher = Launcher(self.plan, self.hsaco, arch=self.arch, **placed)
        remember(self.plan, self.hsaco)  # the launcher has refused what is no plan
        return launcher


def _begins(start: bytes, size: int) -> bool:
    """Whether a file of so many bytes that begins like this can be an artifact."""
    return size >= _START + _DIGEST and start.startswith(MAGIC)


def read_header(file: IO[bytes], size: int) -> dict[str, Any]:
    """The header of an artifact file of ``size`` bytes, read from its start; what follows is neither read nor checked.

    Raises:
        ArtifactError: it is no header of this version, or of a file of another size.
    """
    start = file.read(_START)
    if not _begins(start, size):
        raise ArtifactError("not a FlyDSL artifact")
    length, left = int.from_bytes(start[len(MAGIC) :], "little"), size - _START - _DIGEST
    try:
        header = json.loads(file.read(min(length, left)))
    except (ValueError, RecursionError):
        raise ArtifactError("damaged: the header is no JSON") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        found = header.get("format") if isinstance(header, dict) else None
        raise ArtifactError(f"format {found} is not the format {FORMAT} of this version")
    for name, kind in _HEADER.items():
        if name not in header:
            raise ArtifactError(f"damaged: the header has no {name!r}")
        if not isinstance(header[name], kind):
            raise ArtifactError(f"damaged: {name!r} of the header is no {kind.__name__}")
    sizes = [header[name] for name in _SECTIONS]
    if min(sizes) < 0 or length + sum(sizes) != left:
        raise ArtifactError("damaged: the file has another size than the header says")
    return header


def load_artifact(path: str | os.PathLike[str]) -> Any:
    """A launcher for an artifact file, for example one that ``CompiledFunction.save`` wrote.

    Needs no compiler. Calling it takes the parameters of the compiled function by position.

    Raises:
        OSError: the file cannot be read. ArtifactError: it is no intact artifact of this version.
    """
    try:
        return Artifact.parse(Path(path).read_bytes()).launcher()
    except ArtifactError as error:
        raise ArtifactError(f"{path}: {error}") from None
