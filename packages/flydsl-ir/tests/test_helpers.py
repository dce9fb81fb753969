"""Helper functions on values, DLPack tensors and LLVM options."""

import ctypes

import numpy as np
import pytest

from flydsl._mlir import ir
from flydsl._mlir.dialects import arith, fly


def int_tuple(value):
    ty, leaves = fly.infer_int_tuple_type(value)
    return fly.make_int_tuple(ty, leaves)


def test_rank_and_depth(module):
    shape = int_tuple((4, (2, 3)))
    layout = fly.make_layout(shape, shape)
    tensor = fly.make_view(int_tuple(0), layout)
    for value in (shape, layout, tensor):
        assert (fly.rank(value), fly.depth(value)) == (2, 2)
    with pytest.raises(ValueError, match="f32"):
        fly.rank(arith.constant(ir.F32Type.get(), 1.0))
    with pytest.raises(TypeError):
        fly.rank(3)


def test_has_none(module):
    with_none = fly.static(fly.IntTupleType.get((4, (None, 3))))
    assert fly.has_none(with_none) and not fly.has_none(int_tuple((4, 0)))
    with pytest.raises(ValueError):
        fly.has_none(arith.constant(ir.F32Type.get(), 1.0))


def test_profiles(module):
    flat, nested = int_tuple((4, 2)), int_tuple((4, (2, 3)))
    assert fly.is_profile_congruent(flat, int_tuple((1, 1)))
    assert not fly.is_profile_congruent(flat, nested)
    assert fly.is_profile_weakly_congruent(flat, nested)
    assert not fly.is_profile_weakly_congruent(nested, flat)
    assert not fly.is_profile_weakly_congruent(int_tuple((1, 1, 1)), flat)
    assert fly.is_profile_congruent(nested, fly.make_layout(nested, nested))


def test_plain_values(ctx):
    """What a walk knows of values is what MLIR's own classes say of them."""
    parsed = ir.Module.parse("""
        func.func @f(%a: !llvm.ptr<1>, %b: !llvm.struct<packed (i32, i64)>, %c: i32) -> i32 {
          %x = llvm.extractvalue %b[0] : !llvm.struct<packed (i32, i64)>
          %y, %carry = arith.addui_extended %x, %c : i32, i1
          return %y : i32
        }""")

    keys = {}  # of values by MLIR's own

    def of(values):
        return [(keys.get(value), str(value.type)) for value in values]

    (function,) = parsed.body.operations
    block = function.regions[0].blocks[0]
    for plain, own in ((fly.plain_arguments(block), block.arguments),
                       *((fly.plain_results(op), op.results) for op in block.operations)):
        keys |= zip(own, (key for key, _ in plain), strict=True)
        assert plain == of(own)
    assert len(set(keys.values())) == len(keys) == 6
    for op in block.operations:
        assert fly.plain_operands(op) == fly.plain_operands(op.operation) == of(op.operands)
    for bad in (None, 3, block):
        with pytest.raises(TypeError):
            fly.plain_operands(bad)


def test_plain_operations(ctx):
    """Operations from a place of a block on, and those of some names at any depth, are what walks of MLIR's find."""
    parsed = ir.Module.parse("""
        func.func @f(%a: i32, %c: i1) -> i32 {
          %x = arith.addi %a, %a : i32
          scf.if %c {
            %y = arith.muli %a, %x : i32
            scf.if %c {
              %z = arith.addi %y, %x : i32
            }
          }
          return %x : i32
        }""")
    (function,) = parsed.body.operations
    block = function.regions[0].blocks[0]
    own = [op.operation for op in block.operations]
    for start in range(5):
        found = fly.plain_operations(block, start)
        assert found == own[start:] and {type(op) for op in found} <= {ir.Operation}
    assert fly.plain_operations(block) == own
    names = [op.name for op in fly.operations_named(parsed.operation, ("arith.addi", "scf.if"))]
    assert names == ["arith.addi", "scf.if", "scf.if", "arith.addi"]
    assert fly.operations_named(function, ["func.func"]) == [] == fly.operations_named(function, [])
    with pytest.raises(ValueError, match="start must not be negative, got -1"):
        fly.plain_operations(block, -1)
    for bad in (None, 3, function):
        with pytest.raises(TypeError):
            fly.plain_operations(bad)


def test_basis():
    basis = fly._Basis(3, (0, 1))
    assert (basis.value, basis.modes, repr(basis)) == (3, [0, 1], "_Basis(3, [0, 1])")


