"""Kernels in the style of published ones, most of them on raw builders: each piece of the style runs and is right.

Raw `scf`, `llvm`, `memref` and `vector` operations next to DSL values, index arithmetic, raw buffer operations, LDS by
`SmemAllocator`, by pointers and by views of one element, loops with explicit and carried state.
"""
# ruff: noqa: E501, E702, E741 - the sources are as they are found

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from flydsl.runtime.device import get_rocm_arch

HEAD = """
from flydsl._mlir import ir
from flydsl._mlir.dialects import llvm, scf, memref, math as mlir_math, vector as raw_vector
from flydsl.expr import arith, gpu, buffer_ops, vector, rocdl, range_constexpr, math
from flydsl.expr.typing import T, Vector as Vec
from flydsl.expr.arith import ArithValue, CmpIPredicate
from flydsl.expr.utils.arith import _to_raw as _raw
from flydsl.utils.smem_allocator import SmemAllocator, SmemPtr
from flydsl.compiler.kernel_function import CompilationContext
"""


@dataclass
class Style:
    body: str
    expected: Callable[[Any], Any]
    prelude: str = ""
    smem: int | None = None
    x: Any = None
    launch: str = "pass"
    archs: tuple[str, ...] = ()


STYLES: dict[str, Style] = {}


def add(name: str, body: str, expected: Callable[[Any], Any], pre: str = "", **options: Any) -> None:
    """A kernel body over X and Y (float32, 64 elements, Y poisoned with -7) and what Y is afterwards."""
    STYLES[name] = Style(textwrap.dedent(body), expected, textwrap.dedent(pre), **options)


