"""What an attention kernel computes and with which tile, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from ..host.config import KernelConfig, require
from ..host.dtypes import FLOATS
from ..target import Target

__all__ = [
    "ARCHS", "CHUNK", "LARGEST", "STEP", "AttentionConfig", "BackwardConfig", "Matrix", "choose", "choose_backward",
    "matrix_of", "supported",
]

ARCHS = ("gfx942", "gfx950", "gfx120", "gfx1250")
LARGEST = 256  # head dimension
CHUNK = 8  # 16-bit elements of a 128-bit access
STEP = 32  # of head dimensions that kernels have; others are padded


@dataclass(frozen=True)
class Matrix:
    """The instruction of both products, and how its operands lie.

    Attributes:
        m: rows of queries, and keys or columns of V, that one takes.
        k: depth.
        chunks: of columns of the first product, as a layout (shape, stride): 128 bits of a row feed two instructions.
            None: one.
        order: of the keys of the second product, as a layout (shape, stride): the accumulator of the first then is its
            operand. None: as they come.
        turned: V is read from LDS across its rows (gfx950); elsewhere it is turned on its way to LDS.
    """

    m: int
    k: int
    chunks: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    order: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    turned: bool = False


_MATRIX = {
    "gfx942": Matrix(32, 8, chunks=((4, 2, 2), (1, 8, 4))),
    "gfx950": Matrix(32, 16, order=((4, 2, 2), (1, 8, 4)), turned=True),
    "gfx120": Matrix(16, 16),
    "gfx1250": Matrix(16, 32),
}


def supported(target: Target, where: str) -> None:
    """ValueError on an architecture without the kernels."""
    target.require(where, *ARCHS)


def matrix_of(target: Target) -> Matrix:
    """The instruction of an architecture."""
    return _MATRIX[target.arch]


@dataclass(frozen=True)
class AttentionConfig(KernelConfig):
    """A forward kernel.

    Attributes:
        dtype: of both products and the output, ``"f16"`` or ``"bf16"``.
        stored: of q, k and v: `dtype`, or ``"fp8"`` with a factor for each.
        d, dv: columns of q and k, and of v: multiples of 32.
        group: query heads that share a head of k and v.
        left, right: whether keys far before or behind a query are hidden. Causal attention has a right bound of 0.
        softcap, alibi, sink: whether there is one.
        bias: dtype of an addend of the scores, or "".
        packed: sequences of several lengths in one tensor, given by `cu_seqlens`.
        lengths: keys of each sequence are given.
        page: rows of a page of paged keys and values, or 0.
        positive: the scale is positive, so that the largest product is the largest score.
        keys: rows of k and v of a tile.
        waves: of a workgroup.
    """

    dtype: str
    d: int
    dv: int
    group: int = 1
    stored: str = ""
    left: bool = False
    right: bool = False
    softcap: bool = False
    alibi: bool = False
    sink: bool = False
    bias: str = ""
    packed: bool = False
    lengths: bool = False
    page: int = 0
    positive: bool = True
    keys: int = 64
    waves: int = 4

    @property
    def direct(self) -> bool:
        """Whether k and v are copied to LDS without registers."""
        whole = all(self.keys * n % (CHUNK * self.threads) == 0 for n in (self.d, self.dv))
        return self.target.dma128 and whole and not self.page and self.stored != "fp8"

    @property
    def stages(self) -> int:
        """Tiles that have a place in LDS at once."""
        return 2 if self.direct else 1

    @property
    def element(self) -> Any:
        return FLOATS[self.dtype]

    @property
    def stored_element(self) -> Any:
        """Of q, k and v in memory."""
        return self.target.fp8 if self.stored == "fp8" else self.element

    @property
    def matrix(self) -> Matrix:
        return matrix_of(self.target)

    @property
    def threads(self) -> int:
        return self.waves * self.target.wave

    @property
    def rows(self) -> int:
        """Queries of a workgroup."""
        return self.waves * self.matrix.m

    @property
    def plain(self) -> bool:
        """Scores are products times the scale, so that both are one multiply-add."""
        return self.positive and not (self.softcap or self.alibi or self.bias)

    @property
    def masked(self) -> bool:
        return self.left or self.right

    @property
    def lds_bytes(self) -> int:
        return self.stages * self.keys * (self.d + self.dv) * 2

    @property
    def reads_along(self) -> int:
        """LDS instructions that read the keys of a tile."""
        return self.keys * self.d // (CHUNK * self.target.wave)

    @property
    def reads_across(self) -> int:
        """LDS instructions that read the values of a tile."""
        return self.keys * self.dv // (CHUNK // 2 * self.target.wave)

    @property
    def copies(self) -> int:
        """Direct copies that a wave starts for a tile, or 0 where other loads stand beside them."""
        return 0 if self.bias else self.keys * (self.d + self.dv) // (CHUNK * self.threads)

    @property
    def hints(self) -> dict[str, Any]:
        """For the compiler: two workgroups share a compute unit of gfx9, if their registers allow it."""
        return {"rocdl.waves_per_eu": 2} if self.target.wave == 64 and max(self.d, self.dv) <= 128 else {}

    def tiled_mma(self, second: bool) -> Any:
        """Of S^T = K Q^T, or of O^T = V^T P^T: waves along the rows of Q."""
        m = self.matrix
        make = fx.rocdl.MFMA if self.target.matrix == "mfma" else fx.rocdl.WMMA
        atom = fx.make_mma_atom(make(m.m, m.m, m.k, self.element))
        waves = fx.make_layout((1, self.waves, 1), (0, 1, 0))
        order = m.order if second else m.chunks
        return fx.make_tiled_mma(atom, waves, fx.make_tile(None, None, fx.make_layout(*order)) if order else None)

    def read_across(self) -> Any:
        """Copy atom of operand A of the second product."""
        return fx.make_copy_atom(fx.rocdl.cdna4.LDSReadTrans(16, 64) if self.matrix.turned else
                                 fx.UniversalCopy64b(), self.element)

    def checked(self, where: str) -> AttentionConfig:
        """The same, if there is such a kernel."""
        supported(self.target, where)
        for name, n in (("k", self.d), ("v", self.dv)):
            require(where, 0 < n <= LARGEST and n % STEP == 0,
                    f"columns of {name} must be a multiple of {STEP} up to {LARGEST}, got {n}")
        return self.fitting(where)


@dataclass(frozen=True)
class BackwardConfig(AttentionConfig):
    """A backward kernel: `keys` are the rows of a tile that passes by, of k and v or (`by_keys`) of q and dout.

    Attributes:
        by_keys: a workgroup computes gradients of keys and values; else those of queries.
    """

    by_keys: bool = False

    @property
    def lds_bytes(self) -> int:
        copies = 1 if self.matrix.turned else 2
        return self.keys * 2 * (self.d * copies + self.dv * (copies if self.by_keys else 1))


def choose_backward(target: Target, **options: Any) -> BackwardConfig:
    """The configuration with the tile for an architecture."""
    small = target.wave == 32 or max(options["d"], options["dv"]) > 128 or not matrix_of(target).turned
    return BackwardConfig(**{"keys": 32 if small else 64, "waves": 4, **options}, target=target)


def choose(target: Target, **options: Any) -> AttentionConfig:
    """The configuration with the tile for an architecture."""
    d = max(options["d"], options["dv"])
    few = 16 if target.arch == "gfx120" and d > 192 else 32  # where sums take half of the registers
    tile = dict(keys=64 if d <= (128 if target.wave == 64 else 64) else few, waves=4 if target.wave == 64 else 8)
    return AttentionConfig(**{**tile, **options}, target=target)