def test_llvm_options():
    before = fly.set_llvm_option_bool("print-after-all", False)
    assert fly.set_llvm_option_bool("print-after-all", before) is False
    # An option that is unset until somebody says yes or no.
    assert fly.set_llvm_option_bool("lsr-drop-solution", True) is None
    assert fly.set_llvm_option_bool("lsr-drop-solution", None) is True
    assert fly.set_llvm_option_bool("lsr-drop-solution", False) is None
    assert fly.set_llvm_option_bool("lsr-drop-solution", None) is False
    with pytest.raises(RuntimeError, match="print-after-all"):
        fly.set_llvm_option_bool("print-after-all", None)
    before = fly.set_llvm_option_int("inline-threshold", 7)
    assert fly.set_llvm_option_int("inline-threshold", before) == 7
    with pytest.raises(RuntimeError, match="no-such-option"):
        fly.set_llvm_option_bool("no-such-option", True)
    with pytest.raises(RuntimeError, match="inline-threshold"):
        fly.set_llvm_option_bool("inline-threshold", True)
    with pytest.raises(RuntimeError):
        fly.set_llvm_option_int("inline-threshold", 1 << 40)
    with pytest.raises(RuntimeError):
        fly.set_llvm_option_str("inline-threshold", "7")


# DLPack ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "text"), [("float32", "f32"), ("float16", "f16"), ("int8", "i8"), ("uint16", "i16"), ("bool", "i1")]
)
def test_dltensor_dtype(ctx, dtype, text):
    assert str(fly.DLTensorAdaptor(np.zeros((2, 3), dtype).__dlpack__()).dtype) == text


def test_dltensor(ctx):
    array = np.zeros((4, 6), np.float32)[::2, 1:]
    tensor = fly.DLTensorAdaptor(array.__dlpack__())
    assert (tensor.shape, tensor.stride) == ((2, 5), (12, 1))
    assert tensor.data_ptr == array.ctypes.data
    assert (tensor.address_space, tensor.dtype_id, tensor.element_bits) == (0, (2, 32, 1), 32)
    assert tensor.size_in_bytes() == 40
    assert str(fly.DLTensorAdaptor(np.zeros(2, np.complex64).__dlpack__()).dtype) == "complex<f32>"


def test_dltensor_errors():
    with pytest.raises(ValueError, match="rank 0"):
        fly.DLTensorAdaptor(np.array(1, np.float32).__dlpack__())
    capsule = np.zeros(3).__dlpack__()
    fly.DLTensorAdaptor(capsule)
    with pytest.raises(ValueError, match="dltensor"):
        fly.DLTensorAdaptor(capsule)
    with pytest.raises(ValueError):
        fly.DLTensorAdaptor(3)


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


@pytest.fixture
def make_tensor():
    """Builds tensors on devices and of types that NumPy does not have."""
    alive = []
    new_capsule = ctypes.pythonapi.PyCapsule_New
    new_capsule.restype = ctypes.py_object
    new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

    def make(device_type, code, bits, lanes=1, shape=(2, 3), byte_offset=0, **fields):
        extents = (ctypes.c_int64 * len(shape))(*shape) if shape else None
        dtype = (code, bits, lanes)
        tensor = _DLTensor(0x1000, device_type, 0, len(shape or (2, 3)), *dtype, extents, None, byte_offset, None, None)
        for name, value in fields.items():
            setattr(tensor, name, value)
        alive.append((extents, tensor))
        return fly.DLTensorAdaptor(new_capsule(ctypes.addressof(tensor), b"dltensor", None))

    return make


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"ndim": 1000}, "rank 1 to 32, got rank 1000"),
        ({"ndim": -3}, "rank 1 to 32, got rank -3"),
        ({"ndim": 2**31 - 1}, "rank 1 to 32, got rank 2147483647"),
        ({"shape": None}, "no shape"),
        ({"shape": (2, -3)}, r"dimension 1 is negative \(-3\)"),
        ({"shape": (2**40, 2**40)}, "larger than the address space"),
    ],
)
def test_dltensor_of_producers_that_lie(make_tensor, fields, text):
    with pytest.raises(ValueError, match=text):
        make_tensor(1, 2, 32, **fields)


@pytest.mark.parametrize(("device", "space"), [(1, 0), (2, 1), (3, 1), (10, 1), (11, 1), (13, 1)])
def test_dltensor_device(make_tensor, device, space):
    tensor = make_tensor(device, 2, 32, byte_offset=16)
    assert (tensor.address_space, tensor.stride, tensor.data_ptr) == (space, (3, 1), 0x1010)


@pytest.mark.parametrize(
    ("code", "bits", "lanes", "text"),
    [
        (4, 16, 1, "bf16"),
        (8, 8, 1, "f8E4M3"),
        (10, 8, 1, "f8E4M3FN"),
        (11, 8, 1, "f8E4M3FNUZ"),
        (12, 8, 1, "f8E5M2"),
        (13, 8, 1, "f8E5M2FNUZ"),
        (17, 4, 2, "vector<2xf4E2M1FN>"),
        (5, 128, 1, "complex<f64>"),
    ],
)
def test_dltensor_extended_dtype(ctx, make_tensor, code, bits, lanes, text):
    tensor = make_tensor(10, code, bits, lanes)
    assert (str(tensor.dtype), tensor.element_bits) == (text, bits * lanes)


def test_dltensor_unknown_dtype(ctx, make_tensor):
    with pytest.raises(ValueError, match="type code"):
        _ = make_tensor(1, 3, 64).dtype
