"""The compiled artifact. The format belongs to `flydsl.runtime`, which launches artifacts without a compiler."""

from __future__ import annotations

from flydsl.runtime.artifact import FORMAT, ArtifactError, read_header
from flydsl.runtime.artifact import Artifact as CompiledArtifact

__all__ = ["FORMAT", "ArtifactError", "CompiledArtifact", "read_header"]
