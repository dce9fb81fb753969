"""The backend namespace: waits, hints, lanes, descriptors of buffers and matrix ops."""

from __future__ import annotations

from typing import Any

import pytest

import flydsl.expr as fx
from flydsl._mlir import ir
from flydsl.expr.rocdl import cdna3, rdna3
from flydsl.expr.rocdl.buffer import buffer_flags
from flydsl.tracing.ambient import tracing_context

pytestmark = pytest.mark.l1b_target_dialect


@pytest.mark.parametrize(
    ("counts", "gfx9", "gfx11"),
    [((3, None, None), 3955, 4087), ((None, 0, None), 49279, 64519), ((20, 1, 2), 16676, 20498)],
)
def test_wait_fields(counts: Any, gfx9: int, gfx11: int) -> None:
    assert cdna3.encode(*counts) == gfx9
    assert rdna3.encode(*counts) == gfx11


def test_waits(trace: Any) -> None:
    for arch, field in (("gfx942", 3955), ("gfx1100", 4087), ("gfx1201", 4087)):
        with tracing_context(arch=arch):
            fx.rocdl.s_waitcnt(vmcnt=3)
        assert f"rocdl.s.waitcnt {field}" in trace.text()
    with tracing_context(arch="gfx1250"), pytest.raises(ValueError, match="gfx1250"):
        fx.rocdl.s_waitcnt(vmcnt=3)
    with tracing_context(arch="gfx942"):
        with pytest.raises(ValueError, match=r"must be in \[0, 63\]"):
            fx.rocdl.s_waitcnt(vmcnt=64)
        with pytest.raises(TypeError, match="must be a static Python int or Integer"):
            fx.rocdl.s_waitcnt(vmcnt=trace.arg(fx.Int32))
        with pytest.raises(TypeError):
            fx.rocdl.s_waitcnt(0, vmcnt=1)
        fx.rocdl.wait_asyncmark(1)


def test_hints(trace: Any) -> None:
    r = fx.rocdl
    r.sched_barrier()
    r.sched_barrier("valu|ds_read")
    r.sched_mfma(4)
    r.sched_vmem(1)
    r.sched_dsrd(2)
    r.sched_dswr(3)
    r.s_setprio(1)
    r.s_barrier()
    r.s_wait_dscnt(0)
    text = trace.text()
    for line in ("rocdl.sched.barrier 258", "rocdl.sched.group.barrier 8, 4, 0", "rocdl.sched.group.barrier 512, 3, 0",
                 "rocdl.s.setprio 1", "rocdl.s.barrier"):
        assert line in text, line
    with pytest.raises(ValueError, match="unknown scheduling mask"):
        r.sched_barrier("all")


@pytest.mark.parametrize(("name", "value", "bounds"), [
    ("s_setprio", 4, "0, 3"), ("iglp_opt", 4, "0, 3"), ("s_nop", 16, "0, 15"), ("s_sleep", 128, "0, 127"),
    ("s_waitcnt", 0x10000, "0, 65535"), ("s_wait_dscnt", -1, "0, 65535"), ("s_wait_asynccnt", 64, "0, 63"),
    ("sched_mfma", -1, "0, 4294967295"), ("sched_barrier", 1 << 32, "-2147483648, 4294967295"),
])
def test_immediates_stay_in_their_fields(trace: Any, name: str, value: int, bounds: str) -> None:
    """... which would drop the bits in front, or end the code generator (`iglp_opt`)."""
    with pytest.raises(ValueError, match=rf"must be in \[{bounds}\], got {value}"):
        getattr(fx.rocdl, name)(value)


def test_no_wait(trace: Any) -> None:
    fx.rocdl.s_wait_asynccnt(None)
    assert "asynccnt" not in trace.text()


def test_lanes_and_conversions(trace: Any) -> None:
    r, i, f = fx.rocdl, trace.arg(fx.Int32), trace.arg(fx.Float32)
    assert str(r.readfirstlane(fx.T.i32, i).type) == "i32"
    assert str(r.readlane(fx.T.i32, i, 3).type) == "i32"
    assert str(r.ds_bpermute(fx.T.i32, i * 4, i).type) == "i32"
    assert str(r.ballot(fx.T.i64, i < 3).type) == "i64"
    with pytest.raises(ValueError, match="a ballot of 64 lanes needs i64, got i32"):
        r.ballot(fx.T.i32, i < 3)
    with pytest.raises(ValueError, match=r"lane must be in \[0, 63\], got 64"):
        r.readlane(fx.T.i32, i, 64)
    for function in (r.rcp, r.rsq):
        with pytest.raises(TypeError, match="the result type is f64, the operand is f32"):
            function(fx.T.f64, f)
    assert str(r.rcp(fx.T.f64, 2.0).type) == "f64"
    assert str(r.perm_b32(i, i, 0x01020304).type) == "i32"
    assert str(r.rcp(fx.T.f32, f).type) == "f32"
    assert str(r.exp2(fx.T.f32, f.ir_value()).type) == "f32"
    assert str(r.cvt_pk_fp8_f32(fx.T.i32, f, 1.0, 0, False).type) == "i32"
    assert str(r.cvt_pk_bf16_f32(f, f).type) == "i32"
    assert str(r.cvt_off_f32_i4(i, 2).type) == "f32"
    with pytest.raises(ValueError, match="0 to 3, got 4"):
        r.cvt_off_f32_i4(i, 4)
    assert type(r.cdna4.cvt_sr_f32_to_bf16(f, i)) is fx.BFloat16
    text = trace.text()
    assert 'llvm.call_intrinsic "llvm.amdgcn.perm"' in text and "v_cvt_off_f32_i4_sdwa" in text


