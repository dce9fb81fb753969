"""The next token: the largest logit of a row, or one drawn from its distribution."""

from .kernel import build_argmax_module, build_sample_module

__all__ = ["build_argmax_module", "build_sample_module"]
