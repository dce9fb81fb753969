"""`fx.rocdl`: the AMD backend namespace.

Every builder of the MLIR `rocdl` dialect is an attribute of this module, except where a wrapper below takes
its name; the raw builder stays reachable through ``flydsl._mlir.dialects.rocdl``.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

if importlib.util.find_spec("flydsl._mlir.dialects.rocdl") is None:
    raise ModuleNotFoundError("the ROCDL bindings are not installed", name=__name__)

# isort: off
from ..primitive.types import AddressSpace
from .enum import SyncScope, TargetAddressSpace
from . import cdna3, cdna4, rdna3, rdna4
from .atoms import (
    MFMA, WMMA, BufferAtomic, BufferAtomicAdd, BufferAtomicMax, BufferAtomicMin, BufferAtomicPkAdd, BufferCopy,
    BufferCopy8b, BufferCopy16b, BufferCopy32b, BufferCopy64b, BufferCopy128b, BufferCopyLDS, BufferCopyLDS32b,
    BufferCopyLDS64b, BufferCopyLDS128b,
)
from .buffer import get_buffer_rsrc, make_buffer_ptr, make_buffer_tensor
from . import matrix as _matrix
from .inline_asm import computed_here, cvt_off_f32_i4, cvt_pk_bf16_f32, scalars_here, used_here
from .universal import *  # noqa: F403
from .async_copy import async_copy
from .waits import asyncmark, s_wait_asynccnt, s_waitcnt, wait_asyncmark
# isort: on

from .cdna5 import *  # noqa: F403
from .universal import sched_dsrd, sched_dswr, sched_mfma, sched_vmem

__all__ = [
    "cdna3", "cdna4", "rdna3", "rdna4", "SyncScope", "s_waitcnt", "asyncmark", "wait_asyncmark", "BufferCopy",
    "BufferCopy8b", "BufferCopy16b", "BufferCopy32b", "BufferCopy64b", "BufferCopy128b", "BufferCopyLDS",
    "BufferCopyLDS32b", "BufferCopyLDS64b", "BufferCopyLDS128b", "BufferAtomic", "BufferAtomicAdd", "BufferAtomicMax",
    "BufferAtomicMin", "BufferAtomicPkAdd", "MFMA", "WMMA", "make_buffer_ptr", "make_buffer_tensor",
    "get_buffer_rsrc", "sched_mfma", "sched_vmem", "sched_dsrd", "sched_dswr",
]

# The dialect module names its op classes like the instructions; the function forms take their place.
globals().update({name: _matrix.wrapper(name) for name in _matrix.WRAPPED})
wmma_scale_f32_16x16x128_f8f6f4 = _matrix.wmma_scale_f32_16x16x128_f8f6f4
wmma_scale_f32_32x16x128_f4 = _matrix.wmma_scale_f32_32x16x128_f4
wmma_f32_16x16x128_fp8_fp8 = _matrix.wmma_f32_16x16x128_fp8_fp8

# Wrappers outside the stable list.
UNSTABLE = (
    AddressSpace, TargetAddressSpace, computed_here, cvt_off_f32_i4, cvt_pk_bf16_f32, s_wait_asynccnt, async_copy,
    scalars_here, used_here,
)

_LAZY = ("cluster", "tdm_ops", "experimental")


#: Matrix instructions of sparse operands: not in the language.
_SPARSE = {"SMFMAC": "MFMA", "SWMMAC": "WMMA"}


def _sparse(name: str) -> Any:
    def make(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"fx.rocdl.{name}: sparse matrix atoms are not in the language. Use {_SPARSE[name]} "
                                  "with the dense operand, or the raw instruction (the builders fx.rocdl.smfmac_* "
                                  "and fx.rocdl.swmmac_*)")

    make.__name__ = name
    return make


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _SPARSE:
        return _sparse(name)
    if name.startswith(("CopyOp", "MmaOp")) and name.endswith("Type"):
        return getattr(importlib.import_module("flydsl._mlir.dialects.fly_rocdl"), name)
    # The generated builders: the module is loaded when the first of them is used.
    if not name.startswith("__"):
        from ._raw import lookup

        try:
            value = lookup(name)
        except AttributeError:
            pass
        else:
            globals()[name] = value
            return value
    raise AttributeError(f"module 'flydsl.expr.rocdl' has no attribute '{name}'")


def __dir__() -> list[str]:
    from ._raw import names

    return sorted({*globals(), *_LAZY, *names()})