def test_matrix_wrapper(trace: Any) -> None:
    a, c = trace.vector(4, fx.Float16), trace.vector(4, fx.Float32)
    d = fx.rocdl.mfma_f32_16x16x16f16(c.type, [a, a, c, 0, 0, 0])
    assert isinstance(d, fx.Vector)
    from flydsl.expr.rocdl.matrix import wrapper

    with pytest.raises(AttributeError, match="ROCDL op not found: mfma_none"):
        wrapper("mfma_none")(c.type, [a, a, c])


def test_buffer_flags() -> None:
    words = {}
    for arch in ("gfx942", "gfx1201", "gfx1250"):
        with tracing_context(arch=arch):
            words[arch] = buffer_flags(False), buffer_flags(True)
    assert words == {"gfx942": (0x27000, 0x27000), "gfx1201": (0x21027000, 0x31027000), "gfx1250": (0x27000, 0x27000)}


def test_constructor_errors() -> None:
    with ir.Context():
        with pytest.raises(ValueError, match="8-byte"):
            fx.rocdl.BufferCopyLDS64b()
        with tracing_context(arch="gfx1100"), pytest.raises(ValueError, match="gfx1100"):
            fx.rocdl.BufferCopyLDS32b()
        with tracing_context(arch="gfx942"):
            with pytest.raises(ValueError, match="WMMA is not available on target arch"):
                fx.rocdl.WMMA(16, 16, 16, fx.Float16)
            with pytest.raises(ValueError, match="unsupported bitSize = 64"):
                fx.rocdl.BufferCopyLDS(64)


def test_instructions_of_other_targets_are_refused() -> None:
    cdna4 = fx.rocdl.cdna4
    cases = [
        ("gfx942", lambda: fx.rocdl.BufferCopyLDS128b(), "BufferCopyLDS128b.*use BufferCopyLDS32b"),
        ("gfx942", lambda: cdna4.LDSReadTrans16_64b(), "LDSReadTrans.*'gfx942'"),
        ("gfx942", lambda: cdna4.GlobalLoadAsyncLDS128b(), "128 bits.*'gfx942'"),
    ]
    with ir.Context():
        for arch, build, message in cases:
            with tracing_context(arch=arch), pytest.raises(ValueError, match=message):
                build()
        with tracing_context(arch="gfx950"):
            fx.rocdl.BufferCopyLDS128b(), cdna4.LDSReadTrans16_64b()
        fx.rocdl.BufferCopyLDS128b()  # no target: only a type is built


def test_matrix_atoms_of_other_targets_may_be_made_and_not_used() -> None:
    from flydsl.expr._matrix_arch import require_matrix_arch

    f16, fp8, i8 = fx.Float16, fx.Float8E4M3FN, fx.Int8
    cases = [
        ("gfx1201", lambda: fx.rocdl.MFMA(16, 16, 16, f16), "MFMA is not available on target arch 'gfx1201'"),
        ("gfx942", lambda: fx.rocdl.MFMA(16, 16, 32, f16), "MFMA 16x16x32 f16.*'gfx942'.*use 16x16x16"),
        ("gfx942", lambda: fx.rocdl.MFMA(32, 32, 16, fx.BFloat16), "MFMA 32x32x16 bf16.*only on gfx95"),
        ("gfx90a", lambda: fx.rocdl.MFMA(16, 16, 32, f16), "MFMA 16x16x32 f16.*'gfx90a'.*use 16x16x16"),
        ("gfx90a", lambda: fx.rocdl.MFMA(32, 32, 16, i8, fx.Int32), "MFMA 32x32x16 i8.*'gfx90a'.*use 32x32x8"),
        ("gfx90a", lambda: fx.rocdl.MFMA(16, 16, 32, fp8), "MFMA 16x16x32 f8E4M3FN.*'gfx90a'.*use f16 or bf16"),
        ("gfx942", lambda: fx.rocdl.MFMA(16, 16, 16, i8, fx.Int32), "MFMA 16x16x16 i8.*only on gfx90a; use 16x16x32"),
        ("gfx950", lambda: fx.rocdl.MFMA(16, 16, 8, fx.BFloat16), "MFMA 16x16x8 bf16.*only on gfx90a; use 16x16x16"),
        ("gfx1201", lambda: fx.rocdl.cdna4.MFMA_Scale(16, 16, 128, fp8), "MFMA_Scale.*'gfx1201'"),
        ("gfx950", lambda: fx.rocdl.WMMAScale(16, 16, 128, fp8), "WMMAScale.*only on gfx1250"),
        ("gfx950", lambda: fx.rocdl.MmaOpGFX11_WMMAType.get(16, 16, 16, *[fx.T.f16] * 2, fx.T.f32), "WMMA of gfx11"),
    ]
    with ir.Context(), ir.Location.unknown():
        block = ir.Module.create().body
        for arch, build, message in cases:
            with tracing_context(arch=arch), ir.InsertionPoint(block):
                atom = fx.make_mma_atom(build())
                tiled = fx.make_tiled_mma(atom, fx.make_layout((1, 1, 1), (0, 0, 0)))
                for used in (atom, tiled):
                    with pytest.raises(ValueError, match=message):
                        require_matrix_arch(used)
        with tracing_context(arch="gfx950"), ir.InsertionPoint(block):
            require_matrix_arch(fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 32, f16)))
            require_matrix_arch(fx.make_mma_atom(fx.rocdl.cdna4.MFMA_Scale(16, 16, 128, fp8)))
            require_matrix_arch(fx.make_mma_atom(fx.rocdl.MFMA(32, 32, 16, i8, fx.Int32)))
        with tracing_context(arch="gfx90a"), ir.InsertionPoint(block):
            for m, n, k, element in ((16, 16, 16, f16), (32, 32, 8, fx.BFloat16), (32, 32, 4, fx.BFloat16)):
                require_matrix_arch(fx.make_mma_atom(fx.rocdl.MFMA(m, n, k, element)))
            require_matrix_arch(fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, i8, fx.Int32)))


