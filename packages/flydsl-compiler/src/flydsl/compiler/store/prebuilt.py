"""Prebuilt artifacts: read-only folders that packages ship, in which a call is looked up before it is compiled.

A package's artifacts for an architecture lie in ``flydsl/prebuilt/<arch>/<package>``, in any distribution (its own or
a companion), or below ``FLYDSL_RUNTIME_PREBUILT_DIR``. A key has all that a key of the disk cache has, with two
differences that make it the same on every machine and Python: functions of the package and of FlyDSL enter by name,
and what they do is covered by a digest of the sources, which the folder states for all of its artifacts. A folder of
other sources is not used. Each file carries the checksum of its content.
"""

from __future__ import annotations

import functools
import json
import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from flydsl.utils import env
from flydsl.utils.file import atomic_write, read_json, read_regular

from ..specialization.call import Call
from ..specialization.environment import key_environment
from ..specialization.key import NotPortable
from .artifact import FORMAT, ArtifactError, CompiledArtifact
from .root import SUFFIX
from .toolchain import package_versions, source_digests

__all__ = ["PrebuiltFolder", "find", "folders", "portable_key"]

INDEX = "index.json"
_KEPT = ("kernels", "resources", "schedules", "storable")  # of the metadata
_STACK = "flydsl"  # the namespace whose functions the digest of sources covers beside the package's own


class PrebuiltFolder:
    """The artifacts of one package for one architecture.

    Args:
        path: the folder; its ``index.json`` has been written by :meth:`write_index`.

    Raises:
        OSError, ValueError: the index cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            index = read_json(self.path / INDEX)
        except ValueError as error:
            raise ValueError(f"{self.path / INDEX} cannot be read: {error}") from None
        package = index.get("package") if isinstance(index, dict) else None
        made_of = index.get("made_of", {}) if isinstance(index, dict) else None
        if not isinstance(package, str) or not isinstance(made_of, dict):
            raise ValueError(f"{self.path / INDEX} is no index of prebuilt artifacts")
        self.package: str = package
        self._made_of: dict[str, Any] = made_of

    @functools.cached_property
    def problem(self) -> str:
        """Why the folder cannot be used; empty if it can."""
        differing = [name for name, value in _ingredients(self.package).items() if self._made_of.get(name) != value]
        return f"made from other {', '.join(differing)}" if differing else ""

    def covers(self, module: str) -> bool:
        """Whether the functions of a module belong to the package."""
        return f"{module}.".startswith(f"{self.package}.")

    def file(self, key: str) -> Path:
        """Of an artifact."""
        return self.path / f"{key}{SUFFIX}"

    def load(self, key: str) -> CompiledArtifact | None:
        """The artifact of a key; None if there is none, and, with a warning, if it cannot be used."""
        path = self.file(key)
        try:
            artifact = CompiledArtifact.parse(read_regular(path)[0])
        except FileNotFoundError:
            return None
        except (OSError, ArtifactError) as error:
            _warn_once(path, f"the prebuilt artifact {path} is not used: {error}; the kernel is compiled")
            return None
        return artifact if artifact.key == key else None

    def files(self) -> list[Path]:
        """Of all artifacts."""
        return sorted(self.path.glob(f"*{SUFFIX}"))

    def damaged(self) -> list[tuple[Path, str]]:
        """The files that are not what was written, each with the reason."""
        found = []
        for path in self.files():
            try:
                artifact = CompiledArtifact.parse(read_regular(path)[0])
            except (OSError, ArtifactError) as error:
                found.append((path, str(error)))
                continue
            if artifact.key != path.stem:
                found.append((path, "the file has the name of another key"))
        return found

    def add(self, function: Any, *args: Any, **kwargs: Any) -> Path:
        """Compile a call of a jit function for the current target, launch nothing, and keep its artifact.

        Raises:
            ValueError: the function is not the package's, reads the environment, or its artifact belongs to a process.
            NotPortable: it reaches something that is in no package.
        """
        with env.override(compile_only=True, enable_debug_info=False):
            call = function.resolve_call(*args, **kwargs)
            if not self.covers(call.reached.module):
                raise ValueError(f"{function!r} does not belong to {self.package}")
            key = portable_key(call, self.package)
            artifact = function.specialise(*args, **kwargs).artifact
        if function.environment_reads or not artifact.metadata.get("storable", True):
            raise ValueError(f"{function!r} depends on its process: environment variables, linked code or initialisers")
        # Without what differs from build to build: times, places, the trace.
        metadata = {name: value for name, value in artifact.metadata.items() if name in _KEPT}
        found = replace(artifact, key=key, metadata=metadata, source=b"", packed_inputs=b"")
        with atomic_write(self.file(key), mode="wb") as handle:
            handle.write(found.to_bytes())
        return self.file(key)

    @staticmethod
    def write_index(path: str | os.PathLike[str], package: str) -> PrebuiltFolder:
        """Make a folder for artifacts of a package's present sources."""
        Path(path).mkdir(parents=True, exist_ok=True)
        with atomic_write(Path(path) / INDEX) as handle:
            json.dump({"package": package, "made_of": _ingredients(package)}, handle, indent=1)
        return PrebuiltFolder(path)


