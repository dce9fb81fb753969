"""What the body of a jit function computes on the host, and what it may not touch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("device")

HOST = """
@flyc.kernel
def store(O: fx.Tensor, values):
    for i in fx.range_constexpr(len(values)):
        O[i] = values[i].to(fx.Float64)

@flyc.jit
def run(O: fx.Tensor, n: fx.Int32, f: fx.Float32, d: fx.Float64, h: fx.Float16, b: fx.BFloat16, u: fx.Uint32):
    fx.printf("n={} f={} d={} L={}", n, f, d, fx.make_layout((4, n), (1, 4)))
    if f > 3.0:
        fx.printf("large")
    x = f
    for i in range(n):
        x = x * 1.5 + 0.25
    values = [
        x, f * 2.0, 1.0 / f, fx.Float32(n) / 3.0, d * d, fx.sqrt(d), h + h, h * f, b * 3.0, fx.Float32(u),
        fx.Float64(u), fx.Int32(f * 10.0), fx.max(f, 2.0), (f > 1.0).select(f, 0.0), fx.Int64(d), -f, abs(-f),
        fx.Float16(f), n / 2, f // 1.0,
    ]
    store(O, values).launch(grid=1, block=1)
"""


def test_host_code_computes_with_floats_and_prints(load: Any, capfd: pytest.CaptureFixture[str]) -> None:
    import flydsl.runtime as rt

    out, single = np.zeros(20), np.float32
    load(HOST).run(out, 5, 1.7, 2.5, 0.1, 1.3, 4000000000)
    rt.synchronize()
    f, h = single(1.7), np.float16(0.1)
    b = (np.float32(1.3).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)  # scalars are truncated to bf16
    x = f
    for _ in range(5):
        x = single(x * single(1.5)) + single(0.25)
    expected = [
        x, f * single(2), single(1) / f, single(5) / single(3), 6.25, np.sqrt(2.5), h + h, single(h) * f, b * single(3),
        single(4e9), 4e9, 17, 2, f, 2, -f, f, np.float16(f), 2.5, 1,
    ]
    np.testing.assert_array_equal(out, [float(v) for v in expected])
    assert capfd.readouterr().out == "n=5 f=1.7 d=2.5 L=(4,5):(1,4)\n"


def test_host_code_does_not_touch_tensors(load: Any) -> None:
    source = """
@flyc.kernel
def one(O: fx.Tensor):
    O[1] = 1.0

@flyc.jit
def store(O: fx.Tensor):
    O[0] = 2.0
    one(O).launch(grid=1, block=1)

@flyc.jit
def read(O: fx.Tensor):
    one(O).launch(grid=fx.Int32(O[0]), block=1)
"""
    module, out = load(source), np.zeros(4, np.float32)
    for function, line, text in ((module.store, 10, "O[0] = 2.0"), (module.read, 15, "one(O)")):
        with pytest.raises(RuntimeError, match="belongs into a kernel") as caught:
            function(out)
        assert f"line {line}" in str(caught.value) and text in str(caught.value)
