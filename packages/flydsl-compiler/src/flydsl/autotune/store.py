"""Results on disk: the cache of searched winners, and offline artifacts that are shipped."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from flydsl.utils import env
from flydsl.utils.file import atomic_write, read_json

from .config import Config

__all__ = ["ARTIFACT_VERSION", "OfflineConfigs", "WinnerCache", "validate_artifact_name"]

ARTIFACT_VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


class WinnerCache(MutableMapping[Sequence[str], Config]):
    """Winners of past searches of one function: ``<FLYDSL_AUTOTUNE_CACHE_DIR>/<function name>.json``.

    A mapping from keys (sequences of strings) to configurations. Storing an entry writes the file; ``del`` and
    `clear` forget entries in this process, so that the next call searches again.
    """

    def __init__(self, name: str) -> None:
        self.path = Path(env.autotune.cache_dir).expanduser() / f"{name}.json"
        self._winners: dict[str, Config] = {}
        self._read()

    def __getitem__(self, key: Sequence[str]) -> Config:
        return self._winners[self._text(key)]

    def __setitem__(self, key: Sequence[str], config: Config) -> None:
        self.put(key, config)

    def __delitem__(self, key: Sequence[str]) -> None:
        del self._winners[self._text(key)]

    def __iter__(self) -> Iterator[Sequence[str]]:
        return iter([tuple(json.loads(text)) for text in self._winners])

    def __len__(self) -> int:
        return len(self._winners)

    def clear(self) -> None:
        """Forget all winners in this process; the file stays."""
        self._winners.clear()

    def _read(self) -> None:
        try:
            data = read_json(self.path)
            entries = data.items() if isinstance(data, dict) else ()
        except (OSError, ValueError):
            return
        for key, value in entries:
            try:
                self._winners.setdefault(self._text(json.loads(key)), Config.from_dict(value))
            except (TypeError, AttributeError, ValueError, RecursionError):
                continue  # an entry that is no configuration is as good as none

    @staticmethod
    def _text(key: Sequence[str]) -> str:
        return json.dumps(list(key))

    def put(self, key: Sequence[str], config: Config) -> None:
        """Remember a winner; one that JSON cannot hold, or a folder that cannot be written, stays in memory."""
        from flydsl.compiler.store.cache import FileLock

        self._winners[self._text(key)] = config
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path.with_suffix(".lock"), timeout=60):
                self._read()  # what other processes found meanwhile
                found = {k: c.to_dict() for k, c in self._winners.items() if c.pre_hook is None and _survives(c)}
                with atomic_write(self.path) as handle:
                    json.dump(found, handle, indent=1, sort_keys=True)
        except (OSError, RuntimeError) as error:
            warnings.warn(f"autotune results cannot be stored in {self.path}: {error}", UserWarning, stacklevel=4)


def _survives(config: Config) -> bool:
    try:
        return bool(Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config)
    except (TypeError, ValueError):
        return False


def validate_artifact_name(name: Any) -> str:
    """A checked ``artifact_name``. TypeError: no string. ValueError: not 1-64 letters, digits, ``.``, ``_``, ``-``."""
    if not isinstance(name, str):
        raise TypeError(f"artifact_name must be a string, got {type(name).__name__}")
    if not _NAME.fullmatch(name):
        raise ValueError(f"artifact_name must be 1 to 64 ASCII letters, digits, '.', '_' or '-', got {name!r}")
    return name


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


class OfflineConfigs:
    """Artifacts with a configuration each, made on one machine and used on others of the same device."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._parsed: dict[Path, Any] = {}

    def identity(self, key: dict[str, Any], device: dict[str, Any] | None) -> dict[str, Any] | None:
        """What an artifact is for; None when the device is unknown or a key value is no JSON."""
        if device is None:
            return None
        identity = {"name": self.name, "key": key, "device": device}
        try:
            return dict(json.loads(_canonical(identity)))
        except (TypeError, ValueError):
            return None

    def path(self, identity: dict[str, Any]) -> Path | None:
        """The file of an identity, None when artifacts are off."""
        folder = env.autotune.config_dir
        if not folder:
            return None
        digest = hashlib.sha256(_canonical(identity).encode()).hexdigest()
        return Path(folder).expanduser() / f"{self.name}-{digest}.json"

    def load(self, identity: dict[str, Any]) -> dict[str, Any] | None:
        """The configuration as data; None with a warning for a file that does not fit."""
        path = self.path(identity)
        if path is None:
            return None
        if path not in self._parsed:
            self._parsed[path] = self._parse(path, identity)
        return self._parsed[path]

    def _parse(self, path: Path, identity: dict[str, Any]) -> dict[str, Any] | None:
        try:
            data = read_json(path)
        except FileNotFoundError:
            return self.ignore(path, "it does not exist")
        except (OSError, ValueError) as error:
            return self.ignore(path, f"it cannot be read ({error})")
        if not isinstance(data, dict) or data.get("version") != ARTIFACT_VERSION:
            found = data.get("version") if isinstance(data, dict) else None
            return self.ignore(path, f"it has version {found!r}, not {ARTIFACT_VERSION}")
        if data.get("identity") != identity:
            return self.ignore(path, "it is for another identity")
        config = data.get("config")
        if not isinstance(config, dict) or not isinstance(config.get("kwargs", {}), dict):
            return self.ignore(path, "its config is no object")
        return config

    @staticmethod
    def ignore(path: Path | None, why: str) -> None:
        """Warn that an artifact is not used."""
        warnings.warn(f"offline autotune config {path} is ignored: {why}", UserWarning, stacklevel=6)

    def check(self, identity: dict[str, Any] | None, config: Config) -> None:
        """ValueError if a configuration cannot be an artifact."""
        if identity is None:
            raise ValueError("cannot generate offline config identity: the device is unknown or a key value is no JSON")
        if config.pre_hook is not None:
            raise ValueError("an offline config cannot hold a pre_hook")
        if not _survives(config):
            raise ValueError(f"the values of {config} do not preserve their types in JSON; use ints, floats, strings")

    def store(self, identity: dict[str, Any], config: Config) -> Path | None:
        """Write an artifact; None when artifacts are off."""
        path = self.path(identity)
        if path is None:
            return None
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as handle:
            json.dump(
                {"version": ARTIFACT_VERSION, "identity": identity, "config": config.to_dict()},
                handle, indent=2, sort_keys=True, allow_nan=False,
            )
            handle.write("\n")
        self._parsed.pop(path, None)
        return path