def test_buffer_resource_of_a_given_size_is_checked_on_rdna(trace: Any) -> None:
    """A masked access relies on the bounds check, which RDNA makes only when the descriptor asks for it."""
    from flydsl.expr import buffer_ops

    address = trace.arg(fx.Int64)
    with tracing_context(arch="gfx1201"):
        buffer_ops.create_buffer_resource_from_addr(address, num_records_bytes=4096)
        assert f"arith.constant {0x31027000} : i32" in trace.text()
        assert str(0x21027000) not in trace.text()
        buffer_ops.create_buffer_resource_from_addr(address)
        assert f"arith.constant {0x21027000} : i32" in trace.text()


def test_buffer_ops(trace: Any) -> None:
    from flydsl.expr import buffer_ops

    i = trace.arg(fx.Int32)
    with tracing_context(arch="gfx942"):
        rsrc = buffer_ops.create_buffer_resource_from_addr(trace.arg(fx.Int64), num_records_bytes=4096)
    v = buffer_ops.buffer_load(rsrc, i, vec_width=4, dtype=fx.Float32, mask=i < 10)
    assert isinstance(v, fx.Vector) and v.dtype is fx.Float32
    buffer_ops.buffer_store(v, rsrc, i, mask=i < 10)
    buffer_ops.buffer_store(fx.Float16(1.0), rsrc, 3, soffset_bytes=i, offset_is_bytes=True)
    assert str(buffer_ops.buffer_load(rsrc, i, 1, fx.Int32, is_scalar=True).type) == "i32"
    with pytest.raises(ValueError):
        buffer_ops.buffer_load(rsrc, i, 1, fx.Int32, mask=i < 3, is_scalar=True)
    with pytest.raises(TypeError):
        buffer_ops.get_element_ptr(buffer_ops.create_llvm_ptr(i, 1), static_byte_offset=1.0)
    buffer_ops.get_element_ptr(buffer_ops.create_llvm_ptr(i, 1), i, 16)
    text = trace.text()
    assert "rocdl.raw.ptr.buffer.load" in text and "rocdl.make.buffer.rsrc" in text and "159744" in text


def test_every_public_name_says_what_it_takes() -> None:
    import types

    from flydsl.expr import rocdl

    without = []
    for name in dir(rocdl):
        value = getattr(rocdl, name)
        if name.startswith("_") or isinstance(value, types.ModuleType) or not callable(value):
            continue
        if len(value.__doc__ or "") < 15:
            without.append(name)
    assert without == []
    assert "Operands" in rocdl.mfma_f32_16x16x16f16.__doc__ and "gfx942" in rocdl.mfma_f32_16x16x16f16.__doc__
    assert "Operands" in rocdl.cvt_f32_bf8.__doc__  # a generated builder


def test_buffer_offsets_are_integers(trace: Any) -> None:
    """1.5 was 1."""
    from flydsl.expr import buffer_ops

    rsrc = buffer_ops.create_buffer_resource_from_addr(trace.arg(fx.Int64))
    for wrong in (1.5, fx.Float32(2.0), trace.arg(fx.Float32)):
        for call in (
            lambda x: buffer_ops.buffer_load(rsrc, x), lambda x: buffer_ops.buffer_load(rsrc, 0, soffset_bytes=x),
            lambda x: buffer_ops.create_buffer_resource_from_addr(trace.arg(fx.Int64), num_records_bytes=x),
        ):
            with pytest.raises(TypeError, match="an integer is expected, got"):
                call(wrong)
