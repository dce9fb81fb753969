"""Every kind of copy atom and atomic of an architecture, each in a kernel of its own, against NumPy.

    FLYDSL_SIM_ARCH=gfx950 python tests/copy_atoms.py [NAME ...]
"""

import sys

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.runtime as rt
from flydsl.runtime.device import get_rocm_arch

RNG = np.random.default_rng(7)
ARCH = get_rocm_arch().split(":")[0]
NUMPY = {fx.Int8: np.int8, fx.Float16: np.float16, fx.Float32: np.float32, fx.Float64: np.float64,
         fx.Int32: np.int32, fx.Int64: np.int64}


def data(n, dtype):
    return RNG.integers(-100, 100, n).astype(dtype)


def through_registers(make_op, cls, buffer, values):
    """Copies with `make_op()` from and to memory, a tile of 64 threads x `values` elements for a workgroup."""

    @flyc.kernel
    def kernel(A: fx.Tensor, B: fx.Tensor, n: fx.Int32):
        if fx.const_expr(buffer):
            A = fx.rocdl.make_buffer_tensor(A, num_records_bytes=fx.Int64(n) * (cls.width // 8))
            B = fx.rocdl.make_buffer_tensor(B, num_records_bytes=fx.Int64(n) * (cls.width // 8))
        atom = fx.make_copy_atom(make_op(), cls)
        where = fx.block_idx.x * 64 + fx.thread_idx.x
        a, b = (fx.logical_divide(t, fx.make_layout(values, 1))[None, where] for t in (A, B))
        r = fx.make_rmem_tensor(values, cls)
        if fx.const_expr(buffer):
            fx.copy_atom_call(atom, a, r)
            fx.copy_atom_call(atom, r, b)
        else:
            inside = fx.make_rmem_tensor(1, fx.Boolean)
            inside[0] = where * values < n
            r.fill(0)
            fx.copy_atom_call(atom, a, r, pred=inside)
            fx.copy_atom_call(atom, r, b, pred=inside)

    @flyc.jit
    def launch(A: fx.Tensor, B: fx.Tensor, n: fx.Int32, blocks: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        kernel(A, B, n).launch(grid=blocks, block=64, stream=stream)

    count, used = 4 * 64 * values, 3 * 64 * values + 5 * values
    a, b = data(count, NUMPY[cls]), np.full(count, 55, NUMPY[cls])
    launch(a, b, used, 4)
    rt.synchronize()
    expected = np.full(count, 55, NUMPY[cls])
    expected[:used] = a[:used]
    return np.array_equal(b, expected)


def check_universal_copies():
    for bits, cls in ((8, fx.Int8), (16, fx.Float16), (32, fx.Float16), (64, fx.Int8), (64, fx.Float64),
                      (128, fx.Float16), (128, fx.Float32), (128, fx.Int8)):
        values = bits // cls.width
        yield f"{bits} bits of {cls}", through_registers(lambda b=bits: fx.UniversalCopy(b), cls, False, values)


def check_buffer_copies():
    """Bounds are checked by the descriptor, so the last workgroups neither read nor write past the end."""
    for bits, cls in ((8, fx.Int8), (16, fx.Float16), (32, fx.Float32), (32, fx.Int8), (64, fx.Float16),
                      (128, fx.Float16), (128, fx.Float32)):
        values = bits // cls.width
        yield f"{bits} bits of {cls}", through_registers(lambda b=bits: fx.rocdl.BufferCopy(b), cls, True, values)


def check_buffer_copy_offset():
    """`soffset` moves a copy by whole elements and is the same for all lanes."""

    @flyc.kernel
    def kernel(A: fx.Tensor, B: fx.Tensor, first: fx.Int32):
        A = fx.rocdl.make_buffer_tensor(A)
        atom = fx.make_copy_atom(fx.rocdl.BufferCopy64b(), fx.Float16)
        r = fx.make_rmem_tensor(4, fx.Float16)
        t = fx.thread_idx.x
        for i in fx.range_constexpr(3):
            fx.copy(atom, fx.logical_divide(A, fx.make_layout(4, 1))[None, t], r, soffset=first + i * 8)
            fx.copy_atom_call(fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float16), r,
                              fx.logical_divide(B, fx.make_layout(4, 1))[None, i * 64 + t])

    @flyc.jit
    def launch(A: fx.Tensor, B: fx.Tensor, first: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        kernel(A, B, first).launch(grid=1, block=64, stream=stream)

    a, b = data(512, np.float16), np.zeros(3 * 256, np.float16)
    launch(a, b, 40)
    rt.synchronize()
    yield "soffset", np.array_equal(b, np.concatenate([a[40 + 8 * i :][:256] for i in range(3)]))


def atomics(make_op, cls, buffer, shared, combine, values=None, start=None):
    """256 threads combine their values into 8 places of memory or LDS; whole numbers, so the order is free."""

    @flyc.kernel
    def kernel(A: fx.Tensor, Out: fx.Tensor):
        t = fx.thread_idx.x
        atom = fx.make_copy_atom(make_op(), cls)
        r = fx.make_rmem_tensor(1, cls)
        r[0] = A[t]
        if fx.const_expr(shared):
            place = fx.SharedAllocator().allocate(fx.Array[cls, 8, 16]).peek().view(fx.make_layout(8, 1))
            if t < 8:
                place[t] = Out[t]
            fx.barrier()
        else:
            place = fx.rocdl.make_buffer_tensor(Out) if buffer else Out
        fx.copy_atom_call(atom, r, fx.logical_divide(place, fx.make_layout(1, 1))[None, t % 8])
        if fx.const_expr(shared):
            fx.barrier()
            if t < 8:
                Out[t] = place[t]

    @flyc.jit
    def launch(A: fx.Tensor, Out: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
        kernel(A, Out).launch(grid=1, block=256, stream=stream)

    a = data(256, NUMPY[cls]) if values is None else values
    out = data(8, NUMPY[cls]) if start is None else start
    expected = out.copy()
    for place in range(8):
        for value in a[place::8]:
            expected[place] = combine(expected[place], value)
    launch(a, out)
    rt.synchronize()
    return np.array_equal(out, expected)


OPERATIONS = [
    *(("Add", cls, lambda a, b: a + b) for cls in (fx.Int32, fx.Int64, fx.Float32, fx.Float64)),
    ("Max", fx.Int32, max), ("Min", fx.Int32, min), ("Max", fx.Float32, max), ("Min", fx.Float32, min),
    ("And", fx.Int32, lambda a, b: a & b), ("Or", fx.Int32, lambda a, b: a | b),
    ("Max", fx.Int64, max),
]


def check_universal_atomics():
    for shared in (False, True):
        for name, cls, combine in OPERATIONS:
            op = getattr(fx, f"UniversalAtomic{name}")
            place = "LDS" if shared else "global"
            yield f"{name} {cls} {place}", atomics(lambda o=op, c=cls: o(c), cls, False, shared, combine)


def check_wrapping_atomics():
    """Up to the operand and then from 0, and the reverse."""
    limit, start = np.full(256, 9, np.int32), np.arange(8, dtype=np.int32)
    up, down = (lambda old, top: (old + 1) % (top + 1)), (lambda old, top: (old - 1) % (top + 1))
    yield "Inc", atomics(lambda: fx.UniversalAtomicInc(fx.Int32), fx.Int32, False, False, up, limit, start.copy())
    yield "Dec", atomics(lambda: fx.UniversalAtomicDec(fx.Int32), fx.Int32, False, True, down, limit, start.copy())


def check_scopes_of_atomics():
    for scope in (fx.SyncScope.System, fx.rocdl.SyncScope.Agent, fx.rocdl.SyncScope.Workgroup):
        op = lambda s=scope: fx.UniversalAtomicAdd(fx.Float32, s)  # noqa: E731
        yield f"Add Float32 scope {scope!r}", atomics(op, fx.Float32, False, False, lambda a, b: a + b)


def check_buffer_atomics():
    add = lambda a, b: a + b  # noqa: E731
    yield "Add Float32", atomics(lambda: fx.rocdl.BufferAtomicAdd(fx.Float32), fx.Float32, True, False, add)
    yield "Add Int32", atomics(lambda: fx.rocdl.BufferAtomicAdd(fx.Int32), fx.Int32, True, False, add)
    yield "Min Int32", atomics(lambda: fx.rocdl.BufferAtomicMin(fx.Int32), fx.Int32, True, False, min)
    if ARCH.startswith("gfx12"):  # gfx942 and gfx950 have it for float64 only
        yield "Max Float32", atomics(lambda: fx.rocdl.BufferAtomicMax(fx.Float32), fx.Float32, True, False, max)
    yield "Max Int32", atomics(lambda: fx.rocdl.BufferAtomicMax(fx.Int32), fx.Int32, True, False, max)


def into_lds(make_op, cls, values, asynchronous, from_buffer):
    """One wave fills LDS by DMA (lane L writes behind lane L - 1) and reads it back in reverse order."""
    lanes = 64

    @flyc.kernel
    def kernel(A: fx.Tensor, B: fx.Tensor):
        lane, wave = fx.thread_idx.x % lanes, fx.thread_idx.x // lanes
        size = lanes * values
        lds = fx.SharedAllocator().allocate(fx.Array[cls, 4 * size, 16]).peek().view(fx.make_layout(4 * size, 1))
        source = fx.rocdl.make_buffer_tensor(A) if from_buffer else A
        atom = fx.make_copy_atom(make_op(), cls)
        first = fx.rocdl.readfirstlane(fx.T.i32, wave)
        mine = fx.logical_divide(source, fx.make_layout(values, 1))[None, wave * lanes + lane]
        fx.copy_atom_call(atom, mine, fx.logical_divide(lds, fx.make_layout(values, 1))[None, fx.Int32(first) * lanes])
        if fx.const_expr(asynchronous):
            fx.rocdl.asyncmark()
            fx.rocdl.wait_asyncmark(0)
        fx.barrier()
        for i in fx.range_constexpr(values):
            B[(wave * lanes + lane) * values + i] = lds[4 * size - 1 - ((wave * lanes + lane) * values + i)]

    @flyc.jit
    def launch(A: fx.Tensor, B: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
        kernel(A, B).launch(grid=1, block=4 * lanes, stream=stream)

    a = data(4 * lanes * values, NUMPY[cls])
    b = np.zeros_like(a)
    launch(a, b)
    rt.synchronize()
    return np.array_equal(b, a[::-1])


def check_lds_dma():
    if ARCH not in ("gfx942", "gfx950"):
        return
    yield "32 bits", into_lds(lambda: fx.rocdl.BufferCopyLDS32b(), fx.Float32, 1, False, True)
    yield "32 bits of f16", into_lds(lambda: fx.rocdl.BufferCopyLDS32b(), fx.Float16, 2, False, True)
    if ARCH == "gfx950":
        yield "128 bits", into_lds(lambda: fx.rocdl.BufferCopyLDS128b(), fx.Float16, 8, False, True)
        cdna4 = fx.rocdl.cdna4
        yield "async buffer", into_lds(lambda: cdna4.BufferLoadAsyncLDS128b(), fx.Float16, 8, True, True)
        yield "async global", into_lds(lambda: cdna4.GlobalLoadAsyncLDS128b(), fx.Float32, 4, True, False)
        yield "async global 32", into_lds(lambda: cdna4.GlobalLoadAsyncLDS32b(), fx.Float32, 1, True, False)


def check_lds_transpose():
    """Lane t of 16 addresses elements 4t..4t+3 and receives t, t+16, t+32, t+48."""
    if ARCH != "gfx950":
        return

    @flyc.kernel
    def kernel(A: fx.Tensor, B: fx.Tensor):
        t = fx.thread_idx.x
        lds = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 256, 16]).peek().view(fx.make_layout(256, 1))
        for i in fx.range_constexpr(4):
            lds[4 * t + i] = A[4 * t + i]
        fx.barrier()
        r = fx.make_rmem_tensor(4, fx.Float16)
        atom = fx.make_copy_atom(fx.rocdl.cdna4.LDSReadTrans16_64b(), fx.Float16)
        fx.copy_atom_call(atom, fx.logical_divide(lds, fx.make_layout(4, 1))[None, t], r)
        for i in fx.range_constexpr(4):
            B[4 * t + i] = r[i]

    @flyc.jit
    def launch(A: fx.Tensor, B: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
        kernel(A, B).launch(grid=1, block=64, stream=stream)

    a, b = data(256, np.float16), np.zeros(256, np.float16)
    launch(a, b)
    rt.synchronize()
    group, lane, value = np.meshgrid(np.arange(4), np.arange(16), np.arange(4), indexing="ij")
    yield "16 bits", np.array_equal(b, a[group * 64 + lane + 16 * value].ravel())


CHECKS = {name.removeprefix("check_"): value for name, value in list(globals().items()) if name.startswith("check_")}


def main() -> int:
    """Run the named checks, or all; 1 if one is wrong."""
    wrong = 0
    for name in sys.argv[1:] or CHECKS:
        try:
            for part, good in CHECKS[name]():
                wrong += not good
                print(f"{ARCH} {name}: {part} {'PASS' if good else 'FAIL'}", flush=True)
        except Exception as error:
            wrong += 1
            print(f"{ARCH} {name}: FAIL {type(error).__name__}: {str(error)[:600]}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
