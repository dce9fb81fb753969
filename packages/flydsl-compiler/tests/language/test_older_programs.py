"""Programs in the style of published kernels: forms that earlier releases took, run on the simulator."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx

T64 = np.arange(64)


def test_vectors_as_struct_fields(run: Any) -> None:
    got = run("""
@fx.struct
class S:
    v: fx.Float32x4
    n: fx.Int32
total = fx.Float32(0.0)
for value in (1.0, [1.0, 2.0, 3.0, 4.0], fx.Vector.filled(4, 3.0, fx.Float32), fx.Float32x4(4.0, dtype=fx.Float32)):
    total = total + S(value, 1).v[3]
    total = total + fx.Struct["v": fx.Float32x4](value).v[0]
pair = fx.Struct[fx.Float32x4, fx.Int32]([9.0, 8.0, 7.0, 6.0], 4)
Y[t] = total + pair._0[2] + pair._1.to(fx.Float32)""")
    np.testing.assert_array_equal(got, np.full(64, 1 + 1 + 4 + 1 + 3 + 3 + 4 + 4 + 7 + 4))


@pytest.mark.parametrize(("value", "text"), [("[1.0, 2.0]", "expected 4 elements, got 2"), ("'x'", "got str"),
                                             ("fx.Vector.filled(2, 1.0, fx.Float32)", "expected 4 lanes")])
def test_values_that_are_no_vector_of_the_field(run: Any, value: str, text: str) -> None:
    with pytest.raises(TypeError, match=f"expects Float32x4.*{text}"):
        run(f"""S = fx.Struct["v": fx.Float32x4]
S({value})""")


def test_field_names_with_an_underscore_are_refused() -> None:
    with pytest.raises(ValueError, match="must not start with an underscore"):
        fx.Struct["_v" : fx.Int32]
    with pytest.raises(ValueError, match="must not start with an underscore"):

        @fx.struct
        class Hidden:
            _v: fx.Int32


@pytest.mark.parametrize("rocdl", ["fx.rocdl", "dialect"])
@pytest.mark.parametrize("aux", ["", ", aux=None", ", None", ", attribute", ", aux=attribute", ", 0", ", zero"])
def test_cache_policy_of_buffer_operations(run: Any, rocdl: str, aux: str) -> None:
    got = run(f"""
resource, target = (fx.buffer_ops.create_buffer_resource(v) for v in (X, Y))
zero, attribute = fx.arith.constant(0, type=fx.T.i32), ir.IntegerAttr.get(fx.T.i32, 0)
offset = (t * 4).ir_value()
value = {rocdl}.RawPtrBufferLoadOp(fx.T.f32, resource, offset, zero{aux}).result
again = {rocdl}.raw_ptr_buffer_load(fx.T.f32, resource, offset, zero{aux})
{rocdl}.RawPtrBufferStoreOp(fx.arith.addf(value, again), target, offset, zero{aux})""",
        prelude="from flydsl._mlir import ir\nfrom flydsl._mlir.dialects import rocdl as dialect")
    np.testing.assert_array_equal(got, 2 * T64)


def test_siblings_whose_immediates_are_attributes_elsewhere(run: Any) -> None:
    """Direct copies to LDS and atomic additions."""
    got = run("""
resource, target = (fx.buffer_ops.create_buffer_resource(v) for v in (X, Y))
zero = fx.arith.constant(0, type=fx.T.i32)
lds = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64, 16]).peek()
size = ir.IntegerAttr.get(fx.T.i32, 4)
fx.rocdl.RawPtrBufferLoadLdsOp(resource, lds.ptr.llvm_ptr, size, t * 4, zero, size, aux=None)
fx.barrier()
Y[t] = 1.0
fx.barrier()
fx.rocdl.RawPtrBufferAtomicFaddOp(fx.Float32(lds[t]).ir_value(), target, t * 4, zero, aux=None)""",
        prelude="from flydsl._mlir import ir", x=np.arange(65, dtype=np.float32),
        y=np.zeros(64, np.float32))
    # The immediate offset of 4 bytes moves both sides: lane 63 wrote beyond the array's first 64 words.
    np.testing.assert_array_equal(got[1:], 1 + np.arange(1, 64))


def test_helpers_of_utils_arith(run: Any) -> None:
    got = run("""
