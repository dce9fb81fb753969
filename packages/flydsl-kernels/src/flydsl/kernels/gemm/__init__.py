"""Dense matrix products: ``C[M, N] = A[M, K] B[N, K]^T`` in the forms of the kernels' types and layouts."""

from .preshuffle import *  # noqa: F403
from .preshuffle import __all__ as _preshuffle

__all__ = [*_preshuffle]
