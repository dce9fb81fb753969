"""Lowered modules kept for compiles that differ in code generation options only."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

__all__ = ["LoweredModule", "LoweredModules"]


@dataclass
class LoweredModule:
    """A module after all passes, before code generation.

    Attributes:
        name: host function. arch: target. plan: launch plan. kernels: symbols of its kernels.
        bytecode: the module in MLIR's binary form; empty without kernels.
        source: text of the traced module, compressed.
        module: the same as IR, in the context of the compile that made it (dropped when kept for others).
        link_libs: external bitcode to link. processors: callables for each loaded GPU module.
        phases: seconds of each phase so far.
        dump: where the stages of this compile are written, or None.
    """

    name: str
    arch: str
    plan: dict[str, Any]
    kernels: list[str]
    bytecode: bytes
    source: bytes = b""
    module: Any = None
    link_libs: list[str] = field(default_factory=list)
    processors: list[Any] = field(default_factory=list)
    phases: dict[str, float] = field(default_factory=dict)
    dump: Any = None


class LoweredModules:
    """The lowered modules of one jit function, least recently used dropped first."""

    def __init__(self, limit: int = 16) -> None:
        self._limit = limit
        self._modules: OrderedDict[Any, LoweredModule] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any) -> LoweredModule | None:
        """The module of a front end key."""
        with self._lock:
            found = self._modules.get(key)
            if found is not None:
                self._modules.move_to_end(key)
            return found

    def put(self, key: Any, lowered: LoweredModule) -> None:
        """Keep a module, without the parts that live only as long as its context."""
        kept = LoweredModule(lowered.name, lowered.arch, lowered.plan, lowered.kernels, lowered.bytecode,
                             lowered.source, link_libs=lowered.link_libs, processors=lowered.processors)
        with self._lock:
            self._modules[key] = kept
            while len(self._modules) > self._limit:
                self._modules.popitem(last=False)

    def __len__(self) -> int:
        return len(self._modules)
