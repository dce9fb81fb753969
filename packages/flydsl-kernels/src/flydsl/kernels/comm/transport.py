"""Tokens to the ranks that have their experts, and back: the object that models call."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import flydsl.runtime as rt

from ..host.arrays import is_torch, launch
from ..host.config import require
from ..host.dtypes import FLOATS
from ..moe.reduction import ReduceConfig
from ..parts.index import cdiv
from ..target import Target, builder
from ..target import target as current
from . import group
from .dispatch import build_combine, build_combine_slots, build_dispatch, build_pack
from .dispatch_config import DISPATCH_BYTES, TransportConfig, launch_config, transport_config
from .group import signature
from .memory import SharedMemory, meeting_of, nonempty, tensor_at

__all__ = ["FlyDSLDispatchCombineConfig", "FlyDSLDispatchCombineIntraNodeOp", "GeometryTuningTable",
           "make_combine_jit", "make_dispatch_jit", "tensor_at"]

_NAMES = {"bfloat16": "bf16", "float16": "f16", "float32": "f32", "float8_e4m3fn": "fp8", "float8_e4m3fnuz": "fp8",
          "float4_e2m1fn_x2": "fp4", "uint8": "fp4", "fp4": "fp4", "fp8": "fp8", "bf16": "bf16", "f16": "f16",
          "f32": "f32"}
DISPATCH_GEOMETRY, COMBINE_GEOMETRY = (128, 4), (128, 8)
_QUANT = {None: "none", "none": "none", "fp8_direct_cast": "fp8_direct_cast", "fp8_blockwise": "fp8_blockwise",
          "blockwise_fp8": "fp8_blockwise"}


def _name(dtype: Any, where: str) -> str:
    """Of what is sent, as bytes: fp8 of any architecture."""
    found = _NAMES.get(str(dtype).removeprefix("torch."))
    require(where, found is not None, f"dtype {dtype} is not supported: expected bf16, f16, f32, fp8 or packed fp4")
    assert found is not None
    return found


def _combined_name(dtype: Any, where: str, target: Target) -> str:
    """Of what is added up."""
    if str(dtype).startswith("torch.float8"):
        native = str(target.fp8_name).lower().replace("float8", "float8_") if target.fp8_name else None
        require(where, native == str(dtype).removeprefix("torch."), f"{dtype} is not the fp8 of {target.name}")
    return _name(dtype, where)


@dataclass(frozen=True)
class GeometryTuningTable:
    """Blocks and waves by the number of tokens: ``{tokens: (blocks, waves)}`` of each phase."""

    dispatch: dict[int, tuple[int, int]]
    combine: dict[int, tuple[int, int]]

    def lookup(self, phase: str, n: int) -> tuple[int, int]:
        """That of the smallest number of tokens that is at least `n`; beyond all, of the largest."""
        table = self.dispatch if phase == "dispatch" else self.combine
        return table[min((bucket for bucket in table if bucket >= n), default=max(table))]

    @classmethod
    def from_tuning_file(cls, path: str, *, dtype: str, hidden_dim: int, zero_copy: bool, topk: int,
                         local_expert_num: int, combine_dtype: str = "bf16") -> GeometryTuningTable:
        """The table of a JSON file: a list of entries with these names, and `phase`, `tokens`, `blocks`, `waves`.

        Raises:
            ValueError: no entry fits.
        """
        with open(path, encoding="utf-8") as file:
            entries = json.load(file)
        wanted = dict(hidden_dim=hidden_dim, zero_copy=zero_copy, topk=topk, local_expert_num=local_expert_num)
        tables: dict[str, dict[int, tuple[int, int]]] = {"dispatch": {}, "combine": {}}
        for entry in entries:
            kind = dtype if entry["phase"] == "dispatch" else combine_dtype
            if entry["dtype"] == kind and all(entry[name] == value for name, value in wanted.items()):
                tables[entry["phase"]][entry["tokens"]] = entry["blocks"], entry["waves"]
        for phase, table in tables.items():
            if not table:
                raise ValueError(f"{path} has no {phase} of {dtype if phase == 'dispatch' else combine_dtype} for "
                                 f"{wanted}")
        return cls(tables["dispatch"], tables["combine"])


@dataclass(frozen=True)
class FlyDSLDispatchCombineConfig:
    """What is transported between the ranks of a group; see ``docs/kernels/collectives.md``.

    Attributes:
        rank, world_size: of the group.
        hidden_dim: elements of a token.
        max_num_inp_token_per_rank: most tokens of a rank.
        num_experts_per_rank, num_experts_per_token: of a rank, and k.
        data_type: for which there is memory, of what is dispatched (`dispatch_dtype` wins) and of what is combined
            (`combine_dtype` wins), bf16 by default; of 8 and 4 bits results have room for bf16. What a call gets
            decides: any dtype whose rows fit, the same on all ranks. Sums of fp4 are rounded to the nearest, and
            saturate at 6.
        scale_dim, scale_type_size: scales of a token, and their bytes, which travel with it.
        enable_std_moe: also copies by expert.
        zero_copy: combine reads the peers' registered buffers, see ``get_registered_combine_input_buffer``.
        combine_quant_type, quant_type: None, ``"fp8_direct_cast"`` or ``"fp8_blockwise"``: bf16 travels back in 8 bits.
        max_total_recv_tokens: most rows that all ranks receive, 0: whatever may come. Rows beyond are dropped.
        max_token_type_size: bytes of an element for which there is memory, 0: those of the dtypes.
    """

    rank: int
    world_size: int
    hidden_dim: int
    max_num_inp_token_per_rank: int
    num_experts_per_rank: int
    num_experts_per_token: int
    data_type: Any = None
    dispatch_block_num: int = DISPATCH_GEOMETRY[0]
    dispatch_warp_num_per_block: int = DISPATCH_GEOMETRY[1]
    combine_block_num: int = COMBINE_GEOMETRY[0]
    combine_warp_num_per_block: int = COMBINE_GEOMETRY[1]
    tuning_table: GeometryTuningTable | None = None
    tuning_config_path: str | None = None
    scale_dim: int = 0
    scale_type_size: int = 0
    enable_std_moe: bool = False
    zero_copy: bool = False
    quant_type: str | None = None
    max_total_recv_tokens: int = 0
    max_token_type_size: int = 0
    dispatch_dtype: Any = None
    combine_dtype: Any = None
    combine_quant_type: str | None = None
    stage2_p2p_quant: str = "none"
    enable_group_major: bool = False
    gm_unit_size: int = 0
    gm_scheme: str = "fixedslot"
    gm_compact: bool = False
    group: Any = field(default=None, compare=False)

    @property
    def received(self) -> int:
        """Most rows that a rank receives."""
        most = self.world_size * self.max_num_inp_token_per_rank
        limit = cdiv(self.max_total_recv_tokens, self.world_size) * self.world_size
        return min(limit, most) if limit else most

    def _room(self, dtype: str) -> int:
        """Bytes of memory for a row: of fp4 for one whose columns are pairs, too."""
        return self.hidden_dim * max(math.ceil(DISPATCH_BYTES[dtype]), self.max_token_type_size)

    def kernels(self, target: Target) -> TransportConfig:
        """The configuration of the kernels, with the geometry of the dispatch."""
        where = "FlyDSLDispatchCombineConfig"
        plain = (self.enable_group_major, self.gm_unit_size, self.gm_scheme, self.gm_compact, self.stage2_p2p_quant)
        require(where, plain == (False, 0, "fixedslot", False, "none"),
                "enable_group_major, gm_* and stage2_p2p_quant belong to MegaMoE and are not supported here")
        dtype = _name(self.dispatch_dtype or self.data_type or "bf16", where)
        require(where, self.max_token_type_size == 0 or self.max_token_type_size >= DISPATCH_BYTES[dtype],
                f"max_token_type_size must be 0 or at least the {DISPATCH_BYTES[dtype]} bytes of {dtype}, got "
                f"{self.max_token_type_size}")
        out = _combined_name(self.combine_dtype or (self.data_type if dtype in FLOATS else "bf16") or "bf16", where,
                             target)
        quant = self.combine_quant_type or self.quant_type
        require(where, quant in _QUANT, f"quant_type {quant!r}: expected one of {', '.join(map(repr, _QUANT))}")
        return transport_config(
            where, target, ranks=self.world_size, experts=self.num_experts_per_rank,
            slots=self.num_experts_per_token, hidden=self.hidden_dim, dtype=dtype, out=out,
            tokens=self.max_num_inp_token_per_rank, received=self.received, row_room=self._room(dtype),
            out_room=self._room(out),
            scale_bytes=self.scale_dim * self.scale_type_size, packed=self.enable_std_moe, zero_copy=self.zero_copy,
            transport=_QUANT[quant], blocks=self.dispatch_block_num, waves=self.dispatch_warp_num_per_block)


class FlyDSLDispatchCombineIntraNodeOp:
    """Dispatch and combine between the ranks of a ``torch.distributed`` group on one machine.

    All ranks call both in the same order. What :meth:`dispatch` returns lies in shared memory, and is good until the
    next dispatch. Allocates about ``(max rows) * (row + combined row)`` bytes.

    Raises:
        ValueError: a configuration that is not supported, or not the same on all ranks.
    """

    def __init__(self, config: FlyDSLDispatchCombineConfig, limit: int | None = None) -> None:
        import torch

        self.config, where = config, type(self).__name__
        kernels = self._dispatch = config.kernels(current())
        self._sent = kernels  # of the last dispatch
        self._combine = launch_config(where, kernels, blocks=config.combine_block_num,
                                      waves=config.combine_warp_num_per_block)
        table = config.tuning_table
        if table is None and config.tuning_config_path is not None:
            table = GeometryTuningTable.from_tuning_file(
                config.tuning_config_path, dtype=self._dispatch.dtype, hidden_dim=config.hidden_dim,
                zero_copy=config.zero_copy, topk=config.num_experts_per_token,
                local_expert_num=config.num_experts_per_rank, combine_dtype=self._dispatch.out)
        self._table = table
        meeting = meeting_of(config.group)
        if (meeting.rank, meeting.ranks) != (config.rank, config.world_size):
            raise ValueError(f"{where}: (rank, world_size) is {(config.rank, config.world_size)}, the group says "
                             f"{(meeting.rank, meeting.ranks)}")
        self._places = self._dispatch.places()
        self.memory = SharedMemory(where, meeting, self._places["end"],
                                   group.TIME_LIMIT if limit is None else limit, transport=str(kernels))
        rt.memset(self.memory.at(0), 0, 8)
        rt.synchronize()
        self.memory.meet()  # nobody takes rows before the counters are zero
        device = self.memory.bases.device
        slots, tokens = config.num_experts_per_token, config.max_num_inp_token_per_rank
        self._map = torch.full((tokens, slots), self._dispatch.sentinel, dtype=torch.int32, device=device)
        self._total, self._count = torch.zeros(1, dtype=torch.int32, device=device), 0
        self._slot_map = torch.zeros((1,), dtype=torch.int32, device=device)
        if config.enable_std_moe:
            self._slot_map = torch.full((config.received, slots), -1, dtype=torch.int32, device=device)

    def _view(self, name: str, shape: Sequence[int], dtype: Any) -> Any:
        return tensor_at(self.memory.at(self._places[name]), shape, dtype)

    def dispatch(self, input: Any, weights: Any, scales: Any, indices: Any, packed_recv_x: Any = None) -> tuple:
        """Send tokens to the ranks of their experts.

        Args:
            input: (tokens, hidden) of any dtype whose rows fit, the same on all ranks; packed fp4 (tokens, hidden / 2),
                or (tokens, hidden) where `hidden_dim` counts pairs.
            weights: f32 (tokens, k). indices: i32 (tokens, k), numbers of all experts; others are left out.
            scales: (tokens, scale_dim) of any type of `scale_type_size` bytes; None, or no columns, without them.
            packed_recv_x: with `enable_std_moe`, (experts, ranks * max tokens, hidden): what was received, by expert,
                once for each token, however many of its slots name the expert.

        Returns:
            ``(tokens, weights, scales or None, indices, total)`` of what was received, the rows in any order: `total`
            i32 (1,) says how many there are. With `enable_std_moe` also ``(counts, origins)`` of the packed copy, i32
            (experts,) and (experts, ranks * max tokens).

        Raises:
            CollectiveError: a rank did not come, or called something else. ValueError, TypeError: shapes or dtypes.
        """
        import torch

        cfg, where = self.config, "dispatch"
        count, name = input.shape[0], _name(input.dtype, where)
        require(where, len(input.shape) == 2 and count <= cfg.max_num_inp_token_per_rank,
                f"input must be at most ({cfg.max_num_inp_token_per_rank}, {cfg.hidden_dim}), got {tuple(input.shape)}")
        kernels = launch_config(where, self._dispatch, dtype=name, hidden=self._hidden(where, name, input))
        for name, array, dtype in (("weights", weights, torch.float32), ("indices", indices, torch.int32)):
            if not is_torch(array):
                raise TypeError(f"{where}: {name}: a torch tensor is needed, got {type(array).__name__}")
            require(where, tuple(array.shape) == (count, cfg.num_experts_per_token) and array.dtype == dtype,
                    f"{name} must be {dtype} ({count}, {cfg.num_experts_per_token}), got {array.dtype} "
                    f"{tuple(array.shape)}")
        if scales is not None and scales.shape[-1] == 0:
            scales = None
        require(where, (scales is not None) == (self._dispatch.scale_bytes > 0),
                f"scales of {self._dispatch.scale_bytes} bytes a token are configured")
        sent = None
        if scales is not None:
            sent = scales.contiguous().view(torch.uint8)
            require(where, tuple(sent.shape) == (count, self._dispatch.scale_bytes),
                    f"scales must be ({count}, {cfg.scale_dim}) of {cfg.scale_type_size} bytes, got {scales.dtype} "
                    f"{tuple(scales.shape)}")
        self.memory.require_open(where)
        self.memory.check(f"before {where}")
        self._count, self._sent = count, kernels
        kernels = self._geometry(kernels, "dispatch")
        mapped = self._map[:count] if count else self._map[:1]
        launch(build_dispatch(kernels), indices, input.contiguous().view(torch.uint8), weights.contiguous(),
               indices.contiguous(), sent, mapped, self._total, self.memory.bases, cfg.rank, count,
               signature(f"dispatch {kernels.blocks} {name}"), self.memory.limit)
        self.memory.check(where)
        received, slots = cfg.received, cfg.num_experts_per_token
        rows = self._view("rows", (received, input.shape[1]), input.dtype)
        got = (rows, self._view("weights", (received, slots), torch.float32),
               None if scales is None else self._view("scales", (received, cfg.scale_dim), scales.dtype),
               self._view("indices", (received, slots), torch.int32), self._total)
        return got + self._pack(rows, packed_recv_x) if cfg.enable_std_moe else got

    def _hidden(self, where: str, name: str, rows: Any) -> int:
        """Elements of rows of a dtype, whose columns are pairs if it is fp4."""
        hidden, columns = self.config.hidden_dim, rows.shape[-1]
        allowed = (hidden // 2, hidden) if name == "fp4" else (hidden,)
        require(where, columns in allowed, f"rows of {name} must have {' or '.join(map(str, allowed))} columns, got "
                f"{columns}")
        return 2 * columns if name == "fp4" else columns

    def _geometry(self, kernels: TransportConfig, phase: str) -> TransportConfig:
        """With the tuned blocks and waves; all ranks must use the same, so the most tokens count, not this rank's."""
        if self._table is None:
            return kernels
        blocks, waves = self._table.lookup(phase, self.config.max_num_inp_token_per_rank)
        return launch_config(phase, kernels, blocks=blocks, waves=waves)

    def _pack(self, rows: Any, packed: Any) -> tuple[Any, Any]:
        import torch

        cfg, capacity = self.config, self._dispatch.capacity
        shape = (cfg.num_experts_per_rank, capacity, rows.shape[1])
        require("dispatch", packed is not None and tuple(packed.shape) == shape and packed.is_contiguous()
                and packed.dtype == rows.dtype, f"packed_recv_x must be contiguous {rows.dtype} {shape}")
        counts = self._total.new_zeros(cfg.num_experts_per_rank)
        origins = self._total.new_full((cfg.num_experts_per_rank, capacity), -1)
        slots = cfg.num_experts_per_token
        launch(build_pack(self._sent), rows, rows.view(torch.uint8), self._view(
            "indices", (cfg.received, slots), torch.int32), self.get_dispatch_src_token_pos(), self._total,
            packed.view(torch.uint8), counts, origins, self._slot_map, cfg.rank)
        return counts, origins

    def combine(self, input: Any, weights: Any, indices: Any, packed_recv_x: Any = None,
                cur_tok: int | None = None) -> tuple[Any, Any]:
        """Bring results back and add them up.

        Args:
            input: (rows, hidden) of any dtype whose rows fit, the same on all ranks, packed fp4 as :meth:`dispatch`
                takes it: in the order of the received rows, at least as many, each the weighted sum of the local
                experts; with `zero_copy` the registered buffer itself. None with `packed_recv_x`.
            weights: f32 (rows, k) of the received rows, which are summed as well, or None for those received.
            indices: not used; the dispatch has kept where rows went.
            packed_recv_x: with `enable_std_moe`, results by expert, which are multiplied by the weights here.
            cur_tok: tokens of this rank, by default those of the dispatch.

        Returns:
            ``(tokens, weights)``: (tokens, hidden) and f32 (tokens, k), sums over the ranks that had experts.

        Raises:
            CollectiveError: a rank did not come, called something else, or has fewer rows or weights than it received.
            ValueError, TypeError: shapes or dtypes.
        """
        import torch

        cfg, where = self.config, "combine"
        self.memory.require_open(where)
        self.memory.check(f"before {where}")
        count = self._count if cur_tok is None else cur_tok
        require(where, count <= self._count, f"{count} tokens, the dispatch had {self._count}")
        data = packed_recv_x if cfg.enable_std_moe else input
        require(where, data is not None and data.is_contiguous(), "contiguous rows are needed")
        name, columns = _combined_name(data.dtype, where, self._dispatch.target), data.shape[-1]
        kernels = launch_config(where, self._combine, out=name, hidden=self._hidden(where, name, data))
        packed = (cfg.num_experts_per_rank, self._dispatch.capacity, columns)
        require(where, not cfg.enable_std_moe or tuple(data.shape) == packed,
                f"packed_recv_x must be {packed}, got {tuple(data.shape)}")
        registered = self.memory.at(self._places["registered"])
        require(where, not cfg.zero_copy or data.data_ptr() == registered,
                "with zero_copy the input is the buffer of get_registered_combine_input_buffer")
        slots = cfg.num_experts_per_token
        if weights is None:
            weights = self._view("weights", (cfg.received, slots), torch.float32)
        require(where, weights.dtype == torch.float32 and len(weights.shape) == 2 and weights.shape[1] == slots,
                f"weights must be float32 (rows, {slots}), got {weights.dtype} {tuple(weights.shape)}")
        # The launch compares them with what was received, which only the device knows.
        rows = weights.shape[0] if cfg.enable_std_moe or cfg.zero_copy else min(
            data.numel() // columns, weights.shape[0])
        out = data.new_empty((count, columns))
        out_weights = self._total.new_empty((count, slots), dtype=torch.float32)
        kernels = self._geometry(kernels, "combine")
        launch(build_combine(kernels), self._total, nonempty(data).view(torch.uint8), nonempty(weights).contiguous(),
               self._slot_map, self._total, self._map, nonempty(out).view(torch.uint8), nonempty(out_weights),
               self.memory.bases, cfg.rank, rows, count, signature(f"combine {kernels.blocks} {name}"),
               self.memory.limit)
        self.memory.check(where)
        return out, out_weights

    def get_registered_combine_input_buffer(self, dtype: Any) -> Any:
        """The buffer (max rows, hidden) in shared memory that `zero_copy` combines, of fp4 with the columns of the last
        dispatch of it."""
        where = "get_registered_combine_input_buffer"
        name = _combined_name(dtype, where, self._dispatch.target)
        pairs = name == "fp4"
        hidden = self._sent.hidden if pairs else self.config.hidden_dim
        launch_config(where, self._combine, out=name, hidden=hidden)  # whether it fits
        return self._view("registered", (self.config.received, hidden // 2 if pairs else hidden), dtype)

    def get_dispatch_src_token_pos(self) -> Any:
        """i32 (max rows,): ``rank * max_num_inp_token_per_rank + token`` of each received row."""
        import torch

        return self._view("origin", (self.config.received,), torch.int32)

    def combine_no_stage1(self, input: Any, indices: Any) -> Any:
        """Add up the slots of each token, in f32 and in their order: what is left where results came slot by slot.

        Args:
            input: (tokens * k, hidden) of bf16, f16 or f32, rows of consecutive slots.
            indices: i32 (tokens, k), experts of the slots; those of experts that there are not count nothing.

        Returns:
            (tokens, hidden) of the same dtype.
        """
        import torch

        cfg, where = self.config, "combine_no_stage1"
        count, slots = indices.shape[0], cfg.num_experts_per_token
        require(where, tuple(indices.shape) == (count, slots) and indices.dtype == torch.int32,
                f"indices must be int32 (tokens, {slots}), got {indices.dtype} {tuple(indices.shape)}")
        require(where, tuple(input.shape) == (count * slots, cfg.hidden_dim) and input.is_contiguous(),
                f"input must be contiguous ({count * slots}, {cfg.hidden_dim}), got {tuple(input.shape)}")
        kernels = replace(self._dispatch, out=_combined_name(input.dtype, where, self._dispatch.target))
        out = input.new_empty((count, cfg.hidden_dim))
        if count:
            run = build_combine_slots(_slots_config(kernels))
            launch(run, input, input, out, indices.contiguous(), count)
        return out

    def close(self) -> None:
        """Give the memory back. The other ranks must not be in a call."""
        self.memory.close()


def _slots_config(config: TransportConfig) -> ReduceConfig:
    """The sum over the slots of a token."""
    require("combine_no_stage1", config.out in FLOATS, f"slots are added up as {', '.join(FLOATS)}, not {config.out}")
    return ReduceConfig(config.slots, config.hidden, config.out, config.out, config.ranks * config.experts,
                        target=config.target)


def _geometry_of(block_num: int, warp_num_per_block: int) -> dict[str, int]:
    return {"blocks": block_num, "waves": warp_num_per_block}


@builder
def make_dispatch_jit(*, rank: int, npes: int, experts_per_rank: int, experts_per_token: int, hidden_dim: int,
                      max_tok_per_rank: int, block_num: int, warp_num_per_block: int, data_type: Any,
                      scale_dim: int = 0, scale_type_size: int = 0, enable_std_moe: bool = False,
                      max_recv: int | None = None, target: Target) -> Any:
    """The launcher of :func:`flydsl.kernels.comm.dispatch.build_dispatch`; `rank` is an argument of it."""
    name = _name(data_type, "make_dispatch_jit")
    return build_dispatch(transport_config(
        "make_dispatch_jit", target, ranks=npes, experts=experts_per_rank, slots=experts_per_token, hidden=hidden_dim,
        dtype=name, out=name if name in ("bf16", "f16", "f32") else "bf16", tokens=max_tok_per_rank,
        received=max_recv or npes * max_tok_per_rank, scale_bytes=scale_dim * scale_type_size, packed=enable_std_moe,
        **_geometry_of(block_num, warp_num_per_block)))


@builder
def make_combine_jit(*, rank: int, npes: int, experts_per_token: int, hidden_dim: int, max_tok_per_rank: int,
                     block_num: int, warp_num_per_block: int, data_type: Any, enable_weights: bool = False,
                     enable_std_moe: bool = False, zero_copy: bool = False, skip_stage1: bool = False,
                     fp8_direct_cast: bool = False, blockwise_fp8_transport: bool = False, max_recv: int | None = None,
                     experts_per_rank: int = 1, target: Target) -> Any:
    """The launcher of :func:`flydsl.kernels.comm.dispatch.build_combine`; weights are always combined.

    The dispatch must have been made for the same rows (`max_recv`) of the same bytes.

    With `skip_stage1` the launcher of :func:`flydsl.kernels.comm.dispatch.build_combine_slots`.
    """
    name = _combined_name(data_type, "make_combine_jit", target)
    quant = "fp8_direct_cast" if fp8_direct_cast else "fp8_blockwise" if blockwise_fp8_transport else "none"
    config = transport_config(
        "make_combine_jit", target, ranks=npes, experts=experts_per_rank, slots=experts_per_token, hidden=hidden_dim,
        dtype=name, out=name, tokens=max_tok_per_rank, received=max_recv or npes * max_tok_per_rank,
        packed=enable_std_moe, zero_copy=zero_copy, transport=quant, **_geometry_of(block_num, warp_num_per_block))
    return build_combine_slots(_slots_config(config)) if skip_stage1 else build_combine(config)
