"""The published checklist of corner cases, by number, where it can be stated in a line or two."""
# ruff: noqa: E501 - one case a line

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.expr as fx

I = np.arange(64, dtype=np.int32)  # noqa: E741


def test_1_construction() -> None:
    assert fx.Int8(200).value == -56 and fx.Uint32(-1).value == 0xFFFFFFFF and fx.Int4(20).value == 4
    assert fx.Boolean(7).value == 1 and fx.Uint8(-1.5).value == 255 and fx.Uint64(2**64 + 5).value == 5
    with pytest.raises(ValueError):
        fx.Int32(float("nan"))
    with pytest.raises(OverflowError):
        fx.Int32(float("inf"))


def test_2_literals() -> None:
    assert type(fx.as_numeric(2**31)) is fx.Int64 and type(fx.as_numeric(True)) is fx.Boolean
    with pytest.raises(ValueError):
        fx.as_numeric("x")


# Statement number: body; Y is the int32 output, X the int32 thread numbers.
BODIES: dict[str, tuple[str, Any]] = {
    "3": ("""
        assert type(fx.Int8(t) + 5) is fx.Int32 and type(t.to(fx.Float16) + 1.0) is fx.Float32
        b = t > 3
        assert type(b + b) is fx.Int32 and type(b & b) is fx.Boolean
        Y[t] = b + b""", 2 * (I > 3)),
    "4": ("""
        a, u = t, fx.Uint32(t)
        assert type(a + u) is fx.Uint32 and type(fx.Int64(t) + u) is fx.Int64
        assert type(t.to(fx.BFloat16) + t.to(fx.Float16)) is fx.Float32
        assert type(t.to(fx.Float32) + fx.Int64(t)) is fx.Float64
        Y[t] = fx.Int32(a + u)""", 2 * I),
    "5": ("assert (fx.Int32(-7) % 3).value == 2 and (fx.Int32(-7) // 3).value == -3\nY[t] = (t - 70) % 3 + (t - 70) // 3",
          (I - 70) % 3 + (I - 70) // 3),
    "6": ("assert type(t / t) is fx.Float32 and type(fx.Int64(t) / t) is fx.Float64\nY[t] = fx.Int32(t / 2)", I // 2),
    "7": ("nan = fx.Float32(t) * float('nan')\nY[t] = fx.Int32(nan != nan) + 2 * fx.Int32(nan == nan) + 4 * fx.Int32(nan < nan)",
          np.ones(64)),
    "10": ("raw = (t - 32).ir_value()\nraw = raw.with_signedness(None)\n"
           "Y[t] = fx.Int32(raw >> 31) * 100 + (fx.Int32(raw) >> 31) + fx.Int32(raw + 1.5) * 0",
           np.where(I < 32, 100 - 1, 0)),
    "11": ("raw = t.ir_value()\nassert isinstance(t + raw, fx.Numeric) and not isinstance(raw + t, fx.Numeric)\nY[t] = t + raw", 2 * I),
    "12": ("u = fx.Uint32(t)\nassert type(fx.shuffle_xor(u, 1, 64)) is fx.Uint32 and type(fx.shrui(u, 1)) is fx.Uint32\n"
           "assert type(fx.ptr_load(fx.get_iter(X), fx.Uint32)) is fx.Uint32\nY[t] = fx.Int32(fx.shrui(t - 64, 28))",
           np.full(64, 15)),
    "13": ("v = fx.Float32(t) + 0.0\nassert v.to(fx.Float32) is v\nY[t] = fx.Int32(v)", I),
    "16": ("c = t > 3\nv = c.select(fx.Int32x2([t, 1]), fx.Int32(7))\nw = c.select(fx.Int32x2([t, 1]), 9)\nY[t] = v[0] * 100 + w[0]",
           np.where(I > 3, I * 101, 709)),
    "19": ("v = fx.Int32x4([t, t + 1, t + 2, t + 3]).reshape((2, 2))\nY[t] = v[(0, 1)] * 1000 + v[-1]", (I + 1) * 1000 + I + 3),
    "20": ("v = fx.Int32x4([t, -1, 5, 2])\nu = v.bitcast(fx.Uint32)\n"
           "Y[t] = v.reduce(fx.ReductionOp.MAX, init_val=40) + fx.Int32(u.reduce('max')) * 1000",
           np.maximum(I, 40) - 1000),
    "22": ("v = fx.Int32x2([t, t]).to(fx.BFloat16) * 2.0\nassert v.dtype is fx.Float32\nY[t] = fx.Int32(v[1])", 2 * I),
    "24": ("v = fx.Int32x4([t, 0, 0, 0]).reshape((2, 2)).bitcast(fx.Int16)\nassert v.shape == (8,)\nY[t] = fx.Int32(v[0])", I),
    "25": ("assert fx.make_shape(4).rank == 1 and fx.make_int_tuple(4).is_leaf and fx.rank(8) == 1 and fx.depth(8) == 0\nY[t] = t", I),
    "28": ("l = fx.make_layout(64, 2)\nv = fx.make_view(fx.get_iter(X), fx.make_layout((8, 8), (8, 1)))\n"
           "Y[t] = l(t).to_py_value() * 1000 + v[t]", 2000 * I + (I % 8) * 8 + I // 8),
    "30": ("l = fx.logical_divide(fx.make_layout((4, 8), (1, 4)), (None, 4))\nassert str(l.type) == "
           "'!fly.layout<(4,(4,2)):(1,(4,16))>', l.type\nY[t] = t", I),
    "32": ("l = fx.make_layout((8, 16), (1, 8))\na, b, c = (fx.recast_layout(l, *p) for p in ((16, 32), (fx.Float16, fx.Float32), "
           "(fx.T.f16, fx.T.f32)))\nassert a.type == b.type == c.type\nY[t] = t", I),
    "34": ("e = fx.elem_less((1, 2), (3, 4))\nassert not e.is_static()\nY[t] = fx.Int32(e)", np.ones(64)),
    "35": ("r = fx.make_rmem_tensor(2, fx.Float32)\nfx.memref_store(1, r, 0)\nr[1] = 2\nY[t] = fx.Int32(r[0] + r[1])", np.full(64, 3)),
    "38": ("p = fx.recast_iter(fx.PointerType.get(fx.T.f32, fx.AddressSpace.Shared, 16), fx.get_dyn_shared())\n"
           "assert (p + 1).alignment == 4 and (p + 4).alignment == 16 and (p + t).alignment == 4\nY[t] = t", I),
    "39": ("assert type(fx.ptrtoint(fx.get_dyn_shared())) is fx.Int32 and type(fx.ptrtoint(fx.get_iter(X))) is fx.Int64\nY[t] = t", I),
    "41": ("op = fx.UniversalCopy32b()\na = [fx.make_copy_atom(op, e).type for e in (fx.Float16, 16, fx.T.f16)]\n"
           "assert a[0] == a[1] == a[2]\nY[t] = t", I),
    "45": ("r, p = fx.make_rmem_tensor((1, 1), fx.Int32), fx.make_rmem_tensor((1, 1), fx.Boolean)\nr[0] = 9\np[0] = t < 8\n"
           "row = fx.make_view(fx.get_iter(X) + t, fx.make_layout((1, 1), (1, 1)))\n"
           "fx.copy(fx.make_copy_atom(fx.UniversalCopy32b(), fx.Int32), row, r, pred=p)\nY[t] = r[0]",
           np.where(I < 8, I, 9)),
    "59": ("n0 = 0\nfor k in range(3):\n    n0 = n0 + k\nfor k, s in range(0, 3, init=[fx.Int32(0)]):\n"
           "    assert str(k.type) == 'index'\n    r = yield [s[0] + 1]\nY[t] = n0 * 10 + r", np.full(64, 33)),
    "61": ("Y[t] = fx.known_block_size()[0] + fx.Int32(0)", np.full(64, 64)),
    "63": ("v = fx.Vector(fx.Int32x2([t, t + 1]), dtype=fx.Uint32)\nw = fx.shuffle_xor(v, 1, 64)\n"
           "assert w.dtype is fx.Uint32 and w.shape == (2,)\nY[t] = fx.Int32(w[1])", (I ^ 1) + 1),
    "64": ("nan = fx.Float32(t) * float('nan')\nb = t > 3\nassert type(fx.max(b, b)) is fx.Int32\n"
           "Y[t] = fx.Int32(fx.isnan(fx.max(nan, 1.0))) * 10 + fx.Int32(fx.maxnumf(nan, fx.Float32(2.0)))", np.full(64, 12)),
}


@pytest.mark.parametrize("number", list(BODIES))
def test_on_the_device(run: Any, number: str) -> None:
    import textwrap

    body, expected = BODIES[number]
    out = run(textwrap.dedent(body).strip("\n"), x=I.copy())
    np.testing.assert_array_equal(out, expected)


ERRORS: dict[str, tuple[str, type, str]] = {
    "8 shift": ("fx.Float32(t) << 1", TypeError, "Float32"),
    "8 minus": ("-(t > 3)", TypeError, "Boolean"),
    "8 abs": ("abs(t > 3)", TypeError, "Boolean"),
    "9": ("int(t)", RuntimeError, "dynamic 'Int32'"),
    "13": ("fx.Float32(1.0).to(fx.BFloat16, rounding_mode=fx.RoundingMode.downward)", ValueError, "static"),
    "14": ("fx.Float8E4M3FN(fx.Int8(t).ir_value())", ValueError, ""),
    "19 range": ("fx.Int32x4(t)[4]", IndexError, ""),
    "19 slice": ("fx.Int32x4(t)[0:2]", TypeError, ""),
    "21": ("fx.Vector(fx.Int32x4(t), dtype=fx.Uint16)", ValueError, ""),
    "23": ("fx.Int32x4(t) + fx.Int32x2(t)", ValueError, "broadcast"),
    "29 coordinate": ("fx.make_view(fx.get_iter(X), fx.make_layout((8, 8), (8, 1)))[0, 0, 0]", ValueError, ""),
    "29 slice": ("fx.slice(X, 3)", ValueError, ""),
    "29 divide": ("fx.zipped_divide(fx.make_layout((4, 8), (1, 4)), (None, 4))", ValueError, ""),
    "29 mode": ("fx.make_layout((4, 8), (1, 4))[-1]", ValueError, ""),
    "33": ("fx.composition(fx.make_layout((4, 8), (1, 4)), (4, 8))", TypeError, ""),
    "37": (
        "fx.make_composed_layout(fx.static(fx.SwizzleType.get(1, 0, 1)), fx.make_layout(8, 1)).stride",
        TypeError,
        "",
    ),
    "42": ("fx.make_copy_atom(fx.rocdl.BufferCopy32b(), fx.Int32).set_value('nonsense', 1)", ValueError, "nonsense"),
    "46": ("fx.gemm(1, 2, 3, 4, 5, traversal_order=0, traversal_layout=0)", ValueError, "not both"),
    "51": ("[fx.SharedAllocator(), fx.SharedAllocator()]", RuntimeError, "Only one SharedAllocator"),
    "62": ("fx.thread_idx.w", AttributeError, "w"),
    "64": ("fx.max()", ValueError, ""),
    "65": ("fx.ceildiv(fx.Int32(-2**31), -1)", OverflowError, ""),
    "66": ("fx.local_tile", AttributeError, "no attribute 'local_tile'"),
}


@pytest.mark.parametrize("case", list(ERRORS))
def test_errors(load: Any, kernel_text: Any, case: str) -> None:
    call, kind, text = ERRORS[case]
    module = load(kernel_text(call))
    with pytest.raises(kind, match=text or None):
        module.run(I.copy(), I.copy(), 3)
