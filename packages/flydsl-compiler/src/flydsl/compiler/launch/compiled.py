"""`CompiledFunction`: one specialisation, ready to launch, to save and to export."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flydsl.runtime.launching import Launcher, library_info, remember

from ..plan.entries import is_of_registered_type
from ..store.artifact import CompiledArtifact

__all__ = ["CompiledFunction"]


class CompiledFunction(Launcher):
    """A specialisation of a jit function.

    Calling it takes the jit function's parameters by position (compile-time ones are there but ignored) and
    launches without waiting. IndexError for too few arguments, TypeError for keywords; further positional
    arguments are ignored. Each argument is checked against what was compiled.

    Attributes:
        artifact: the compiled code and its launch plan.
    """

    artifact: CompiledArtifact
    _converters: tuple[Any, ...]

    def __new__(
        cls,
        artifact: CompiledArtifact,
        converters: Sequence[Callable[[Any], Any] | None] = (),
        processors: Sequence[Callable[[int], Any]] = (),
    ) -> CompiledFunction:
        some = any(c is not None for c in converters)
        self = super().__new__(
            cls, artifact.plan, artifact.hsaco, arch=artifact.arch, positions=artifact.positions,
            parameters=len(artifact.parameters), converters=tuple(converters) if some else None,
            **({"post_load": tuple(processors)} if processors else {}),
        )
        self.artifact = artifact
        remember(artifact.plan, artifact.hsaco)
        if schedules := artifact.metadata.get("schedules"):
            from flydsl.runtime import schedules as known

            known.register(artifact.arch, schedules, artifact.hsaco)
        self._converters = tuple(converters) if some else ()
        return self

    def _load_if_possible(self) -> None:
        """Load now where a device of this architecture is in use: loading is illegal during graph capture."""
        if library_info() is None or not self.artifact.hsaco:
            return
        from flydsl.runtime import HipError

        with contextlib.suppress(HipError):  # another architecture: the first call says so
            self.load()

    def __reduce__(self) -> Any:
        raise TypeError("a compiled function cannot be pickled: save it (.save(path) and "
                        "flydsl.runtime.load_artifact(path)), or pickle the jit function")

    @property
    def source_ir(self) -> str:
        """Text of the IR as it was traced, before any pass; a notebook shows it with colours."""
        from .notebook import IRText

        return IRText(self.artifact.source_ir)

    def _repr_html_(self) -> str:
        """What a notebook shows: the kernels with their registers and memory, the traced IR, the machine code."""
        from .notebook import compiled_html

        return compiled_html(self.artifact)

    def load_timed(self) -> float:
        """Load on the current device now, and note and print the seconds it took as the phase ``load``. HipError."""
        start = time.perf_counter()
        self.load()
        seconds = time.perf_counter() - start
        self.artifact.metadata.setdefault("phases", {})["load"] = seconds
        name, arch = self.artifact.name, self.artifact.arch
        sys.stderr.write(f"[flydsl.compile] {name} for {arch}: load {seconds * 1e3:.1f} ms\n")
        return seconds

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a file that `flydsl.runtime.load_artifact` launches without the compiler.

        Raises:
            NotImplementedError: an argument is read by Python code, which a file cannot hold.
            OSError: the file cannot be written.
        """
        if not self.artifact.metadata.get("storable", True):
            raise NotImplementedError(f"{self.artifact.name}: linked bitcode or module initialisers cannot be saved")
        if self._converters:
            raise NotImplementedError(
                f"{self.artifact.name}: an artifact with structs, containers or registered Python types cannot be "
                "saved; pass their numbers and pointers as separate arguments"
            )
        # What is shipped does not show the source.
        return dataclasses.replace(self.artifact, source=b"").save(path)

    def max_blocks_per_cu(self) -> int:
        """Workgroups that are resident on a compute unit of the current device at a time.

        Raises:
            ValueError: the function does not make exactly one launch with constant block and LDS size.
        """
        kernel, threads, smem = _single_constant_launch(self.artifact)
        return int(self.max_active_blocks(kernel, threads, smem))

    def export_to_c(self, file_path: str | os.PathLike[str], file_name: str, function_prefix: str = "") -> None:
        """Write ``<file_path>/<file_name>.o`` and ``.h`` for C and C++ programs."""
        from ..export.object import export_to_c

        if not self.artifact.metadata.get("storable", True):
            raise NotImplementedError(f"{self.artifact.name}: functions with module initialisers cannot be exported")
        if any(map(is_of_registered_type, self._converters)):
            raise NotImplementedError(f"{self.artifact.name}: arguments of registered Python types cannot be exported")
        export_to_c(self.artifact, file_path, file_name, function_prefix)


def _single_constant_launch(artifact: CompiledArtifact) -> tuple[str, int, int]:
    """(kernel, threads of a block, bytes of dynamic LDS) of the plan's only launch."""
    code = artifact.plan["code"]
    launches = [instruction for instruction in code if instruction[0] == "launch"]
    if len(launches) != 1:
        raise ValueError(f"{artifact.name}: needs exactly one launch, the plan has {len(launches)}")
    written: dict[int, list[list[Any]]] = {}
    for instruction in code:
        if instruction[0] not in ("launch", "ret", "br", "cond_br", "assert"):
            written.setdefault(instruction[1], []).append(instruction)

    def constant(register: int, what: str) -> int:
        if register < 0:
            return 0
        found = written.get(register, [])
        if len(found) != 1 or found[0][0] != "const":
            raise ValueError(f"{artifact.name}: {what} is computed at the call, not a constant")
        return int(found[0][2])

    _, kernel, _, block, smem = launches[0][:5]
    threads = 1
    for register in block:
        threads *= constant(register, "the block size")
    return kernel, threads, constant(smem, "the dynamic LDS size")
