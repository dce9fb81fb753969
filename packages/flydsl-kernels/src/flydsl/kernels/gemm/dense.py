"""The general f16/bf16 GEMM, for MFMA and WMMA alike: both operands through LDS.

Without direct copies: while a tile is computed from one LDS buffer, the next goes from registers to the other buffer,
and (where there are registers for it) the one after is on its way to registers. With direct copies (gfx950): a ring of
`stages` buffers is filled ahead, with one barrier a tile. Either way fragments are read one part ahead (`mainloop`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..host.arrays import allocate, contiguous, copy_into, padded, transposed
from ..host.config import require
from ..host.dense import Extent
from ..host.dtypes import dtype_name
from ..op import Plan
from ..parts.epilogue import Bias, Epilogue, shuffle_tile, store_tile
from ..parts.grid import add_slice, add_wave_slices
from ..parts.lane import Lane, lane_of
from ..parts.mainloop import SPLIT_BARRIER, WHOLE_BARRIER, MainLoop, Ring, Staged
from ..parts.matrix import MatrixOp, matrix_op
from ..parts.memory import WORDS, float_element, pointer
from ..parts.operand import Columns, Rows, Stored
from ..parts.products import TileProducts
from ..parts.reduce import Lds
from ..parts.schedule import Tally, ahead_orders, even_schedule, hot_loop_schedule
from ..parts.tile import CHUNK_BYTES, RowTile, StoredTile, TurnedTile, WideStoredTile
from ..target import Target, builder
from .config import LARGE_TILE, GemmConfig, run
from .tuned import dense_knobs

__all__ = ["LAYOUTS", "SPLIT_K_SEMAPHORE_MAX_LEN", "DenseConfig", "build_gemm_module", "check_a16w16", "dense_config",
           "dense_loop", "launch_dense", "plan_a16w16", "row_scale_config", "takes_row_scales"]

LAYOUTS = ("nt", "nn", "tn", "tt")


@dataclass(frozen=True, kw_only=True)
class DenseConfig(GemmConfig):
    """``C[M, N] = op(a) op(b)`` with f32 accumulation: f16 or bf16, or fp8 with scales per row and column.

    Attributes:
        layout: a letter per operand, ``n`` row-major and ``t`` column-major.
        bias: add ``bias[N]``.
        use_async: operands go to LDS without registers; None, as of `cshuffle`: where that is possible.
        stochastic: C is rounded to bf16 stochastically.
        b_shuffled: b is in the order of ``shuffle_weight``.
        atomic: the slices of a split reduction add to C, ordered by a signal, instead of writing to a workspace.
        tile_ahead: fragments are read a tile ahead (:class:`.mainloop.MainLoop`): of small tiles, which have the
            registers for it and too few products to wait for LDS beside them.
    """

    CALLED = {"tile_m": "block_m", "tile_n": "block_n", "tile_k": "block_k", "group": "group_m"}
    OUT: ClassVar[tuple[str, ...]] = ("bf16", "f16", "f32")

    dtype: str
    layout: str
    tile_m: int = 128
    tile_n: int = 128
    tile_k: int = 64
    m_waves: int = 2
    n_waves: int = 2
    bias: bool = False
    use_async: bool | None = False
    stochastic: bool = False
    b_shuffled: bool = False
    atomic: bool = False
    tile_ahead: bool = False

    @property
    def op(self) -> MatrixOp:
        return matrix_op(self.target, self.dtype, self.dtype == "fp8")

    @property
    def row_scales(self) -> bool:
        return self.dtype == "fp8"

    def extents(self, m: Any) -> dict[str, Extent]:
        found = super().extents(m)
        if self.bias:
            found["bias"] = Extent(self.n)
        if self.split_k > 1 and not self.atomic:
            found["workspace"] = Extent(fx.Int64(m) * (self.n * self.split_k), fx.Float32)
        return found

    def _tile(self, rows: int, consecutive_k: bool, interleaved: bool = False) -> RowTile:
        bank_bytes = self.target.bank_bytes
        stored = StoredTile if self.target.dma128 else WideStoredTile if self.target.tensor_moves else None
        if not consecutive_k and stored and stored.fits(rows):
            return stored(self.tile_k, rows * self.op.element_bytes, self.threads, bank_bytes)
        # The reads of gfx950 pair rows in a way of its own.
        turned = not consecutive_k and not self.target.dma128 and TurnedTile.fits(self.row_bytes)
        kind = TurnedTile if turned else RowTile
        return kind(rows, self.row_bytes, self.threads, bank_bytes, interleaved=interleaved)

    @property
    def a_tile(self) -> RowTile:
        return self._tile(self.tile_m, self.layout[0] == "n")

    @property
    def b_tile(self) -> RowTile:
        return self._tile(self.tile_n, self.layout[1] == "t", self.op.interleaved)

    @property
    def tile_bytes(self) -> int:
        return self.a_tile.bytes + self.b_tile.bytes

    @property
    def ragged_k(self) -> bool:
        """Whether the last tile of k goes past the end."""
        return self.k_tiles * self.tile_k * self.split_k != self.k

    @property
    def copies_directly(self) -> bool:
        """Whether operands can go to LDS without registers: no tile of k is ragged, none has to be turned around."""
        stored = all(consecutive or isinstance(tile, StoredTile) for consecutive, tile in
                     ((self.layout[0] == "n", self.a_tile), (self.layout[1] == "t", self.b_tile)))
        return self.target.dma128 and stored and not self.ragged_k

    @property
    def reach(self) -> int:
        """Tiles that loads into registers are ahead: more than one where there are registers for them (512 on gfx9).
        Two are in time for the near caches only."""
        if self.target.wave == 64:
            return 3
        return 2 if self.needed <= self.registers else 1

    @property
    def needed(self) -> int:
        """Registers with loads two tiles ahead."""
        chunks = self.a_tile.loads + self.b_tile.loads
        of_part = (min(self.m_repeat, 2) + self.n_repeat) * self.op.blocks
        fragments = 2 * ((self.m_repeat + self.n_repeat) * self.blocks if self.tile_ahead else of_part)
        turned = (self.layout[0] == "t") + (self.layout[1] == "n")
        return self.sums + (2 * chunks + fragments + 4 * turned) * WORDS

    @property
    def crossing(self) -> bool:
        """Whether one operand is written to LDS after the barrier, so that copies are spread over the whole tile.
        Estimated worse on gfx12, where vector and memory instructions do not issue beside matrix instructions."""
        return self.reach > 1 and self.target.wave == 64 and not self.tile_ahead


@functools.lru_cache
def dense_config(where: str, target: Target, **fields: Any) -> DenseConfig:
    """A checked configuration; `fields` may have the callers' names. ValueError says what is not supported."""
    target.require(where, "gfx90a", "gfx942", "gfx950", "gfx11", "gfx120", "gfx1250")
    known = {called: field for field, called in DenseConfig.CALLED.items()}
    config = DenseConfig(target=target, **{known.get(name, name): value for name, value in fields.items()})
    need = partial(config.need, where)
    fp8 = config.dtype == "fp8" and target.mx  # only through the builders that say so
    need(fp8 or config.dtype in ("f16", "bf16"), f"the dtype must be 'f16' or 'bf16', got {config.dtype!r}")
    need(config.layout in LAYOUTS, f"layout must be one of {', '.join(LAYOUTS)}, got {config.layout!r}")
    size = config.op.element_bytes
    config.check_tile(where, config.op.k * config.k_waves, ragged=True)
    need(config.waves <= 16, f"at most 16 waves fit a workgroup, got {config.waves}")
    unit = config.threads * CHUNK_BYTES  # a chunk of each thread
    for name, rows in (("a", config.tile_m), ("b", config.tile_n)):
        need(rows * config.row_bytes % unit == 0, f"a tile of {name} must be a multiple of {unit} bytes, it has "
             f"{rows * config.row_bytes}")
    need(config.k * size % 16 == 0 or config.layout == "tn",
         f"K must be a multiple of {16 // size} for layout {config.layout}, got {config.k}")
    need(config.n % 8 == 0 or config.layout[1] == "t", f"N must be a multiple of 8 where b is row-major, "
         f"got {config.n}")
    whole = config.layout == "nt" and config.n % config.tile_n == 0 and not config.ragged_k and config.split_k == 1
    for name, least in (("lda", config.k), ("ldb", config.k), ("ldc", config.n)):
        config.check_apart(where, name, least, 8, whole, ", of whole tiles in layout nt,")
    need(not config.tile_ahead or config.needed <= config.registers,
         f"fragments a tile ahead take {config.needed} registers of a lane, {target.arch} has {config.registers}")
    need(config.stages >= 2, f"stages must be 2 or more, got {config.stages}")
    need(not config.use_async or config.copies_directly, "direct copies to LDS need gfx950, K a multiple of block_k * "
         "split_k and, where an operand is not consecutive in k, blocks of 64 or multiples of 128")
    if config.use_async is None:
        config = replace(config, use_async=config.copies_directly)
    need(not target.tensor_moves or config.sums <= config.registers * 5 // 8,
         f"the sums of {config.tile_m} x {config.tile_n} on {config.m_waves} x {config.n_waves} waves are "
         f"{config.sums} registers of a lane, {target.arch} has {config.registers}")
    wide = config.n * config.out.width // 8 % 16 == 0
    refusal = None if wide else f"rows of C must be multiples of 16 bytes, N = {config.n}"
    refusal = refusal or ("stochastic rounding stores directly" if config.stochastic else config.shuffle.refuse())
    refusal = refusal or ("waves that share k store directly" if config.k_waves > 1 else None)
    need(config.cshuffle is not True or refusal is None, f"C cannot go through LDS: {refusal}")
    if config.atomic:
        need(refusal is None, f"slices cannot be added to C: {refusal}")
    if config.cshuffle is None or config.atomic:
        config = replace(config, cshuffle=refusal is None)
    return config.fitting(where)


