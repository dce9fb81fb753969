"""Op builders of the fly dialect: names, argument order, inferred results, enums."""

import pytest

from flydsl._mlir import ir
from flydsl._mlir.dialects import arith, fly
from flydsl._mlir.dialects.fly import IntTupleType, LayoutType, MemRefType, PointerType, TileType


def int_tuple(value):
    ty, leaves = fly.infer_int_tuple_type(value)
    return fly.make_int_tuple(ty, leaves)


def layout(shape, stride):
    return fly.make_layout(int_tuple(shape), int_tuple(stride))


def alloca(shape, stride, elem=None):
    value = layout(shape, stride)
    return fly.memref_alloca(MemRefType.get(elem or ir.F32Type.get(), value.type), value)


def test_results_are_inferred(module):
    assert str(layout((4, 8), (8, 1)).type) == "!fly.layout<(4,8):(8,1)>"
    assert str(fly.size(layout((4, 8), (8, 1))).type) == "!fly.int_tuple<32>"
    divided = fly.logical_divide(layout(40, 1), fly.static(TileType.get([8])))
    assert isinstance(divided.type, LayoutType)
    assert module.operation.verify()


def test_dynamic_leaves(module):
    n = arith.constant(ir.IntegerType.get_signless(32), 5)
    shape = int_tuple((n, 8))
    assert str(shape.type) == "!fly.int_tuple<(?,8)>"
    assert list(shape.owner.operands) == [n]


def test_wrong_result_is_an_error(module):
    fly.size(layout((4, 8), (8, 1)), results=[IntTupleType.get(33)])
    with pytest.raises(ir.MLIRError, match="int_tuple<32>"):
        module.operation.verify()


def test_failed_inference_is_an_error(module):
    with pytest.raises(Exception, match="."):
        fly.get(layout((4, 8), (8, 1)), [7])


def test_attributes_come_in_ods_order(module):
    recast = fly.recast_layout(16, 32, layout((4, 8), (8, 1)))
    assert str(recast.type) == "!fly.layout<(4,16):(16,1)>"
    assert str(fly.get(layout((4, (2, 3)), (6, (3, 1))), [1, 0]).type) == "!fly.layout<2:3>"


def test_make_ptr_and_access(module):
    ptr = fly.make_ptr(PointerType.get(ir.F32Type.get(), fly.AddressSpace.Register), [])
    fly.ptr_store(fly.ptr_load(ir.F32Type.get(), ptr), ptr)
    fly.print_("{}", [ptr])
    names = [op.operation.name for op in module.body.operations]
    assert names == ["fly.make_ptr", "fly.ptr.load", "fly.ptr.store", "fly.print"]


def test_make_copy_atom_both_forms(module):
    ty = fly.CopyAtomType.get(fly.CopyOpUniversalCopyType.get(64), 16)
    for atom in (fly.make_copy_atom(ty, 16), fly.make_copy_atom(ty, [], 16), fly.make_copy_atom(ty, val_bits=16),
                 fly.make_copy_atom(ty, args=[], val_bits=16)):
        assert atom.type == ty and atom.owner.attributes["valBits"].value == 16


def test_copy_and_gemm(module):
    copy_atom = fly.make_copy_atom(fly.CopyAtomType.get(fly.CopyOpUniversalCopyType.get(32), 32), 32)
    mma_atom = fly.make_mma_atom(fly.MmaAtomType.get(fly.MmaOpUniversalFMAType.get(ir.F32Type.get())))
    a, b, c = (alloca((1, 2, 2), (0, 1, 2)) for _ in range(3))
    fly.copy(copy_atom, a, b)
    fly.copy(copy_atom, a, b, pred=alloca((1, 2, 2), (0, 1, 2), ir.IntegerType.get_signless(1)))
    single = fly.gemm(mma_atom, c, a, b, c, traversal_order=fly.GemmTraversalOrder.KNM)
    grouped = fly.gemm(mma_atom, c, [a], [b], c)
    assert "#fly<gemm_traversal_order knm>" in str(single)
    assert len(single.operands) == len(grouped.operands) == 5
    fly.mma_atom_call(mma_atom, c, a, b, c)
    assert module.operation.verify()


def test_mma_ssa_form(module):
    f32 = ir.F32Type.get()
    mma_atom = fly.make_mma_atom(fly.MmaAtomType.get(fly.MmaOpUniversalFMAType.get(f32)))
    one = arith.constant(f32, 1.0)
    result = fly.mma_atom_call_ssa([f32], mma_atom, one, one, one)
    assert result.type == f32
    fly.mma_atom_call_ssa([], mma_atom, one, [one], one, d=alloca(1, 1))
    assert module.operation.verify()


def test_enums():
    assert [str(op) for op in fly.AtomicOp] == ["add", "max", "min", "and", "or", "inc", "dec"]
    assert [int(space) for space in fly.AddressSpace] == [0, 1, 2, 3]
    assert str(fly.MmaOperand.D) == "d" and fly.MmaOperand.D == 3
    assert str(fly.GemmTraversalOrder.NMK_Serpentine) == "nmk_serpentine" and fly.GemmTraversalOrder(11)
    assert str(fly.CachePolicy.CacheAlways) == "cache_always"


def test_enum_attributes_parse(ctx):
    for text in ("#fly<mma_operand b>", "#fly<gemm_traversal_order knm>", "#fly<address_space shared>"):
        assert str(ir.Attribute.parse(text)) == text
    space = ir.Attribute.parse("#fly<address_space shared>")
    assert type(space) is fly.AddressSpaceAttr and space == fly.AddressSpaceAttr.get(fly.AddressSpace.Shared)


def test_operand_id(module):
    tiled = fly.make_tiled_mma(
        fly.make_mma_atom(fly.MmaAtomType.get(fly.MmaOpUniversalFMAType.get(ir.F32Type.get()))),
        layout((4, 2, 1), (2, 1, 0)),
    )
    shape = fly.tiled_mma_partition_shape(fly.MmaOperand.A, tiled, int_tuple((8, 6)))
    assert str(shape.type) == "!fly.int_tuple<(1,2,6)>"
    assert str(tiled.type.thr_layout_vmnk) == "!fly.layout<(1,4,2,1):(0,2,1,0)>"
