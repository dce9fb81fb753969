"""Convolution as an implicit matrix product."""

from .builders import build_conv_module
from .config import ConvConfig
from .older import conv3d_implicit

__all__ = ["ConvConfig", "build_conv_module", "conv3d_implicit"]
