"""Device printf: one line a call and lane, formatted as on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


def test_scalars_of_every_lane(run: Any, capfd: pytest.CaptureFixture[str]) -> None:
    run('fx.printf("t={} x={}", t, X[t])')
    assert sorted(capfd.readouterr().out.splitlines()) == sorted(f"t={i} x={i:.2f}" for i in range(64))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("fx.printf(t, X[t])", "3 3.00"),
        ("fx.printf('{} {} {} 100%: {}', 'abc', fx.Float32, 2.5, t)", "abc Float32 2.5 100%: 3"),
        ("fx.printf('{}', fx.Float32x4([1.0, 2.0, X[t], 4.0]))", "[1.00, 2.00, 3.00, 4.00]"),
        ("fx.printf('{}', fx.make_layout((4, n), (1, 4)))", "(4,40):(1,4)"),
        ("fx.printf('{}', fx.make_shape(t, (n, 2)))", "(3,(40,2))"),
        ("fx.printf('{} {}', t > 2, fx.Uint32(t - 4))", "-1 4294967295"),
        ("fx.printf('{} {:d} {:x}', *[fx.Uint64(fx.Int64(t - 4))] * 3)", f"{2**64 - 1} {2**64 - 1} {2**64 - 1:x}"),
        ("fx.printf('{} {}', fx.Uint8(t - 4), fx.Uint16(t - 4))", "255 65535"),
        ("fx.printf('{}', fx.Vector.from_elements([fx.Uint64(fx.Int64(t - 4)), fx.Uint64(t)], fx.Uint64))",
         f"[{2**64 - 1}, 3]"),
        ("fx.printf('{}', fx.Vector.from_elements([fx.Uint8(t - 4), fx.Uint8(t)], fx.Uint8))", "[255, 3]"),
        ("fx.printf('{} {}', fx.Int64(t) << 40, fx.Float64(X[t]))", f"{3 << 40} 3.00"),
        ("fx.printf('{}', fx.Vector.from_elements([fx.Int64(t) << 40, fx.Int64(-5)], fx.Int64))", f"[{3 << 40}, -5]"),
        ("fx.printf('{}', fx.Vector.from_elements([fx.Float64(X[t]) * 1e60], fx.Float64))", f"[{3e60:.2f}]"),
        ("fx.printf('{} {:.12f}', fx.Float64(1e60), fx.Float64(0.1))", f"{1e60:.2f} 0.100000000000"),
        ("fx.printf('{}', X[t].to(fx.Float16))", "3.00"),
        ("fx.printf(X[t], t, format_str='x {} t {}')", "x 3.00 t 3"),
        ("fx.printf(X[t], t, format_str='')", "3.00 3"),
        ("fx.printf(X[t], t, format_str=None)", "3.00 3"),
    ],
)
def test_forms(run: Any, capfd: pytest.CaptureFixture[str], call: str, text: str) -> None:
    run(f"if t == 3:\n    {call}")
    assert capfd.readouterr().out == text + "\n"


def test_unsigned_numbers_on_the_host_and_wide_ones(load: Any, device: None, capfd: pytest.CaptureFixture[str]) -> None:
    module = load("""
        @flyc.jit
        def run(n: fx.Uint64, m: fx.Uint8, i: fx.Int64):
            fx.printf("{} {} {}", n, m, i)

        @flyc.jit
        def wide(n: fx.Int64):
            fx.printf("{}", n.to(fx.Int128))
    """)
    module.run(2**64 - 5, 200, -3)
    assert capfd.readouterr().out == f"{2**64 - 5} 200 -3\n"
    with pytest.raises(ValueError, match=r"at most 64 bits, got Int128: print the halves, fx.Int64\(x >> 64\)"):
        module.wide(1)


def test_a_format_is_a_string(run: Any) -> None:
    with pytest.raises(TypeError, match="a format is a string, got 5"):
        run("fx.printf(t, format_str=5)")


def test_inside_loops_and_several_workgroups(load: Any, device: None, capfd: pytest.CaptureFixture[str]) -> None:
    module = load("""
@flyc.kernel
def k(X: fx.Tensor):
    b, t = fx.block_idx.x, fx.thread_idx.x
    for i in range(b):
        if t == 0:
            fx.printf("block {} step {}", b, i)

@flyc.jit
def run(X: fx.Tensor):
    k(X).launch(grid=3, block=64)
""")
    module.run(np.zeros(1, np.float32))
    assert sorted(capfd.readouterr().out.splitlines()) == ["block 1 step 0", "block 2 step 0", "block 2 step 1"]


def test_a_full_buffer_is_reported(load: Any, device: None, capfd: pytest.CaptureFixture[str]) -> None:
    module = load("""
@flyc.kernel
def k(n: fx.Int32):
    for i in range(n):
        fx.printf("{} {} {} {} {} {} {} {}", i, i, i, i, i, i, i, i)

@flyc.jit
def run(n: fx.Int32):
    k(n).launch(grid=4, block=256)
""")
    module.run(200)
    lines = capfd.readouterr().out.splitlines()
    assert "did not fit into the buffer" in lines[-1] and len(lines) > 50_000
    assert all(len(set(line.split())) == 1 for line in lines[:-1])


def test_placeholders_are_counted(run: Any) -> None:
    with pytest.raises(ValueError, match="2 placeholders .* 1 arguments"):
        run("fx.printf('{} {}', t)")
