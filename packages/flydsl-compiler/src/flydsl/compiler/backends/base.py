"""Interface of a compile backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class GPUTarget:
    """What a compile is for."""

    backend: str
    arch: str
    warp_size: int


@dataclass(frozen=True)
class AOTRuntimeConfig:
    """What a program that uses exported objects links with.

    Attributes:
        archive_basename: static library of the adapter to the device API; empty when every object has its own.
        runtime_libraries: shared libraries. linker_flags: flags for the linker.
    """

    archive_basename: str
    runtime_libraries: tuple[str, ...]
    linker_flags: tuple[str, ...]


class BaseBackend(ABC):
    """A way to lower traced IR for a target."""

    def __init__(self, target: GPUTarget) -> None:
        if not self.supports_target(target):
            raise ValueError(f"{type(self).__name__} does not support {target}")
        self.target = target

    @staticmethod
    @abstractmethod
    def supports_target(target: GPUTarget) -> bool:
        """Whether this backend compiles for the target."""

    @staticmethod
    @abstractmethod
    def detect_target() -> GPUTarget:
        """The target of this machine and environment."""

    @classmethod
    def make_target(cls, arch: str) -> GPUTarget:
        """The target of an architecture."""
        detected = cls.detect_target()
        return GPUTarget(detected.backend, arch, detected.warp_size)

    @classmethod
    def llvm_address_space(cls, space: Any) -> int:
        """LLVM address space number of an address space."""
        raise NotImplementedError(f"{cls.__name__} has no address spaces")

    @abstractmethod
    def pipeline_fragments(self, *, compile_hints: dict[str, Any]) -> list[str]:
        """Textual pass pipelines, in order."""

    def lower_compile_hints(self, module: Any, *, compile_hints: dict[str, Any]) -> None:
        """Write hints onto the kernels of a module; nothing by default."""
        return None

    def external_binary_pipeline_fragments(self, *, compile_hints: dict[str, Any]) -> tuple[list[str], str]:
        """Fragments up to code generation, and the one that generates code."""
        raise NotImplementedError(f"{type(self).__name__} has no external code generation")

    @abstractmethod
    def gpu_module_targets(self) -> list[str]:
        """Target attributes of the traced ``gpu.module``."""

    def aot_runtime_config(self) -> AOTRuntimeConfig:
        """What exported objects link with."""
        raise NotImplementedError(f"{type(self).__name__} exports no objects")

    def aot_object_index(self, arch: str) -> int:
        """Which object of a binary is for an architecture."""
        return 0

    def ktrace_backend(self) -> Any:
        """What instruments kernels."""
        raise NotImplementedError(f"{type(self).__name__} has no kernel tracing")

    def hash(self) -> str:
        """Identity of the backend for cache keys."""
        return str(self.target)

    @abstractmethod
    def native_lib_patterns(self) -> list[str]:
        """Globs of the native libraries that the fingerprint covers."""

    @abstractmethod
    def jit_runtime_lib_basenames(self) -> list[str]:
        """Libraries a host engine would need; none with launch plans."""
