"""Dense matrix products: ``C[M, N] = A[M, K] B[N, K]^T`` in the forms of the kernels' types and layouts."""

from . import dense, preshuffle
from .dense import *  # noqa: F403
from .preshuffle import *  # noqa: F403

__all__ = [*preshuffle.__all__, *dense.__all__]
