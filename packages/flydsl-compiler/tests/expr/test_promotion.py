"""The promotion table against an independent statement of its rules."""

from __future__ import annotations

import itertools

import pytest

import flydsl.expr as fx
from flydsl.expr.promotion import common_type

pytestmark = pytest.mark.l0_backend_agnostic

INTEGERS = {
    "Boolean": (1, True), "Int4": (4, True), "Int8": (8, True), "Int16": (16, True), "Int32": (32, True),
    "Int64": (64, True), "Int128": (128, True), "Uint8": (8, False), "Uint16": (16, False), "Uint32": (32, False),
    "Uint64": (64, False), "Uint128": (128, False),
}
FLOATS = {
    "Float64": 64, "Float32": 32, "Float16": 16, "BFloat16": 16, "Float8E5M2": 8, "Float8E4M3": 8, "Float8E4M3FN": 8,
    "Float8E4M3FNUZ": 8, "Float8E4M3B11FNUZ": 8, "Float8E8M0FNU": 8, "Float6E2M3FN": 6, "Float6E3M2FN": 6,
    "Float4E2M1FN": 4,
}


def expected(a: str, b: str) -> str | None:
    """Name of the common type by the published rules; None where there is none."""
    if a == b:
        return a
    if a in INTEGERS and b in INTEGERS:
        (wa, sa), (wb, sb) = INTEGERS[a], INTEGERS[b]
        if sa == sb:
            return a if wa >= wb else b
        unsigned, signed = (a, b) if sb else (b, a)
        return unsigned if INTEGERS[unsigned][0] >= INTEGERS[signed][0] else signed
    if a in FLOATS and b in FLOATS:
        wide, narrow = (a, b) if FLOATS[a] >= FLOATS[b] else (b, a)
        if FLOATS[wide] != FLOATS[narrow] and FLOATS[wide] >= 16:
            return wide
        return "Float32" if FLOATS[wide] == 16 else None
    flt, integer = (a, b) if a in FLOATS else (b, a)
    width = INTEGERS[integer][0]
    if FLOATS[flt] >= width:
        return flt
    return "Float32" if width <= 32 else "Float64"


@pytest.mark.parametrize("a", [*INTEGERS, *FLOATS])
def test_common_type(a: str) -> None:
    for b in (*INTEGERS, *FLOATS):
        want = expected(a, b)
        if want is None:
            with pytest.raises(ValueError, match="cast explicitly"):
                common_type(getattr(fx, a), getattr(fx, b))
        else:
            assert common_type(getattr(fx, a), getattr(fx, b)).__name__ == want, (a, b)


TABLE = """
          Int8     Int16    Int32    Int64    Uint8    Uint32   Uint64   Float16  BFloat16 Float32  Float64
Int8      Int8     Int16    Int32    Int64    Uint8    Uint32   Uint64   Float16  BFloat16 Float32  Float64
Int32     Int32    Int32    Int32    Int64    Int32    Uint32   Uint64   Float32  Float32  Float32  Float64
Int64     Int64    Int64    Int64    Int64    Int64    Int64    Uint64   Float64  Float64  Float64  Float64
Uint32    Uint32   Uint32   Uint32   Int64    Uint32   Uint32   Uint64   Float32  Float32  Float32  Float64
Float16   Float16  Float16  Float32  Float64  Float16  Float32  Float64  Float16  Float32  Float32  Float64
BFloat16  BFloat16 BFloat16 Float32  Float64  BFloat16 Float32  Float64  Float32  BFloat16 Float32  Float64
Float32   Float32  Float32  Float32  Float64  Float32  Float32  Float64  Float32  Float32  Float32  Float64
"""


def test_published_table() -> None:
    header, *rows = (line.split() for line in TABLE.strip().splitlines())
    for row in rows:
        for column, want in zip(header, row[1:], strict=True):
            assert common_type(getattr(fx, row[0]), getattr(fx, column)).__name__ == want, (row[0], column)


def test_symmetric_and_index() -> None:
    classes = [getattr(fx, n) for n in (*INTEGERS, "Index", "Float16", "Float32", "Float64")]
    for a, b in itertools.product(classes, classes):
        assert common_type(a, b) is common_type(b, a)
    assert common_type(fx.Index, fx.Int32) is fx.Index
    assert common_type(fx.Index, fx.Int64) is fx.Index
