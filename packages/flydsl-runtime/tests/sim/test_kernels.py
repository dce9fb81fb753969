"""Kernels compiled by LLVM for each architecture, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hiplib import SimError, compile_ir

ARCHS = ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201", "gfx1250"]
rng = np.random.default_rng(7)

HEADER = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare void @llvm.amdgcn.s.barrier()
declare i32 @llvm.amdgcn.readfirstlane(i32)
declare i32 @llvm.amdgcn.ds.bpermute(i32, i32)
declare float @llvm.fma.f32(float, float, float)
declare ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1), i16, i64, i32)
declare <4 x float> @llvm.amdgcn.raw.ptr.buffer.load.v4f32(ptr addrspace(8), i32, i32, i32)
declare void @llvm.amdgcn.raw.ptr.buffer.store.v4f32(<4 x float>, ptr addrspace(8), i32, i32, i32)
attributes #0 = { "amdgpu-flat-work-group-size"="1,256" }
"""


def elementwise(body: str, ty: str, extra: str = "") -> str:
    """A kernel c[i] = f(a[i], b[i]) over i < n; `body` defines %r from %x and %y."""
    return (
        HEADER
        + extra
        + f"""
define amdgpu_kernel void @k(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c, i32 %n) #0 {{
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %wg = call i32 @llvm.amdgcn.workgroup.id.x()
  %m = mul i32 %wg, 256
  %i = add i32 %m, %id
  %p = icmp slt i32 %i, %n
  br i1 %p, label %t, label %e
t:
  %pa = getelementptr {ty}, ptr addrspace(1) %a, i32 %i
  %pb = getelementptr {ty}, ptr addrspace(1) %b, i32 %i
  %pc = getelementptr {ty}, ptr addrspace(1) %c, i32 %i
  %x = load {ty}, ptr addrspace(1) %pa
  %y = load {ty}, ptr addrspace(1) %pb
{body}
  store {ty} %r, ptr addrspace(1) %pc
  br label %e
e:
  ret void
}}
"""
    )


