"""Raw `rocdl` builders with the keywords of the published namespace, compiled for the architecture that has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.runtime.device import get_warp_size
from flydsl.tracing.diagnostics import DSLCompileError
from flydsl.utils import env
from flydsl.utils.env import EnvManager, OptBool, OptInt
from flydsl.utils.parallel import run_parallel_jobs


def text_for(arch: str, load: Any, body: str) -> str:
    module = load(
        "from flydsl.expr import rocdl\n@flyc.kernel\ndef k(Y: fx.Tensor):\n    t = fx.thread_idx.x\n"
        f"    V = fx.Vector\n{body}\n@flyc.jit\ndef run(Y: fx.Tensor):\n    k(Y).launch(grid=1, block=64)\n"
    )
    with env.override(arch=arch):
        return flyc.compile(module.run, np.zeros(64, np.float32)).source_ir


OPERANDS = """
    a16, a8 = V.filled(16, 0, fx.Int32), V.filled(8, 0, fx.Int32)
    c8, c16, s = V.filled(8, 0.0, fx.Float32), V.filled(16, 0.0, fx.Float32), fx.Int32(0x7F7F7F7F)
"""


def test_matrix_products_of_gfx1250(load: Any) -> None:
    ir = text_for("gfx1250", load, OPERANDS + """
    v8, v16 = fx.T.vec(8, fx.T.f32), fx.T.vec(16, fx.T.f32)
    r = rocdl.wmma_scale_f32_16x16x128_f8f6f4(v8, a8, a8, c8, s, s)
    r = rocdl.wmma_scale_f32_16x16x128_f8f6f4(v8, a16, a16, r, s, s, fmtA=0, fmtB=1, modC=0, scaleAType=1, fmtScaleA=0,
                                              scaleBType=0, fmtScaleB=0, reuseA=False, reuseB=True)
    q = rocdl.wmma_scale_f32_32x16x128_f4(v16, a16, a8, c16, s, s, scaleBType=1)
    p = rocdl.wmma_f32_16x16x128_fp8_fp8(v8, a16, a16, c8, modC=0, reuseA=False, reuseB=False)
    Y[t] = V(r)[0] + V(q)[0] + V(p)[0]""")
    defaults, chosen = (line for line in ir.splitlines() if "16x16x128.f8f6f4" in line)
    assert "fmtA = 4" in defaults and "fmtB = 4" in defaults  # e2m1 unless said otherwise
    assert "fmtB = 1" in chosen and "scaleAType = 1" in chosen and "reuseB = true" in chosen


def test_tensor_moves_with_five_groups(load: Any) -> None:
    body = """
    z4, z8 = V.filled(4, 0, fx.Int32), V.filled(8, 0, fx.Int32)
    rocdl.tensor_load_to_lds(z4, z8, z4, z4, {fifth}, 0)
    rocdl.tensor_load_to_lds(z4, z8, z4, z4, cache_policy=2)
    rocdl.tensor_store_from_lds(z4, z8, z4, z4, V.from_elements([fx.Int32(0)] * 8))
    Y[t] = 1.0"""
    ir = text_for("gfx1250", load, body.format(fifth="z8"))
    assert ir.count("rocdl.tensor.load.to.lds") == 2 and "cachepolicy 2" in ir
    with pytest.raises(ValueError, match="fifth descriptor group must be a constant zero"):
        text_for("gfx1250", load, body.format(fifth="V.filled(8, 1, fx.Int32)"))


@pytest.mark.parametrize(("name", "wanted"), [("fadd", lambda old, new: old + 2 * new), ("fmax", np.maximum)])
@pytest.mark.parametrize("aux", ["", ", 0", ", aux=None"])
def test_atomics_of_buffers(run: Any, name: str, wanted: Any, aux: str) -> None:
    """The cache policy is none unless it is given, and offsets may be numbers of the language."""
    calls = f"fx.rocdl.raw_ptr_buffer_atomic_{name}(X[t], resource, t * 4, 0{aux})\n"
    calls += f"fx.rocdl.raw_ptr_buffer_atomic_{name}(X[t].ir_value(), resource, t * 4, fx.Int32(0){aux})\n"
    before = np.arange(40, -24, -1, dtype=np.float32)
    x = np.arange(64, dtype=np.float32)
    resource = "resource = fx.rocdl.get_buffer_rsrc(fx.rocdl.make_buffer_ptr(fx.get_iter(Y)))\n"
    if name == "fmax" and get_warp_size() == 64:
        with pytest.raises(DSLCompileError):
            run(resource + calls)
        return
    np.testing.assert_array_equal(run(resource + calls, x=x, y=before.copy()), wanted(before, x))


def test_settings_and_jobs_of_kernel_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library(EnvManager):
        env_prefix = "SOMELIB"
        verbose = OptBool(False, "talk")
        depth = OptInt(3, "levels", min_value=1, env_var="SOME_DEPTH")

    settings = Library()
    assert settings.to_dict() == {"verbose": False, "depth": 3}
    monkeypatch.setenv("FLYDSL_SOMELIB_VERBOSE", "yes")
    monkeypatch.setenv("SOME_DEPTH", "0")
    assert settings.verbose is True
    with pytest.raises(ValueError, match="SOME_DEPTH"):
        _ = settings.depth
    assert isinstance(env.debug, env.DebugEnvManager)

    assert run_parallel_jobs(range(20), lambda x: x * x) == [x * x for x in range(20)]
    assert run_parallel_jobs([lambda: 1, lambda: 2], max_workers=1) == [1, 2]
    with pytest.raises(ZeroDivisionError):
        run_parallel_jobs([1, 0, 2], lambda x: 1 // x)
    assert fx.T is not None
