"""Attention: softmax(Q K^T) V, forward and backward."""

from .forward import build_attention_forward

__all__ = ["build_attention_forward"]