def operands(ty: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Random operands with corner values in front."""
    if ty.startswith("i"):
        dtype = np.dtype(f"int{ty[1:]}")
        info = np.iinfo(dtype)
        a = rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
        b = rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
        a[:4] = [0, -1, info.min, info.max]
        return a, b
    dtype = {"half": np.float16, "float": np.float32, "double": np.float64}[ty]
    return rng.normal(size=n).astype(dtype), rng.normal(size=n).astype(dtype)


def shift_amount(ty: str) -> str:
    return f"  %s = and {ty} %y, {int(ty[1:]) - 1}\n"


CASES = {
    "add": lambda ty: (f"  %r = add {ty} %x, %y", lambda x, y: x + y),
    "sub": lambda ty: (f"  %r = sub {ty} %x, %y", lambda x, y: x - y),
    "mul": lambda ty: (f"  %r = mul {ty} %x, %y", lambda x, y: x * y),
    "and": lambda ty: (f"  %r = and {ty} %x, %y", lambda x, y: x & y),
    "xor": lambda ty: (f"  %r = xor {ty} %x, %y", lambda x, y: x ^ y),
    "shl": lambda ty: (
        shift_amount(ty) + f"  %r = shl {ty} %x, %s",
        lambda x, y: x << (y & (int(ty[1:]) - 1)),
    ),
    "ashr": lambda ty: (
        shift_amount(ty) + f"  %r = ashr {ty} %x, %s",
        lambda x, y: x >> (y & (int(ty[1:]) - 1)),
    ),
    "smin": lambda ty: (
        f"  %q = icmp slt {ty} %x, %y\n  %r = select i1 %q, {ty} %x, {ty} %y",
        np.minimum,
    ),
    "sdiv": lambda ty: (
        f"  %o = or {ty} %y, 1\n  %w = lshr {ty} %o, 3\n  %v = or {ty} %w, 1\n  %r = sdiv {ty} %x, %v",
        None,
    ),
}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("ty", ["i16", "i32", "i64"])
@pytest.mark.parametrize("case", sorted(CASES))
def test_integer(sim, build_dir, arch, ty, case):
    body, reference = CASES[case](ty)
    a, b = operands(ty, 1000)
    if reference is None:
        bits = a.dtype.itemsize * 8
        unsigned = b.view(f"uint{bits}") | 1
        divisor = ((unsigned >> 3) | 1).astype(a.dtype)
        want = np.array([int(x) // int(d) if x >= 0 else -(-int(x) // int(d)) for x, d in zip(a, divisor, strict=True)])
        want = want.astype(a.dtype)
    else:
        with np.errstate(over="ignore"):
            want = reference(a, b)
    c = np.full_like(a, 77)
    sim.set_arch(arch)
    sim.run(compile_ir(elementwise(body, ty), arch, build_dir), "k", (4,), (256,), [a, b, c, 1000])
    np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("ty", ["half", "float", "double"])
@pytest.mark.parametrize("op", ["fadd", "fsub", "fmul", "fdiv"])
def test_float(sim, build_dir, arch, ty, op):
    a, b = operands(ty, 1000)
    with np.errstate(all="ignore"):
        want = {"fadd": np.add, "fsub": np.subtract, "fmul": np.multiply, "fdiv": np.divide}[op](a, b)
    c = np.full_like(a, np.nan)
    image = compile_ir(elementwise(f"  %r = {op} {ty} %x, %y", ty), arch, build_dir)
    sim.set_arch(arch)
    sim.run(image, "k", (4,), (256,), [a, b, c, 1000])
    np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("fn,reference", [("exp2", np.exp2), ("log2", None), ("sqrt", None), ("floor", np.floor)])
def test_math(sim, build_dir, arch, fn, reference):
    a, b = operands("float", 1000)
    if fn in ("log2", "sqrt"):
        a, reference = np.abs(a), {"log2": np.log2, "sqrt": np.sqrt}[fn]
    declare = f"declare float @llvm.{fn}.f32(float)\n"
    body = f"  %r = call float @llvm.{fn}.f32(float %x)"
    c = np.full_like(a, np.nan)
    sim.set_arch(arch)
    sim.run(compile_ir(elementwise(body, "float", declare), arch, build_dir), "k", (4,), (256,), [a, b, c, 1000])
    np.testing.assert_allclose(c, reference(a.astype(np.float64)), rtol=2e-7, atol=1e-7)


VADD4 = """
define amdgpu_kernel void @k(ptr addrspace(1) %a, ptr addrspace(1) %c, i64 %bytes) #0 {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %wg = call i32 @llvm.amdgcn.workgroup.id.x()
  %m = mul i32 %wg, 256
  %i = add i32 %m, %id
  %o = mul i32 %i, 16
  %ra = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %a, i16 0, i64 %bytes, i32 FLAGS)
  %rc = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %c, i16 0, i64 %bytes, i32 FLAGS)
  %v = call <4 x float> @llvm.amdgcn.raw.ptr.buffer.load.v4f32(ptr addrspace(8) %ra, i32 %o, i32 0, i32 0)
  %s = fadd <4 x float> %v, %v
  call void @llvm.amdgcn.raw.ptr.buffer.store.v4f32(<4 x float> %s, ptr addrspace(8) %rc, i32 %o, i32 0, i32 0)
  ret void
}
"""


@pytest.mark.parametrize("arch", ARCHS)
def test_buffer_range(sim, build_dir, arch):
    """Stores past num_records are dropped, dword by dword."""
    import ctypes

    flags = 159744 if arch.startswith("gfx9") else 0 if arch == "gfx1250" else 0x31027000
    a = rng.normal(size=2048).astype(np.float32)
    c = np.full(2048, np.nan, np.float32)
    n = 1001
    sim.set_arch(arch)
    image = compile_ir(HEADER + VADD4.replace("FLAGS", str(flags)), arch, build_dir)
    sim.run(image, "k", (2,), (256,), [a, c, ctypes.c_int64(n * 4)])
    np.testing.assert_array_equal(c[:n], a[:n] * 2)
    assert np.isnan(c[n:]).all()


LDS = """
@buf = internal addrspace(3) global [256 x i32] poison, align 16
define amdgpu_kernel void @k(ptr addrspace(1) %a, ptr addrspace(1) %c) #0 {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %pa = getelementptr i32, ptr addrspace(1) %a, i32 %id
  %x = load i32, ptr addrspace(1) %pa
  %ps = getelementptr i32, ptr addrspace(3) @buf, i32 %id
  store i32 %x, ptr addrspace(3) %ps
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %j = sub i32 255, %id
  %pr = getelementptr i32, ptr addrspace(3) @buf, i32 %j
  %y = load i32, ptr addrspace(3) %pr
  %old = atomicrmw add ptr addrspace(1) %c, i32 %y syncscope("agent") monotonic
  %k = add i32 %id, 1
  %pc = getelementptr i32, ptr addrspace(1) %c, i32 %k
  store i32 %y, ptr addrspace(1) %pc
  ret void
}
"""


@pytest.mark.parametrize("arch", ARCHS)
def test_lds_barrier_atomic(sim, build_dir, arch):
    a = rng.integers(0, 1000, 256, dtype=np.int32)
    c = np.full(257, -1, np.int32)
    c[0] = 0
    sim.set_arch(arch)
    sim.run(compile_ir(HEADER + LDS, arch, build_dir), "k", (1,), (256,), [a, c])
    np.testing.assert_array_equal(c[1:], a[::-1])
    assert c[0] == a.sum()


WILD = """
define amdgpu_kernel void @k(ptr addrspace(1) %a) #0 {
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %o = mul i32 %id, 4096
  %o64 = sext i32 %o to i64
  %p = getelementptr i8, ptr addrspace(1) %a, i64 %o64
  store i32 1, ptr addrspace(1) %p
  ret void
}
"""


@pytest.mark.parametrize("arch", ARCHS)
def test_out_of_bounds(sim, build_dir, arch):
    """A wild address is an error that says where, never a crash."""
    import ctypes

    sim.set_arch(arch)
    p = ctypes.c_void_p()
    sim.check(sim.lib.hipMalloc(ctypes.byref(p), ctypes.c_size_t(100)))
    with pytest.raises(SimError, match=r"kernel k \(" + arch + r"\).*store.*lane 1: write of 4 bytes") as info:
        sim.run(compile_ir(HEADER + WILD, arch, build_dir), "k", (1,), (64,), [p])
    assert info.value.code == 700
    sim.check(sim.lib.hipFree(p))


@pytest.mark.parametrize("axes", ["x", "y", "z", "xy", "xz", "yz", "xyz"])
@pytest.mark.parametrize("arch", ARCHS)
def test_coordinates(sim, build_dir, arch, axes):
    """Code that asks for x alone takes v0 as it is, whatever the work-group has of the other coordinates.

    y and z of a work-group share a register on gfx12, where code that asks for y alone does not mask it either.
    """
    sizes = {"workitem": {"x": 5, "y": 3, "z": 4}, "workgroup": {"x": 2, "y": 3, "z": 2}}
    text, index, stride, unused = "", "0", 1, ""
    declarations = {f"declare i32 @llvm.amdgcn.{of}.id.{axis}()\n" for of in sizes for axis in "xyz"}
    for of, extents in sizes.items():
        for axis in axes:
            text += f"""  %{of}{axis} = call i32 @llvm.amdgcn.{of}.id.{axis}()
  %m{of}{axis} = mul i32 %{of}{axis}, {stride}
  %i{of}{axis} = add i32 {index}, %m{of}{axis}
