"""Embedding: rows of a table by index, and the gradient of the table."""

from .kernel import build_embedding_bwd_module, build_embedding_module

__all__ = ["build_embedding_bwd_module", "build_embedding_module"]
