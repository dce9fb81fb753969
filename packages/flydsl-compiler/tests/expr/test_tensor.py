"""Pointers, tensors, register fragments, shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import flydsl.expr as fx
from flydsl.tracing.ambient import tracing_context

pytestmark = pytest.mark.l1a_compile_no_target_dialect


def pointer(trace: Any, cls: Any, space: Any = None, align: int | None = None) -> Any:
    return trace.arg(fx.PointerType.get(cls.ir_type, space, align))


def tensor(trace: Any, cls: Any, shape: Any, stride: Any, space: Any = None) -> Any:
    space = fx.AddressSpace.Global if space is None else space
    return trace.arg(fx.MemRefType.get(cls.ir_type, fx.LayoutType.get(shape, stride), space))


def test_pointer(trace: Any) -> None:
    p = pointer(trace, fx.Float32, align=16)
    n = trace.arg(fx.Int32)
    assert str(p) == "Pointer<f32, global, align<16>>" and p.dtype is fx.Float32
    assert p.address_space == fx.AddressSpace.Global and p.alignment == 16
    assert [(p + k).alignment for k in (1, 4)] == [4, 16] and (p + n).alignment == 4
    assert type(p[n]) is fx.Float32 and (p - 4).alignment == 16
    p[3] = 1
    (p + 1).store(fx.Float32(2.0))
    with pytest.raises(ValueError, match="store"):
        p.store(n)
    assert fx.ptr_load(pointer(trace, fx.Uint8, align=4), fx.Uint8).dtype is fx.Uint8
    assert fx.ptr_load(p, fx.Float32x4).shape == (4,)
    assert str(fx.recast_iter(fx.Int32, p)) == "Pointer<i32, global, align<16>>"
    with pytest.raises(ValueError):
        fx.recast_iter(fx.Float64, p + 1)
    with pytest.raises(TypeError):
        fx.recast_iter(int, p)
    assert type(fx.ptrtoint(p)) is fx.Int64
    assert type(fx.ptrtoint(pointer(trace, fx.Int8, fx.AddressSpace.Shared))) is fx.Int32
    with pytest.raises(ValueError):
        fx.ptrtoint(pointer(trace, fx.Int8, fx.AddressSpace.Register))
    assert str(p.llvm_ptr.type) == "!llvm.ptr<1>"
    assert p.view(fx.make_layout(8, 1)).shape.unpack() == 8
    assert str(fx.get_dyn_shared(fx.Float16)) == "Pointer<f16, shared, align<1024>>"


def test_tensor_access(trace: Any) -> None:
    t = tensor(trace, fx.Float32, (4, (2, 8)), (16, (8, 1)))
    n = trace.arg(fx.Int32)
    assert str(t) == "Tensor<f32, global, (4,(2,8)):(16,(8,1))>"
    assert t.dtype is fx.Float32 and t.address_space == fx.AddressSpace.Global and t.leading_dim == (1, 1)
    for index in (n, (1, 2), (n, (0, n)), fx.make_coord(1, 2), 5):
        assert type(t[index]) is fx.Float32
    assert str(t[None, 3].shape) == "IntTuple<(4)>" or t[None, 3].shape.unpack() in (4, (4,))
    assert t[(None, 0)[1], (None, 1)].rank >= 1
    t[1, 2] = 3
    t[n] = fx.Float32(1.0)
    fx.memref_store(1, t, 0)
    with pytest.raises(ValueError, match="store"):
        t[0] = n
    with pytest.raises(ValueError, match="rank 2"):
        t[0, 0, 0]
    with pytest.raises(ValueError):
        t[None]
    with pytest.raises(TypeError, match="slices"):
        t[0:2, 0]


def test_fragments(trace: Any) -> None:
    t = tensor(trace, fx.Float16, (4, 8), (8, 1))
    r = fx.make_fragment_like(t)
    assert r.address_space == fx.AddressSpace.Register and r.dtype is fx.Float16
    assert fx.make_fragment_like(t, fx.Boolean).dtype is fx.Boolean
    r.fill(0.0)
    v = r.load()
    assert v.shape == (4, 8) and v.dtype is fx.Float16
    r.store(v + v)
    for bad in (v.to(fx.Float32), fx.full(8, 0, fx.Float16), 1.0):
        with pytest.raises((ValueError, AttributeError)):
            r.store(bad)
    m = fx.make_rmem_tensor(4, fx.Float32)
    assert str(m) == "Tensor<f32, register, 4:1>"
    assert str(fx.make_rmem_tensor((2, 3), fx.Float32)) == "Tensor<f32, register, (2,3):(1,2)>"
    with pytest.raises(TypeError):
        fx.make_rmem_tensor(4, "f32")
    with pytest.raises(ValueError, match="dtype"):
        fx.make_fragment_like(fx.make_layout(4, 1))
    dynamic = trace.arg(fx.MemRefType.get(fx.T.f32, [-1, 4], [4, 1], False, 4))
    with pytest.raises(ValueError, match="static shape"):
        fx.make_fragment_like(dynamic)
    with pytest.raises(ValueError, match="static shape"):
        dynamic.load()


def test_older_spelling(trace: Any) -> None:
    reg_ty = fx.MemRefType.get(fx.T.f32, fx.LayoutType.get(4, 1), fx.AddressSpace.Register)
    r = fx.memref_alloca(reg_ty, fx.make_layout(4, 1))
    w = fx.arith.mulf(fx.memref_load_vec(r), fx.memref_load_vec(r))
    assert isinstance(w, fx.Vector)
    fx.memref_store_vec(w, r)
    with pytest.raises(ValueError):
        fx.memref_alloca(reg_ty, fx.make_layout(8, 1))


def test_coordinate_tensor(trace: Any) -> None:
    c = fx.make_view((0, 0), fx.make_identity_layout((100, 1000)))
    assert c[3, 5].unpack() == (3, 5)
    tile = fx.flat_divide(c, (8, 16))[None, None, 1, trace.arg(fx.Int32)]
    assert tile.rank == 2
    row, column = tile[2, 3].unpack()
    assert row == 10 and type(column) is fx.Int32
    with pytest.raises(TypeError):
        _ = c.dtype


@pytest.fixture
def kernel_body() -> Iterator[None]:
    with tracing_context(known_block_size=None):
        yield


@fx.struct
class Smem:
    a: fx.Array[fx.Float16, 64, 16]
    n: fx.Int32


def test_static_shared(trace: Any, kernel_body: None) -> None:
    allocator = fx.SharedAllocator()
    storage = allocator.allocate(Smem)
    view = storage.peek().a.view(fx.make_layout((8, 8), (8, 1)))
    assert view.address_space == fx.AddressSpace.Shared and view.alignment == 16
    storage.n.poke(3)
    assert type(storage.n.peek()) is fx.Int32
    assert allocator.allocated_bytes == 144
    assert "allocBytes = 128" in trace.text() and "allocAlign = 16" in trace.text()
    with pytest.raises(RuntimeError, match="no shared base pointer"):
        _ = allocator.base_ptr
    with pytest.raises(RuntimeError, match="Only one SharedAllocator"):
        fx.SharedAllocator()
    with pytest.raises(AttributeError):
        _ = storage.missing


def test_dynamic_shared(trace: Any, kernel_body: None) -> None:
    allocator = fx.SharedAllocator(static=False)
    storage = allocator.allocate(Smem, alignment=128)
    array = storage.peek().a
    array[3] = 1.0
    assert type(array[trace.arg(fx.Int32)]) is fx.Float16
    assert allocator.allocate(100).peek().size == 100
    assert allocator.allocated_bytes == 244 and not allocator.is_static
    assert trace.text().count("fly.get_dyn_shared") == 1


def test_union_storage(trace: Any, kernel_body: None) -> None:
    either = fx.Union["a" : fx.Array[fx.Float32, 4], "b" : fx.Array[fx.Int8, 24]]
    storage = fx.SharedAllocator().allocate(either)
    assert storage.a.peek()[0].dtype is fx.Float32 and storage.b.peek().size == 24
    with pytest.raises(NotImplementedError):
        storage.peek()
