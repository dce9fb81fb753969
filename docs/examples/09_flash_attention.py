"""Flash attention: O = softmax(Q K^T / sqrt(D)) V in float16, of any length, causal or not, for D of 64 and 128.

Each wave of a workgroup computes 16 rows of one head; together they go through K and V in tiles of 64 rows, or
32 where a wave has 32 lanes with twice the registers to hold of each.

* The scores are computed *transposed*, S^T = K Q^T. Then the accumulator of a lane holds what operand B of the second
  product O^T = V^T P^T wants of it: `fx.convert_layout` between the two is no instruction. Where one instruction takes
  the rows of two accumulators (gfx950), the order of K in the second tiled MMA says so.
* Row maximum and row sum are `fx.reduce` along the mode of K's rows: values first, then lanes by the cheapest
  exchange. `fx.broadcast_to` spreads them over a fragment without an instruction.
* K and V come by way of registers: a `fx.Pipeline` loads the next tile while this one is multiplied. V is transposed on
  its way to LDS, by a `fx.convert_layout` within each thread.
* Buffer tensors of exactly one head give zeros beyond the last row; scores of rows that do not exist, or that causality
  hides, become -inf, in the tiles that have any.

    python docs/examples/09_flash_attention.py --sizes 2x200x200x64 1x100x300x128
    FLYDSL_SIM_ARCH=gfx1250 python docs/examples/09_flash_attention.py
"""

from __future__ import annotations

import argparse
import math

import _common as common
import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.runtime.device import get_rocm_arch

THREADS = 256  # waves with 16 rows of Q each
CHUNK = 8      # float16 values of one 128-bit access