# ------------------------------------------------------------------------------------------- fp8 with scales

ROW_SCALE_K = 128  # of a tile


def takes_row_scales(target: Target, k: int) -> bool:
    """Whether the fp8 form with scales per row and column runs K."""
    return target.mx and target.dma128 and k % ROW_SCALE_K == 0 and k >= 2 * ROW_SCALE_K


def row_scale_config(where: str, target: Target, n: int, k: int, block: tuple[int, int], n_waves: int = 2,
                     group: int = 4, shuffled: bool = False) -> DenseConfig:
    """fp8 with scales per row and column on gfx950: every operand goes to LDS 16 bytes a lane, with one barrier a tile,
    and each of 2 x `n_waves` waves multiplies its part of the block.

    Blocks of more than 128 x 256 have eight waves where their columns can be cut in four: of 256 x 256, the sums of a
    quarter and what is read for them take every register of a wave. ValueError says what is not supported.
    """
    target.require(where, "gfx95")
    require(where, takes_row_scales(target, k),
            f"K must be a multiple of {ROW_SCALE_K} and at least {2 * ROW_SCALE_K}, got {k}")
    if block[0] * block[1] > LARGE_TILE and block[1] % (4 * 16) == 0:
        n_waves = 4
    return dense_config(where, target, n=n, k=k, dtype="fp8", out_dtype="bf16", layout="nt", block_m=block[0],
                        block_n=block[1], block_k=ROW_SCALE_K, m_waves=2, n_waves=n_waves, stages=2, use_async=True,
                        group_m=group, b_shuffled=shuffled, cshuffle=None)


