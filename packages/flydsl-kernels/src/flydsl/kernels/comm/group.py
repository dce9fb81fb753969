"""The communicator of a process group: exchanges on memory that all its ranks share."""

from __future__ import annotations

import functools
import hashlib
import warnings
from typing import Any

from ..host.arrays import launch, span
from ..host.config import require
from ..target import target
from .config import PACK_BYTES, ExchangeConfig, exchange_config
from .exchange import build_exchange
from .fused import ReducedNorm, build_reduced_norm
from .memory import CollectiveError, SharedMemory, meeting_of
from .products import PeerProduct, build_peer_product

__all__ = ["CollectiveError", "Communicator", "communicator", "float_name", "report"]

DEFAULT_BYTES = 64 << 20  # of an operand
TIME_LIMIT = 30  # seconds that ranks wait for each other, where a communicator is not told otherwise
_TWO_STAGE_BYTES = {2: 1 << 62, 3: 160 << 10, 4: 160 << 10}  # from where on two stages pay, by ranks; else:
_TWO_STAGE_ELSE = 80 << 10
_WRITE_BYTES = 4 << 20  # from where on 8 ranks write


class Communicator:
    """Exchanges between the ranks of a process group on one machine, by kernels that read the peers' memory.

    Handles are exchanged once, when it is made, by the group's own backend. It allocates twice `most_bytes`. Launches
    can be captured in graphs and replayed, by all ranks in the same order.

    Args:
        group: a ``torch.distributed`` process group, None for the default one; or another
            :class:`~flydsl.kernels.comm.memory.Rendezvous`.
        most_bytes: largest operand, the same on every rank.
        limit: seconds that a rank waits for the others; None: ``TIME_LIMIT``.

    Raises:
        ValueError: the group has more ranks than are supported, ranks on other machines, or ranks that do not agree.
        CollectiveError: memory cannot be shared.
    """

    def __init__(self, group: Any = None, most_bytes: int = DEFAULT_BYTES, limit: int | None = None) -> None:
        meeting = meeting_of(group)
        self.most_bytes, self.target = most_bytes, target()
        self._capacity = -(-most_bytes // 4096) * 4096 + 4096  # shares are rounded up
        self.memory = SharedMemory("Communicator", meeting, 2 * self._capacity,
                                   TIME_LIMIT if limit is None else limit, most_bytes=most_bytes)
        self.rank, self.ranks = meeting.rank, meeting.ranks

    @property
    def limit(self) -> int:
        """Seconds that a rank waits for the others."""
        return self.memory.limit

    @limit.setter
    def limit(self, seconds: int) -> None:
        self.memory.limit = seconds

    def all_reduce_kind(self, x: Any, fp8: bool = False) -> str:
        """How an operand is summed: in one stage, from some size on in two, and large ones by writing."""
        size = x.numel() * x.element_size()
        if size > _WRITE_BYTES and self.ranks == 8 and self.target.peer_writes and not fp8:
            return "all_reduce_write"
        return "all_reduce_two_stage" if size >= _TWO_STAGE_BYTES.get(self.ranks, _TWO_STAGE_ELSE) else "all_reduce"

    def exchange(self, kind: str, x: Any, out: Any, dtype: str = "bytes", stream: Any = None,
                 fp8: bool = False, order: tuple[int, ...] = ()) -> None:
        """Launch an exchange; see :data:`flydsl.kernels.comm.config.KINDS`.

        Args:
            x, out: contiguous tensors of any dtype and of whole packs of 16 bytes, in every share if there are shares.
            dtype: of sums, that of x and out.
            stream: to launch on; None for that of x.
            fp8: sums travel in 8 bits: see :mod:`flydsl.kernels.comm.quantised`.
            order: of the dimensions of a permuted tensor in memory, as which x and out are given. It is the same on
                all ranks, or the exchange fails.

        Raises:
            CollectiveError: this or an earlier exchange failed: names the rank and what is missing. See :meth:`check`.
            TypeError: x or out is not of the dtype of the sums.
            ValueError: the operand is larger than the communicator was made for, or x and out do not fit each other.
        """
        size = self._checked(kind, x)
        config = exchange_config(kind, self.target, kind, self.ranks, dtype, fp8)
        _require_fit(config, x, out)
        packs, results = size // PACK_BYTES, out.numel() * out.element_size() // PACK_BYTES
        part = config.part(packs)
        call = f"{kind}{' in fp8' * fp8} {tuple(x.shape)}{f' in order {order}' if order else ''} {x.dtype}"
        launch(build_exchange(config), x, _bytes(x), _bytes(out), self.memory.bases, self.rank, packs, results, part,
               self._capacity, signature(call), self.limit, config.grid(part)[0], stream=stream)
        self.memory.check(call)

    def reduced_norm(self, norm: Any, tensors: dict[str, Any]) -> None:
        """Launch the sum over the ranks with a residual and an RMS norm.

        Args:
            norm: a :class:`flydsl.kernels.norm.config.NormConfig`.
            tensors: as of :func:`flydsl.kernels.comm.fused.build_reduced_norm`.

        Raises as :meth:`exchange`.
        """
        x = tensors["Input"]
        self._checked("all_reduce_rmsnorm", x)
        call = f"all_reduce_rmsnorm{'_quant' if norm.quant else ''} {tuple(x.shape)} {x.dtype}"
        launch(build_reduced_norm(ReducedNorm(norm, self.ranks)), x, tensors, x.shape[0], self.memory.bases, self.rank,
               signature(call), self.limit)
        self.memory.check(call)

    def product(self, config: PeerProduct, x: Any, weight: Any, bias: Any, out: Any) -> None:
        """Launch a product that is fused with a collective: see :mod:`flydsl.kernels.comm.products`.

        Args:
            x, weight: contiguous (m, k) and (n, k); bias: (n,) or None; out: contiguous.

        Raises as :meth:`exchange`.
        """
        name = f"linear with {config.kind}"
        self.memory.require_open(name)
        self.memory.check(f"before {name}")
        m = x.shape[0]
        if config.shared_bytes(m) > self.most_bytes:
            raise ValueError(f"{name}: {config.shared_bytes(m)} bytes are exchanged, the communicator was made for "
                             f"{self.most_bytes}")
        call = f"{name} {tuple(x.shape)} {tuple(weight.shape)} {x.dtype}"
        launch(build_peer_product(config), x, out, x, weight, out if bias is None else bias, m, out.shape[0],
               self.memory.bases, self.rank, signature(call), self.limit, config.workgroups(m))
        self.memory.check(call)

    def check(self) -> None:
        """Raise CollectiveError if an exchange that has run so far failed.

        A launch does not wait for its end, so on a device a failure shows at the next call or here, after the stream
        was synchronised. With one simulated device a launch has ended when it returns, and the failing call raises.
        """
        self.memory.check("an earlier exchange")

    def _checked(self, name: str, x: Any) -> int:
        """Bytes of an operand, which fit."""
        self.memory.require_open(name)
        self.memory.check(f"before {name}")
        size: int = x.numel() * x.element_size()
        if size > self.most_bytes:
            raise ValueError(f"{name}: the operand has {size} bytes, the communicator was made for {self.most_bytes}")
        return size

    def close(self) -> None:
        """Give the memory back. The other ranks must not be in an exchange."""
        self.memory.close()


def _bytes(x: Any) -> Any:
    """The memory of a contiguous tensor: kernels move packs, and take no operands of some dtypes."""
    import torch

    return span(x).view(torch.uint8)


def _require_fit(config: ExchangeConfig, x: Any, out: Any) -> None:
    where, shares = config.kind, config.ranks if config.divided else 1
    size, result = (t.numel() * t.element_size() for t in (x, out))
    require(where, x.is_contiguous() and out.is_contiguous(), "x and out must be contiguous")
    require(where, size % (shares * PACK_BYTES) == 0, f"x must be whole packs of {PACK_BYTES} bytes"
            f"{f' in each of {shares} shares' * (shares > 1)}, got {size} bytes")
    expected = config.result_bytes(size)
    require(where, result == expected, f"out must have {expected} bytes, as x has {size}, got {result}")
    if config.summed and not float_name(x) == float_name(out) == config.dtype:
        raise TypeError(f"{where}: x and out must be {config.dtype}, got {x.dtype} and {out.dtype}")


def signature(call: str) -> int:
    """31 bits that differ for calls that do not fit each other."""
    return int.from_bytes(hashlib.sha256(call.encode()).digest()[:4], "little") >> 1


@functools.cache
def report(text: str) -> None:
    """Warn of something that is done in another way than asked for, once."""
    warnings.warn(text, UserWarning, stacklevel=4)


def float_name(x: Any) -> str | None:
    """The name of a dtype that kernels add up, None for others."""
    return {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}.get(str(x.dtype).removeprefix("torch."))


_of_group: dict[Any, Communicator] = {}


def communicator(group: Any = None) -> Communicator:
    """The communicator of a process group, made by the first call, which all ranks must make together."""
    import torch.distributed as dist

    key = group if group is not None else dist.group.WORLD
    found = _of_group.get(key)
    if found is None or found.memory.closed and not found.memory.problem:
        found = _of_group[key] = Communicator(group)
    return found
