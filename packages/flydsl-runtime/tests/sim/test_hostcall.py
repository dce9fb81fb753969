"""Requests of kernels to the host, as ROCm's device library makes them: printing, memory; and the grid barrier."""

from __future__ import annotations

import numpy as np
import pytest
from clangc import compile_gpu, find_clang
from hiplib import SimError

pytestmark = pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")

ARCHS = ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"]

#: The waves' side of the lists of packets, and printf on top of it. Offsets of hidden arguments: code object version 5.
DEVICE = r"""
struct header { u64 next, lanes; u32 service, control; };
struct buffer { struct header *headers; u64 (*payloads)[64][8]; u64 doorbell, free, ready, mask; };
#define HIDDEN(offset) (*(u64 __attribute__((address_space(4))) *)((char __attribute__((address_space(4))) *) \
    __builtin_amdgcn_implicitarg_ptr() + offset))
static u32 lane_id() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)); }
static u64 pop(struct buffer *b) {
  u64 p = __atomic_load_n(&b->free, __ATOMIC_ACQUIRE);
  while (!__atomic_compare_exchange_n(&b->free, &p, __atomic_load_n(&b->headers[p & b->mask].next, __ATOMIC_RELAXED), 0,
                                      __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) __builtin_amdgcn_s_sleep(1);
  return p;
}
static void push(struct buffer *b, u64 *list, u64 p) {
  u64 top = __atomic_load_n(list, __ATOMIC_RELAXED);
  do b->headers[p & b->mask].next = top;
  while (!__atomic_compare_exchange_n(list, &top, p, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}
NOINLINE u64 request(u32 service, u64 a, u64 c, u64 d, u64 e) {
  struct buffer *b = (struct buffer *)HIDDEN(80);
  u32 lane = lane_id(), leader = __builtin_amdgcn_readfirstlane(lane);
  u64 p = lane == leader ? pop(b) : 0;
  p = __builtin_amdgcn_readfirstlane((u32)p) | (u64)(u32)__builtin_amdgcn_readfirstlane((u32)(p >> 32)) << 32;
  struct header *h = &b->headers[p & b->mask];
  u64 *slots = b->payloads[p & b->mask][lane];
  u64 lanes = __builtin_amdgcn_read_exec();
  if (lane == leader) { h->service = service; h->lanes = lanes; h->control = 1; }
  slots[0] = a; slots[1] = c; slots[2] = d; slots[3] = e;
  if (lane == leader) {
    push(b, &b->ready, p);
    __atomic_fetch_add((u64 *)(b->doorbell + 8), 1, __ATOMIC_RELEASE);
  }
  for (;;) {
    u32 waiting = lane == leader ? __atomic_load_n(&h->control, __ATOMIC_ACQUIRE) & 1 : 1;
    if (!__builtin_amdgcn_readfirstlane(waiting)) break;
    __builtin_amdgcn_s_sleep(1);
  }
  u64 answer = slots[0];
  if (lane == leader) {
    u64 again = p + b->mask + 1;
    push(b, &b->free, again ? again : b->mask + 1);
  }
  return answer;
}
/* Words of one message: the first of a request says begin 1, end 2, count << 5, number << 8. */
static u64 begin(u64 stream) { return request(2, 1 | 1 << 5, stream, 0, 0); }
static u64 words(u64 m, u32 n, u64 a, u64 b, u64 c, int last) {
  return request(2, (m & ~(7ull << 5)) | (u64)n << 5 | (last ? 2 : 0), a, b, c);
}
static u64 text(u64 m, const char *s, int last) {
  for (int done = 0; !done;) {
    u64 w = 0;
    for (int i = 0; i < 8 && !done; ++i, ++s) { w |= (u64)(u8)*s << 8 * i; done = !*s; }
    m = words(m, 1, w, 0, 0, done && last);
  }
  return m;
}
KERNEL void print(u64 *out) {
  u32 t = TID();
  u64 m = 0;
  if (t % 3 == 0) {
    m = begin(0);
    m = text(m, "t=%d %5.2f|%-4s|%04llx|%%|%*d\n", 0);
    double half = t * 0.5; u64 bits; memcpy(&bits, &half, 8);
    m = words(m, 2, (u32)-(int)t, bits, 0, 0);
    m = text(m, t % 2 ? "odd" : "an even number", 0);
    m = words(m, 3, 0xabcull << 32 | t, 6, t, 1);
  }
  out[TID()] = m;
}
KERNEL void complain(u64 *out) {
  if (TID() == 5) { text(begin(1), "assertion failed: x > 0\n", 1); __builtin_trap(); }
}
KERNEL void memory(u64 *out) {
  u32 i = WG() * 64 + TID();
  u64 bytes = i % 5 == 4 ? 3u << 20 : 64 * (1 + i % 5);
  u32 *p = (u32 *)request(3, 0, bytes, 0, 0);
  for (u32 k = 0; k < 16; ++k) p[k] = i * 100 + k;
  p[bytes / 4 - 1] += 1;
  u64 sum = 0;
  for (u32 k = 0; k < 16; ++k) sum += p[k];
  out[i] = sum | ((u64)p & (bytes >> 21 ? (2 << 20) - 1 : 4095)) << 40;
  request(3, (u64)p, 0, 0, 0);
}
KERNEL void bad_free(u64 *out) { if (TID() == 0) request(3, (u64)out, 0, 0, 0); }
KERNEL void call(u64 *out) { request(1, (u64)out, 0, 0, 0); }
struct grid { u64 all; u32 number, grids; u64 before, items; u32 arrived, unused, groups; };
static void all_arrive(struct grid *g) {
  __builtin_amdgcn_s_barrier();
  if (TID() == 0) {
    u32 was = __atomic_fetch_add(&g->arrived, 1, __ATOMIC_RELAXED);
    if ((was & 0xffff) == g->groups - 1) __atomic_fetch_add(&g->arrived, 0x10000 - g->groups, __ATOMIC_RELAXED);
    else while (((__atomic_load_n(&g->arrived, __ATOMIC_RELAXED) ^ was) & ~0xffffu) == 0) __builtin_amdgcn_s_sleep(1);
  }
  __builtin_amdgcn_s_barrier();
}
KERNEL void meet(u64 *out, u64 *where) {
  struct grid *g = (struct grid *)HIDDEN(88);
  if (TID() == 0) where[WG()] = (u64)g;
  if (!g) return;
  for (u32 round = 0; round < 3; ++round) {
    out[WG() * 64 + TID()] += 1 + WG();
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    all_arrive(g);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    u64 next = out[(WG() + 1) % g->groups * 64 + TID()];
    if (next != ((WG() + 1) % g->groups + 1) * (round + 1)) out[WG() * 64 + TID()] = 1 << 20;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    all_arrive(g);
  }
}
"""


