"""Composites: construction, specialisation, layout in memory."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

import flydsl.expr as fx
from flydsl.tracing import protocol

pytestmark = pytest.mark.l0_backend_agnostic


@fx.struct
class Params:
    rows: fx.Int32
    scale: fx.Float32
    width: fx.Constexpr[int]

    def area(self) -> Any:
        return self.rows * self.width


@fx.union
class Either:
    byte: fx.Uint8
    wide: fx.Array[fx.Float64, 3]


def test_values() -> None:
    p = Params(3, 0.5, width=8)
    assert (p.rows.value, p.scale.value, p.width, p.area().value) == (3, 0.5, 8, 24)
    assert p.replace(rows=4).rows.value == 4 and p == Params(3, 0.5, 8) and hash(p) == hash(Params(3, 0.5, 8))
    with pytest.raises(FrozenInstanceError):
        p.rows = 4
    for args, kwargs in (((1,), {}), ((1, 2.0, 3, 4), {}), ((1, 2.0), {"depth": 3}), ((1, 2.0, 3), {"rows": 1})):
        with pytest.raises(TypeError, match="Params"):
            Params(*args, **kwargs)
    with pytest.raises(TypeError, match="Params.rows.*Int32"):
        Params("x", 0.5, width=8)
    with pytest.raises(TypeError, match="width"):
        Params(1, 0.5, width="8")


def test_specialisation() -> None:
    a, b, c = Params(1, 1.0, width=8), Params(2, 2.0, width=8), Params(1, 1.0, width=4)
    assert type(a) is type(b) and type(a) is not type(c)
    assert isinstance(a, Params) and isinstance(c, Params)
    assert type(a).__name__ == "Params[width=8]"
    assert fx.is_specializable_struct_type(Params) and fx.is_struct_type(Params)
    assert fx.is_composite_type(Either) and not fx.is_struct_type(Either)
    assert protocol.cache_signature(a) == protocol.cache_signature(b) != protocol.cache_signature(c)


def test_declaration_errors() -> None:
    with pytest.raises(ValueError):
        fx.Struct["_hidden" : fx.Int32]
    with pytest.raises(ValueError):
        fx.Struct["peek" : fx.Int32]
    with pytest.raises(ValueError):
        fx.Struct["a" : fx.Int32, "a" : fx.Int32]
    with pytest.raises(TypeError):
        fx.Struct["a" : fx.Int32, fx.Int32]
    for no_type in (3, "Int32", (fx.Int32,)):
        with pytest.raises(TypeError, match="the type of an inline field"):
            fx.Struct["a" : fx.Int32, "b" : no_type]
        with pytest.raises(TypeError, match="the type of an inline field"):
            fx.Union[fx.Int32, no_type]
    assert fx.Struct[fx.Int32, fx.Float32] is fx.Struct[fx.Int32, fx.Float32]
    assert fx.Struct[fx.Int32, fx.Float32](1, 2.0)._1.value == 2.0
    assert fx.struct is fx.Struct and fx.union is fx.Union
    with pytest.raises(TypeError, match="union"):
        Either(1)


def test_memory_layout() -> None:
    pair = fx.Struct["a" : fx.Int8, "b" : fx.Float64, "c" : fx.Int16]
    assert pair.__dsl_field_offsets__() == {"a": 0, "b": 8, "c": 16}
    assert (protocol.dsl_size_of(pair), protocol.dsl_align_of(pair)) == (24, 8)
    assert (protocol.dsl_size_of(Either), protocol.dsl_align_of(Either)) == (24, 8)
    assert protocol.dsl_size_of(Params) == 8
    empty = fx.Struct["n" : fx.Constexpr[int]]
    assert (protocol.dsl_size_of(empty), protocol.dsl_align_of(empty)) == (0, 1)
    assert fx.Array[fx.Int32, 4] is fx.Array[fx.Int32, 4]
    assert protocol.dsl_size_of(fx.Array[fx.Int4, 8]) == 4
    assert protocol.dsl_size_of(fx.Array[fx.Int4, 3]) == 2 and protocol.dsl_size_of(fx.Array[fx.Float6E2M3FN, 3]) == 3
    assert protocol.dsl_align_of(fx.Align[fx.Int32, 64]) == 64
    with pytest.raises(ValueError):
        fx.Align[fx.Int32, 2]
    with pytest.raises(TypeError):
        fx.Align[fx.Int32, True]
    with pytest.raises(TypeError, match="'x'"):
        protocol.dsl_size_of(fx.Struct["x" : fx.Int4])


def test_round_trip(trace: Any) -> None:
    p = Params(trace.arg(fx.Int32), trace.arg(fx.Float32), width=8)
    values = protocol.extract_to_ir_values(p)
    back = protocol.construct_from_ir_values(type(p), p, values)
    assert type(back) is type(p) and back.width == 8 and type(back.scale) is fx.Float32


def test_arena() -> None:
    class Bytes(fx.Arena):
        def _place(self, ty: Any, offset: int, alignment: int) -> Any:
            return offset

    arena = Bytes()
    assert arena.allocate(fx.Array[fx.Float32, 3]) == 0
    assert arena.allocate(5) == 16
    assert arena.allocate(fx.Int16) == 22
    assert arena.allocate(fx.Int8, 32) == 32
    assert arena.allocated_bytes == 33
    with pytest.raises(ValueError, match="must be > 0"):
        arena.allocate(0)


def test_shared_allocator_outside_kernel() -> None:
    with pytest.raises(RuntimeError, match="@kernel"):
        fx.SharedAllocator()


def test_constexpr_annotation() -> None:
    with pytest.raises(TypeError):
        fx.Constexpr[list]
    assert fx.Constexpr[int] is fx.Constexpr[int]
