"""Type classes of the fly dialect: construction, properties, text."""

import pytest

from flydsl._mlir import ir
from flydsl._mlir.dialects import arith, fly
from flydsl._mlir.dialects.fly import (
    ComposedLayoutType,
    CoordSwizzleType,
    CoordTensorType,
    CopyAtomType,
    CopyOpUniversalAtomicType,
    CopyOpUniversalCopyType,
    IntTupleType,
    LayoutType,
    MemRefType,
    MmaAtomType,
    MmaOpUniversalFMAType,
    PointerType,
    SwizzleType,
    TileType,
)


def f16():
    return ir.F16Type.get()


def f32():
    return ir.F32Type.get()


def parse(text):
    return ir.Type.parse(text)


TC1 = (
    "!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<64>, 16>, !fly.layout<((4,6),4):((24,1),6)>, !fly.tile<[6|16]>>"
)
TM1 = "!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(4,2,1):(2,1,0)>>"


def test_int_tuple(ctx):
    ty = IntTupleType.get((4, (None, 7)))
    assert str(ty) == "!fly.int_tuple<(4,(*,7))>"
    assert (ty.rank, ty.depth, ty.is_leaf, ty.is_static) == (2, 2, False, True)
    assert str(ty.at(1)) == "!fly.int_tuple<(*,7)>"
    assert ty.at(0).is_leaf_int and ty.at(0).get_static_leaf_int == 4
    assert IntTupleType.get(True).get_static_leaf_int == 1
    assert IntTupleType.get((5,)) != IntTupleType.get(5)


def test_int_tuple_leaf_is_its_own_mode(ctx):
    leaf = IntTupleType.get(4)
    assert leaf.is_leaf and leaf.rank == 1 and leaf.depth == 0
    assert leaf.at(0) == leaf
    for index in (1, -1):
        with pytest.raises(ValueError, match="out of range"):
            leaf.at(index)


def test_int_tuple_with_values(module):
    i32 = arith.constant(ir.IntegerType.get_signless(32), 3)
    i64 = arith.constant(ir.IntegerType.get_signless(64), 3)
    ty, leaves = fly.infer_int_tuple_type((i64, (2, i32), fly._Basis(i32, [0, 1])))
    assert str(ty) == "!fly.int_tuple<(?{i64},(2,?),?E0E1)>"
    assert leaves == [i64, i32, i32]
    assert not ty.is_static and IntTupleType.get((i64, 2)) == parse("!fly.int_tuple<(?{i64},2)>")
    with pytest.raises(ValueError, match="not a static integer leaf"):
        _ = ty.at(0).get_static_leaf_int


def test_basis(ctx):
    ty, leaves = fly.infer_int_tuple_type((4, fly._Basis(3, [1])))
    assert (str(ty), leaves) == ("!fly.int_tuple<(4,3E1)>", [])
    assert ty.at(1).is_leaf_basis and not ty.at(1).is_leaf_int
    basis = ty.at(1).get_leaf_as_basis
    assert isinstance(basis, fly.BasisType)
    assert (basis.value, basis.modes, basis.is_static) == (3, [1], True)
    with pytest.raises(ValueError):
        _ = ty.at(0).get_leaf_as_basis


@pytest.mark.parametrize(
    "bad",
    [[4, 8], None, (), (4, ()), 1.5, "4", (4, [8]), 1 << 31, (1, -(1 << 31) - 1), {4: 8}, range(3)],
    ids=repr,
)
def test_int_tuple_errors(ctx, bad):
    with pytest.raises(ValueError):
        IntTupleType.get(bad)
    with pytest.raises(ValueError):
        fly.infer_int_tuple_type(bad)


def test_int_tuple_of_a_wrong_value(module):
    value = arith.constant(ir.IntegerType.get_signless(16), 3)
    with pytest.raises(ValueError, match="i16"):
        IntTupleType.get((value, 2))


def test_int_tuple_nested_too_deep(ctx):
    deep = 1
    for _ in range(100000):
        deep = (deep,)
    with pytest.raises(RecursionError):
        IntTupleType.get(deep)


@pytest.mark.parametrize(
    "args", [(1, []), (1, [-1]), (1, [True]), (1, ["0"]), ("1", [0]), (1, 0), (None, [0]), (1 << 40, [0])], ids=repr
)
def test_basis_errors(ctx, args):
    with pytest.raises(ValueError):
        fly._Basis(*args)


