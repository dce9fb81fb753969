"""Copy and MMA atoms, tiled copies, partitions and the ops that execute them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.expr as fx
from flydsl.tracing.ambient import tracing_context

pytestmark = pytest.mark.l1a_compile_no_target_dialect


def global_tensor(trace: Any, cls: Any, shape: Any, stride: Any) -> Any:
    return trace.arg(fx.MemRefType.get(cls.ir_type, fx.LayoutType.get(shape, stride), fx.AddressSpace.Global))


def dynamic_matrix(trace: Any) -> Any:
    return trace.arg(fx.MemRefType.get(fx.T.f32, [-1, -1], [-1, 1], False, 4))


def test_atoms(trace: Any) -> None:
    atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
    assert atom.type == fx.make_copy_atom(fx.UniversalCopy(128), 32).type
    assert atom.type == fx.make_copy_atom(fx.UniversalCopy(128), fx.T.f32).type
    assert str(atom.layout_src_tv) == "Layout<(1,4):(1,1)>" and atom.val_bits == 32
    with pytest.raises(TypeError):
        fx.make_copy_atom(fx.UniversalCopy128b(), "f32")
    with pytest.raises(ValueError, match="soffset"):
        atom.set_value("soffset", 1)
    fma = fx.make_mma_atom(fx.UniversalFMA(fx.Float32))
    assert fma.shape_mnk.unpack() == (1, 1, 1)
    with pytest.raises(ValueError, match="integer"):
        fx.UniversalAtomicAnd(fx.Float32)


def test_layout_tv(trace: Any) -> None:
    tile, tv = fx.make_layout_tv(fx.make_layout((8, 16), (16, 1)), fx.make_layout((1, 4), (0, 1)))
    assert tile == (8, 64) and str(tv) == "Layout<((16,8),4):((32,1),8)>"
    with pytest.raises(ValueError, match="static"):
        fx.make_layout_tv(fx.make_layout((trace.arg(fx.Int32), 1), (1, 1)), fx.make_layout(1, 1))


def test_tiled_copy(trace: Any) -> None:
    atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
    cp = fx.make_tiled_copy_tv(atom, fx.make_layout((4, 16), (16, 1)), fx.make_layout((1, 4), (4, 1)))
    assert cp.tile_mn.unpack() == (4, 64)
    a = global_tensor(trace, fx.Float32, (64, 128), (128, 1))
    th = cp.get_slice(fx.thread_idx.x)
    src = th.partition_S(fx.slice(fx.zipped_divide(a, cp.tile_mn), (None, fx.block_idx.x)))
    assert str(src.shape) == "IntTuple<((4,1),1,1)>"
    reg = fx.make_fragment_like(src)
    fx.copy(atom, src, reg)
    fx.copy(th, reg, src)
    assert trace.ops()[-1] == "fly.copy"
    ok = fx.make_fragment_like(src[(0, None), None, None], fx.Boolean)
    fx.copy(atom, src, reg, pred=ok)
    with pytest.raises(ValueError, match="rank"):
        fx.copy(atom, a, reg)
    with pytest.raises(TypeError, match="Boolean"):
        fx.copy(atom, src, reg, pred=reg)
    with pytest.raises(TypeError, match="CopyAtom"):
        fx.copy(a, src, reg)
    from flydsl.tracing import protocol

    values = protocol.extract_to_ir_values(th)
    assert type(protocol.construct_from_ir_values(type(th), th, values).thr_idx) is fx.Int32


def test_predicated_elementwise(trace: Any) -> None:
    x, y, n = dynamic_matrix(trace), dynamic_matrix(trace), trace.arg(fx.Int32)
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    cp = fx.make_tiled_copy_tv(atom, fx.make_layout((1, 128), (128, 1)), fx.make_layout((1, 4), (4, 1)))
    as_row = lambda v: fx.make_view(fx.get_iter(v), fx.make_layout((1, n), (0, 1)))  # noqa: E731
    block = lambda v: fx.flat_divide(v, cp.tile_mn)[None, None, 0, fx.block_idx.x]  # noqa: E731
    coords = fx.make_view((0, 0), fx.make_identity_layout((1, n)))
    th = cp.get_slice(fx.thread_idx.x)
    gx, gy = th.partition_S(block(as_row(x))), th.partition_D(block(as_row(y)))
    cc = th.partition_S(block(coords))[(0, None), None, None]
    rx, ry = fx.make_fragment_like(gx), fx.make_fragment_like(gy)
    ok = fx.make_fragment_like(cc, dtype=fx.Boolean)
    for i in fx.range_constexpr(fx.size(ok.shape).unpack()):
        ok[i] = fx.elem_less(cc[i], (1, n))
    fx.copy(atom, gx, rx, pred=ok)
    ry.store(rx.load() * 2.0 + ry.load())
    fx.copy(atom, ry, gy, pred=ok)
    assert trace.ops().count("fly.copy") == 2 and trace.ops().count("fly.elem_less") == 4


def test_vector_copies_with_edges(trace: Any) -> None:
    """A 2-D tile of 128-bit copies with one predicate for each vector."""
    a, b = dynamic_matrix(trace), dynamic_matrix(trace)
    atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
    cp = fx.make_tiled_copy_tv(atom, fx.make_layout((8, 32), (32, 1)), fx.make_layout((1, 4), (4, 1)))
    bx, by, _ = fx.block_idx
    coords = fx.make_view((0, 0), fx.make_identity_layout(a.shape))
    th = cp.get_slice(fx.thread_idx.x)
    pieces = [fx.flat_divide(t, cp.tile_mn)[None, None, by, bx] for t in (a, b, coords)]
    src, dst, crd = th.partition_S(pieces[0]), th.partition_D(pieces[1]), th.partition_S(pieces[2])
    crd = crd[(0, None), None, None]
    ok = fx.make_fragment_like(crd, dtype=fx.Boolean)
    for i in fx.range_constexpr(fx.size(ok.shape).unpack()):
        ok[i] = fx.elem_less(crd[i], a.shape)
    r = fx.make_fragment_like(src)
    fx.copy(atom, src, r, pred=ok)
    fx.copy(atom, r, dst, pred=ok)
    assert str(ok.shape) == str(crd.shape) and fx.size(ok.shape).unpack() == 1  # one vector a thread, one predicate
    assert trace.ops().count("fly.elem_less") == 1 and trace.ops().count("fly.copy") == 2


def test_gather_scatter(trace: Any) -> None:
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    base = fx.get_iter(global_tensor(trace, fx.Float32, 64, 1))
    offsets = fx.make_rmem_tensor((2, 3), fx.Int32)
    data = fx.make_rmem_tensor(((1, 2), 3), fx.Float32)
    fx.gather(atom, base, offsets, data)
    fx.scatter(atom, data, base, offsets)
    assert trace.ops().count("fly.copy") == 12
    tiled = fx.make_tiled_copy_tv(atom, fx.make_layout(8, 1), fx.make_layout(1, 1))
    fx.gather(tiled, base, offsets, data)
    fx.scatter(tiled.get_slice(0), data, base, offsets)
    assert trace.ops().count("fly.copy") == 24
    with pytest.raises(ValueError):
        fx.gather(atom, base, 3, data)


def test_mma(trace: Any) -> None:
    atom = fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 4, fx.Float32))
    mma = fx.make_tiled_mma(atom, fx.make_layout((2, 2, 1), (1, 2, 0)))
    assert mma.tile_size_mnk.unpack() == (32, 32, 4)
    a = global_tensor(trace, fx.Float32, (64, 8), (8, 1))
    c = global_tensor(trace, fx.Float32, (64, 64), (64, 1))
    th = mma.get_slice(fx.thread_idx.x)

    def layout(t: Any) -> str:
        return str(t.layout).removeprefix("Layout<").removesuffix(">")

    assert layout(th.partition_A(a)) == "(1,2,2):(0,256,4)"
    fa = th.make_fragment_A(a)
    assert layout(fa) == "(1,2,2):(0,2,1)"
    assert layout(th.make_fragment_A(a, stages=2)) == "(1,2,2,2):(0,2,1,4)"
    assert layout(th.partition_C(c)) == "((4,1),2,2):((64,0),2048,32)"
    fc = th.make_fragment_C(c)
    assert layout(fc) == "((4,1),2,2):((1,0),8,4)"
    ra = fx.make_tiled_copy_A(fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32), mma).get_slice(fx.thread_idx.x)
    assert layout(ra.partition_S(a)) == "((1,1),2,2):((0,0),256,4)"
    assert layout(ra.retile(fa)) == "((1,1),2,2):((0,0),2,1)"
    fb = th.make_fragment_B(a)
    fc.fill(0.0)
    fx.gemm(mma, fc, fa, fb, fc)
    fx.gemm(th, fc, fa, fb, fc, traversal_order=fx.GemmTraversalOrder.KMN)
    with pytest.raises(ValueError, match="not both"):
        fx.gemm(mma, fc, fa, fb, fc, traversal_order=0, traversal_layout=fx.make_layout(8, 1))
    with pytest.raises(ValueError, match="ranks"):
        fx.gemm(mma, fc, a, fb, fc)


def test_buffer_tensors(trace: Any) -> None:
    a = dynamic_matrix(trace)
    with tracing_context(arch="gfx942"):
        t = fx.rocdl.make_buffer_tensor(a)
        fx.rocdl.make_buffer_tensor(a, max_size=False)
    assert "buffer_desc" in str(t) and str(t.layout) == str(a.layout)
    assert str(fx.rocdl.get_buffer_rsrc(fx.get_iter(t)).type) == "!llvm.ptr<8>"
    assert fx.is_target_address_space(t.address_space, fx.rocdl.TargetAddressSpace.BufferDesc)
    assert fx.is_generic_address_space(a.address_space, fx.AddressSpace.Global)
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy128b(), fx.Float32)
    moved = atom.set_value("soffset", 4)
    assert moved.type == atom.type and moved != atom
    with pytest.raises(ValueError, match="imm_offset"):
        atom.set_value("imm_offset", 4)
    with pytest.raises(ValueError, match="make_buffer_ptr requires a global-address-space pointer"):
        fx.rocdl.make_buffer_ptr(fx.get_iter(fx.make_rmem_tensor(4, fx.Float32)))


def test_printf(trace: Any) -> None:
    fx.printf("{} of {} {}", trace.arg(fx.Int32), 4, fx.Float32)
    fx.printf(trace.arg(fx.Float32), fx.make_int_tuple((1, 2)))
    assert '"{} of 4 Float32"' in trace.text() and '"{} {}"' in trace.text()
    with pytest.raises(ValueError, match="placeholders"):
        fx.printf("{}")


def test_printf_of_pointers_and_numpy_numbers(trace: Any) -> None:
    with pytest.raises(ValueError, match=r"printf cannot print Pointer<f32, global.*fx.ptrtoint\(p\)"):
        fx.printf("{}", fx.get_iter(dynamic_matrix(trace)))
    fx.printf("{} {}", np.int32(3), np.float32(1.5))
    assert '"3 1.5"' in trace.text()


def test_atoms_and_tiles_that_do_not_fit(trace: Any) -> None:
    copy, layout = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32), fx.make_layout((8, 4), (1, 8))
    for bits in (48, 6):  # the last of the values was counted whole: a call moved 96 and 66 bits
        with pytest.raises(ValueError, match=f"moves 64 bits, no whole number of values of {bits}"):
            fx.make_copy_atom(fx.UniversalCopy64b(), bits)
    for wrong in (lambda: fx.make_copy_atom(3, 32), lambda: fx.make_mma_atom(3),
                  lambda: fx.make_tiled_copy(3, layout, (8, 4)), lambda: fx.make_tiled_copy(copy, layout, 8)):
        with pytest.raises(TypeError, match="got 3|got int|got 8"):
            wrong()
    fma, places = fx.make_mma_atom(fx.UniversalFMA(fx.Float32)), fx.make_layout((2, 2, 1), (1, 2, 0))
    for tile in ((3, None, None), (None, fx.make_layout((3, 1), (1, 3)), None)):
        with pytest.raises(ValueError, match="takes 3 of [MN], but 2 atoms of 1 side by side take 2"):
            fx.make_tiled_mma(fma, places, tile)
    assert fx.make_tiled_mma(fma, places, (8, fx.make_layout((2, 2), (2, 1)), 5)).tile_size_mnk.unpack() == (8, 4, 5)


def test_fragments_refuse_what_they_cannot_hold(trace: Any) -> None:
    with pytest.raises(ValueError, match="extents must be positive"):
        fx.make_rmem_tensor((4, 0), fx.Float32)
    fragment = fx.make_rmem_tensor(4, fx.Float32)
    for value in (3, fx.Float32(3), trace.arg(fx.Float32)):
        with pytest.raises(ValueError, match="a vector store needs a Vector, got"):
            fragment.store(value)
    with pytest.raises(ValueError, match="fill needs a static shape"):
        dynamic_matrix(trace).fill(0)


def test_steps_of_a_gemm(trace: Any) -> None:
    fma = fx.make_mma_atom(fx.UniversalFMA(fx.Float32))
    d, a, b = (fx.make_rmem_tensor(shape, fx.Float32) for shape in ((1, 2, 2), (1, 2, 3), (1, 2, 3)))
    for layout in (fx.make_layout(11, 1), fx.make_layout(12, 2)):
        with pytest.raises(ValueError, match="a permutation of the 12 steps, got"):
            fx.gemm(fma, d, a, b, d, traversal_layout=layout, atom_callback=lambda atom, step: atom)
    with pytest.raises(TypeError, match=r"must return an MmaAtom, got None for the step \(0, 0, 0\)"):
        fx.gemm(fma, d, a, b, d, atom_callback=lambda atom, step: None)


@pytest.mark.parametrize("shape", [lambda n: n, lambda n: (1, n, 2)])
def test_gemm_needs_static_extents(trace: Any, shape: Any) -> None:
    """Where the number of atom calls is not known, one would be made."""
    atom = fx.make_mma_atom(fx.UniversalFMA(fx.Float32))
    pointer = trace.arg(fx.PointerType.get(fx.T.f32, fx.AddressSpace.Register))
    extents = fx.make_int_tuple(shape(trace.arg(fx.Int32)))
    dynamic = fx.make_view(pointer, fx.make_ordered_layout(extents, 0))
    static = fx.make_view(pointer, fx.make_ordered_layout(shape(2), 0))
    with pytest.raises(ValueError, match="gemm: the extents of a must be static, got Tensor<f32, register"):
        fx.gemm(atom, static, dynamic, static, static)
    fx.gemm(atom, static, static, static, static)
