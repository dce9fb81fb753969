"""The object of earlier releases for all-reduce inside a node, on :class:`flydsl.kernels.comm.Communicator`.

What is exchanged goes through the communicator's own memory, which the kernel copies to: handles are exchanged once,
when the object is made, and captured graphs replay as they are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from flydsl.kernels.comm.config import PACK_BYTES
from flydsl.kernels.comm.eager import exchanged
from flydsl.kernels.comm.group import Communicator
from flydsl.kernels.comm.registered import make_allreduce_kernels
from flydsl.kernels.host.arrays import strides_of
from flydsl.kernels.settings import kernels as settings

__all__ = ["FlyDSLAllreduce", "init_custom_ar", "make_allreduce_kernels", "meta_size"]

RANKS = (2, 4, 8)
MOST_BYTES = 128 << 20
_NAMES = {"torch.float32": "f32", "torch.float16": "f16", "torch.bfloat16": "bf16"}


class FlyDSLAllreduce:
    """Sums over the ranks of a ``torch.distributed`` group.

    Args:
        group: the process group; None for the default one.
        device: of the operands.
        max_size: twice the bytes of the largest operand.
        world_size, rank: of the group. ValueError if they are not.
        full_nvlink: whether every rank reaches every other; more than two ranks need that.
    """

    def __init__(self, *, group: Any = None, device: Any = None, max_size: int = MOST_BYTES, world_size: int, rank: int,
                 full_nvlink: bool = True) -> None:
        if world_size not in RANKS or not full_nvlink and world_size > 2:
            raise ValueError(f"FlyDSLAllreduce: {', '.join(map(str, RANKS))} ranks that reach each other are "
                             f"supported, got {world_size}{'' if full_nvlink else ' that do not'}")
        self.max_size, self.world_size, self.rank, self.device = max_size, world_size, rank, device
        self._reused: dict[Any, Any] | None = {} if settings.reuse_out else None
        self._communicator = Communicator(group, max_size // 2)
        if (self._communicator.ranks, self._communicator.rank) != (world_size, rank):
            found = self._communicator.ranks, self._communicator.rank
            self.close()
            raise ValueError(f"FlyDSLAllreduce: (world_size, rank) is {(world_size, rank)}, the group says {found}")

    def should_custom_ar(self, inp: Any, *, open_fp8_quant: bool = False) -> bool:
        """Whether :meth:`custom_all_reduce` takes an operand."""
        size = inp.numel() * inp.element_size()
        travels = not open_fp8_quant or self._communicator.target.fp8_name is not None
        return (travels and str(inp.dtype) in _NAMES and size > 0 and size % 16 == 0 and size <= self.max_size // 2
                and _is_dense(inp))

    def custom_all_reduce(self, inp: Any, *, out: Any = None, use_new: bool = True, open_fp8_quant: bool = False,
                          validate: bool = True, stream_ptr: Any = None) -> Any:
        """The sum over the ranks, in `out` if that is given; None where the operand is not supported.

        With ``FLYDSL_AITER_REUSE_OUT=1`` in the environment, when the object was made, results of one shape and dtype
        lie in one allocation, so that each overwrites the one before.

        Operands are dense: contiguous, or permutations of a contiguous tensor, the same on all ranks.
        `open_fp8_quant`: they travel in 8 bits, with a scale of every 128 elements. `use_new` and `validate` say
        nothing here: there is one way, and `out` is always looked at.

        Raises:
            ValueError: `out` has another shape, dtype or order of its elements.
        """
        if not self.should_custom_ar(inp, open_fp8_quant=open_fp8_quant):
            return None
        result = self._result(inp) if out is None else out
        if result.shape != inp.shape or result.dtype != inp.dtype or strides_of(result) != strides_of(inp):
            raise ValueError(f"custom_all_reduce: out must be {inp.dtype} {tuple(inp.shape)} with the strides of inp, "
                             f"{inp.stride()}, got {result.dtype} {tuple(result.shape)} with {result.stride()}")
        kind = self._communicator.all_reduce_kind(inp, open_fp8_quant)
        order = _order(inp)
        self._communicator.exchange(kind, inp.permute(order), result.permute(order), _NAMES[str(inp.dtype)],
                                    stream=stream_ptr, fp8=open_fp8_quant,
                                    order=() if inp.is_contiguous() else order)
        return result

    def _result(self, inp: Any) -> Any:
        if self._reused is None:
            return inp.new_empty_strided(inp.shape, inp.stride())
        key = tuple(inp.shape), inp.stride(), inp.dtype, inp.device
        if key not in self._reused:
            self._reused[key] = inp.new_empty_strided(inp.shape, inp.stride())
        return self._reused[key]

    def all_reduce_reg(self, inp: Any, out: Any, open_fp8_quant: bool = False) -> Any:
        """:meth:`custom_all_reduce` into `out`."""
        return self.custom_all_reduce(inp, out=out, open_fp8_quant=open_fp8_quant)

    def all_gather_reg(self, inp: Any, out: Any) -> Any:
        """The operands of all ranks, one after another, into `out`: any dtype, size and strides.

        Raises:
            ValueError: `out` has another dtype or number of elements.
        """
        count = self.world_size * inp.numel()
        if out.dtype != inp.dtype or out.numel() != count:
            raise ValueError(f"all_gather_reg: out must have {count} elements of {inp.dtype}, as inp is "
                             f"{tuple(inp.shape)}, got {out.dtype} {tuple(out.shape)}")
        if not count:
            return out
        if inp.is_contiguous() and out.is_contiguous() and inp.nbytes % PACK_BYTES == 0:
            self._communicator.exchange("all_gather", inp, out)
            return out
        return out.copy_(exchanged(self._communicator, "all_gather", inp, 1, self.world_size).reshape(out.shape))

    @contextlib.contextmanager
    def capture(self) -> Iterator[None]:
        """Around the capture of a graph. Nothing is left to be exchanged at its end."""
        yield

    def close(self) -> None:
        """Give the memory back."""
        self._communicator.close()


def _order(x: Any) -> tuple[int, ...]:
    """The dimensions in the order of memory."""
    return tuple(sorted(range(x.dim()), key=lambda i: -strides_of(x)[i]))


def _is_dense(x: Any) -> bool:
    """Whether its elements fill a piece of memory."""
    return bool(x.permute(_order(x)).is_contiguous())


def meta_size() -> int:
    """Bytes that a caller allocates for signals: none."""
    return 0


def init_custom_ar(meta: Any, rank_data: Any, handles: list[Any], offsets: list[int], rank: int, full_nvlink: bool,
                   out: Any = None, max_size: int = MOST_BYTES) -> FlyDSLAllreduce:
    """The object for the default process group. Only the number of `handles` counts: it exchanges its own.

    Raises:
        ValueError: ``FLYDSL_AITER_IMPL`` in the environment asks for another implementation than ``flydsl``. There is
            no other one here: aiter's own object is made by aiter.
    """
    if (asked := settings.all_reduce) != "flydsl":
        raise ValueError(f"init_custom_ar: FLYDSL_AITER_IMPL={asked}: flydsl.kernels has 'flydsl' only")
    return FlyDSLAllreduce(max_size=max_size, world_size=len(handles), rank=rank, full_nvlink=full_nvlink)