# ------------------------------------------------------------------------------------------- the kernel

# Share of a tile's matrix instructions before the barrier over which direct copies are started: those at the end of it
# are waited for.
COPY_WINDOW = 0.5
# Share of them over which fragments are read, also the first of the next tile, where those are read before the barrier.
READ_WINDOW = 0.85


def operand(data: Any, consecutive_k: bool, tile: RowTile, stages: list[Any], lane: Lane, config: DenseConfig,
            rows: Any, row: Any, row_bytes: int, shuffled: bool = False) -> Rows:
    """How an operand of `rows` x k elements comes to LDS, from row `row` on, whichever way it lies in memory. Rows that
    are consecutive in k have `row_bytes`, with what is between them."""
    where: dict[str, Any] = dict(row=row, rows_total=rows, ragged=config.ragged_k)
    if consecutive_k:
        return Rows(data, tile, stages, lane, row_bytes=row_bytes, shuffled=shuffled, **where)
    kind: Any = Stored if isinstance(tile, StoredTile) else Columns
    return kind(data, tile, stages, lane, k=config.k, **where)


def sources(a: Rows, b: Rows, config: DenseConfig, parts: int) -> list[Any]:
    """How the operands are on their way, for the main loop."""
    if config.use_async:
        pieces = a.loads + b.loads
        behind = max(round(pieces / (1 + COPY_WINDOW * (parts - 1))), 1)

        def copy(t: Any, stage: int, which: range) -> None:
            a.copy(t, stage, range(which.start, min(which.stop, a.loads)))
            b.copy(t, stage, range(max(which.start - a.loads, 0), which.stop - a.loads))

        # Those that are started behind the barrier. The others follow in the next tile: more at once would fill the
        # queue of the memory pipeline, later ones would be waited for.
        return [Ring(copy, pieces, 0 if config.tile_ahead else behind)]
    if not config.crossing:
        lead = 2 if config.stages > 2 and not config.tile_ahead else 1  # a tile is in LDS a barrier before it is needed
        return [Staged(x, config.reach + lead - 1, lead) for x in (a, b)]
    # With loads more than a tile ahead, one operand goes to LDS before the barrier and the other after it, where the
    # stage of the tile before is free: so the copies are spread over the whole tile. What is read for the next tile
    # after the barrier is more, so that is where the one with fewer loads crosses it.
    late = min((a, b), key=lambda x: x.loads)
    return [Staged(x, config.reach + 1, 2, "end", True) if x is late else Staged(x, config.reach, 1, "turn", True)
            for x in (a, b)]


