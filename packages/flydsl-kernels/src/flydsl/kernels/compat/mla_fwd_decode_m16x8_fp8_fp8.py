"""Older name of a part of :mod:`flydsl.kernels.decode`."""

from flydsl.kernels.decode.callers import launch_mla_fwd_decode_m16x8_fp8_fp8

__all__ = ["launch_mla_fwd_decode_m16x8_fp8_fp8"]
