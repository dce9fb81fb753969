"""A block of a cache, as the kernels that write to it see it."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

from ..host.dtypes import element_of
from ..parts.convert import to_quantised
from ..parts.index import div, mod
from ..parts.memory import Buffer, pointer
from ..parts.runs import run_of
from .layout import BlockLayout

__all__ = ["CacheBlock"]

ROUNDS_TO_ZERO = 2.0**-11  # half of the smallest e4m3fnuz number; -0 is that type's NaN


def _stored(value: Any, config: Any, inverse: Any) -> Any:
    """A vector as it is kept in a cache."""
    if config.cache_dtype != "fp8":
        return value
    value = value.to(fx.Float32)
    value = value if inverse is None else value * inverse
    if config.target.fp8_name == "Float8E4M3FNUZ":
        value = ((value < 0.0) & (value >= -ROUNDS_TO_ZERO)).select(fx.full_like(value, 0.0), value)
    return to_quantised(value, "fp8", "nearest", config.target)


class CacheBlock:
    """The block of a cache that a slot is in.

    Args:
        slot: Int32 of 0 or more, the same in the workgroup.
        scale: f32[1], or None.
        config: has the `cache_dtype` and the target.
    """

    def __init__(self, data: Any, layout: BlockLayout, slot: Any, scale: Any, config: Any) -> None:
        self._layout, self._config = layout, config
        self._element = element_of(config.cache_dtype, config.target)
        self._position = mod(slot, layout.size)
        start = fx.Int64(div(slot, layout.size)) * layout.block
        self._buffer = Buffer(data, self._element, start, layout.extent)
        self._inverse = None if scale is None else 1.0 / pointer(scale, fx.Float32).load()

    def store(self, head: Any, feature: Any, value: Any, dim: int = 0) -> None:
        """Write consecutive features of a head; those past the end of the head, of `dim` features if there are such,
        are dropped."""
        value, layout = _stored(value, self._config, self._inverse), self._layout
        run = layout.run(value.numel)
        for i in range(0, value.numel, run):
            at = fx.get_scalar(fx.crd2idx((self._position, head, feature + i), layout.layout()))
            if dim:
                at = (feature + i < dim).select(at, (1 << 30) // (self._element.width // 8))
            self._buffer.store(at, run_of(value, i, run))