def orders(config: DenseConfig) -> tuple[Any, Any] | None:
    """The order of a tile before its barrier and after it."""
    if not config.scheduled:
        return None
    if config.tile_ahead:
        return ahead_orders(config.target.wave == 64)
    if config.use_async:
        return partial(even_schedule, loads=(0, COPY_WINDOW)), partial(even_schedule, loads=(0, 1))
    if config.crossing:
        return even_schedule, even_schedule
    if config.stages > 2:
        return partial(even_schedule, reads=READ_WINDOW), even_schedule
    return partial(hot_loop_schedule, early_writes=config.reach > 1), hot_loop_schedule


def dense_loop(tensors: dict[str, Any], m: Any, row: Any, column: Any, stages: list[Any], lane: Lane,
               config: DenseConfig) -> MainLoop:
    """The main loop of the tile of C from `row` and `column` on, of ``tensors["a"]``, of m rows, and ``tensors["b"]``:
    of this workgroup's slice of k, and of this wave's part of it where waves share k."""
    op, tally, (a_tile, b_tile) = config.op, Tally(), (config.a_tile, config.b_tile)
    wave_m, wave_n = config.wave_of(lane)
    a = operand(tensors["a"], config.layout[0] == "n", a_tile, stages, lane, config, m, row,
                config.a_row_bytes)
    b = operand(tensors["b"], config.layout[1] == "t", b_tile, [stage + a_tile.words for stage in stages], lane, config,
                fx.Int32(config.n), column, config.b_row_bytes, config.b_shuffled)
    products = TileProducts(op, tally, config.m_repeat, config.n_repeat, config.calls,
                            a.reader(lane, wave_m * (config.m_repeat * 16), op.groups),
                            b.reader(lane, wave_n * (config.n_repeat * 16), op.groups),
                            first_block=config.wave_k(lane) * config.blocks, size=1 if config.tile_ahead else None)
    barrier = SPLIT_BARRIER if config.tile_ahead and config.target.split_barriers else WHOLE_BARRIER
    return MainLoop(config.k_tiles, config.stages, sources(a, b, config, products.parts), products, tally,
                    config.stages, orders(config), barrier, tile_ahead=config.tile_ahead,
                    begin=fx.block_idx.z * config.k_tiles if config.split_k > 1 else 0)


