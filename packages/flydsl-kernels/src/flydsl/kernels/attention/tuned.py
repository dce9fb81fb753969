"""The tiles of attention that a search found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..host.tuned import Problem, Tuning, known
from ..target import Target
from .config import matrix_of

__all__ = ["TUNING", "found_tile"]

HEADS, GROUP = 16, 4  # of q in a search, and of them those that share keys


def found_tile(target: Target, dtype: str, causal: bool, rows: int, columns: int, keys: int) -> dict[str, Any]:
    """Fields of :class:`~.config.ForwardConfig` for queries and keys of a sequence, whose heads have so many columns;
    none where nothing was found."""
    return known("attention_fwd", target, dtype + " causal" * causal, rows, columns, keys) or {}


def _choices(target: Target, problem: Problem) -> Iterable[dict[str, Any]]:
    """Tiles of all sizes. Only where the matrix instruction is small does a wave take several blocks of queries."""
    for keys in (32, 64, 128):
        for waves in (4, 8):
            for blocks in (1, 2, 3, 4) if matrix_of(target).m == 16 else (1,):
                yield dict(keys=keys, waves=waves, blocks=blocks)


def _sample(op: Any, draw: Any, problem: Problem) -> tuple[Any, ...]:
    if problem.k < problem.m:
        raise ValueError(f"tune: attention has at least as many keys as queries, got {problem.k} and {problem.m}")
    return tuple(op.sample(draw, problem.m, problem.n, heads=HEADS, group=GROUP, more=problem.k - problem.m,
                           causal=problem.kind.endswith("causal")))


#: What a search tries.
TUNING = Tuning(("bf16", "bf16 causal"), _choices, _sample, "queries, columns of a head, keys")
