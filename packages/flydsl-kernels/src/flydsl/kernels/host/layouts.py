"""Weight and scale orders that the GEMM kernels read, and the tag that says in which order a tensor is.

All functions are torch on the host. Shuffled tensors carry ``_flydsl_layout``; :func:`layout_of` reads it and consumers
refuse a weight with another tag.
"""

from __future__ import annotations

import torch

__all__ = [
    "B_16X16", "B_16X16_INT4", "check_layout", "e8m0_shuffle", "layout_of", "preshuffle_b_16x16", "preshuffle_b_fp8",
    "shuffle_scale_32x4", "shuffle_scale_for_int4", "shuffle_scale_w4", "shuffle_weight", "shuffle_weight_w4", "tag",
    "tag_packed", "told",
]

B_16X16 = "b_16x16"
B_16X16_INT4 = "b_16x16_int4"
FP4_16 = "fp4_16"


def tag(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """Mark `tensor` as being in layout `name`."""
    tensor._flydsl_layout = name  # type: ignore[attr-defined]
    tensor.is_shuffled = True  # type: ignore[attr-defined]
    return tensor


def told(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """The tensor in layout `name`, if a caller says so: the tag is an attribute of the tensor object, which a copy does
    not have. As it is tagged if the name is empty."""
    return tag(tensor.detach(), name) if name else tensor


def layout_of(tensor: torch.Tensor) -> str | None:
    """The layout tag of a tensor, or None."""
    return getattr(tensor, "_flydsl_layout", None)


def check_layout(tensor: torch.Tensor, name: str, where: str) -> None:
    """ValueError unless `tensor` is tagged with layout `name`."""
    found = layout_of(tensor)
    if found != name:
        raise ValueError(f"{where}: the weight must be in layout {name!r}, but it is tagged {found!r}; make it with "
                         f"flydsl.kernels.gemm.shuffle_weight")


def tag_packed(packed: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """`packed`, tagged as an int4 weight if the int8 values that it was packed from were a shuffled weight."""
    return tag(packed, B_16X16_INT4) if layout_of(values) == B_16X16 else packed


def shuffle_weight(x: torch.Tensor, layout: tuple[int, int] = (16, 16), use_int4: bool = False) -> torch.Tensor:
    """The (16, 16) preshuffle of a weight (..., N, K): a lane finds its operand of 64 bytes of k in 16 consecutive
    bytes.

    Args:
        x: the weight; N is a multiple of 16, K (in storage elements) of 32.
        layout: (16, 16) is the only one.
        use_int4: 32 consecutive k a lane instead.

    Returns:
        A new tensor of the same shape and dtype, tagged.

    Raises:
        ValueError: a size or the layout is not supported.
    """
    if layout != (16, 16):
        raise ValueError(f"shuffle_weight: the layout must be (16, 16), got {layout}")
    size = x.element_size()
    n, k = x.shape[-2:]
    block, pack = 32, 32 if use_int4 else 16 // size
    if n % 16 or k % block:
        raise ValueError(f"shuffle_weight: N must be a multiple of 16 and K of {block}, got N = {n}, K = {k}")
    view = x.view(-1, n // 16, 16, k // block, block // pack, pack)
    out = view.permute(0, 1, 3, 4, 2, 5).contiguous().view(x.shape)
    return tag(out, B_16X16)


def shuffle_weight_w4(src: torch.Tensor, NLane: int = 16, gate_up: bool = False,
                      moe_gemm: bool = False) -> torch.Tensor:  # noqa: N803
    """The order of packed fp4 weights (..., N, K/2 bytes): 16 rows x 64 bytes, a lane's 16 bytes together.

    With `moe_gemm` and `gate_up`, x is (E, 2 * inter, bytes) with the gate rows first; a tile of 16 gate rows is
    followed by the tile of 16 up rows.
    """
    data = src.view(torch.uint8)
    n, kb = data.shape[-2:]
    if n % NLane or kb % 64:
        raise ValueError(f"shuffle_weight_w4: N must be a multiple of {NLane} and K/2 of 64, got {n} and {kb}")
    if moe_gemm and gate_up:
        view = data.view(-1, 2, n // 2 // NLane, NLane, kb // 64, 4, 16).permute(0, 2, 1, 4, 5, 3, 6)
    else:
        view = data.view(-1, n // NLane, NLane, kb // 64, 4, 16).permute(0, 1, 3, 4, 2, 5)
    return tag(view.contiguous().view(src.shape).view(src.dtype), FP4_16)


def e8m0_shuffle(scale: torch.Tensor) -> torch.Tensor:
    """Scales (rows, K/32) in the order of the scaled MFMA, padded to multiples of 256 rows and 8 columns.

    The byte of (row, col) is at ``(row>>5)*32*C + (col>>3)*256 + (col&3)*64 + (row&15)*4 + ((col>>2)&1)*2 +
    ((row>>4)&1)`` with C the padded columns.
    """
    m, n = scale.shape
    rows, cols = -(-m // 256) * 256, -(-n // 8) * 8
    padded = torch.zeros(rows, cols, dtype=torch.uint8, device=scale.device)
    padded[:m, :n] = scale.view(torch.uint8)
    view = padded.view(rows // 32, 2, 16, cols // 8, 2, 4).permute(0, 3, 5, 2, 4, 1)
    return view.contiguous().view(rows, cols)


def shuffle_scale_w4(scale: torch.Tensor, experts: int = 1, gate_up: bool = False) -> torch.Tensor:
    """Weight scales (rows, K/32) in the order of :func:`e8m0_shuffle`, without padding.

    With `gate_up`, gate and up rows take the place of the two halves of 32 rows.

    Raises:
        ValueError: rows is not a multiple of 32 or K/32 of 8.
    """
    m, n = scale.view(-1, scale.shape[-1]).shape
    if m % 32 or n % 8:
        raise ValueError(f"shuffle_scale_w4: rows must be a multiple of 32 and K of 256, got {m} rows, K = {n * 32}")
    data = scale.view(torch.uint8)
    if gate_up:
        view = data.view(experts, 2, m // experts // 32, 16, n // 8, 2, 4).permute(0, 2, 4, 6, 3, 5, 1)
    else:
        view = data.view(m // 32, 2, 16, n // 8, 2, 4).permute(0, 3, 5, 2, 4, 1)
    return view.contiguous().view(scale.shape)


def shuffle_scale_32x4(scale: torch.Tensor) -> torch.Tensor:
    """Scales (rows, K/32) in the order of the scaled WMMA of gfx1250: (rows/32 rounded up, K) bytes.

    The four of 128 k of a row are a word, and the words of 32 rows lie together. Rows are padded with zeros.

    Raises:
        ValueError: K is not a multiple of 128.
    """
    rows, n = scale.shape
    if n % 4:
        raise ValueError(f"shuffle_scale_32x4: K must be a multiple of 128, got {n * 32}")
    groups = -(-rows // 32)
    padded = torch.zeros(groups * 32, n, dtype=torch.uint8, device=scale.device)
    padded[:rows] = scale.view(torch.uint8)
    return padded.view(groups, 32, n // 4, 4).permute(0, 2, 1, 3).contiguous().view(groups, n * 32)


def preshuffle_b_16x16(b: torch.Tensor, rows: int, cols: int) -> torch.Tensor:
    """gfx1250 weights: tiles of 16 rows x 16 bytes of a byte matrix."""
    return b.view(torch.uint8).view(rows // 16, 16, cols // 16, 16).permute(0, 2, 1, 3).contiguous().view(rows, cols)


def preshuffle_b_fp8(b: torch.Tensor) -> torch.Tensor:
    """RDNA4 fp8 weights: B (K, N) to [N/16, K/16, 2, 16, 8]."""
    k, n = b.shape
    if k % 16 or n % 16:
        raise ValueError(f"preshuffle_b_fp8: K and N must be multiples of 16, got {k} x {n}")
    data = b.view(torch.uint8).t().contiguous().view(n // 16, 16, k // 16, 2, 8).permute(0, 2, 3, 1, 4)
    return data.contiguous().view(b.dtype)


def shuffle_scale_for_int4(scale: torch.Tensor, group: int = 32) -> torch.Tensor:
    """Group scales (E, G, N) of int4 weights as pairs: (E, G/2, N, 2)."""
    e, g, n = scale.shape
    if g % 2 or group != 32:
        raise ValueError(f"shuffle_scale_for_int4: an even number of groups of 32 is needed, got {g} of {group}")
    return scale.view(e, g // 2, 2, n).permute(0, 1, 3, 2).contiguous()
