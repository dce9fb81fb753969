"""One candidate of a search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Config"]


class Config:
    """One candidate: keyword arguments of the jit call and compile hints.

    Args:
        num_warps: passed as keyword ``num_warps``. waves_per_eu: compile hint.
        pre_hook: called with the arguments by name before each benchmark call; not serialised.
    """

    def __init__(
        self,
        *,
        num_warps: int | None = None,
        waves_per_eu: Any = None,
        pre_hook: Callable[[dict[str, Any]], None] | None = None,
        **kwargs: Any,
    ) -> None:
        if "maxnreg" in kwargs:
            raise TypeError("Config() has no maxnreg: it has no effect on AMD GPUs; use waves_per_eu")
        self.num_warps, self.waves_per_eu, self.pre_hook, self.kwargs = num_warps, waves_per_eu, pre_hook, kwargs

    def all_kwargs(self) -> dict[str, Any]:
        """Keyword arguments that the configuration adds to a call."""
        return {**self.kwargs, **({} if self.num_warps is None else {"num_warps": self.num_warps})}

    def compiler_opts(self) -> dict[str, Any]:
        """Compile hints of the configuration."""
        return {} if self.waves_per_eu is None else {"waves_per_eu": self.waves_per_eu}

    def to_dict(self) -> dict[str, Any]:
        """Serialisable form; `from_dict` is the inverse."""
        return {"num_warps": self.num_warps, "waves_per_eu": self.waves_per_eu, "kwargs": dict(self.kwargs)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Config:
        """The configuration of a `to_dict` result."""
        return cls(num_warps=data.get("num_warps"), waves_per_eu=data.get("waves_per_eu"), **data.get("kwargs", {}))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self.to_dict() == other.to_dict() and self.pre_hook is other.pre_hook

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{k}={v!r}' for k, v in {**self.all_kwargs(), **self.compiler_opts()}.items())})"
