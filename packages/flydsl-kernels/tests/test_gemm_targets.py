"""Where a GEMM does not exist, the builder says so before anything is compiled."""

import pytest
from kernel_helpers import needs

from flydsl.kernels.gemm import build_gemm_module


@needs("gfx1250")
def test_general_gemm_names_its_architectures():
    with pytest.raises(ValueError, match="build_gemm_module is not available on gfx1250: it needs gfx942 or gfx950"):
        build_gemm_module(64, 64, "f16")