from flydsl.expr.utils.arith import ArithValue, _to_raw, arith_const, current_fastmath
with fx.fastmath("fast"):
    assert "fast" in str(current_fastmath())
assert current_fastmath() is None
a, b = _to_raw(X[t]), _to_raw(2.0)
c = fx.arith.addf(a, b, fastmath=current_fastmath())
d = fx.arith.addf(c, arith_const(3.0), fastmath=current_fastmath())
e = ArithValue(fx.Float32(4.0)) + d
assert str(arith_const(True).type) == "i1" and str(arith_const(2**40).type) == "i64"
assert str(arith_const(1, fx.T.index).type) == "index" and str(arith_const(1, fx.Float16).type) == "f16"
assert ArithValue(fx.Uint32(t)).signed is False
Y[t] = fx.Float32(e)""")
    np.testing.assert_array_equal(got, T64 + 9)


def test_index_values(run: Any) -> None:
    """Constants as bounds of run-time ranges, division, both forms of loops."""
    got = run("""
total = fx.Float32(0.0)
for i in range(fx.Index(0), fx.Index(4), fx.Index(1)):
    total = total + 1.0
for i in range(fx.Index(3)):
    total = total + 1.0
for i, state in range(fx.Index(0), fx.Index(8), fx.Index(2), init=[total]):
    total = yield [fx.Float32(state[0]) + 1.0]
half = fx.Int32(fx.Index(t) / 2)
raw = fx.Int32(fx.Index(t).ir_value() / 4)
static = fx.Index(2**60 + 7) / 2
assert type(static) is fx.Index and static.value == 2**59 + 3
Y[t] = fx.Float32(total) + half.to(fx.Float32) + 100.0 * raw.to(fx.Float32)""")
    np.testing.assert_array_equal(got, 11 + T64 // 2 + 100 * (T64 // 4))


@pytest.mark.parametrize("construct", ["if t < 40:", "for j in range(1):", "while last < t:"])
def test_names_of_an_ended_explicit_loop_may_be_used_again(run: Any, construct: str) -> None:
    """Its body is no function of its own: what a temporary of it held is no value of the code behind it."""
    got = run(f"""
for i, state in range(0, 4, 1, init=[fx.Float32(0.0)]):
    element = X[t] + fx.Float32(fx.Int32(i))
    total = yield [fx.Float32(state[0]) + element]
last = t - 1
{construct}
    element = fx.Float32(total) * 2.0
    last = t
    Y[t] = element""")
    want = 2 * (4.0 * T64 + 6)
    np.testing.assert_array_equal(got, np.where(T64 < 40, want, -77) if construct.startswith("if") else want)


def test_scalar_classes_of_raw_vectors(run: Any) -> None:
    got = run("""
half = fx.Vector.filled(4, 2.5, fx.Float16)
lanes = fx.Float32(half)
assert isinstance(lanes, fx.Vector) and lanes.dtype is fx.Float32 and lanes.shape == (4,)
one = fx.Float32(fx.Vector.filled(1, 1.5, fx.Float16))
whole = fx.Int32(fx.Vector.from_elements([X[t]]))
assert type(one) is fx.Float32 and type(whole) is fx.Int32
Y[t] = lanes[3] + one + whole.to(fx.Float32)""")
    np.testing.assert_array_equal(got, T64 + 4)


def test_loads_by_type_class_and_addresses_of_pointers(run: Any) -> None:
    got = run("""
p, space = fx.get_iter(X), ir.Type.parse("!llvm.ptr<1>")
total = fx.ptr_load(p, result_type=fx.Float32x4)[1] + fx.ptr_load(p + 2, result_type=fx.Float32)
total = total + fx.ptr_load(p, result_type=fx.T.vec(4, fx.T.f32))[3]
for source in (p, X):
    address = fly.extract_aligned_pointer_as_index(space, source)
    here = llvm.getelementptr(space, address, [t.ir_value()], [-2**31], fx.T.f32, None)
    total = total + fx.Float32(llvm.load(fx.T.f32, here))
    index = fly.extract_aligned_pointer_as_index(fx.T.index, source)
    total = total + fx.Float32(fx.Int32(fx.Index(index) - fx.buffer_ops.extract_base_index(source)))