@flyc.kernel
def dense_kernel(tensors, m: fx.Int32, config: fx.Constexpr):
    """One workgroup computes a tile of C, or with split_k its share of the reduction into the workspace."""
    lane, stages = lane_of(config.target.wave), config.stages_in(Lds())
    row, column = config.corner(m)
    loop = dense_loop(tensors, m, row, column, stages, lane, config)
    acc, wave_k = loop.run(), config.wave_k(lane)
    c, out, place = tensors["c"], config.out, config.place(m, row, column, lane)
    seed = tensors["seed"] if config.stochastic else None
    epilogue = config.finish(tensors, m, "bias" if config.bias else "none", seed=seed)
    if fx.const_expr(config.k_waves > 1):
        acc = add_wave_slices(acc, stages[0], config, wave_k, lane)
    if fx.const_expr(config.atomic):
        tile = fx.block_idx.y * fx.ceildiv(m, config.tile_m) + fx.block_idx.x
        semaphore, signal = (pointer(tensors[name], fx.Int32) + tile for name in ("semaphore", "signal"))
        bias = Bias(tensors["bias"], config.n) if config.bias else None
        add_slice(c, acc, place, config, semaphore, signal, bias, stages[0])
    elif fx.const_expr(config.split_k > 1):  # this share of it in the workspace
        share = fx.Int64(fx.block_idx.z) * (fx.Int64(m) * config.n)
        if wave_k == 0:
            store_tile(pointer(tensors["workspace"], fx.Float32) + share, fx.Float32, acc, Epilogue(), place)
    elif fx.const_expr(config.cshuffle):
        shuffle_tile(c, out, acc, epilogue, place, stages[0], config.shuffle)
    elif wave_k == 0:
        store_tile(c, out, acc, epilogue, place)


REDUCE_THREADS = 256


@flyc.kernel
def split_sum_kernel(tensors, m: fx.Int32, config: fx.Constexpr):
    """Sum the shares in the workspace, in order, add the bias and convert."""
    index = fx.Int64(fx.block_idx.x) * REDUCE_THREADS + fx.Int64(fx.thread_idx.x)
    size = fx.Int64(m) * config.n
    if index < size:
        source = pointer(tensors["workspace"], fx.Float32) + index
        total = fx.Float32(0.0)
        for part in fx.range_constexpr(config.split_k):
            total = total + (source + size * part).load()
        if fx.const_expr(config.bias):
            kind = float_element(tensors["bias"], fx.Float32)
            total = total + (pointer(tensors["bias"], kind) + index % config.n).load().to(fx.Float32)
        out = config.out
        (pointer(tensors["c"], out) + index).store(total.to(out))


