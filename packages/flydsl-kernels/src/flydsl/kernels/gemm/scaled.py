"""Plans of products of fp8, int8 and microscaled torch tensors, by the kernel that the architecture has.

A plain weight is put in the order of its kernel once for each content of the tensor (:func:`..host.weights.in_order`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host import layouts
from ..host.arrays import array_dtype, flattened, padded
from ..host.config import require
from ..host.dtypes import as_bytes, dtype_name, torch_dtype, widens
from ..host.weights import in_order, preshuffled
from ..op import Plan
from ..parts.index import cdiv
from ..parts.matrix import FORMATS, MICRO_GROUP, SCALE_BLOCK
from ..parts.operand import SHUFFLED_ROWS
from ..target import Target
from .config import GemmConfig
from .dense import DenseConfig, launch_dense, row_scale_config, takes_row_scales
from .mx import MxConfig, launch_mx, mx_config
from .preshuffle import ACTIVATIONS, PreshuffleConfig, launch_preshuffle, preshuffle_config
from .rdna_fp8 import RdnaFp8Config, launch_rdna_fp8, rdna_fp8_config
from .tuned import BLOCK_SCALE, MX, PRESHUFFLE, WMMA, Tile, choose, row_scale_block, scaled_tiles
from .wmma import DATA_FORMATS, WmmaConfig, launch_wmma, wmma_config

__all__ = ["plan_blockscale", "plan_mx", "plan_preshuffle", "plan_scaled", "product", "tiled_wmma"]

OUT = {torch.bfloat16: "bf16", torch.float16: "f16"}

#: What launches a configuration, by its class.
FAMILIES: dict[type[GemmConfig], Callable[..., None]] = {
    DenseConfig: launch_dense, MxConfig: launch_mx, PreshuffleConfig: launch_preshuffle,
    RdnaFp8Config: launch_rdna_fp8, WmmaConfig: launch_wmma,
}


@functools.cache  # the configuration has the target
def product(config: GemmConfig) -> Any:
    """``launch(c, a, b, scale_a, scale_b, bias, M, stream=None)`` of flat tensors, any one where the configuration
    does not take it."""

    @flyc.jit
    def gemm(c, a, b, scale_a, scale_b, bias, M: fx.Int32, stream: fx.Stream = fx.Stream(None)):  # noqa: N803
        given = {"c": c, "a": a, "b": b, "scale_a": scale_a, "scale_b": scale_b, "bias": bias}
        taken = config.extents(M)
        FAMILIES[type(config)]({name: x for name, x in given.items() if name in taken}, M, config, stream)

    return gemm


def _plan(config: GemmConfig, n: int, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor | None,
          scale_b: torch.Tensor | None, bias: torch.Tensor | None = None) -> Plan:
    """The first `n` columns of the product of rows with a weight in the order of its kernel."""
    given = [None if x is None else flattened(_bytes(x)) for x in (a, b, scale_a, scale_b, bias)]

    def operands(out: torch.Tensor) -> tuple[Any, ...]:
        out = flattened(out)
        return (out, *(out if x is None else x for x in given), a.shape[0])

    return _narrowed(Plan(lambda: product(config), operands), a, config.n, n, torch_dtype(config.out_dtype))


def _bytes(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.int8) if x.element_size() == 1 else x


def _sizes(where: str, a: torch.Tensor, b: torch.Tensor, out_dtype: torch.dtype, a_per: int = 1,
           b_per: int = 1) -> tuple[torch.Tensor, tuple[int, int, int], str]:
    """The activations as a matrix, (M, N, K) and the name of the result's type, of operands that have so many values
    in an element. ValueError or TypeError says what does not agree."""
    require(where, b.dim() == 2, f"the weight must be a matrix (N, K), got shape {tuple(b.shape)}")
    n, k = b.shape[0], b.shape[1] * b_per
    require(where, a.dim() >= 1 and a.shape[-1] * a_per == k, f"shapes (..., {k // a_per}) and {tuple(b.shape)} are "
            f"needed, the activations are {tuple(a.shape)}")
    if out_dtype not in OUT:
        raise TypeError(f"{where}: out_dtype must be bfloat16 or float16, got {out_dtype}")
    rows = a.reshape(math.prod(a.shape[:-1]), a.shape[-1]).contiguous()
    return rows, (rows.shape[0], n, k), OUT[out_dtype]


def _require_fp8(where: str, target: Target, *operands: torch.Tensor) -> None:
    """TypeError unless all are of the architecture's fp8."""
    native = array_dtype(target, operands[0], "fp8")
    if any(x.dtype != native for x in operands):
        raise TypeError(f"{where}: {target.name} computes with {native}, got "
                        f"{' and '.join(str(x.dtype) for x in operands)}")