def test_layout(ctx):
    ty = LayoutType.get((4, 8), (8, 1))
    assert str(ty) == "!fly.layout<(4,8):(8,1)>"
    assert (ty.rank, ty.depth, ty.is_leaf, ty.is_static) == (2, 1, False, True)
    assert isinstance(ty.shape, IntTupleType) and str(ty.shape) == "!fly.int_tuple<(4,8)>"
    assert LayoutType.get(ty.shape, ty.stride) == ty
    assert str(LayoutType.get(4, None)) == "!fly.layout<4:*>"
    dynamic = parse("!fly.layout<(4,8):(?,1)>")
    assert (dynamic.is_static, dynamic.is_static_shape, dynamic.is_static_stride) == (False, True, False)
    with pytest.raises(ValueError, match="expected an int tuple"):
        LayoutType.get(ty, 1)


@pytest.mark.parametrize("shape,stride", [((4, 2), (1,)), ((4, 2), 1), (4, (1, 2)), ((4, 2), (1, (2,)))])
def test_a_layout_has_one_profile(ctx, shape, stride):
    with pytest.raises(ValueError, match="differ in their profiles: every extent needs one stride"):
        LayoutType.get(shape, stride)


def test_tile(ctx):
    ty = TileType.get([4, None, (2, 3), LayoutType.get((2, 2), (1, 4))])
    assert str(ty) == "!fly.tile<[4|*|[2|3]|(2,2):(1,4)]>"
    assert (ty.rank, ty.is_leaf) == (4, False)
    assert [type(ty.at(i)) for i in range(4)] == [IntTupleType, IntTupleType, TileType, LayoutType]
    for index in (4, -1):
        with pytest.raises(ValueError, match="out of range"):
            ty.at(index)


def test_leaf_tile(ctx):
    assert str(TileType.get(4)) == "!fly.tile<4>" and TileType.get(4).is_leaf
    nested = TileType.get((2, 3))
    assert str(nested) == "!fly.tile<[2|3]>"
    assert nested.is_leaf and nested.rank == 1 and nested != parse("!fly.tile<[2|3]>")


@pytest.mark.parametrize("bad", [[], "4", 1.5, [fly], [1 << 33]], ids=repr)
def test_tile_errors(ctx, bad):
    with pytest.raises(ValueError):
        TileType.get(bad)


def test_swizzle(ctx):
    ty = SwizzleType.get(3, 4, 3)
    assert str(ty) == "!fly.swizzle<S<3,4,3>>" and (ty.mask, ty.base, ty.shift) == (3, 4, 3)
    with pytest.raises(ValueError):
        SwizzleType.get(-1, 4, 3)
    coord = CoordSwizzleType.get(2, 1, [], 0, [1, 0])
    assert str(coord) == "!fly.coord_swizzle<CS<2,1,[],0,[1, 0]>>"
    assert (coord.mask, coord.base_row, coord.mode_row, coord.base_col, coord.mode_col) == (2, 1, [], 0, [1, 0])


def test_composed_layout(ctx):
    ty = ComposedLayoutType.get(SwizzleType.get(3, 4, 3), 0, LayoutType.get((8, 64), (64, 1)))
    assert str(ty) == "!fly.composed_layout<S<3,4,3> o 0 o (8,64):(64,1)>"
    assert [type(part) for part in (ty.inner, ty.offset, ty.outer)] == [SwizzleType, IntTupleType, LayoutType]
    assert (ty.rank, ty.depth, ty.is_leaf, ty.is_static) == (2, 1, False, True)
    assert ty.is_static_inner and ty.is_static_offset and ty.is_static_outer
    assert ComposedLayoutType.get(ty, ty.offset, ty.outer).inner == ty
    for inner, outer in ((f32(), ty.outer), (ty.inner, ty.inner)):
        with pytest.raises(ValueError):
            ComposedLayoutType.get(inner, 0, outer)


def test_pointer(ctx):
    assert str(PointerType.get(f16())) == "!fly.ptr<f16, global>"
    ty = PointerType.get(f16(), 2, 16)
    assert str(ty) == "!fly.ptr<f16, shared, align<16>>"
    assert PointerType.get(f16(), fly.AddressSpace.Shared, alignment=16) == ty
    assert PointerType.get(f16(), ty.address_space, 16) == ty
    assert (ty.element_type, ty.alignment, ty.swizzle) == (f16(), 16, SwizzleType.get(0, 0, 0))
    assert ty.address_space.value == fly.AddressSpace.Shared
    assert str(PointerType.get(f16(), ir.Attribute.parse("#fly_rocdl.buffer_desc"))) == (
        "!fly.ptr<f16, #fly_rocdl.buffer_desc>"
    )


