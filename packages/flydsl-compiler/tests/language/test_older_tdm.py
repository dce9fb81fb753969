"""A matrix product of gfx1250 in the older style, both operands by tensor moves, in any process of the tests."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from flydsl.runtime.device import get_rocm_device_count
from flydsl.utils import env

sys.path.insert(0, str(Path(__file__).parent))
import older_kernels as older  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("device"), pytest.mark.filterwarnings("ignore:SmemAllocator"),
    pytest.mark.skipif(get_rocm_device_count() > 0, reason="a simulated device follows the code, a GPU does not"),
]


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 128), (45, 70, 64), (33, 32, 192)])
def test_matrix_product_by_tensor_moves(m: int, n: int, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLYDSL_SIM_ARCH", raising=False)
    rng = np.random.default_rng(m)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (n, k)))
    c = np.full((m, n), np.nan, np.float16)
    with env.override(arch="gfx1250"):
        older.compile_tdm_gemm(n=n, k=k)(c, a, b, m)
    np.testing.assert_allclose(c, a.astype(float) @ b.astype(float).T, rtol=2e-3, atol=2e-2)