def launch_dense(tensors: dict[str, Any], m: Any, config: DenseConfig, stream: Any) -> None:
    """Launch from a jit function. With split_k, ``tensors["workspace"]`` holds split_k * M * N f32, or if `atomic`
    ``tensors["semaphore"]`` and ``tensors["signal"]`` one zero i32 a tile."""
    run(dense_kernel, tensors, m, config, stream)
    if config.split_k > 1 and not config.atomic:
        blocks = fx.ceildiv(m * config.n, REDUCE_THREADS)
        split_sum_kernel(tensors, m, config).launch(grid=blocks, block=REDUCE_THREADS, stream=stream)


# ------------------------------------------------------------------------------------------- builder and plan

SPLIT_K_SEMAPHORE_MAX_LEN = 256  # tiles of C of a split reduction that adds in place
_KNOBS = ("block_m", "block_n", "block_k", "stages", "split_k", "m_waves", "n_waves", "k_waves", "group_m", "cshuffle",
          "atomic", "tile_ahead")


@builder
def build_gemm_module(N: int, K: int, dtype_str: str = "bf16", out_dtype: str | None = None, layout: str = "nt",
                      bias: bool = False, use_async_copy: bool | None = False, scheduled: bool = True,
                      *, target: Target, **knobs: Any):  # noqa: N803
    """``launch(C, A, B, bias, workspace, M, stream=None)``: ``C[M, N] = op(A) op(B) + bias`` with f32 accumulation.

    A and B are row-major storage of what `layout` says: ``n`` the operand itself (M x K, K x N), ``t`` its transpose
    (K x M, N x K). `bias` and `workspace` are always passed (any tensor if unused); the workspace of split_k is
    f32[split_k * M * N]. With ``atomic=True`` there is no workspace: the slices add to C in turn of arrival, and
    `workspace` is i32[2, tiles], semaphores and signals, zero before and after (:func:`get_semaphore`).

    Args:
        N, K: K is a multiple of 8 (except for layout "tn"); N is one if B is row-major, M if A is column-major.
        dtype_str: ``"f16"`` or ``"bf16"``; `out_dtype` is the same (default), the other or ``"f32"``.
        use_async_copy: operands go to LDS without registers (gfx950); None: where that is possible.
        knobs: block_m, block_n, block_k, stages, split_k, m_waves, n_waves, k_waves, group_m, cshuffle (C goes
            through LDS in 16-byte stores; by default where the tile allows it), atomic and tile_ahead (fragments are
            read from LDS a whole tile ahead, for small tiles).

    Raises:
        ValueError: an argument or the architecture is not supported.
    """
    unknown = set(knobs) - set(_KNOBS)
    if unknown:
        raise ValueError(f"build_gemm_module: unknown options {', '.join(sorted(unknown))}; known: {', '.join(_KNOBS)}")
    return dense_launcher(dense_config(
        "build_gemm_module", target, n=N, k=K, dtype=dtype_str, out_dtype=out_dtype or dtype_str, layout=layout,
        bias=bias, scheduled=scheduled, use_async=use_async_copy, **{"cshuffle": None, **knobs}))


@functools.cache  # the configuration has the target
def dense_launcher(config: DenseConfig) -> Any:
    """The launcher of a configuration, as :func:`build_gemm_module` describes it."""

    @flyc.jit
    def gemm(C, A, B, bias, workspace, M: fx.Int32, stream: fx.Stream = fx.Stream(None)):  # noqa: N803
        tensors = {"c": C, "a": A, "b": B, "bias": bias, "workspace": workspace}
        if fx.const_expr(config.atomic):
            flags = pointer(workspace, fx.Int32)
            tensors.update(semaphore=flags, signal=flags + SPLIT_K_SEMAPHORE_MAX_LEN)
        launch_dense(tensors, M, config, stream)

    gemm.config = config  # type: ignore[attr-defined]  # what the launcher was built from, for tools
    return gemm


