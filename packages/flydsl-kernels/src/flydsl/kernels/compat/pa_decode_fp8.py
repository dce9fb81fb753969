"""Older name of a part of :mod:`flydsl.kernels.decode`."""

from flydsl.kernels.decode.callers import (
    compile_pa_decode_metadata,
    compile_pa_decode_sw,
    compile_pa_decode_sw_reduce,
    compile_pa_decode_tile,
    compile_pa_metadata_reduce,
    compile_pa_metadata_v1,
    get_pa_metadata,
    get_recommended_splits,
    pa_decode_ps_launch,
    pa_decode_tile,
    pa_metadata_reduce,
)

__all__ = [
    "compile_pa_decode_metadata", "compile_pa_decode_sw", "compile_pa_decode_sw_reduce", "compile_pa_decode_tile",
    "compile_pa_metadata_reduce", "compile_pa_metadata_v1", "get_pa_metadata", "get_recommended_splits",
    "pa_decode_ps_launch", "pa_decode_tile", "pa_metadata_reduce",
]
