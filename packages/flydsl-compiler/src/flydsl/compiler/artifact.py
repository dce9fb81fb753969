"""The compiled artifact: one self-describing file, checked on every read.

Layout: magic (8 bytes), header length (8 bytes, little endian), header (JSON, UTF-8), code object,
SHA-256 of everything before. Nothing in the file is executed by reading it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

__all__ = ["FORMAT", "CompiledArtifact"]

MAGIC = b"FLYDSL\x00\x01"
FORMAT = 1
_DIGEST = 32


@dataclass
class CompiledArtifact:
    """A compiled jit function: launch plan and code object.

    Attributes:
        name: the jit function's name.
        arch: architecture of the code object.
        plan: launch plan (data for `flydsl.runtime.Launcher`).
        hsaco: AMDHSA code object.
        key: digest of the full cache key.
        metadata: whatever else describes it (kernel names, compile time, versions).
    """

    name: str
    arch: str
    plan: dict[str, Any]
    hsaco: bytes
    key: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The file content."""
        header = {
            "format": FORMAT, "name": self.name, "arch": self.arch, "plan": self.plan, "key": self.key,
            "metadata": self.metadata, "hsaco_size": len(self.hsaco),
        }  # fmt: skip
        text = json.dumps(header, separators=(",", ":")).encode()
        body = MAGIC + len(text).to_bytes(8, "little") + text + self.hsaco
        return body + hashlib.sha256(body).digest()

    @classmethod
    def from_bytes(cls, data: bytes, *, key: str | None = None) -> CompiledArtifact | None:
        """The artifact, or None for anything that is not an intact artifact of this format (and key)."""
        if len(data) < len(MAGIC) + 8 + _DIGEST or not data.startswith(MAGIC):
            return None
        body, digest = data[:-_DIGEST], data[-_DIGEST:]
        if hashlib.sha256(body).digest() != digest:
            return None
        start = len(MAGIC) + 8
        size = int.from_bytes(data[len(MAGIC) : start], "little")
        try:
            header = json.loads(body[start : start + size])
        except (ValueError, UnicodeDecodeError):
            return None
        hsaco = body[start + size :]
        if not isinstance(header, dict) or header.get("format") != FORMAT or header.get("hsaco_size") != len(hsaco):
            return None
        if key is not None and header.get("key") != key:
            return None
        return cls(header["name"], header["arch"], header["plan"], hsaco, header["key"], header.get("metadata", {}))