def check_a16w16(a: Any, b: Any, bias: Any, layout: str) -> tuple[int, int, int, str]:
    """(M, N, K, dtype name) of a product of matrices. TypeError or ValueError says what does not agree."""
    where = "gemm_a16w16"
    dtype = dtype_name(a, where, ("f16", "bf16"))
    if dtype_name(b, where, ("f16", "bf16")) != dtype:
        raise TypeError(f"{where}: operands must have one dtype, got {a.dtype} and {b.dtype}")
    require(where, layout in LAYOUTS, f"layout must be one of {', '.join(LAYOUTS)}, got {layout!r}")
    first, second = (tuple(x.shape) for x in (a, b))
    require(where, len(first) == len(second) == 2, f"operands must be matrices, got shapes {first} and {second}")
    (m, k), (k2, n) = (s if letter == "n" else s[::-1] for s, letter in zip((first, second), layout, strict=True))
    require(where, k == k2, f"the reduction lengths differ ({k} and {k2}) for layout {layout!r} and shapes {first}, "
            f"{second}")
    if bias is not None:
        require(where, tuple(bias.shape) == (n,), f"bias must have shape {(n,)}, got {tuple(bias.shape)}")
        dtype_name(bias, f"{where}: bias")
    return m, n, k, dtype


def plan_a16w16(target: Target, a: Any, b: Any, bias: Any, layout: str, result: str,
                choose: Callable[..., dict[str, Any]] = dense_knobs,
                flags: Callable[[DenseConfig], Any] | None = None) -> Plan | None:
    """What computes ``op(a) op(b) + bias`` in the dtype name `result`.

    An operand whose stored rows the layout cannot take (M or N of a row-major side not a multiple of 8, K likewise) is
    copied: turned around where that helps, or filled up with zeros along k.

    Args:
        choose: ``choose(target, m, n, k, layout)`` gives the options of :func:`build_gemm_module`.
        flags: gives the semaphores and signals of slices that are added in place, if any are chosen.

    Raises:
        TypeError: a dtype is not supported.
        ValueError: shapes do not agree or are not supported.
    """
    m, n, k, dtype = check_a16w16(a, b, bias, layout)
    if m == 0 or n == 0:
        return None
    if k == 0:  # a sum over nothing, as in the gradient of a weight without rows
        return Plan(None, lambda out: (), finish=lambda out: copy_into(out, 0 if bias is None else bias))
    a, b, layout, k = _fitting(a, b, layout, m, n, k)
    knobs = choose(target, m, n, k, layout)
    run = build_gemm_module(n, k, dtype, result, layout, bias is not None, None, target=target, **knobs)
    workspace = None
    if run.config.atomic:
        assert flags is not None  # who chooses such slices gives them
        workspace = flags(run.config)
    elif knobs["split_k"] > 1:
        workspace = allocate(target, a, (knobs["split_k"] * m * n,), "f32")
    a, b, bias = contiguous(a), contiguous(b), None if bias is None else contiguous(bias)

    def operands(out: Any) -> tuple[Any, ...]:
        return out, a, b, out if bias is None else bias, out if workspace is None else workspace, m

    return Plan(lambda: run, operands)


ROW = 8  # elements of 16 bits that are loaded at once


def _fitting(a: Any, b: Any, layout: str, m: int, n: int, k: int) -> tuple[Any, Any, str, int]:
    """Operands and their layout, with copies of those whose stored rows are not multiples of what is loaded."""
    a_letter, b_letter = layout[0], layout[1]
    if a_letter == "t" and m % ROW:  # stored K x M: loads go along m
        a, a_letter = transposed(a), "n"
    if b_letter == "n" and n % ROW:  # stored K x N: loads go along n
        b, b_letter = transposed(b), "t"
    if k % ROW and (a_letter == "n" or b_letter == "t"):
        a = padded(a, -k % ROW, 1 if a_letter == "n" else 0)
        b = padded(b, -k % ROW, 0 if b_letter == "n" else 1)
        k += -k % ROW
    return a, b, a_letter + b_letter, k
