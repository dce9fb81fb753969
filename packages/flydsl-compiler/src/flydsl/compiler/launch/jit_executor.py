"""Names of the execution layer: artifacts, their launchers, the C ABI storage of arguments."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from flydsl.tracing.protocol import c_abi_spec

from ..store.artifact import CompiledArtifact
from .compiled import CompiledFunction

__all__ = ["CallState", "CompiledArtifact", "GpuJitModule", "build_abi_storage"]

CallState = CompiledFunction


class GpuJitModule:
    """The code object of an artifact, loaded on the current device."""

    def __init__(self, artifact: CompiledArtifact) -> None:
        self.artifact = artifact
        self.launcher = CompiledFunction(artifact)

    def load(self) -> None:
        """Load now rather than at the first launch (which is illegal while a graph is captured). HipError."""
        self.launcher.load()


def build_abi_storage(arguments: Sequence[Any]) -> tuple[Any, list[Any]]:
    """C storage of argument objects: (array of pointers, one per slot; the storages, which it points into).

    TypeError for an argument without a C ABI.
    """
    storages = []
    for argument in arguments:
        for slot, fill in c_abi_spec(argument):
            storage = slot()
            fill(argument, storage)
            storages.append(storage)
    pointers = (ctypes.c_void_p * len(storages))(*(ctypes.addressof(s) for s in storages))
    return pointers, storages