def _scale(where: str, name: str, scale: torch.Tensor | None, size: int) -> torch.Tensor:
    """f32 scales of so many rows, given as many or one for all."""
    if scale is None or scale.numel() not in (1, size) or not widens(scale):
        given = "None" if scale is None else f"{scale.dtype} {tuple(scale.shape)}"
        raise ValueError(f"{where}: {name} must be f32 with {size} elements or one, or narrower, got {given}")
    return scale.float().reshape(-1).expand(size)


def plan_preshuffle(target: Target, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor | None,
                    scale_b: torch.Tensor | None, bias: torch.Tensor | None, activation: str,
                    out_dtype: torch.dtype, layout: str = "") -> Plan | None:
    """``act(a b^T * scale_a[row] * scale_b[column] + bias)`` with a shuffled weight, whose tag is checked unless
    `layout` says what it would."""
    where, given, b = "preshuffle_gemm", b, layouts.told(b, layout)
    int4 = layouts.layout_of(b) == layouts.B_16X16_INT4
    layouts.check_layout(b, layouts.B_16X16_INT4 if int4 else layouts.B_16X16, where)
    dtype = dtype_name(a, where, ("i8", "fp8", "f16", "bf16"))
    if int4 and dtype != "i8":
        raise TypeError(f"{where}: int4 weights need int8 activations, got {a.dtype}")
    if b.dtype != a.dtype and not int4:
        raise TypeError(f"{where}: operands must have one dtype, got {a.dtype} and {b.dtype}")
    if dtype == "fp8":
        _require_fp8(where, target, a)
    rows, (m, n, k), out_name = _sizes(where, a, b, out_dtype, b_per=2 if int4 else 1)
    scaled = a.element_size() == 1
    scale_a, scale_b = (_scale(where, name, scale, size) if scaled else None
                        for name, scale, size in (("scale_a", scale_a, m), ("scale_b", scale_b, n)))
    if bias is not None:
        dtype_name(bias, f"{where}: bias")
        require(where, tuple(bias.shape) == (n,), f"bias must have shape {(n,)}, got {tuple(bias.shape)}")
    epilogue = "bias" if bias is not None and activation == "none" else activation
    if activation != "none":
        epilogue = f"bias_{activation}"
        bias = torch.zeros(n, dtype=torch.float32, device=a.device) if bias is None else bias
    require(where, epilogue in ACTIVATIONS, f"activation must be none, relu, silu or gelu, got {activation!r}")
    if not m or not n:
        return None
    target.require(where, *PRESHUFFLE)
    tiles, kind = PRESHUFFLE[target.arch][0.5 if int4 else a.element_size()], "int4" if int4 else dtype
    more_n, more_k = _more(n, k, tiles)
    b = _wider(given, more_n, more_k // 2 if int4 else more_k, SHUFFLED_ROWS)
    scale_b, bias = _longer(scale_b, more_n), _longer(bias, more_n)
    tile = choose(tiles, where, target, kind, m, n + more_n, k + more_k)
    config = preshuffle_config(where, target, n=n + more_n, k=k + more_k, **tile.sizes, out_dtype=out_name,
                               in_dtype="int8" if kind == "i8" else kind, epilogue=epilogue, group=tile.group,
                               full=tile.full(target, m, n))
    return _plan(config, n, _filled(rows, more_k), b, scale_a, scale_b, bias)


def plan_blockscale(target: Target, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
                    out_dtype: torch.dtype, layout: str = "") -> Plan | None:
    """fp8 with a scale per (row, 128 k) of a, f32 (K/128, M), and per (128 columns, 128 k) of the shuffled b."""
    where, given, b = "blockscale_gemm", b, layouts.told(b, layout)
    layouts.check_layout(b, layouts.B_16X16, where)
    _require_fp8(where, target, a, b)
    rows, (m, n, k), out_name = _sizes(where, a, b, out_dtype)
    blocks = cdiv(k, SCALE_BLOCK)
    for name, scale, shape in (("scale_a", scale_a, (blocks, m)),
                               ("scale_b", scale_b, (cdiv(n, SCALE_BLOCK), blocks))):
        require(where, tuple(scale.shape) == shape and widens(scale),
                f"{name} must be f32 of shape {shape}, or narrower, got {scale.dtype} {tuple(scale.shape)}")
    scale_a, scale_b = scale_a.float(), scale_b.float()
    if not m or not n:
        return None
    target.require(where, *BLOCK_SCALE)
    more_n, more_k = _more(n, k, BLOCK_SCALE[target.arch])  # which have no block of scales of their own
    tile = choose(BLOCK_SCALE[target.arch], where, target, "fp8", m, n + more_n, k + more_k)
    config = preshuffle_config(where, target, n=n + more_n, k=k + more_k, **tile.sizes, in_dtype="fp8",
                               out_dtype=out_name, block_scale=True, full=tile.full(target, m, n))
    b = _wider(given, more_n, more_k, SHUFFLED_ROWS)
    return _plan(config, n, _filled(rows, more_k), b, scale_a, scale_b)


def plan_scaled(target: Target, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
                out_dtype: torch.dtype) -> Plan | None:
    """fp8 with f32 scales per row and a plain weight.

    gfx942 and gfx950 run the preshuffle GEMM, gfx950 the form with both operands in LDS where N is not a multiple of
    64, gfx120x the form without LDS, gfx1250 the general kernel. What is no multiple of their tiles is filled up with
    zeros.
    """
    where = "scaled_gemm"
    target.require_fp8(where)
    _require_fp8(where, target, a, b)
    rows, (m, n, k), _ = _sizes(where, a, b, out_dtype)
    scale_a, scale_b = _scale(where, "scale_a", scale_a, m), _scale(where, "scale_b", scale_b, n)
    if not n or not k:  # a sum over nothing is zero
        return None
    tiles = scaled_tiles(target)
    more_n, more_k = _more(n, k, tiles)
    if (more_n or more_k) and takes_row_scales(target, k) and out_dtype == torch.bfloat16:
        config: GemmConfig = row_scale_config(where, target, n, k, row_scale_block(target, m, n))
        return _plan(config, n, rows, b.contiguous(), scale_a, scale_b) if m else None
    rows, b, scale_b = _filled(rows, more_k), _wider(b, more_n, more_k), _longer(scale_b, more_n)
    columns, n, k = n, n + more_n, k + more_k
    if target.arch in PRESHUFFLE:
        plan = plan_preshuffle(target, rows, preshuffled(b), scale_a, scale_b, None, "none", out_dtype)
        return plan and _narrowed(plan, rows, n, columns, out_dtype)
    if out_dtype != torch.bfloat16:
        raise TypeError(f"{where}: out_dtype must be torch.bfloat16 here, got {out_dtype}")
    if not m:
        return None
    if target.tensor_moves:
        tile = choose(tiles, where, target, "fp8", m, n, k)
        config = tiled_wmma(where, target, n, k, tile, ("fp8",), "bf16")
        b = in_order(b, "gfx1250_16x16", lambda w: layouts.preshuffle_b_16x16(w, n, k))
    else:
        large, usual = tiles
        tile = large if m >= large.n and n % large.n == 0 else usual
        config = rdna_fp8_config(where, target, n=n, k=k, **tile.sizes)
        b = in_order(b, "rdna_fp8", lambda w: layouts.preshuffle_b_fp8(w.t()))
    return _plan(config, columns, rows, b, scale_a, scale_b)


def _more(n: int, k: int, tiles: tuple[Tile, ...]) -> tuple[int, int]:
    """What fills columns and k up to multiples of those of the smallest tile."""
    return -n % min(tile.n for tile in tiles), -k % min(tile.k for tile in tiles)


def _filled(rows: torch.Tensor, more: int) -> torch.Tensor:
    """Rows, with so many zeros more at the end of each."""
    return padded(_bytes(rows), more, 1).view(rows.dtype)


def _wider(b: torch.Tensor, more_n: int, more_k: int, strip: int = 1) -> torch.Tensor:
    """A copy of a weight with so many rows and elements of each of zeros more, which is kept. Of a shuffled one, strips
    of `SHUFFLED_ROWS` rows follow each other, and so do the blocks of k of a strip."""

    def fill(w: torch.Tensor) -> torch.Tensor:
        n, k = w.shape
        strips = padded(padded(_bytes(w).view(n // strip, strip * k), more_n // strip, 0), strip * more_k, 1)
        return strips.view(w.dtype).view(n + more_n, k + more_k)

    return b if more_n == more_k == 0 else in_order(b, f"filled up {more_n} {more_k}", fill)


def _longer(x: Any, more: int) -> Any:
    """A tensor with so many zeros more, or None."""
    return x if x is None else padded(x.reshape(-1), more, 0)


def _narrowed(plan: Plan, rows: torch.Tensor, wide_n: int, n: int, out_dtype: torch.dtype) -> Plan:
    """The plan of a result (rows, n) by one with more columns, which are dropped."""
    if wide_n == n:
        return plan
    wide = rows.new_empty(rows.shape[0], wide_n, dtype=out_dtype)
    return Plan(plan.launcher, lambda out: plan.operands(wide), finish=lambda out: out.view(-1, n).copy_(wide[:, :n]))


def tiled_wmma(where: str, target: Target, n: int, k: int, tile: Tile, dtypes: tuple[str, ...],
               out_dtype: str) -> WmmaConfig:
    """The product with a tile of ``tuned.WMMA``; `dtypes` is the one that has scales per row and column, or those of
    microscaled operands."""
    return wmma_config(where, target, n=n, k=k, **tile.sizes, m_waves=min(2, tile.m // 16), n_waves=2,
                       stages=tile.stages, group=tile.group, direct=tile.direct, a_dtype=dtypes[0], b_dtype=dtypes[-1],
                       out_dtype=out_dtype, scales="mx" if len(dtypes) > 1 else "rows")


def plan_mx(target: Target, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
            a_dtype: str, b_dtype: str, out_dtype: torch.dtype) -> Plan | None:
    """Microscaled operands with a plain weight: bytes with e8m0 scales per 32 k."""
    where = "mx_gemm"
    target.require(where, "gfx950", "gfx1250")
    tables = {pair: WMMA[pair] for pair in DATA_FORMATS.values()} if target.tensor_moves else MX
    dtypes = a_dtype, b_dtype
    require(where, dtypes in tables, f"a_dtype and b_dtype must be {', '.join(map(' and '.join, tables))} on "
            f"{target.arch}, got {' and '.join(dtypes)}")
    rows, (m, n, k), out_name = _sizes(where, a, b, out_dtype, FORMATS[a_dtype].per_byte, FORMATS[b_dtype].per_byte)
    shapes = tuple(scale_a.shape), tuple(scale_b.shape)
    for name, array, kind in (("a", a, a_dtype), ("b", b, b_dtype), ("scale_a", scale_a, "e8m0"),
                              ("scale_b", scale_b, "e8m0")):
        as_bytes(array, kind, f"{where}: {name}")
    require(where, k > 0 and shapes == ((*a.shape[:-1], k // MICRO_GROUP), (n, k // MICRO_GROUP)),
            f"bytes of one K with a scale per {MICRO_GROUP}, one at least, are needed, got {tuple(a.shape)} of "
            f"{a_dtype}, {tuple(b.shape)} of {b_dtype}, scales {shapes[0]} and {shapes[1]}")
    require(where, k % MICRO_GROUP == 0, f"K must be a multiple of {MICRO_GROUP}, got {k}")
    if not m or not n:
        return None
    more_n, more_k = _more(n, k, tables[dtypes])
    columns, n, k = n, n + more_n, k + more_k
    rows, b = _filled(rows, more_k // FORMATS[a_dtype].per_byte), _wider(b, more_n, more_k // FORMATS[b_dtype].per_byte)
    groups = more_k // MICRO_GROUP  # zeros times the smallest scale
    scale_a, scale_b = _filled(scale_a.reshape(m, -1), groups), _wider(scale_b, more_n, groups)
    tile = choose(tables[dtypes], where, target, " ".join(dtypes), m, n, k)
    if target.tensor_moves:
        config: GemmConfig = tiled_wmma(where, target, n, k, tile, dtypes, out_name)
        order = in_order(b, "gfx1250_16x16", lambda w: layouts.preshuffle_b_16x16(w, *w.shape))
        return _plan(config, columns, rows, order, layouts.shuffle_scale_32x4(scale_a),
                     in_order(scale_b, "gfx1250_32x4", layouts.shuffle_scale_32x4))
    config = mx_config(where, target, n=n, k=k, **tile.sizes, a_dtype=a_dtype, b_dtype=b_dtype, out_dtype=out_name,
                       full=tile.full(target, m, n))
    shuffle: Callable[[torch.Tensor], Any] = layouts.shuffle_weight_w4 if b_dtype == "fp4" else layouts.shuffle_weight
    order = in_order(b, b_dtype, lambda w: shuffle(w.view(torch.int8)))
    return _plan(config, columns, rows, order, layouts.e8m0_shuffle(scale_a),
                 in_order(scale_b, "e8m0", layouts.e8m0_shuffle))
