"""Indices, barrier and shuffles."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

import flydsl.expr as fx
from flydsl._mlir import ir
from flydsl.tracing.ambient import tracing_context, tracing_option
from flydsl.tracing.locations import capture_user_location

pytestmark = pytest.mark.l1b_target_dialect


def test_indices(trace: Any) -> None:
    x, y, z = fx.thread_idx
    assert type(x) is type(y) is type(z) is fx.Int32
    assert type(fx.block_dim.x) is fx.Int32 and type(fx.lane_id()) is fx.Int32
    assert str(fx.gpu.block_id("x").type) == "index"
    fx.barrier()
    names = trace.ops()
    assert names.count("gpu.thread_id") == 3 and "gpu.barrier" in names and "gpu.lane_id" in names


@pytest.mark.parametrize("cls", [fx.Uint32, fx.Int32, fx.Float32, fx.Int64, fx.Float16, fx.Uint8, fx.Boolean])
def test_shuffles_keep_the_class(trace: Any, cls: Any) -> None:
    x = trace.arg(cls)
    for function in (fx.shuffle_xor, fx.shuffle_up, fx.shuffle_down, fx.shuffle_idx):
        assert type(function(x, 1, fx.Int32(64))) is cls


def test_shuffle_vector_and_raw(trace: Any) -> None:
    v = fx.Vector(trace.vector(4, fx.Int32), (2, 2), fx.Uint32)
    out = fx.shuffle_xor(v, 1, 64)
    assert out.dtype is fx.Uint32 and out.shape == (2, 2)
    raw = trace.arg(fx.T.f32)
    assert str(raw.shuffle_xor(1, 64).type) == "f32"
    with pytest.raises(ValueError, match="mode"):
        fx.gpu.shuffle(raw, 1, 64, "around")


def test_lanes_are_integers(trace: Any) -> None:
    x = trace.arg(fx.Int32)
    for wrong in (1.5, "a", None, fx.Float32(1), trace.arg(fx.Float32)):
        for arguments in ((x, wrong, 64), (x, 1, wrong)):
            with pytest.raises(TypeError, match="an integer is expected, got"):
                fx.shuffle_xor(*arguments)
    with pytest.raises(TypeError, match="numbers and vectors of them"):
        fx.shuffle_xor(fx.make_layout(4, 1), 1, 64)


def test_block_size() -> None:
    with tracing_context(known_block_size=(64, 1, 1)):
        assert fx.known_block_size() == (64, 1, 1)
        with tracing_context(known_block_size=None), pytest.raises(RuntimeError):
            fx.known_block_size()


def test_warp_size() -> None:
    for arch, size in (("gfx942", 64), ("gfx950", 64), ("gfx1201", 32), ("gfx1250", 32)):
        with tracing_context(arch=arch):
            assert fx.num_warp_threads() == size


def test_options_nest() -> None:
    assert tracing_option("depth", 7) == 7
    with tracing_context(depth=1), tracing_context(other=2):
        assert tracing_option("depth") == 1


def test_locations(trace: Any) -> None:
    def helper() -> Any:
        return trace.arg(fx.Int32) + 1  # the line that the location names

    def kernel() -> Any:
        return helper()

    with tracing_context(kernel):
        location = str(kernel().value.owner.location)
    lines = [helper.__code__.co_firstlineno + 1, kernel.__code__.co_firstlineno + 1]
    assert location.startswith("loc(callsite(") and all(f"test_gpu.py\":{n}:" in location for n in lines)
    assert f"test_gpu.py\":{test_locations.__code__.co_firstlineno}" not in location
    with tracing_context(kernel, max_loc_depth=1):
        assert isinstance(capture_user_location(), ir.Location)


def test_locations_of_repeated_calls(trace: Any) -> None:
    """Calls that come again, from other lines, from within themselves and of a generator that has two callers."""
    found: list[tuple[str, list[int]]] = []

    def note() -> None:
        lines, frame = [], sys._getframe()
        while frame.f_code is not kernel.__code__:
            lines.append(frame.f_lineno)
            frame = frame.f_back
        found.append((str(capture_user_location()), [*lines, frame.f_lineno]))

    def deep(n: int) -> None:
        if n:
            deep(n - 1)
        note()

    def values() -> Any:
        while True:
            note()
            yield

    def first(generator: Any) -> None:
        next(generator)

    def second(generator: Any) -> None:
        next(generator)

    def kernel() -> None:
        generator = values()
        for _ in range(2):
            note()
            deep(2)
            first(generator)
            second(generator)
            deep(1)

    with tracing_context(kernel, max_loc_depth=99):
        kernel()
    for location, lines in found:
        assert re.findall(r'test_gpu.py":(\d+)', location)[1:] == [str(n) for n in lines[1:]], lines
    assert len(found) == 2 * 8 and len({location for location, _ in found}) == 8


def test_shuffle_widths_and_literals(trace: Any) -> None:
    for width in (0, -4, 100, fx.Int32(3)):
        with pytest.raises(ValueError, match="power of two"):
            fx.shuffle_xor(fx.Int32(1), 1, width)
    assert isinstance(fx.shuffle_xor(1.5, 1, 64), fx.Float32)