@flyc.kernel
def attention_kernel(Q: fx.Tensor, K: fx.Tensor, V: fx.Tensor, Out: fx.Tensor, rows: fx.Int32, keys: fx.Int32,
                     first: fx.TiledMma, second: fx.TiledMma, copy_k: fx.TiledCopy, copy_v: fx.TiledCopy,
                     write_v: fx.TiledCopy, D: fx.Constexpr[int], BN: fx.Constexpr[int], causal: fx.Constexpr[bool]):
    """Workgroup (block, head) computes BM rows of a head, 64 or (where a wave has 32 lanes) 128."""
    BM = fx.const_expr(first.tile_size_mnk.to_py_value()[1])
    tid, (block, head, _) = fx.thread_idx.x, fx.block_idx

    def head_of(tensor, n):
        """This head as a matrix (n, D) that is bounded by its end."""
        start = fx.get_iter(tensor) + fx.Int64(head) * (fx.Int64(n) * D)
        matrix = fx.make_view(start, fx.make_layout((n, D), (D, 1)))
        return fx.rocdl.make_buffer_tensor(matrix, num_records_bytes=fx.Int64(n) * (D * 2))

    q_tile = fx.flat_divide(head_of(Q, rows), (BM, D))[None, None, block, 0]
    k_tiles, v_tiles = [fx.flat_divide(head_of(t, keys), (BN, D))[None, None, None, 0] for t in (K, V)]
    o = head_of(Out, rows)
    o_tile = fx.flat_divide(fx.make_view(fx.get_iter(o), fx.make_layout((D, rows), (1, D))), (D, BM))[
        None, None, 0, block]  # transposed, as it is computed

    @fx.struct
    class Shared:
        k: fx.Array[fx.Float16, BN * D, 16]
        v: fx.Array[fx.Float16, BN * D, 16]

    memory = fx.SharedAllocator().allocate(Shared).peek()
    chunks = [int(math.log2(n // CHUNK)) for n in (D, BN)]
    swizzles = [fx.static(fx.SwizzleType.get(min(bits, 3), 3, bits)) for bits in chunks]  # chunk ^= row
    k_lds = memory.k.view(fx.make_composed_layout(swizzles[0], fx.make_layout((BN, D), (D, 1))))
    v_rows = memory.v.view(fx.make_composed_layout(swizzles[1], fx.make_layout((BN, D), (1, BN))))
    v_lds = memory.v.view(fx.make_composed_layout(swizzles[1], fx.make_layout((D, BN), (BN, 1))))

    load128, load64, store64 = [fx.make_copy_atom(op, fx.Float16) for op in (
        fx.rocdl.BufferCopy128b(), fx.rocdl.BufferCopy64b(), fx.rocdl.BufferCopy64b())]
    lds128, lds64 = [fx.make_copy_atom(op, fx.Float16) for op in (fx.UniversalCopy128b(), fx.UniversalCopy64b())]
    scores_of, sums_of = first.get_slice(tid), second.get_slice(tid)

    # Q stays in registers; K and V pass through LDS.
    q, k = scores_of.make_fragment_B((BM, D)), scores_of.make_fragment_A((BN, D))
    v, p_operand = sums_of.make_fragment_A((D, BN)), sums_of.make_fragment_B((BM, BN))
    q_copy = fx.make_tiled_copy_B(load128, first).get_slice(tid)
    fx.copy(load128, q_copy.partition_S(q_tile), q_copy.retile(q))
    k_in, v_in, v_out = [copy.get_slice(tid) for copy in (copy_k, copy_v, write_v)]
    k_global, k_write = k_in.partition_S(k_tiles), k_in.partition_D(k_lds)
    v_global, v_write = v_in.partition_S(v_tiles), v_out.partition_D(v_rows)
    k_staged, v_staged = [fx.make_fragment_like(x[None, None, None, 0]) for x in (k_global, v_global)]
    read_k = fx.make_tiled_copy_A(lds128, first).get_slice(tid)
    read_v = fx.make_tiled_copy_A(lds64, second).get_slice(tid)

    def load(tile, _):
        """Start loading a tile of K and V into registers."""
        fx.copy(load128, k_global[None, None, None, tile], k_staged)
        fx.copy(load64, v_global[None, None, None, tile], v_staged)

    def store(_, __):
        """The loaded tile into LDS, V transposed."""
        fx.copy(lds128, k_staged, k_write)
        loaded, written = copy_v.thread_values((BN, D)), write_v.thread_values((BN, D))
        turned = fx.convert_layout(v_staged, written, thread_values=loaded)
        fx.copy(lds64, turned, v_write)

    scores, sums = scores_of.make_fragment_C((BN, BM)), sums_of.make_fragment_C((D, BM))
    p = fx.make_fragment_like(scores, fx.Float16)
    places = scores_of.partition_C(fx.make_view((0, 0), fx.make_identity_layout((BN, BM))))
    scale = fx.const_expr(math.log2(math.e) / math.sqrt(D))  # exp(x) = exp2(x * log2(e))
    hidden = keys - rows  # row r sees the keys up to r + hidden
    tiles = fx.ceildiv(keys, BN)
    if fx.const_expr(causal):
        tiles = fx.max(fx.min(tiles, fx.ceildiv((block + 1) * BM + hidden, BN)), 1)

    @flyc.jit
    def mask(tile):
        """-inf for keys that do not exist or are hidden, in a tile that has any."""
        whole = (tile + 1) * BN <= keys
        if fx.const_expr(causal):
            whole = whole & ((tile + 1) * BN <= block * BM + hidden + 1)
        if ~whole:
            values = scores.load()
            masked = []
            for i in fx.range_constexpr(values.numel):
                key, row = [fx.Int32(fx.get_scalar(x)) for x in places[i]]
                seen = tile * BN + key < keys
                if fx.const_expr(causal):
                    seen = seen & (tile * BN + key <= block * BM + row + hidden)
                masked.append(seen.select(values[i], fx.Float32(-math.inf)))
            scores.store(fx.Vector.from_elements(masked, fx.Float32))

    sums.fill(0.0)
    scores.fill(0.0)
    largest = fx.reduce(scores, 0, "MAX")  # for its layout
    total = fx.make_fragment_like(largest)
    largest.fill(-1e30)  # finite: a row of which all is hidden gives exp2(-inf), not NaN
    total.fill(0.0)
    for step in fx.pipeline_range(fx.Pipeline(tiles, 1, fx.Staged(load, store))):
        fx.copy(lds128, read_k.partition_S(k_lds), read_k.retile(k))
        scores.fill(0.0)
        fx.gemm(first, scores, k, q, scores)
        mask(step.tile)
        before = largest.load()
        after = fx.max(before, fx.reduce(scores, 0, "MAX").load())
        largest.store(after)
        shift = fx.broadcast_to(largest, scores) * scale
        decay = fx.make_fragment_like(largest)
        with fx.fastmath("afn"):  # exp2 in one instruction
            scores.store(fx.math.exp2(scores.load() * scale - shift))
            decay.store(fx.math.exp2((before - after) * scale))
        p.store(scores.load().to(fx.Float16))
        total.store(total.load() * decay.load() + fx.reduce(scores, 0, "ADD").load())
        sums.store(sums.load() * fx.broadcast_to(decay, sums))
        fx.copy(lds64, read_v.partition_S(v_lds), read_v.retile(v))
        fx.gemm(second, sums, v, fx.convert_layout(p, p_operand, modes=(1, 0)), sums)

    row_sums = total.load()
    total.store((row_sums > 0.0).select(1.0 / row_sums, 0.0))
    result = fx.make_fragment_like(sums, fx.Float16)
    result.store((sums.load() * fx.broadcast_to(total, sums)).to(fx.Float16))
    write_o = fx.make_tiled_copy_C(store64, second).get_slice(tid)
    fx.copy(store64, write_o.retile(result), write_o.partition_D(o_tile))


@flyc.jit
def attention(Q: fx.Tensor, K: fx.Tensor, V: fx.Tensor, Out: fx.Tensor, heads: fx.Int32, rows: fx.Int32,
              keys: fx.Int32, D: fx.Constexpr[int], causal: fx.Constexpr[bool], arch: fx.Constexpr[str],
              stream: fx.Stream = fx.Stream(None)):
    """Out[heads, rows, D] of Q[heads, rows, D] and K, V[heads, keys, D], row-major."""
    BM, depth = THREADS // fx.num_warp_threads() * 16, 16 if arch in ("gfx90a", "gfx942", "gfx1201") else 32
    waves = fx.make_layout((1, BM // 16, 1), (0, 1, 0))
    matrix = fx.rocdl.MFMA if arch.startswith("gfx9") else fx.rocdl.WMMA
    atom = fx.make_mma_atom(matrix(16, 16, depth, fx.Float16))
    BN = 64 if D == 64 or fx.num_warp_threads() == 64 else 32
    # Orders of K. First: a 128-bit chunk of D feeds two instructions. Second: an instruction takes 4 rows of each of
    # two accumulators.
    chunks = fx.make_tile(None, None, fx.make_layout((4, 4, 2), (1, 8, 4))) if arch in ("gfx90a", "gfx942") else None
    pairs = fx.make_tile(None, None, fx.make_layout((4, 2, 4), (1, 16, 4))) if arch == "gfx950" else None
    first, second = fx.make_tiled_mma(atom, waves, chunks), fx.make_tiled_mma(atom, waves, pairs)
    c128, c64 = [fx.make_copy_atom(op, fx.Float16) for op in (fx.UniversalCopy128b(), fx.UniversalCopy64b())]
    copy_k = fx.make_tiled_copy_tv(c128, fx.make_ordered_layout((THREADS * CHUNK // D, D // CHUNK), (1, 0)),
                                   fx.make_ordered_layout((1, CHUNK), (1, 0)))
    blocks = fx.make_ordered_layout((THREADS * 4 // D, D // 4), (1, 0))  # 4 x 4 values each, loaded along D, ...
    copy_v = fx.make_tiled_copy_tv(c64, blocks, fx.make_ordered_layout((4, 4), (1, 0)))
    write_v = fx.make_tiled_copy_tv(c64, blocks, fx.make_ordered_layout((4, 4), (0, 1)))  # ... written across
    attention_kernel(Q, K, V, Out, rows, keys, first, second, copy_k, copy_v, write_v, D, BN, causal).launch(
        grid=(fx.ceildiv(rows, BM), heads, 1), block=THREADS, stream=stream)


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    """In double precision; a row that sees nothing gives 0."""
    scores = np.einsum("hrd,hkd->hrk", q, k) / math.sqrt(q.shape[2])
    if causal:
        row, key = np.arange(q.shape[1])[:, None], np.arange(k.shape[1])
        scores = np.where(key <= row + k.shape[1] - q.shape[1], scores, -np.inf)
    p = np.exp(scores - np.maximum(scores.max(axis=2, keepdims=True), -1e300))
    return np.einsum("hrk,hkd->hrd", p / np.maximum(p.sum(axis=2, keepdims=True), 1e-300), v)


def run(heads: int, rows: int, keys: int, depth: int, causal: bool) -> None:
    """Attention of random matrices against NumPy in double precision."""
    if depth not in (64, 128):
        raise ValueError(f"D must be 64 or 128, got {depth}")
    q = common.random_f16((heads, rows, depth), 1)
    k, v = common.random_f16((heads, keys, depth), 2), common.random_f16((heads, keys, depth), 3)
    o = common.poisoned_like(q)
    attention(q, k, v, o, heads, rows, keys, depth, causal, get_rocm_arch().split(":")[0])
    common.synchronize()
    exact = reference(*(common.to_host(x).astype(np.float64) for x in (q, k, v)), causal)
    # P and the result are rounded to float16, by 2^-11 of values of V at most.
    bound = 2.0**-9 * np.abs(common.to_host(v)).astype(np.float64).max()
    print(f"{heads}x{rows}x{keys}x{depth} {'causal' if causal else 'full'} float16 on {common.describe_device()}")
    common.check("O", o, exact, bound)


def example_call() -> tuple:
    """A call of `attention` for tools that compile it without running it."""
    x = np.zeros((1, 256, 128), np.float16)
    return attention, x, x, x, x, 1, 256, 256, 128, False, get_rocm_arch().split(":")[0], fx.Stream(None)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["2x100x200x64", "1x65x130x128"], help="heads x rows x keys x D")
    common.require_arch("gfx90a", "gfx942", "gfx950", "gfx1201", "gfx1250")
    for size in parser.parse_args().sizes:
        for causal in (False, True):
            run(*map(int, size.split("x")), causal)


if __name__ == "__main__":
    main()
