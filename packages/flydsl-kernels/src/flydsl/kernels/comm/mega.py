"""A mixture of experts whose experts are spread over the GPUs of a machine, with microscaled operands (gfx950).

``sum over the slots of w * W2 quant(silu(min(g, L)) * clamp(u, -L, L))``, (g, u) = W1 quant(x), where quant is fp8 with
an e8m0 scale of every 32 elements, and the weights are fp4 with such scales. Tokens travel quantised, with theirs.

Transport is part of the products: rows are sent by the kernel that multiplies them with gate and up, and results are
stored where their token came from by the one that multiplies with down. See :mod:`.mega_kernels`.
"""

from __future__ import annotations

from typing import Any

import flydsl.runtime as rt

from ..host.arrays import launch
from ..host.config import require
from ..host.dtypes import as_bytes
from ..moe.reduction import ReduceConfig
from ..parts.index import align_up, cdiv
from ..quant.mx import THREADS, build_per_1x32_mx_quant_module
from ..target import target
from . import group as groups
from .dispatch import build_combine_slots
from .group import signature
from .mega_builders import (
    CACHED,
    FEW_TOKENS,
    STREAMED,
    compile_gemm1,
    compile_mega_moe_stage1,
    compile_mega_moe_stage2,
    mega_down,
    mega_up,
    require_fixed,
)
from .mega_config import GROUP, SCHEMES, mega_exchange, select_mega_moe_config
from .mega_kernels import MegaStage1, MegaStage2, build_combine_quantised, build_stage1, build_stage2
from .memory import SharedMemory, meeting_of, nonempty, tensor_at

__all__ = ["MegaMoEV2", "compile_gemm1", "compile_mega_moe_stage1", "compile_mega_moe_stage2"]

WORD_ROWS, WORD_SCALES = 32, 8  # what the order of ``e8m0_shuffle`` pads rows and scales of a row to