"""
            index, stride = f"%i{of}{axis}", stride * extents[axis]
        unused += "".join(f' "amdgpu-no-{of}-id-{axis}"' for axis in "xyz" if axis not in axes)
    text = f"""{HEADER}{"".join(sorted(d for d in declarations if d not in HEADER))}
define amdgpu_kernel void @k(ptr addrspace(1) %a) #0{unused} {{
{text}  %p = getelementptr i32, ptr addrspace(1) %a, i32 {index}
  store i32 1, ptr addrspace(1) %p
  ret void
}}
"""
    written = np.zeros(60 * 12, np.int32)
    sim.set_arch(arch)
    grid, block = (tuple(sizes[of].values()) for of in ("workgroup", "workitem"))
    sim.run(compile_ir(text, arch, build_dir), "k", grid, block, [written])
    np.testing.assert_array_equal(written, np.arange(written.size) < stride)


LOOP = """
define amdgpu_kernel void @k(ptr addrspace(1) %a) #0 {
  br label %l
l:
  %x = load volatile i32, ptr addrspace(1) %a
  br label %l
}
"""


def test_endless_loop(sim, build_dir, monkeypatch):
    monkeypatch.setenv("FLYDSL_SIM_MAX_INSTRUCTIONS", "100000")
    sim.set_arch("gfx942")
    with pytest.raises(SimError, match="endless loop"):
        sim.run(compile_ir(HEADER + LOOP, "gfx942", build_dir), "k", (1,), (64,), [np.zeros(1, np.int32)])


def test_bad_images(sim, build_dir):
    """Truncated and foreign files give hipErrorInvalidImage or NoBinaryForGpu."""
    sim.set_arch("gfx942")
    image = compile_ir(HEADER + WILD, "gfx942", build_dir)
    for size in (0, 10, 64, 200, 1000, len(image) // 2):
        with pytest.raises(SimError) as info:
            sim.load(image[:size] if size else b"\0" * 16)
        assert info.value.code == 200
    with pytest.raises(SimError, match="gfx1201") as info:
        sim.load(compile_ir(HEADER + WILD, "gfx1201", build_dir))
    assert info.value.code == 209