@pytest.mark.parametrize("args", [(2, 3), (2, 0), (2, -2), (4,), (-1,), ("shared",), (1 << 40,)], ids=repr)
def test_pointer_errors(ctx, args):
    with pytest.raises(ValueError):
        PointerType.get(f16(), *args)


def test_pointer_to_what_has_no_size(ctx):
    with pytest.raises(ValueError, match="integer or"):
        PointerType.get(LayoutType.get(1, 1))


def test_memref(ctx):
    ty = MemRefType.get(f16(), LayoutType.get((4, 8), (8, 1)))
    assert str(ty) == "!fly.memref<f16, register, (4,8):(8,1)>"
    assert (ty.element_type, ty.layout, ty.alignment) == (f16(), LayoutType.get((4, 8), (8, 1)), 2)
    composed = ComposedLayoutType.get(SwizzleType.get(3, 3, 3), 0, LayoutType.get(64, 1))
    swizzled = MemRefType.get(f16(), composed, 2, 16)
    assert str(swizzled) == "!fly.memref<f16, shared, S<3,3,3> o 0 o 64:1, align<16>>"
    assert swizzled.layout == composed
    with pytest.raises(ValueError):
        _ = swizzled.leading_dim
    for args in ((f16(), f32()), (f16(), ty.layout, 7), (f16(), ty.layout, 1, 3), (composed, ty.layout)):
        with pytest.raises(ValueError):
            MemRefType.get(*args)


def test_memref_from_encoded_lists(ctx):
    assert str(MemRefType.get(f32(), [-4, 16], [-16, 1], False, 16)) == (
        "!fly.memref<f32, global, (?{div=4},16):(?{i64 div=16},1), align<16>>"
    )
    assert str(MemRefType.get(f32(), [-1], [-1], True, 4)) == "!fly.memref<f32, global, ?:?>"
    for shape, stride, alignment in (([], [], 4), ([1], [1, 2], 4), ([1 << 40], [1], 4), ([1], [1], 3)):
        with pytest.raises(ValueError):
            MemRefType.get(f32(), shape, stride, True, alignment)


@pytest.mark.parametrize(
    ("shape", "stride", "expected"),
    [(((2, 3), 4), ((12, 1), 3), (0, 1)), ((4, 8), (8, 1), 1), (7, 1, 0), ((4, 8), (16, 2), None), (4, 2, None)],
)
def test_leading_dim(ctx, shape, stride, expected):
    assert MemRefType.get(f32(), LayoutType.get(shape, stride)).leading_dim == expected


def test_any_basis_is_a_leaf(ctx):
    class Basis:
        def __init__(self, value, modes):
            self.value, self.modes = value, modes

    assert str(LayoutType.get((4, 8), (Basis(2, [0]), Basis(1, [1, 0])))) == "!fly.layout<(4,8):(2E0,1E1E0)>"
    for wrong in (Basis("a", [0]), Basis(1, []), Basis(1, [-1]), Basis(1, 3), Basis(2**31, [0])):
        with pytest.raises(ValueError):
            IntTupleType.get((wrong, 1))


def test_coord_tensor(ctx):
    layout = LayoutType.get((4, 8), (fly._Basis(1, [0]), fly._Basis(1, [1])))
    ty = CoordTensorType.get((0, 0), layout)
    assert str(ty) == "!fly.coord_tensor<(0,0), (4,8):(1E0,1E1)>"
    assert (ty.base, ty.layout, ty.rank, ty.depth, ty.is_leaf, ty.is_static) == (
        IntTupleType.get((0, 0)),
        layout,
        2,
        1,
        False,
        True,
    )
    with pytest.raises(ValueError):
        CoordTensorType.get(0, f32())


def test_copy_atom(ctx):
    op = CopyOpUniversalCopyType.get(64)
    atom = CopyAtomType.get(op, 16)
    assert str(atom) == "!fly.copy_atom<!fly.universal_copy<64>, 16>"
    assert (atom.copy_op, atom.val_bits, atom.is_static) == (op, 16, True)
    assert str(atom.thr_layout) == "!fly.layout<1:1>"
    for layout in (atom.tv_layout_src, atom.tv_layout_dst, atom.tv_layout_ref):
        assert str(layout) == "!fly.layout<(1,4):(1,1)>"
    for args in ((f32(), 16), (op, 0), (op, -1)):
        with pytest.raises(ValueError):
            CopyAtomType.get(*args)


