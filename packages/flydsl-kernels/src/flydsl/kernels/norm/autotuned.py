"""RMS norm with a searched workgroup size and occupancy hint."""

from __future__ import annotations

from typing import Any

from flydsl.autotune import Config, autotune

from ..host.arrays import stream_of
from ..host.dtypes import dtype_name
from ..parts.rows import SMALL_ROW
from .config import BLOCK_THREADS
from .rms_builders import rmsnorm_direct

__all__ = ["rmsnorm_autotuned", "rmsnorm_configs"]


def rmsnorm_configs(n: int) -> list[Config]:
    """Candidates for rows of n elements: seven, or the default alone where rows share a workgroup."""
    if n <= SMALL_ROW:
        return [Config(BLOCK_THREADS=BLOCK_THREADS)]
    hinted = [Config(BLOCK_THREADS=t, waves_per_eu=w) for t in (128, 256) for w in (None, 1, 2)]
    return [*hinted, Config(BLOCK_THREADS=512)]


_tuned = autotune(
    rmsnorm_configs(SMALL_ROW + 1),
    key=["m_in", "N", "dtype_str", "weight_dtype_str"],
    prune_configs_by=lambda configs, arguments: rmsnorm_configs(arguments["N"]),
    default=lambda *_, **__: Config(BLOCK_THREADS=BLOCK_THREADS),
    artifact_name="rmsnorm",
)(rmsnorm_direct)


def rmsnorm_autotuned(input: Any, gamma: Any, output: Any, m_in: int, dtype_str: str | None = None,
                      stream: Any = None, weight_dtype_str: str | None = None) -> None:  # noqa: A002
    """RMS norm of (m_in, N) rows into `output`, with the best of the candidates for this size.

    The default (256 threads) is used unless a search is asked for (``FLYDSL_AUTOTUNE``) or a stored result exists.

    Args:
        input, gamma, output: tensors; N is the size of `gamma`.
        dtype_str, weight_dtype_str: taken from the tensors if None.
    """
    n = int(gamma.shape[0])
    dtype = dtype_str or dtype_name(input, "rmsnorm_autotuned")
    weight = weight_dtype_str or dtype_name(gamma, "rmsnorm_autotuned")
    _tuned(input, gamma, output, m_in, N=n, dtype_str=dtype, stream=stream or stream_of(input),
           weight_dtype_str=weight)
