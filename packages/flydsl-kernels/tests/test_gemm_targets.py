"""Where a GEMM does not exist, the builder says so before anything is compiled."""

import pytest

from flydsl.kernels.gemm import build_gemm_module


def test_general_gemm_names_its_architectures(monkeypatch):
    for name in ("ARCH", "FLYDSL_GPU_ARCH"):
        monkeypatch.setenv(name, "gfx1100")
    with pytest.raises(ValueError, match="build_gemm_module is not available on gfx1100: it needs gfx942 or gfx950"):
        build_gemm_module(64, 64, "f16")