def test_mma_atom(ctx):
    op = MmaOpUniversalFMAType.get(f32())
    atom = MmaAtomType.get(op)
    assert str(atom) == "!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>"
    assert (atom.mma_op, op.elem_ty) == (op, f32())
    assert str(atom.shape_mnk) == "!fly.int_tuple<(1,1,1)>"
    assert str(atom.thr_layout) == "!fly.layout<1:1>"
    for layout in (atom.tv_layout_a, atom.tv_layout_b, atom.tv_layout_c):
        assert str(layout) == "!fly.layout<(1,1):(1,1)>"
    with pytest.raises(ValueError):
        MmaAtomType.get(f32())


def test_universal_atomic(ctx):
    assert str(CopyOpUniversalAtomicType.get(1, f32())) == "!fly.universal_atomic<max, f32>"
    scoped = CopyOpUniversalAtomicType.get(fly.AtomicOp.Add, f32(), "agent")
    assert str(scoped) == '!fly.universal_atomic<add, f32, "agent">'
    for args in ((99, f32()), (0, LayoutType.get(1, 1))):
        with pytest.raises(ValueError):
            CopyOpUniversalAtomicType.get(*args)


@pytest.mark.parametrize("bits", [0, -8])
def test_universal_copy_errors(ctx, bits):
    with pytest.raises(ValueError):
        CopyOpUniversalCopyType.get(bits)


def test_tiled_copy(ctx):
    ty = parse(TC1)
    assert (str(ty.copy_atom), str(ty.tile_mn)) == ("!fly.copy_atom<!fly.universal_copy<64>, 16>", "!fly.tile<[6|16]>")
    assert str(ty.layout_thr_val) == "!fly.layout<((4,6),4):((24,1),6)>"
    assert str(ty.tiled_tv_layout_src) == "!fly.layout<((4,6),(4,1)):((24,1),(6,0))>"
    assert str(ty.tiled_tv_layout_dst) == "!fly.layout<((4,6),(4,1)):((24,1),(6,0))>"


def test_tiled_mma(ctx):
    ty = parse(TM1)
    assert str(ty.permutation) == "!fly.tile<[*|*|*]>"
    assert str(ty.atom_layout) == "!fly.layout<(4,2,1):(2,1,0)>"
    assert isinstance(ty.mma_atom, MmaAtomType)
    assert str(ty.thr_layout_vmnk) == "!fly.layout<(1,4,2,1):(0,2,1,0)>"
    assert str(ty.tile_size_mnk) == "!fly.int_tuple<(4,2,1)>"
    assert str(ty.tiled_tv_layout_a) == "!fly.layout<((2,4),(1,(1,1))):((0,1),(0,(0,0)))>"
    assert str(ty.tiled_tv_layout_b) == "!fly.layout<((2,4),(1,(1,1))):((1,0),(0,(0,0)))>"
    assert str(ty.tiled_tv_layout_c) == "!fly.layout<((2,4),(1,(1,1))):((4,1),(0,(0,0)))>"


def test_classes_know_their_types(ctx):
    ty = parse("!fly.layout<4:1>")
    assert type(ty) is LayoutType
    assert LayoutType.isinstance(ty) and not LayoutType.isinstance(f32())
    assert ty.typeid == LayoutType.static_typeid
    assert LayoutType(ty) == ty
    with pytest.raises(ValueError):
        IntTupleType(ty)


def test_values_have_the_classes(module):
    shape = fly.make_int_tuple(IntTupleType.get((4, 8)), [])
    layout = fly.make_layout(shape, shape)
    assert type(shape.type) is IntTupleType and type(layout.type) is LayoutType


def test_constructors_need_a_context():
    with pytest.raises(RuntimeError, match="[Cc]ontext"):
        IntTupleType.get(4)


def test_explicit_context():
    context = ir.Context()
    assert str(IntTupleType.get((1, 2), context=context)) == "!fly.int_tuple<(1,2)>"
    assert str(PointerType.get(ir.F32Type.get(context))) == "!fly.ptr<f32, global>"
    with pytest.raises(TypeError):
        SwizzleType.get(1, 2, 3, context)


def test_contexts_do_not_mix(ctx):
    other = ir.Context()
    shape = IntTupleType.get(4, context=other)
    for call in (
        lambda: LayoutType.get(shape, IntTupleType.get(1)),
        lambda: PointerType.get(ir.F32Type.get(other), fly.AddressSpaceAttr.get(1)),
        lambda: TileType.get([LayoutType.get(4, 1, context=other)]),
        lambda: IntTupleType.get(4, context=other) and PointerType.get(f32(), context=other),
    ):
        with pytest.raises(ValueError, match="context"):
            call()
