"""Older name of a part of :mod:`flydsl.kernels.gemm.dense`."""

from flydsl.kernels.gemm.dense import (
    SPLIT_K_SEMAPHORE_MAX_LEN,
    compile_hgemm_kernel,
    get_default_kwargs,
    get_semaphore,
    hgemm_splitk_,
)

__all__ = [
    "SPLIT_K_SEMAPHORE_MAX_LEN", "compile_hgemm_kernel", "get_default_kwargs", "get_semaphore", "hgemm_splitk_",
]