I = np.arange(64)
add(
    "scf_if",
    """
t = gpu.thread_id("x")
c = arith.cmpi(CmpIPredicate.ult, t, arith.index(32))
res = scf.IfOp(c, [T.f32], has_else=True)
with ir.InsertionPoint(res.then_block):
    scf.YieldOp([arith.constant(1.0, type=T.f32)])
with ir.InsertionPoint(res.else_block):
    scf.YieldOp([arith.constant(2.0, type=T.f32)])
Y[fx.Int32(t)] = fx.Float32(res.results[0])
""",
    lambda x: np.where(I < 32, 1, 2),
)
add(
    "scf_if_noresult",
    """
t = fx.thread_idx.x
op = scf.IfOp(_raw(t < 10))
with ir.InsertionPoint(op.then_block):
    Y[t] = 5.0
    scf.YieldOp([])
""",
    lambda x: np.where(I < 10, 5, -7),
)
add(
    "scf_for_raw",
    """
t = fx.thread_idx.x
c0, c4, c1 = arith.index(0), arith.index(4), arith.index(1)
loop = scf.ForOp(c0, c4, c1, [arith.constant(0.0, type=T.f32)])
with ir.InsertionPoint(loop.body):
    acc = loop.inner_iter_args[0]
    scf.YieldOp([_raw(fx.Float32(acc) + 1.5)])
Y[t] = fx.Float32(loop.results[0])
""",
    lambda x: I * 0 + 6,
)
add(
    "index_math",
    """
tx = gpu.thread_id("x")
bx = gpu.block_id("x")
c4 = arith.index(4)
a = tx * c4 + 3
b = a / 4
c = a % 4
d = a // c4
e = arith.index_cast(T.i32, d)
ok = tx < 10
f = arith.select(ok, arith.constant(1, type=T.i32), arith.constant(0, type=T.i32))
q = arith.index_cast(T.i32, b + c + bx)
Y[fx.Int32(tx)] = fx.Float32(fx.Int32(e)) + fx.Float32(fx.Int32(q)) + fx.Float32(fx.Int32(f))
""",
    lambda x: I + (I + 3) + (I < 10),
)
add(
    "fx_index",
    """
tid = fx.Index(fx.thread_idx.x)
a = tid * fx.Index(4) + 3
b = a // 4
c = a % fx.Index(4)
d = tid / 2
ok = a < fx.Index(40)
Y[fx.Int32(tid)] = fx.Float32(fx.Int32(b)) + fx.Float32(fx.Int32(c)) + fx.Float32(fx.Int32(d)) + ok.select(fx.Float32(1.0), fx.Float32(0.0))
""",
    lambda x: I + 3 + I // 2 + (I * 4 + 3 < 40),
)
add(
    "loop_init_index",
    """
t = fx.thread_idx.x
acc = [arith.constant(0.0, type=T.f32), arith.constant(1.0, type=T.f32)]
c0, cN, cS = arith.index(0), arith.index(64), arith.index(16)
for iv, state in range(c0, cN, cS, init=acc):
    i32 = arith.index_cast(T.i32, iv)
    v = X[fx.Int32(i32)]
    results = yield [fx.Float32(state[0]) + v, state[1] * arith.constant(2.0, type=T.f32)]
acc = results
Y[t] = fx.Float32(acc[0]) + fx.Float32(acc[1])
""",
    lambda x: I * 0 + (0 + 16 + 32 + 48) + 16,
)
add(
    "crd2idx",
    """
t = fx.thread_idx.x
L = fx.make_layout((4, 16), (16, 1))
tx = gpu.thread_id("x")
crd = fx.idx2crd(t, L)
i = fx.get(crd, 0); j = fx.get(crd, 1)
lin = fx.crd2idx(fx.make_coord(i, j), L)
lin2 = fx.crd2idx((fx.Int32(i), fx.Int32(j)), L)
k = fx.get_scalar(lin)
Y[fx.Int32(k)] = fx.Float32(fx.Int32(i)) * 100.0 + fx.Float32(fx.Int32(j))
""",
    lambda x: (I // 16) * 100 + I % 16,
)
add(
    "crd_index_leaf",
    """
tx = gpu.thread_id("x")
L = fx.make_layout((16, 4), (1, 16))
i = tx % 16
j = tx / 16
k = fx.get_scalar(fx.crd2idx(fx.make_coord(i, j), L))
Y[fx.Int32(k)] = 3.0
v = fx.slice(fx.logical_divide(X, fx.make_layout(4, 1)), (None, i))
""",
    lambda x: I * 0 + 3,
)
add(
    "bufops",
    """
t = fx.thread_idx.x
rsrc = buffer_ops.create_buffer_resource(X, max_size=True)
rdst = buffer_ops.create_buffer_resource(Y, max_size=False, num_records_bytes=256)
tx = gpu.thread_id("x")
base = tx * 4
v = buffer_ops.buffer_load(rsrc, base, vec_width=4, dtype=T.i32, mask=tx < arith.index(16))
f = v.bitcast(T.vec(4, T.f32))
g = vector.bitcast(T.vec(4, T.f32), v)
h = f + g
e0 = vector.extract(h, static_position=[1], dynamic_position=[])
h2 = raw_vector.insert(e0, h, [], [0]) if hasattr(raw_vector,'insert') else h
buffer_ops.buffer_store(h2, rdst, base, mask=arith.cmpi(CmpIPredicate.ult, tx, arith.index(16)))
""",
    lambda x: np.where(np.arange(64) % 4 == 0, 2 * (I + 1), 2 * I),
)
add(
    "bufops_bytes",
    """
t = fx.thread_idx.x
rsrc = buffer_ops.create_buffer_resource(X)
rdst = buffer_ops.create_buffer_resource(Y)
v = buffer_ops.buffer_load(rsrc, t, vec_width=1, dtype=fx.Float32, soffset_bytes=fx.Int32(0), cache_modifier=2)
buffer_ops.buffer_store(v, rdst, t * 4, offset_is_bytes=True)
w = buffer_ops.buffer_load(rsrc, 3, vec_width=4, dtype=T.i32, is_scalar=True)
""",
    lambda x: x,
)
add(
    "smemptr",
    """
t = fx.thread_idx.x
base = alloc.get_base()
s_ = SmemPtr(base, OFF, T.f32, shape=(64,))
mem = s_.get()
s_.store(X[t], [t])
gpu.barrier()
v = s_.load([fx.Index(63) - fx.Index(t)])
q = memref.load(mem, [_raw(fx.Index(t))])
w = vector.load_op(T.vec(2, T.f32), mem, [arith.index(2)])
raw_vector.store(w, mem, [_raw(fx.Index(4))]) if False else None
Y[t] = fx.Float32(v) + fx.Float32(q) + fx.Float32(w[1])
""",
    lambda x: 63 - I + I + 3,
    pre="""
alloc = SmemAllocator(None, arch="gfx942", global_sym_name="s_a")
OFF = alloc._align(alloc.ptr, 16)
alloc.ptr = OFF + 256
""",
    launch="""
alloc.finalized = False
ctx = CompilationContext.get_current()
with ir.InsertionPoint(ctx.gpu_module_body):
    alloc.finalize()
""",
)
add(
    "mfma_raw",
    """
t = fx.thread_idx.x
a = Vec.filled(4, 1.0, fx.Float16)
b = Vec.filled(4, 2.0, fx.Float16)
acc = Vec.filled(4, 0.0, fx.Float32)
acc2 = arith.constant_vector(0.0, T.f32x4)
r = rocdl.mfma_f32_16x16x16f16(T.f32x4, [a, b, acc, 0, 0, 0])
r = rocdl.mfma_f32_16x16x16f16(T.f32x4, [a, b, r])
z = fx.Int64(0).ir_value()
r3 = rocdl.mfma_f32_16x16x32_fp8_fp8(T.f32x4, [z, z, acc2, 0, 0, 0])
Y[t] = fx.Float32(vector.extract(r, static_position=[0], dynamic_position=[])) + Vec(r3)[1]
""",
    lambda x: I * 0 + 64,
    archs=("gfx942", "gfx950"),
)
add(
    "lanes",
    """
t = fx.thread_idx.x
lane = _raw(t)
b = rocdl.ds_bpermute(T.i32, arith.shli(arith.constant(0,type=T.i32)+ArithValue(lane), arith.constant(2,type=T.i32)), lane)
first = rocdl.readfirstlane(T.i32, lane)
e = rocdl.exp2(T.f32, _raw(fx.Float32(1.0)))
r = rocdl.rcp(T.f32, arith.constant(4.0, type=T.f32))
rocdl.sched_barrier(0)
rocdl.s_setprio(1)
rocdl.sched_group_barrier(rocdl.mask_dsrd, 1, 0) if False else None
Y[t] = fx.Float32(fx.Int32(b)) - fx.Float32(fx.Int32(b)) + X[t] + fx.Float32(e) + fx.Float32(r)
""",
    lambda x: I + 2.25,
)
add(
    "waits",
    """
t = fx.thread_idx.x
rocdl.s_waitcnt(vmcnt=0)
rocdl.s_waitcnt(lgkmcnt=0)
rocdl.s_barrier()
rocdl.sched_mfma(1) if False else None
Y[t] = 1.0
""",
    lambda x: I * 0 + 1,
    archs=("gfx942", "gfx950", "gfx1201"),
)
add(
    "llvm_ptr",
    """
t = fx.thread_idx.x
p = buffer_ops.create_llvm_ptr(fx.ptrtoint(fx.get_iter(X)), address_space=1)
q = buffer_ops.get_element_ptr(p, fx.Int64(t) * 4, elem_type=T.i8)
v = llvm.load(T.f32, q)
v2 = llvm.LoadOp(T.f32, q, alignment=4).result
base = fx.buffer_ops.extract_base_index(Y)
yp = buffer_ops.create_llvm_ptr(base, address_space=1)
yq = buffer_ops.get_element_ptr(yp, byte_offset=_raw(fx.Int32(t) * 4))
llvm.StoreOp(_raw(fx.Float32(v) + fx.Float32(v2)), yq, alignment=4)
""",
    lambda x: 2 * x,
)
add(
    "llvm_atomic",
    """
t = fx.thread_idx.x
Y[t] = 0.0
gpu.barrier()
yp = fx.to_llvm_ptr(fx.get_iter(Y))
llvm.AtomicRMWOp(llvm.AtomicBinOp.fadd, yp, _raw(fx.Float32(1.0)), llvm.AtomicOrdering.monotonic, syncscope="agent", alignment=4)
llvm.FenceOp(llvm.AtomicOrdering.acq_rel, syncscope="agent")
""",
    lambda x: np.where(I == 0, 64, 0),
)
add(
    "inline_asm",
    """
t = fx.thread_idx.x
r = llvm.inline_asm(T.i32, [_raw(t)], "v_add_u32 $0, $1, 5", "=v,v", has_side_effects=False)
Y[t] = fx.Float32(fx.Int32(r))
""",
    lambda x: I + 5,
    archs=("gfx942", "gfx950"),
)
add(
    "vector_forms",
    """
t = fx.thread_idx.x
v = vector.broadcast(T.f32x4, arith.constant(2.0, type=T.f32))
w = vector.from_elements(T.f32x4, [fx.Float32(1.0), arith.constant(2.0,type=T.f32), fx.Float32(3.0), X[t]])
u = v * w
m = vector.shuffle(u, u, [0, 2])
es = vector.extract_strided_slice(T.f32x2, u, [2], [2], [1])
red = vector.reduction(T.f32, vector.CombiningKind.MAXNUMF, m)
x16 = u.truncf(T.vec(4, T.f16)) if hasattr(u,'truncf') else u.to(fx.Float16)
back = x16.extf(T.f32x4)
k = arith.addf(back, u)
Y[t] = fx.Float32(red) + es[1] + fx.Float32(vector.extract(k, static_position=[1], dynamic_position=[])) + k[fx.Int32(0)]
""",
    lambda x: 6 + 2 * x + 8 + 4,
)
add(
    "typed",
    """
t = fx.thread_idx.x
a = fx.Uint32(t) >> 1
b = fx.Int64(t) + 1
c = fx.Int32(b)
d = (t & 3) | 4
e = t ^ 1
f = fx.Float16(X[t]).to(fx.Float32)
g = X[t].to(fx.BFloat16).to(fx.Float32)
h = (t == 5).select(1.0, 0.0)
i = fx.Float32(a)
Y[t] = i + fx.Float32(c) + fx.Float32(d) + fx.Float32(e) + f + g + h
""",
    lambda x: I // 2 + I + 1 + ((I & 3) | 4) + (I ^ 1) + x + x + (I == 5),
)
add(
    "jit_helper",
    """
t = fx.thread_idx.x
Y[t] = clamp(X[t], fx.Float32(10.0))
""",
    lambda x: np.minimum(I, 10),
    pre="""
@flyc.jit
def clamp(v, hi):
    if v > hi:
        v = hi
    return v
""",
)
add(
    "list_carry",
    """
t = fx.thread_idx.x
accs = [fx.Float32(0.0) for _ in range_constexpr(4)]
for i in range(8):
    for j in range_constexpr(4):
        accs[j] = accs[j] + X[fx.Int32(i)] * float(j)
tot = accs[0]
for j in range_constexpr(1, 4):
    tot = tot + accs[j]
Y[t] = tot
""",
    lambda x: I * 0 + 28 * 6,
)
add(
    "lds_view",
    """
t = fx.thread_idx.x
@fx.struct
class Smem:
    a: fx.Array[fx.Float32, 64, 16]
    b: fx.Array[fx.Int32, 64, 16]
sm = fx.SharedAllocator().allocate(Smem)
st = sm.peek()
st.a[t] = X[t]
st.b[t] = t
gpu.barrier()
s = st.a.view(fx.make_layout(64, 1))
Y[t] = s[63 - t] + fx.memref_load(s, t) + fx.Float32(sm.b.peek()[t])
""",
    lambda x: 63 + I,
)
add(
    "smem_raw_dyn",
    """
t = fx.thread_idx.x
base = fx.get_dyn_shared()
p = fx.recast_iter(fx.Float32, base)
q = fx.recast_iter(fx.Float32, fx.add_offset(base, 256))
a = fx.make_view(p, fx.make_layout(64, 1)); b = fx.make_view(q, fx.make_layout((8,8), (8,1)))
a[t] = X[t]
b[t // 8, t % 8] = X[t] * 2.0
gpu.barrier()
Y[t] = a[63-t] + b[t % 8, t // 8]
""",
    lambda x: 63 - I + 2 * ((I % 8) * 8 + I // 8),
    smem=1024,
)
add(
    "universal_copy_lds_11",
    """
t = fx.thread_idx.x
base = fx.recast_iter(fx.Float16, fx.get_dyn_shared())
atom = fx.make_copy_atom(fx.UniversalCopy(64), fx.Float16)
lay = fx.make_layout(4, 1)
r = fx.make_rmem_tensor(4, fx.Float16)
r.store(Vec.filled(4, X[t], fx.Float16))
view = fx.make_view(fx.add_offset(base, t * 4), fx.make_layout(1, 1))
fx.copy(atom, r, view)
gpu.barrier()
r2 = fx.memref_alloca(fx.MemRefType.get(T.f16, fx.LayoutType.get(4, 1), fx.AddressSpace.Register), lay)
fx.copy_atom_call(atom, fx.make_view(fx.add_offset(base, (63 - t) * 4), fx.make_layout(1, 1)), r2)
Y[t] = fx.memref_load_vec(r2)[3].to(fx.Float32)
""",
    lambda x: 63 - I,
    smem=1024,
)
add(
    "swizzled_ptr",
    """
t = fx.thread_idx.x
base = fx.recast_iter(fx.Float32, fx.get_dyn_shared())
sw = fx.static(fx.SwizzleType.get(2, 4, 3))
p = fx.apply_swizzle(base, sw)
atom = fx.make_copy_atom(fx.UniversalCopy(128), fx.Float32)
r = fx.make_rmem_tensor(4, fx.Float32)
r.store(Vec.filled(4, X[t], fx.Float32))
fx.copy(atom, r, fx.make_view(p + t * 4, fx.make_layout(4, 1)))
gpu.barrier()
r2 = fx.make_rmem_tensor(4, fx.Float32)
fx.copy(atom, fx.make_view(p + (63 - t) * 4, fx.make_layout(4, 1)), r2)
Y[t] = r2[2]
""",
    lambda x: 63 - I,
    smem=1024,
)
add(
    "namespace",
    """
t = fx.thread_idx.x
ns = SimpleNamespace(a=fx.Float32(1.0), b=[fx.Float32(2.0), fx.Int32(3)])
for i in range(4):
    ns.a = ns.a + 1.0
    ns.b[1] = ns.b[1] + 1
Y[t] = ns.a + ns.b[0] + fx.Float32(ns.b[1])
""",
    lambda x: I * 0 + 14,
    pre="from types import SimpleNamespace",
)
add(
    "while_loop",
    """
t = fx.thread_idx.x
n = fx.Int32(0)
v = t + 1
while v > 0:
    v = v >> 1
    n = n + 1
Y[t] = fx.Float32(n)
""",
    lambda x: np.floor(np.log2(I + 1)) + 1,
)
add(
    "math_forms",
    """
t = fx.thread_idx.x
x = X[t] + 1.0
a = math.exp2(math.log2(x), fastmath=arith.FastMathFlags.fast)
b = mlir_math.sqrt(_raw(x * x))
c = fx.math.rsqrt(x) * fx.math.sqrt(x)
d = arith.maximumf(_raw(x), arith.constant(3.0, type=T.f32))
e = arith.negf(_raw(x))
f = arith.divf(_raw(x), arith.constant(2.0, type=T.f32), fastmath=arith.FastMathFlags.fast)
g = x.exp2() if False else x
Y[t] = fx.Float32(a) + fx.Float32(b) + c + fx.Float32(d) + fx.Float32(e) + fx.Float32(f)
""",
    lambda x: (x + 1) * 2 + 1 + np.maximum(x + 1, 3) - (x + 1) + (x + 1) / 2,
)
add(
    "tensor_index_type",
    """
tx = gpu.thread_id("x")
v = fx.memref_load(X, fx.Int32(tx))
fx.memref_store(v, Y, fx.Int32(tx))
w = X[fx.Index(tx)]
Y[fx.Index(tx)] = w + 1.0
""",
    lambda x: x + 1,
)
add(
    "i8_pack",
    """
t = fx.thread_idx.x
i8 = arith.trunci(T.i8, _raw(t))
v = vector.from_elements(T.i8x4, [i8, i8, i8, i8])
p = vector.bitcast(T.vec(1, T.i32), v)
q = vector.extract(p, static_position=[0], dynamic_position=[])
e = arith.extsi(T.i32, i8)
lo = fx.Int32(q) & 0xFF
Y[t] = fx.Float32(lo) + fx.Float32(fx.Int32(e)) + fx.Float32(fx.Int32(p))  * 0.0
""",
    lambda x: 2 * I,
)
add(
    "fp8",
    """
t = fx.thread_idx.x
z = arith.constant(0, type=T.i32)
w = rocdl.cvt_pk_fp8_f32(T.i32, X[t], X[t], z, False)
w = rocdl.cvt_pk_fp8_f32(T.i32, X[t], X[t], w, True)
f = rocdl.cvt_pk_f32_fp8(T.f32x2, w, True)
Y[t] = Vec(f)[0]
""",
    lambda x: x,
    x=(np.arange(64) % 8).astype(np.float32),
)
add(
    "assume_range",
    """
t = fx.thread_idx.x
for i in range(fx.Int32(0), fx.Int32(4), 1):
    Y[t] = Y[t] + X[i]
for i in range(0, 4, fx.Int32(2)):
    Y[t] = Y[t] + 1.0
""",
    lambda x: I * 0 - 7 + 6 + 2,
)
add(
    "boolean_and",
    """
t = fx.thread_idx.x
ok = (t < 40) & (t > 4)
ok2 = arith.andi(_raw(t < 40), _raw(t > 4))
if ok:
    Y[t] = 1.0
if ArithValue(ok2):
    Y[t] = Y[t] + 1.0
""",
    lambda x: np.where((I < 40) & (I > 4), 2, -7),
)


def source(style: Style) -> str:
    return (
        f"{HEAD}{style.prelude}\n@flyc.kernel\ndef k(X: fx.Tensor, Y: fx.Tensor):\n{textwrap.indent(style.body, '    ')}\n"
        "@flyc.jit\ndef run(X: fx.Tensor, Y: fx.Tensor, stream: fx.Stream = fx.Stream(None)):\n"
        f"{textwrap.indent(textwrap.dedent(style.launch), '    ')}\n"
        f"    k(X, Y).launch(grid=(1, 1, 1), block=(64, 1, 1), smem={style.smem}, stream=stream)\n"
    )


@pytest.mark.filterwarnings("ignore:SmemAllocator")
@pytest.mark.parametrize("name", STYLES)
def test_style(load: Any, device: None, name: str) -> None:
    style = STYLES[name]
    if style.archs and get_rocm_arch() not in style.archs:
        pytest.skip(f"not for {get_rocm_arch()}")
    x = np.arange(64, dtype=np.float32) if style.x is None else style.x
    y = np.full(64, -7, np.float32)
    load(source(style)).run(x, y)
    np.testing.assert_allclose(y, style.expected(x), rtol=1e-4, atol=1e-4)
