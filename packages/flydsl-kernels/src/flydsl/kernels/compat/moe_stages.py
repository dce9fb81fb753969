"""The two products of a mixture of experts as one call each, over the older builders of mixed operands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flydsl.kernels.host.arrays import launch
from flydsl.kernels.host.config import require
from flydsl.kernels.moe import GateMode, compile_mixed_moe_gemm1, compile_mixed_moe_gemm2, compile_moe_reduction
from flydsl.kernels.target import target

from .moe_slot_gate import slot_gate, slot_gate_launcher

if TYPE_CHECKING:
    import torch

__all__ = ["flydsl_moe_stage1", "flydsl_moe_stage2"]

_GROUP = 32  # elements of a scale


def _elements(tensor: torch.Tensor, dtype: str) -> int:
    """Elements of a row, of which fp4 and int4 have two in a byte."""
    return int(tensor.shape[-1]) * (2 if dtype in ("fp4", "int4") else 1)


def _torch_dtype(name: str) -> torch.dtype:
    import torch

    return {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}.get(name, torch.uint8)


def flydsl_moe_stage1(a: torch.Tensor, w1: torch.Tensor, sorted_token_ids: torch.Tensor,
                      sorted_expert_ids: torch.Tensor, num_valid_ids: torch.Tensor, out: torch.Tensor | None = None,
                      topk: int = 1, *, tile_m: int = 32, tile_n: int = 256, tile_k: int = 256, a_dtype: str = "fp8",
                      b_dtype: str = "fp4", out_dtype: str = "bf16", act: str = "silu",
                      w1_scale: torch.Tensor | None = None, a1_scale: torch.Tensor | None = None,
                      sorted_weights: torch.Tensor | None = None, persist_m: int = 1, k_batch: int = 1,
                      waves_per_eu: int | None = None, b_nt: int = 0, gate_mode: GateMode | str = GateMode.SEPARATED,
                      model_dim_pad: int = 0, inter_dim_pad: int = 0, bias: torch.Tensor | None = None,
                      swiglu_limit: float = 0.0, k_wave: int = 1, a_scale_one: bool = False, xcd_swizzle: int = 0,
                      stream: Any = None) -> Any:
    """The activation of gate and up of every slot; :func:`flydsl.kernels.moe.compile_mixed_moe_gemm1` says the orders.

    Args:
        a: (tokens, model), w1 (E, 2 inter, model), both of two elements a byte for fp4.
        sorted_token_ids, sorted_expert_ids, num_valid_ids: of ``moe_sort`` with blocks of `tile_m`.
        sorted_weights: given, results are multiplied with them.
        k_batch: workgroups that share a reduction: their sums are in f32, and the activation is a launch of its own.
        persist_m, waves_per_eu, k_wave: hints that are not taken.

    Returns:
        (tokens, topk, inter) of `out_dtype`, `out` if that is given. Of ``"fp4"`` and ``"fp8"``: (bytes (tokens, topk,
        columns), e8m0 scales of the sorted rows in the order that the second stage takes).

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    where, split = "flydsl_moe_stage1", k_batch > 1
    tokens, model, (experts, both) = a.shape[0], _elements(a, a_dtype), w1.shape[:2]
    inter, quantised = both // 2, out_dtype in ("fp4", "fp8")
    require(where, _elements(w1, b_dtype) == model, f"a has {model} columns and w1 {_elements(w1, b_dtype)}")
    require(where, not (split and quantised), f"out_dtype {out_dtype!r} needs k_batch = 1")
    weighted = sorted_weights is not None
    gate = slot_gate(where, target(), topk=topk, n=inter, out=out_dtype, activation=act, limit=swiglu_limit or None,
                     weighted=weighted) if split else None
    run = compile_mixed_moe_gemm1(
        model_dim=model, inter_dim=inter, experts=experts, topk=topk, tile_m=tile_m, tile_n=tile_n, tile_k=tile_k,
        doweight_stage1=weighted and not split, a_dtype=a_dtype, b_dtype=b_dtype,
        out_dtype="f32" if split else out_dtype, act=act, enable_bias=bias is not None, model_dim_pad=model_dim_pad,
        inter_dim_pad=inter_dim_pad, k_batch=k_batch, b_nt=b_nt, gate_mode=gate_mode, a_scale_one=a_scale_one,
        xcd_swizzle=xcd_swizzle, swiglu_limit=swiglu_limit)
    if out is None:
        columns = inter // 2 if out_dtype == "fp4" else inter
        out = a.new_empty((tokens, topk, columns), dtype=_torch_dtype(out_dtype))
    scale = None
    if quantised:
        rows = -(-len(sorted_token_ids) // 256) * 256
        scale = a.new_empty((rows, -(-inter // (8 * _GROUP)) * 8), dtype=_torch_dtype("e8m0"))
    made = out.view(tokens * topk, -1) if quantised else out
    if split:
        made = a.new_zeros((tokens, topk, both), dtype=_torch_dtype("f32"))
    weights = _weights(sorted_weights, sorted_token_ids)
    launch(run, a, made, a, w1, a1_scale, w1_scale, sorted_token_ids, sorted_expert_ids, weights, num_valid_ids, bias,
           scale, tokens, inter, model, len(sorted_expert_ids), stream=stream)
    if gate is not None:
        launch(slot_gate_launcher(gate), a, made, out, sorted_token_ids, weights, num_valid_ids, tokens,
               len(sorted_token_ids), stream=stream)
    return (out, scale) if quantised else out


def flydsl_moe_stage2(inter_states: torch.Tensor, w2: torch.Tensor, sorted_token_ids: torch.Tensor,
                      sorted_expert_ids: torch.Tensor, num_valid_ids: torch.Tensor, out: torch.Tensor | None = None,
                      topk: int = 1, *, tile_m: int = 32, tile_n: int = 128, tile_k: int = 256, a_dtype: str = "fp8",
                      b_dtype: str = "fp4", out_dtype: str = "bf16", mode: str = "atomic",
                      w2_scale: torch.Tensor | None = None, a2_scale: torch.Tensor | None = None,
                      sorted_weights: torch.Tensor | None = None, sort_block_m: int = 0, persist: bool | None = None,
                      waves_per_eu: int | None = None, b_nt: int = 2, model_dim_pad: int = 0, inter_dim_pad: int = 0,
                      bias: torch.Tensor | None = None, return_per_slot: bool = False,
                      expert_mask: torch.Tensor | None = None, topk_ids: torch.Tensor | None = None,
                      xcd_swizzle: int = 0, stream: Any = None) -> torch.Tensor:
    """The product of each slot's (inter) with its expert's w2 (E, model, inter), summed over the slots of a token.

    Args:
        inter_states: (tokens, topk, inter), or (tokens topk, inter); of two elements a byte for fp4.
        mode: ``"atomic"``: slots are added to `out` (zero before, or None); ``"reduce"``: they are written one by one
            and summed after that, those of experts that `expert_mask` leaves out not (needs `topk_ids`).
        return_per_slot: the slots (tokens, topk, model) themselves, with ``"reduce"``.
        persist, waves_per_eu: hints that are not taken.

    Returns:
        (tokens, model) of `out_dtype`, `out` if that is given.

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    where = "flydsl_moe_stage2"
    require(where, mode in ("atomic", "reduce"), f"mode must be 'atomic' or 'reduce', got {mode!r}")
    require(where, mode == "reduce" or not return_per_slot, "return_per_slot needs mode='reduce'")
    require(where, expert_mask is None or (mode == "reduce" and topk_ids is not None),
            "expert_mask needs mode='reduce' and topk_ids")
    states = inter_states.reshape(-1, inter_states.shape[-1])
    tokens, inter, (experts, model) = states.shape[0] // topk, _elements(states, a_dtype), w2.shape[:2]
    atomic = mode == "atomic"
    run = compile_mixed_moe_gemm2(
        model_dim=model, inter_dim=inter, experts=experts, topk=topk, tile_m=tile_m, tile_n=tile_n, tile_k=tile_k,
        doweight_stage2=sorted_weights is not None, a_dtype=a_dtype, b_dtype=b_dtype, out_dtype=out_dtype,
        accumulate=atomic, enable_bias=bias is not None, model_dim_pad=model_dim_pad, inter_dim_pad=inter_dim_pad,
        sort_block_m=sort_block_m, b_nt=b_nt, xcd_swizzle=xcd_swizzle)
    dtype = _torch_dtype(out_dtype)
    if atomic:
        slots = out = states.new_zeros((tokens, model), dtype=dtype) if out is None else out
    else:
        # A slot of an expert that has no rows here is written by nobody.
        slots = states.new_zeros((tokens * topk, model), dtype=dtype)
    launch(run, states, slots, states, w2, a2_scale, w2_scale, sorted_token_ids, sorted_expert_ids,
           _weights(sorted_weights, sorted_token_ids), num_valid_ids, bias, tokens, model, inter,
           len(sorted_expert_ids), stream=stream)
    if return_per_slot:
        return slots.view(tokens, topk, model)
    if not atomic:
        out = states.new_empty((tokens, model), dtype=dtype) if out is None else out
        add = compile_moe_reduction(topk=topk, model_dim=model, dtype_str=out_dtype, use_mask=expert_mask is not None,
                                    num_experts=0 if expert_mask is None else len(expert_mask))
        launch(add, slots, slots, out, expert_mask, topk_ids, tokens, stream=stream)
    assert out is not None
    return out


def _weights(sorted_weights: torch.Tensor | None, sorted_token_ids: torch.Tensor) -> torch.Tensor:
    """Routing weights; where there are none, memory that stands for them and is not read."""
    return sorted_token_ids.view(_torch_dtype("f32")) if sorted_weights is None else sorted_weights
