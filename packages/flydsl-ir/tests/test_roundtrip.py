"""Text of types: what is printed parses to the same type, and bad text is an error."""

import pytest

from flydsl._mlir import ir

SAME = [
    "!fly.int_tuple<(2,(3))>",
    "!fly.int_tuple<?{i64 div=2}E0E2>",
    "!fly.layout<(4,2):1>",
    "!fly.layout<(4,(2,?)):(1,(8E0,*))>",
    "!fly.basis<3E1E0>",
    "!fly.swizzle<S<3,4,3>>",
    "!fly.coord_swizzle<CS<2,1,[],0,[1, 0]>>",
    "!fly.composed_layout<S<1,2,3> o 4 o 8:1 o 2 o 4:2>",
    "!fly.tile<[4|*|(2,2):(1,4)]>",
    "!fly.tile<[[4]]>",
    "!fly.ptr<f16, shared, align<16>, S<3,4,3>>",
    "!fly.ptr<f16, #fly_rocdl.buffer_desc>",
    "!fly.memref<f16, global, (8,64):(64,1), align<16>, S<3,4,3>>",
    "!fly.coord_tensor<(0,0), (4,8):(1E0,1E1)>",
    "!fly.copy_atom<!fly.universal_copy<64>, 16>",
    "!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>",
    '!fly.universal_atomic<add, f32, "agent">',
]
NORMALISED = [
    ("!fly.int_tuple<?{i32 div=4}>", "!fly.int_tuple<?{div=4}>"),
    ("!fly.int_tuple<?{}>", "!fly.int_tuple<?>"),
    ("!fly.int_tuple<?{div=1}>", "!fly.int_tuple<?>"),
    ("!fly.int_tuple<1 E1>", "!fly.int_tuple<1E1>"),
    ("!fly.layout<(4,2) : (1,?)>", "!fly.layout<(4,2):(1,?)>"),
    ("!fly.composed_layout<S<3,3,3> o 0 o [8:1]>", "!fly.composed_layout<S<3,3,3> o 0 o 8:1>"),
    ("!fly.tile<[4 | 8]>", "!fly.tile<[4|8]>"),
    ("!fly.ptr<f32, global, align<4>>", "!fly.ptr<f32, global>"),
    ("!fly.ptr<f16, global, align<2>, S<0,0,0>>", "!fly.ptr<f16, global>"),
    ('!fly.universal_atomic<max, i32, "">', "!fly.universal_atomic<max, i32>"),
]
BAD = [
    "!fly.int_tuple<()>",
    "!fly.int_tuple<?{div=4 i64}>",
    "!fly.composed_layout<4:1>",
    "!fly.tile<[(2,2)|4]>",
    "!fly.tile<[1E0|4]>",
    "!fly.ptr<f16, shared, align<3>>",
    "!fly.ptr<f16, nowhere>",
    "!fly.memref<f16, global, (8,64):(64,1), S<3,4,3>, align<16>>",
    "!fly.universal_fma<1x1x2, (f32, f32) -> f32>",
    "!fly.no_such_type",
]


@pytest.mark.parametrize("text", SAME)
def test_same(ctx, text):
    assert str(ir.Type.parse(text)) == text


@pytest.mark.parametrize(("text", "printed"), NORMALISED)
def test_normalised(ctx, text, printed):
    ty = ir.Type.parse(text)
    assert str(ty) == printed
    assert ir.Type.parse(printed) == ty


def test_none_coefficient_prints_as_zero(ctx):
    # The two types differ: only the text of a hole in a basis is lost.
    assert str(ir.Type.parse("!fly.int_tuple<*E1>")) == "!fly.int_tuple<0E1>"


@pytest.mark.parametrize("text", BAD)
def test_bad(ctx, text):
    with pytest.raises(ir.MLIRError):
        ir.Type.parse(text)