def _ingredients(package: str) -> dict[str, Any]:
    """What decides, besides a key, what is in an artifact. Of flydsl-ir nothing where it is not installed."""
    sources, generator = source_digests(package)
    of_generator = {"flydsl-ir": package_versions()["flydsl-ir"], "sources of flydsl-ir": generator}
    return {"format": FORMAT, "sources": sources, **(of_generator if generator else {})}


def portable_key(call: Call, package: str) -> str:
    """The key of a call's artifact among the prebuilt ones of a package. NotPortable if there cannot be any."""
    with env.override(enable_debug_info=False):
        environment = key_environment(frozenset())
    return call.portable_digest(tuple(dict.fromkeys((_STACK, package))), environment)


def roots() -> Iterator[str]:
    """Where folders of architectures are looked for."""
    import flydsl

    if env.runtime.prebuilt_dir:
        yield os.path.expanduser(env.runtime.prebuilt_dir)
    yield from (f"{root}/prebuilt" for root in flydsl.__path__)


@functools.lru_cache(maxsize=32)
def _folders(arch: str, places: tuple[str, ...]) -> tuple[PrebuiltFolder, ...]:
    found = []
    for place in places:
        try:
            names = sorted(os.listdir(f"{place}/{arch}"))
        except OSError:  # nothing is prebuilt there
            continue
        for name in names:
            try:
                found.append(PrebuiltFolder(f"{place}/{arch}/{name}"))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, ValueError) as error:
                warnings.warn(f"prebuilt artifacts cannot be used: {error}", UserWarning, stacklevel=8)
    return tuple(found)


def folders(arch: str) -> tuple[PrebuiltFolder, ...]:
    """The folders for an architecture, usable or not."""
    return _folders(arch.split(":")[0], tuple(roots()))


def find(call: Call) -> CompiledArtifact | None:
    """The prebuilt artifact of a call. None without one, where line tables are asked for, and while IR is dumped."""
    if not env.runtime.prebuilt or env.debug.dump_ir or env.debug.dump_asm or _lines_asked_for():
        return None
    for folder in folders(call.backend.target.arch):
        if not folder.covers(call.reached.module):
            continue
        if folder.problem:
            _warn_once(folder.path, f"the prebuilt artifacts in {folder.path} are not used: {folder.problem}; "
                                    "kernels are compiled. FLYDSL_RUNTIME_PREBUILT=0 silences this.")
            continue
        try:
            artifact = folder.load(portable_key(call, folder.package))
        except NotPortable:
            return None
        if artifact is not None:
            return artifact
    return None


def _lines_asked_for() -> bool:
    return bool(env.debug.enable_debug_info) and env.debug.options["enable_debug_info"].source() != "default"


_warned: set[Path] = set()


def _warn_once(path: Path, text: str) -> None:
    if path not in _warned:
        _warned.add(path)
        warnings.warn(text, UserWarning, stacklevel=8)
