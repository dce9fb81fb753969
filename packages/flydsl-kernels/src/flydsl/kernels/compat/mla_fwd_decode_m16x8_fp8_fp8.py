"""Older name of a part of :mod:`flydsl.kernels.mla_fwd_decode`."""

from .mla_fwd_decode import launch_mla_fwd_decode_m16x8_fp8_fp8

__all__ = ["launch_mla_fwd_decode_m16x8_fp8_fp8"]
