"""Softmax over the rows of a matrix, forward and backward."""

from .kernel import build_softmax_bwd_module, build_softmax_module, softmax_bwd_buffered_operands

__all__ = ["build_softmax_bwd_module", "build_softmax_module", "softmax_bwd_buffered_operands"]