class MegaMoEV2:
    """The experts of all ranks, seen from one rank; every rank calls in the same order, one call at a time.

    Args:
        rank, world_size: of the ``torch.distributed`` group.
        model_dim, inter_dim: multiples of 256.
        experts: of all ranks together; `topk` of a token.
        quant: ``"a8w4"``.
        w1: this rank's, fp4 (experts / ranks, 2 inter, model / 2 bytes) by ``shuffle_weight_w4`` with `gate_up` and
            `moe_gemm`; `w1_scale` by ``shuffle_scale_w4`` with `gate_up`.
        w2: fp4 (experts / ranks, model, inter / 2 bytes) by ``shuffle_weight_w4`` (or ``shuffle_weight``: the orders
            are the same); `w2_scale` by ``e8m0_shuffle``.
        max_tok_per_rank: a power of two.
        mega_scheme: ``"fixedslot"`` (at most 255 tokens of a rank and 64 experts), ``"compact"`` or ``"large"``, whose
            results travel in 8 bits and whose tiles wait for the rows of their block. Places are computed from counts
            in all of them. `max_tok_per_rank` decides the tiles by :func:`select_mega_moe_config`.
        swiglu_limit: L; 0: none.
        group: another group than the default one.
        limit: seconds that ranks wait for each other.

    Raises:
        ValueError: an argument or the architecture is not supported.
    """

    def __init__(self, *, rank: int, world_size: int, model_dim: int, inter_dim: int, experts: int, topk: int,
                 quant: str = "a8w4", w1: Any, w1_scale: Any, w2: Any, w2_scale: Any, max_tok_per_rank: int,
                 mega_scheme: str = "fixedslot", swiglu_limit: float = 0.0, group: Any = None,
                 limit: int | None = None) -> None:
        import torch

        where, found = type(self).__name__, target()
        found.require(where, "gfx950")
        most = max_tok_per_rank
        require(where, quant == "a8w4", f"quant must be 'a8w4', got {quant!r}")
        require(where, mega_scheme in SCHEMES, f"mega_scheme must be one of {', '.join(SCHEMES)}, got {mega_scheme!r}")
        meeting = meeting_of(group)
        if (meeting.rank, meeting.ranks) != (rank, world_size):
            raise ValueError(f"{where}: (rank, world_size) is {(rank, world_size)}, the group says "
                             f"{(meeting.rank, meeting.ranks)}")
        local = experts // world_size
        if mega_scheme == "fixedslot":
            require_fixed(where, most, local)
        for name, w, shape in (("w1", w1, (local, 2 * inter_dim, model_dim // 2)),
                               ("w2", w2, (local, model_dim, inter_dim // 2))):
            require(where, tuple(w.shape) == shape and w.is_contiguous(),
                    f"{name} must be contiguous fp4 of shape {shape}, got {tuple(w.shape)}")
            as_bytes(w, "fp4", f"{where}: {name}")
        self.model, self.topk, self.most, self._target, self._rank = model_dim, topk, most, found, rank
        self.config = select_mega_moe_config(most, most, experts_per_rank=local, model_dim=model_dim,
                                             inter_dim=inter_dim)
        first, second, large = self.config.stage1, self.config.stage2, mega_scheme == "large"
        exchange = self.exchange = mega_exchange(
            where, found, ranks=world_size, experts=experts, topk=topk, model=model_dim, tokens=most,
            block=first.sort_block_m, quantised=large, by_block=large)
        up = mega_up(where, found, model=model_dim, inter=inter_dim, topk=topk, limit=swiglu_limit or None, tiles=first,
                     cache=STREAMED if most <= FEW_TOKENS else CACHED)
        self._stage1 = MegaStage1(exchange, up)
        self._stage2 = MegaStage2(exchange, mega_down(where, found, exchange, inter_dim, second), second.persist)
        for name, scale, rows, k in (("w1_scale", w1_scale, 2 * inter_dim, model_dim),
                                     ("w2_scale", w2_scale, model_dim, inter_dim)):
            count = local * rows * (k // GROUP)
            as_bytes(scale, "e8m0", f"{where}: {name}")
            require(where, scale.numel() >= count and scale.is_contiguous(),
                    f"{name} must be at least {count} contiguous bytes, got {scale.dtype} {tuple(scale.shape)}")
        self._slots = ReduceConfig(topk, model_dim, "bf16", "bf16", experts, target=found)
        self._places = exchange.places()
        self.memory = SharedMemory(where, meeting, self._places["end"], groups.TIME_LIMIT if limit is None else limit,
                                   exchange=str(exchange), inter_dim=inter_dim)
        rt.memset(self.memory.at(0), 0, self._places["names"])
        rt.synchronize()
        self.memory.meet()  # nobody tells counts before there are none
        self._weights = dict(w1=w1.view(torch.uint8), w2=w2.view(torch.uint8), w1_scale=w1_scale.view(torch.uint8),
                             w2_scale=w2_scale.view(torch.uint8))
        self._own = self._workspace(w1, inter_dim)

    def _workspace(self, like: Any, inter: int) -> dict[str, Any]:
        import torch

        exchange, i32 = self.exchange, torch.int32
        routes, rows = exchange.tokens * exchange.topk, exchange.capacity
        sizes: dict[str, tuple[tuple[int, ...], Any]] = dict(
            first=((exchange.experts,), i32), numbers=((routes,), i32), order=((routes,), i32), sent=((1,), i32),
            valid=((1,), i32), gate=((1,), i32),
            experts=((cdiv(rows, exchange.block),), i32), inner=((rows, inter), torch.uint8),
            inner_scale=((align_up(rows, WORD_ROWS), align_up(inter // GROUP, WORD_SCALES)), torch.uint8))
        return {name: like.new_zeros(shape, dtype=dtype) for name, (shape, dtype) in sizes.items()}

    def quantize(self, x: Any, *, stream: Any = None) -> tuple[Any, Any]:
        """``(fp8, scales)`` of bf16 (T, model): e4m3fn (T, model) and e8m0 u8 (T, model / 32)."""
        import torch

        rows = x.shape[0]
        out = x.new_empty((rows, self.model), dtype=torch.uint8)
        scales = x.new_empty((rows, self.model // GROUP), dtype=torch.uint8)
        if rows:
            run = build_per_1x32_mx_quant_module(self.model, "fp8", target=self._target)
            launch(run, x, x.contiguous(), out, scales, rows, cdiv(rows * (self.model // GROUP), THREADS),
                   stream=stream)
        return out.view(torch.float8_e4m3fn), scales

    def forward(self, x_bf16: Any, wts: Any, topk_ids: Any, *, stream: Any = None, slice_output: bool = True) -> Any:
        """bf16 (T, model) of bf16 (T, model), f32 (T, k) weights and i32 (T, k) experts.

        With ``slice_output=False`` the result has `max_tok_per_rank` rows, those beyond T zero. With a `stream` the
        launches are in it; operands that are not contiguous are copied in the current one.

        Raises:
            CollectiveError: a rank did not come, or called something else. ValueError, TypeError: the operands.
        """
        return self.forward_prequant(*self.quantize(x_bf16, stream=stream), wts, topk_ids, stream=stream,
                                     slice_output=slice_output)

    def forward_prequant(self, x_q: Any, scales: Any, wts: Any, topk_ids: Any, *, stream: Any = None,
                         slice_output: bool = True) -> Any:
        """:meth:`forward` of what :meth:`quantize` returns."""
        import torch

        where = type(self).__name__
        count = x_q.shape[0]
        for name, array, shape, dtypes in (
                ("x", x_q, (count, self.model), (torch.float8_e4m3fn, torch.uint8)),
                ("scales", scales, (count, self.model // GROUP), (torch.uint8, torch.float8_e8m0fnu)),
                ("wts", wts, (count, self.topk), (torch.float32,)),
                ("topk_ids", topk_ids, (count, self.topk), (torch.int32,))):
            if tuple(array.shape) != shape or count > self.most:
                raise ValueError(f"{where}: {name} must be {shape} of at most {self.most} tokens, got "
                                 f"{tuple(array.shape)}")
            if array.dtype not in dtypes:
                raise TypeError(f"{where}: {name} must be {dtypes[0]}, got {array.dtype}")
        self.memory.require_open(where)
        self.memory.check(f"before {where}")
        ids = nonempty(topk_ids.contiguous())
        tensors = dict(self._weights, **self._own, ids=ids, weights=nonempty(wts.contiguous()),
                       x=nonempty(x_q.contiguous()).view(torch.uint8),
                       x_scale=nonempty(scales.contiguous()).view(torch.uint8))
        self._used = tensors  # a stream that torch does not know may still read them when the caller has dropped them
        routes, bases, limit = count * self.topk, self.memory.bases, self.memory.limit
        self._run(build_stage1(self._stage1), "stage 1", stream, tensors, bases, self._rank, routes,
                  signature("mega 1"), limit)
        self._run(build_stage2(self._stage2), "stage 2", stream, tensors, bases, self._rank, signature("mega 2"), limit)
        y = x_q.new_empty((count if slice_output else self.most, self.model), dtype=torch.bfloat16)
        y[count:] = 0
        self._combine(ids, y, count, stream)
        return y

    def _run(self, launcher: Any, what: str, stream: Any, tensors: dict[str, Any], *arguments: Any) -> None:
        names = _OPERANDS[what]
        launch(launcher, tensors["ids"], {name: tensors[name] for name in names}, *arguments, stream=stream)
        self.memory.check(f"{type(self).__name__}, {what}")

    def combine_no_stage1(self, topk_ids: Any) -> Any:
        """bf16 (T, model): the sum over the slots of this rank's tokens of what stage 2 has brought, in f32.

        `topk_ids` i32 (T, k) are those of the step; slots whose expert there is not count nothing.
        """
        import torch

        count = topk_ids.shape[0]
        out = topk_ids.new_empty((count, self.model), dtype=torch.bfloat16)
        self._combine(topk_ids.contiguous(), out, count)
        return out

    def _combine(self, ids: Any, out: Any, count: int, stream: Any = None) -> None:
        """To the first `count` rows of out."""
        import torch

        if count:
            exchange = self.exchange
            x = tensor_at(self.memory.at(self._places["combined"]), (self.most * self.topk, exchange.sent_bytes),
                          torch.uint8)
            if exchange.quantised:
                run = build_combine_quantised(exchange)
            else:
                run, x = build_combine_slots(self._slots), x.view(torch.bfloat16)
            launch(run, ids, x, out, ids, count, stream=stream)

    __call__ = forward

    def close(self) -> None:
        """Give the memory back. The other ranks must not be in a call."""
        self.memory.close()


_OPERANDS = {
    "stage 1": ("ids", "numbers", "first", "order", "sent", "experts", "valid", "gate", "x", "x_scale", "weights", "w1",
                "w1_scale", "inner", "inner_scale"),
    "stage 2": ("experts", "valid", "gate", "inner", "inner_scale", "w2", "w2_scale"),
}
