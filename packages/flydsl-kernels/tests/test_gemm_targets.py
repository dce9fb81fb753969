"""Where a GEMM does not exist, the builder says so before anything is compiled; that of RDNA3, on any device."""

import pytest

from flydsl.kernels.gemm import compile_preshuffle_gemm


def test_general_gemm_names_its_architectures():
    with pytest.raises(ValueError, match="compile_preshuffle_gemm is not available on gfx1100: it needs gfx942 or"):
        compile_preshuffle_gemm(N=64, K=64, tile_m=64, tile_n=64, tile_k=64, in_dtype="bf16", target="gfx1100")
