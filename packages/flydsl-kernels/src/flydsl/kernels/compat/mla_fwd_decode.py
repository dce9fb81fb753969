"""Older name of a part of :mod:`flydsl.kernels.decode`."""

from flydsl.kernels.decode.callers import flydsl_mla_fwd_decode, flydsl_mla_reduce_v1

__all__ = ["flydsl_mla_fwd_decode", "flydsl_mla_reduce_v1"]