Y[t] = total""", prelude="from flydsl._mlir import ir\nfrom flydsl._mlir.dialects import fly, llvm")
    np.testing.assert_array_equal(got, 1 + 2 + 3 + 2 * T64)


def test_types_and_functions_where_kernels_import_them() -> None:
    from flydsl.expr import rocdl
    from flydsl.expr.rocdl import cdna5, universal

    assert universal.make_buffer_ptr is rocdl.make_buffer_ptr and cdna5.WMMAScale is rocdl.WMMAScale
    for name in ("CopyOpCDNA3BufferCopyType", "CopyOpCDNA3BufferCopyLDSType", "CopyOpCDNA3BufferAtomicType",
                 "CopyOpCDNA4LdsReadTransposeType", "CopyOpGFX1250TDMType", "MmaOpCDNA3_MFMAType",
                 "MmaOpCDNA4_MFMAScaleType", "MmaOpGFX1250_WMMAScaleType"):
        assert getattr(rocdl, name) is getattr(universal, name)
    with pytest.raises(AttributeError):
        _ = rocdl.CopyOpNothingType


ADDRESSES = """
from flydsl.expr import buffer_ops

def copy(source, target, t):
    value = buffer_ops.buffer_load(source, t, vec_width=1, dtype=fx.Float32)
    buffer_ops.buffer_store(value, target, t)

@flyc.kernel
def by_address(a: fx.Int64, b: fx.Int64):
    copy(*(buffer_ops.create_buffer_resource_from_addr(p) for p in (a, b)), fx.thread_idx.x)

@flyc.kernel
def beside(X: fx.Tensor, b: fx.Int64):
    copy(buffer_ops.create_buffer_resource(X), buffer_ops.create_buffer_resource_from_addr(b), fx.thread_idx.x)

@flyc.kernel
def pointers(p: fx.Pointer, q: fx.Pointer):
    q[fx.thread_idx.x] = p[fx.thread_idx.x]

@flyc.kernel
def tensor_to_pointer(X: fx.Tensor, q: fx.Pointer):
    q[fx.thread_idx.x] = X[fx.thread_idx.x]

@flyc.jit
def run_addresses(a: fx.Int64, b: fx.Int64):
    by_address(a, b).launch(grid=1, block=64)

@flyc.jit
def run_beside(X: fx.Tensor, b: fx.Int64):
    beside(X, b).launch(grid=1, block=64)

@flyc.jit
def run_pointers(p: fx.Pointer, q: fx.Pointer):
    pointers(p, q).launch(grid=1, block=64)

@flyc.jit
def run_mixed(X: fx.Tensor, q: fx.Pointer):
    tensor_to_pointer(X, q).launch(grid=1, block=64)
"""


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("checks", ["", "oob"])
def test_addresses_of_live_arrays(load: Any, device: None, library: str, checks: str,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """`data_ptr()` as an integer or pointer, alone or beside tensors: reads and writes reach that memory."""
    monkeypatch.setenv("FLYDSL_SIM_CHECK", checks)
    module = load(ADDRESSES)

    def array(values: Any) -> tuple[Any, int, np.ndarray]:
        data = np.array(values, np.float32)
        if library == "numpy":
            return data, data.ctypes.data, data
        torch = pytest.importorskip("torch")
        tensor = torch.from_numpy(data)
        return tensor, tensor.data_ptr(), data

    x, source, content = array(np.random.default_rng(3).random(64))

    def pointer(p: int) -> Any:
        return flyc.from_c_void_p(fx.Float32, p)

    calls = [
        lambda p: module.run_addresses(source, p), lambda p: module.run_beside(x, p),
        lambda p: module.run_pointers(pointer(source), pointer(p)), lambda p: module.run_mixed(x, pointer(p)),
        lambda p: flyc.compile(module.run_pointers, pointer(0), pointer(0))(source, ctypes.c_void_p(p)),
    ]
    for call in calls:
        _, target, result = array(np.full(64, -1))
        call(target)
        np.testing.assert_array_equal(result, content)


def test_writes_beside_the_arrays_are_found_where_no_address_is_passed(load: Any, device: None) -> None:
    from flydsl.runtime import SimulatorError

    module = load("""
@flyc.kernel
def k(X: fx.Tensor, n: fx.Int64):
    X[fx.thread_idx.x] = 1.0
@flyc.jit
def run(X: fx.Tensor, n: fx.Int64):
    k(X, n).launch(grid=1, block=64)
""")
    with pytest.raises(SimulatorError, match="lane 60"):
        module.run(np.zeros(60, np.float32), 1000)