@pytest.fixture(params=ARCHS)
def image(request, sim, build_dir):
    sim.set_arch(request.param)
    return compile_gpu(DEVICE, request.param, "2", build_dir)


@pytest.fixture(params=["", "oob,race,uninit"])
def checks(request, monkeypatch):
    monkeypatch.setenv("FLYDSL_SIM_CHECK", request.param)


def lines_of(threads: int) -> list[str]:
    """What the kernel `print` prints, one line for each thread that does."""
    return [
        f"t={-t} {t * 0.5:5.2f}|{'odd' if t % 2 else 'an even number':<4}|{0xABC << 32 | t:04x}|%|{t:6d}"
        for t in range(0, threads, 3)
    ]


@pytest.mark.parametrize("schedule", ["", "random:7"])
def test_print(sim, image, checks, capfd, monkeypatch, schedule):
    monkeypatch.setenv("FLYDSL_SIM_SCHED", schedule)
    out = np.zeros(256, np.uint64)
    sim.run(image, "print", (1,), (256,), [out])
    printed = capfd.readouterr().out.splitlines()
    want = lines_of(256)
    assert sorted(printed) == sorted(want)
    lengths = np.zeros(256, np.uint64)
    lengths[::3] = [len(line) + 1 for line in want]  # what printf returns
    np.testing.assert_array_equal(out, lengths)


def test_messages_are_in_the_order_of_the_lanes(sim, build_dir, capfd):
    sim.set_arch("gfx942")
    sim.run(compile_gpu(DEVICE, "gfx942", "2", build_dir), "print", (1,), (64,), [np.zeros(64, np.uint64)])
    assert capfd.readouterr().out.splitlines() == lines_of(64)


def test_a_message_before_a_trap(sim, image, checks, capfd):
    with pytest.raises(SimError, match="trap"):
        sim.run(image, "complain", (1,), (64,), [np.zeros(64, np.uint64)])
    assert capfd.readouterr().err.startswith("assertion failed: x > 0\n")


def test_memory(sim, image, checks):
    out = np.zeros(4 * 64, np.uint64)
    sim.run(image, "memory", (4,), (64,), [out])
    i = np.arange(256)
    words = np.where(i % 5 == 4, 1 << 20, 16 * (1 + i % 5))
    np.testing.assert_array_equal(out, (i * 1600 + 120 + (words == 16)).astype(np.uint64))


def test_requests_that_are_refused(sim, image):
    out = np.zeros(64, np.uint64)
    with pytest.raises(SimError, match="which it did not get from malloc"):
        sim.run(image, "bad_free", (1,), (64,), [out])
    with pytest.raises(SimError, match=r"service 1 \(call a host function\)"):
        sim.run(image, "call", (1,), (64,), [out])


def test_grid_barrier(sim, image, checks):
    """Work-groups of a cooperative launch meet through the counter that a hidden argument points to."""
    groups = 40
    out, where = np.zeros(groups * 64, np.uint64), np.full(groups, 7, np.uint64)
    module = sim.load(image)
    try:
        sim.launch(sim.function(module, "meet"), (groups,), (64,), [out, where], cooperative=True)
        assert (where == where[0]).all() and where[0]
        np.testing.assert_array_equal(out, np.repeat(np.arange(1, groups + 1) * 3, 64))
        sim.launch(sim.function(module, "meet"), (groups,), (64,), [out, where])
        assert not where.any(), "a launch that is not cooperative has no such counter"
    finally:
        sim.lib.hipModuleUnload(module)
