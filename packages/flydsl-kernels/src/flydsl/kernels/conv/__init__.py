"""Convolution as an implicit matrix product."""

from .builders import build_conv_module
from .config import ConvConfig
from .older import compile_conv3d_implicit, compile_conv3d_implicit_fp8, conv3d_implicit, conv3d_implicit_fp8
from .transpose import compile_transpose_ncdhw_ndhwc, compile_transpose_ncdhw_ndhwc_fp8

__all__ = [
    "ConvConfig", "build_conv_module", "compile_conv3d_implicit", "compile_conv3d_implicit_fp8",
    "compile_transpose_ncdhw_ndhwc", "compile_transpose_ncdhw_ndhwc_fp8", "conv3d_implicit", "conv3d_implicit_fp8",
]
