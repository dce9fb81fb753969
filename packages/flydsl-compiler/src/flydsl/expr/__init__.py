"""`fx`: the expression language of FlyDSL kernels.

Every name of the `__all__` lists of the modules below is available flat (``fx.Float32``) and through its
module (``fx.numeric.Float32``). Backend namespaces load on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# isort: off
import flydsl.tracing  # noqa: F401 - before the first module that names flydsl-ir, which may not be installed
from .numeric import *  # noqa: F403
from .typing import *  # noqa: F403
from .enum import *  # noqa: F403
from .primitive import *  # noqa: F403
from .gpu import *  # noqa: F403
from .derived import *  # noqa: F403
from .struct import *  # noqa: F403
from .arith import *  # noqa: F403
from .math import *  # noqa: F403
from . import arith as arith, gpu as gpu, math as math, utils as utils
from ._functions import functions as _announced
from .struct import struct as struct

# Additions of 0.4: not in the `__all__` lists, which are the stable names of 0.3.
from .enum import AtomicOrdering as AtomicOrdering
from .arith import minnumf as minnumf, sum as sum, where as where
from .numeric import Float8E5M2FNUZ as Float8E5M2FNUZ
from .struct import Empty as Empty
from .llvm import (
    atomic_add as atomic_add,
    atomic_and as atomic_and,
    atomic_cas as atomic_cas,
    atomic_fmax as atomic_fmax,
    atomic_fmin as atomic_fmin,
    atomic_max as atomic_max,
    atomic_min as atomic_min,
    atomic_or as atomic_or,
    atomic_sub as atomic_sub,
    atomic_xchg as atomic_xchg,
    atomic_xor as atomic_xor,
    generic_load as generic_load,
    generic_store as generic_store,
    memory_fence as memory_fence,
)
from .compat import vec_broadcast as vec_broadcast, vec_select as vec_select

if TYPE_CHECKING:  # loaded on first use
    from . import (
        buffer_ops as buffer_ops,
        coop as coop,
        extern as extern,
        fragments as fragments,
        ktrace as ktrace,
        meta as meta,
        pipelines as pipelines,
        random as random,
        rocdl as rocdl,
        vector as vector,
    )
    from . import math as fmath  # noqa: F401
    from .assertion import host_assert as host_assert
    from .fragments import (
        ThreadValues as ThreadValues,
        broadcast_to as broadcast_to,
        convert_layout as convert_layout,
        layout_conversion as layout_conversion,
        reduce as reduce,
        scan as scan,
        thread_values as thread_values,
    )
    from .pipelines import (
        Direct as Direct,
        NamedBarrier as NamedBarrier,
        Pipeline as Pipeline,
        Registers as Registers,
        Staged as Staged,
        TensorMove as TensorMove,
        WaveGroups as WaveGroups,
        barrier_arrive as barrier_arrive,
        barrier_wait as barrier_wait,
        lds_barrier as lds_barrier,
        pipeline_range as pipeline_range,
        wave_index as wave_index,
    )
    from .rocdl import tdm_ops as tdm_ops
# isort: on

_LAZY = {
    "rocdl": "flydsl.expr.rocdl",
    "tdm_ops": "flydsl.expr.rocdl.tdm_ops",
    "coop": "flydsl.expr.coop",
    "random": "flydsl.expr.random",
    "ktrace": "flydsl.expr.ktrace",
    "buffer_ops": "flydsl.expr.buffer_ops",
    "vector": "flydsl.expr.vector",
    "fragments": "flydsl.expr.fragments",
    "pipelines": "flydsl.expr.pipelines",
    "extern": "flydsl.expr.extern",
    "fmath": "flydsl.expr.math",
    "meta": "flydsl.expr.meta",
}


_LAZY_NAMES = {
    "host_assert": "flydsl.expr.assertion",
    **dict.fromkeys("ThreadValues broadcast_to convert_layout layout_conversion reduce scan thread_values".split(),
                    "flydsl.expr.fragments"),
    **dict.fromkeys("Direct NamedBarrier Pipeline Registers Staged TensorMove WaveGroups barrier_arrive "
                    "barrier_wait lds_barrier pipeline_range wave_index".split(), "flydsl.expr.pipelines"),
}
_announced.announce_later("flydsl.expr.fragments.ownership", "copy_thread_values", "mma_thread_values")
_announced.announce_later("flydsl.expr.fragments.combine", "broadcast_problem")
_announced.announce_later("flydsl.expr._vector_alias", "VectorAlias")
_announced.announce_later("flydsl.expr._lane_order", "check_lane_order")


def __getattr__(name: str) -> Any:
    if name in _LAZY_NAMES:
        value = getattr(importlib.import_module(_LAZY_NAMES[name]), name)
        globals()[name] = value
        return value
    target = _LAZY.get(name)
    if target is None:
        from .compat import legacy

        if name in legacy:
            return legacy[name]()
        raise AttributeError(f"module 'flydsl.expr' has no attribute '{name}'")
    try:
        module = importlib.import_module(target)
    except ModuleNotFoundError as error:
        if error.name != target:
            raise
        raise AttributeError(f"module 'flydsl.expr' has no attribute '{name}'") from error
    globals()[name] = module
    return module


def __dir__() -> list[str]:
    """All names, those that are loaded on first use included."""
    return sorted({*globals(), *_LAZY_NAMES, *_LAZY})
