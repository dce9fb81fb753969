"""The machine around the instructions: schedules, spin-waits, clusters, devices, host memory limits."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from clangc import compile_gpu, find_clang
from hiplib import SimError, find_library

pytestmark = pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")

HERE = Path(__file__).parent

SPIN = """
/* Work-group g waits for work-group g+1 to have stored: the last one comes last in the grid. */
KERNEL void chain(GLOBAL u32 *flags, u32 groups) {
  u32 g = WG();
  if (g + 1 < groups)
    while (__atomic_load_n(&flags[g + 1], __ATOMIC_ACQUIRE) == 0) PAUSE;
  __atomic_store_n(&flags[g], g + 1, __ATOMIC_RELEASE);
}
"""


@pytest.fixture(autouse=True)
def host_memory(monkeypatch):
    """These programs give kernels NumPy arrays that HIP has neither allocated nor registered."""
    monkeypatch.setenv("FLYDSL_SIM_HOST_MEMORY", "mapped")


@pytest.mark.parametrize("name, text", [
    ("MAX_INSTRUCTIONS", "1e6"), ("MAX_INSTRUCTIONS", "many"), ("MAX_INSTRUCTIONS", "0"), ("MAX_INSTRUCTIONS", "-1"),
    ("STALL_SECONDS", "soon"), ("STALL_SECONDS", "-1"), ("STALL_SECONDS", "nan"), ("STALL_SECONDS", "3s"),
    ("SCHED", "random:x"), ("SCHED", "random:")])
def test_settings_that_are_no_numbers(sim, build_dir, monkeypatch, name, text):
    """Half of a text is another number (1e6 was 1), and none is not 0, which switches things off: both are refused."""
    monkeypatch.setenv(f"FLYDSL_SIM_{name}", text)
    sim.set_arch("gfx942")
    with pytest.raises(SimError, match=f"FLYDSL_SIM_{name}={text}: expected") as info:
        sim.run(compile_gpu(SPIN.replace("PAUSE", ""), "gfx942", "2", build_dir), "chain", (1,), (64,),
                [np.zeros(1, np.uint32), 1])
    assert info.value.code == 9


LAUNCH = """
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, sys.argv[1])
from hiplib import Sim, SimError

sim = Sim(Path(sys.argv[2]))
sim.set_arch("gfx942")
try:
    sim.run(Path(sys.argv[3]).read_bytes(), "chain", (1,), (64,), [np.zeros(1, np.uint32), 1])
    print("launched")
except SimError as error:
    print(error.code, error.text)
"""


@pytest.mark.parametrize("name, text, outcome", [
    ("CPU", "v2", "launched"), ("CPU", "", "launched"), ("CPU", "avx2", "9 {}: expected 'v2', 'v3' or 'v4'"),
    ("CPU", "V3", "9 {}: expected 'v2', 'v3' or 'v4'"), ("DEVICES", "2", "launched"), ("DEVICES", "", "launched"),
    ("DEVICES", "two", "9 {}: expected a whole number from 1 to 8"), ("DEVICES", "2x", "9 {}: expected a whole number"),
    ("DEVICES", "0", "9 {}: expected a whole number"), ("DEVICES", "9", "9 {}: expected a whole number")])
def test_settings_of_a_process(sim, build_dir, tmp_path, name, text, outcome):
    """A level that does not exist was the slowest, and a word one device: both are refused."""
    image = tmp_path / "spin.hsaco"
    image.write_bytes(compile_gpu(SPIN.replace("PAUSE", ""), "gfx942", "2", build_dir))
    done = subprocess.run([sys.executable, "-c", LAUNCH, str(HERE), str(find_library()), str(image)],
                          env={**os.environ, f"FLYDSL_SIM_{name}": text}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(outcome.format(f"FLYDSL_SIM_{name}={text}"))


@pytest.mark.parametrize("pause", ["__builtin_amdgcn_s_sleep(1)", ""])
@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_groups_that_wait_for_later_groups(sim, build_dir, monkeypatch, arch, pause):
    """All work-groups that fit on the device make progress together."""
    monkeypatch.setenv("FLYDSL_SIM_MAX_INSTRUCTIONS", "200000000")
    flags = np.zeros(9, np.uint32)
    sim.set_arch(arch)
    sim.run(compile_gpu(SPIN.replace("PAUSE", pause), arch, "2", build_dir), "chain", (9,), (64,), [flags, 9])
    np.testing.assert_array_equal(flags, np.arange(1, 10))


@pytest.mark.parametrize("groups", [300, 1024])
def test_threads_take_shares_of_large_grids(sim, build_dir, groups):
    """Each of them starts all groups of its share, the last one too when all but the last wait for others."""
    flags = np.zeros(groups, np.uint32)
    sim.set_arch("gfx942")
    sim.run(compile_gpu(SPIN.replace("PAUSE", "__builtin_amdgcn_s_sleep(1)"), "gfx942", "2", build_dir), "chain",
            (groups,), (64,), [flags, groups])
    np.testing.assert_array_equal(flags, np.arange(1, groups + 1))


RACY = """
static LDS u32 cell[64] __attribute__((loader_uninitialized));
KERNEL void racy(GLOBAL u32 *out) {
  u32 t = TID();
  cell[t & 63] = t;                       /* four waves, no barrier */
  out[t] = cell[(t * 7) & 63];
}
"""


def test_random_schedule(sim, build_dir, monkeypatch):
    """A race shows under some seed, the same seed gives the same result, no seed is deterministic."""
    sim.set_arch("gfx942")
    image = compile_gpu(RACY, "gfx942", "0", build_dir)

    def run(schedule: str | None) -> bytes:
        if schedule:
            monkeypatch.setenv("FLYDSL_SIM_SCHED", schedule)
        else:
            monkeypatch.delenv("FLYDSL_SIM_SCHED", raising=False)
        out = np.zeros(256, np.uint32)
        sim.run(image, "racy", (1,), (256,), [out])
        return out.tobytes()

    assert run(None) == run(None)
    results = [run(f"random:{seed}") for seed in range(8)]
    assert len(set(results)) > 1
    assert results[3] == run("random:3")
    with pytest.raises(SimError, match="FLYDSL_SIM_SCHED"):
        run("sometimes")


CLUSTER = """
KERNEL void ids(GLOBAL u32 *out) {
  u32 g = __builtin_amdgcn_workgroup_id_x();
  if (TID() == 0) {
    out[g * 4 + 0] = __builtin_amdgcn_cluster_id_x();
    out[g * 4 + 1] = __builtin_amdgcn_cluster_workgroup_id_x();
    out[g * 4 + 2] = __builtin_amdgcn_cluster_workgroup_flat_id();
  }
  __builtin_amdgcn_s_cluster_barrier();
  if (TID() == 0)
    out[g * 4 + 3] = __atomic_load_n(&out[(g ^ 1) * 4 + 1], __ATOMIC_RELAXED) + 100;
}
"""


class LaunchAttribute(ctypes.Structure):
    """hipLaunchAttribute with a cluster dimension."""

    _fields_ = [
        ("id", ctypes.c_int),
        ("pad", ctypes.c_char * 4),
        ("dims", ctypes.c_uint * 3),
        ("rest", ctypes.c_char * 52),
    ]


class LaunchConfig(ctypes.Structure):
    """HIP_LAUNCH_CONFIG."""

    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("lds", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("count", ctypes.c_uint),
    ]


def launch_clusters(sim, function, groups: int, cluster: int, *arrays: np.ndarray) -> None:
    """A launch of work-groups of 64 in clusters along x."""
    attribute = LaunchAttribute(4, b"", (cluster, 1, 1))
    config = LaunchConfig((groups, 1, 1), (64, 1, 1), 0, None, ctypes.pointer(attribute), 1)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
    arguments = (ctypes.c_void_p * len(pointers))(*map(ctypes.addressof, pointers))
    sim.state_ranges(arrays)
    sim.check(sim.lib.hipDrvLaunchKernelEx(ctypes.byref(config), function, arguments, None))


MULTICAST = """
typedef u32 v8u32 __attribute__((ext_vector_type(8)));
static LDS u32 cells[64] __attribute__((loader_uninitialized));
/* Work-group g of the cluster moves row g of the input, and says that both share the move; with `one`, only the
   first moves anything. */
KERNEL void rows(GLOBAL u32 *in, GLOBAL u32 *out, GLOBAL u32 *one) {
  u32 g = __builtin_amdgcn_workgroup_id_x();
  cells[TID()] = 1000 + g;
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_s_cluster_barrier();
  if (__builtin_amdgcn_readfirstlane(TID()) < 32 && !(*one && g)) {
    u64 a = (u64)(in + 64 * g);
    v4u32 g0 = {1, (u32)(LDS u32 *)cells, (u32)a, (u32)(a >> 32) | 2u << 30};
    v8u32 g1 = {2u << 16 | 3, 64 << 16, 1u << 16, 64 << 16, 0, 0, 0, 0};
    asm volatile("tensor_load_to_lds %0, %1\\n s_wait_tensorcnt 0x0" :: "s"(g0), "s"(g1) : "memory");
  }
  __builtin_amdgcn_s_cluster_barrier();
  out[64 * g + TID()] = ((volatile LDS u32 *)cells)[TID()];
}
"""


def test_a_shared_tensor_move_delivers_to_who_makes_it(sim, build_dir):
    """The mask merges requests for memory; each work-group's own request writes its own LDS, when it is made."""
    sim.set_arch("gfx1250")
    function = sim.function(sim.load(compile_gpu(MULTICAST, "gfx1250", "2", build_dir)), "rows")
    rows = np.arange(128, dtype=np.uint32).reshape(2, 64)
    for one in (0, 1):
        out = np.full((2, 64), 7, np.uint32)
        launch_clusters(sim, function, 2, 2, rows, out, np.array([one], np.uint32))
        np.testing.assert_array_equal(out[0], rows[0])
        np.testing.assert_array_equal(out[1], np.full(64, 1001) if one else rows[1])


def test_clusters(sim, build_dir):
    """Cluster ids, the cluster barrier and the launch attribute on gfx1250; other grids are refused."""
    sim.set_arch("gfx1250")
    module = sim.load(compile_gpu(CLUSTER, "gfx1250", "2", build_dir))
    function = sim.function(module, "ids")
    out = np.zeros((8, 4), np.uint32)

    def launch(groups: int, cluster: int) -> None:
        launch_clusters(sim, function, groups, cluster, out)

    launch(8, 2)
    np.testing.assert_array_equal(out[:, 0], np.arange(8) // 2)
    np.testing.assert_array_equal(out[:, 1], np.arange(8) % 2)
    np.testing.assert_array_equal(out[:, 2], np.arange(8) % 2)
    np.testing.assert_array_equal(out[:, 3], 100 + (np.arange(8) % 2 ^ 1))
    with pytest.raises(SimError, match="multiple of the cluster"):
        launch(7, 2)
    with pytest.raises(SimError, match="1 to 16"):
        launch(32, 32)
    sim.lib.hipModuleUnload(module)


STORE = """
KERNEL void store(GLOBAL u32 *p, i32 at) { p[at + (i32)TID()] = 7; }
KERNEL void copy(const GLOBAL u32 *p, GLOBAL u32 *q, i32 at) { q[TID()] = p[at + (i32)TID()]; }
"""


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_writes_stay_in_the_launch_arrays(sim, build_dir, arch):
    """With the host arrays of a launch known, a write next to one is an error and changes nothing."""
    sim.set_arch(arch)
    module = sim.load(compile_gpu(STORE, arch, "2", build_dir))
    store = sim.function(module, "store")
    whole = np.zeros(4096, np.uint32)
    part = whole[1024:2048]

    def launch(at: int) -> None:
        bases = (ctypes.c_void_p * 1)(part.ctypes.data)
        sizes = (ctypes.c_size_t * 1)(part.nbytes)
        sim.lib.flysimLaunchRanges(bases, sizes, 1)
        sim.launch(store, (1,), (64,), [part, at])

    launch(0)
    assert (part[:64] == 7).all()
    for at in (1024, -64, 2000):
        with pytest.raises(SimError, match=r"write of 4 bytes .*lane|lane \d+: write of 4 bytes") as info:
            launch(at)
        assert info.value.code == 700
    assert (whole[2048:] == 0).all() and (whole[:1024] == 0).all()
    # The limit belongs to one launch.
    sim.launch(store, (1,), (64,), [whole, 3000])
    assert (whole[3000:3064] == 7).all()
    sim.lib.hipModuleUnload(module)


@pytest.mark.parametrize("pointer", [False, True])
def test_arrays_of_a_launch_may_overlap(sim, build_dir, pointer):
    """A view beside the array that it is of, an array inside of what is mapped around a pointer."""
    sim.set_arch("gfx942")
    store = sim.function(sim.load(compile_gpu(STORE, "gfx942", "2", build_dir)), "store")
    whole = np.zeros(4096, np.uint32)
    first = ctypes.c_void_p(whole.ctypes.data) if pointer else whole
    sim.launch(store, (1,), (64,), [first, 3000, whole[1024:2048], whole[8:16]])
    assert (whole[3000:3064] == 7).all() and whole.sum() == 64 * 7


DEVICES = r"""
import ctypes, sys, numpy as np
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from hiplib import Sim, SimError
sim = Sim(Path(sys.argv[2]))
sim.set_arch("gfx942")
count = ctypes.c_int()
sim.check(sim.lib.hipGetDeviceCount(ctypes.byref(count)))
assert count.value == 4, count.value
image = Path(sys.argv[3]).read_bytes()
module = sim.load(image)
ring = sim.function(module, "ring")
flags = ctypes.c_void_p()
sim.check(sim.lib.hipMalloc(ctypes.byref(flags), ctypes.c_size_t(64)))
sim.check(sim.lib.hipMemset(flags, 0, ctypes.c_size_t(64)))
for device in range(4):
    sim.check(sim.lib.hipSetDevice(device))
    can = ctypes.c_int()
    if device:
        sim.check(sim.lib.hipDeviceCanAccessPeer(ctypes.byref(can), device, 0))
        assert can.value
        sim.check(sim.lib.hipDeviceEnablePeerAccess(0, 0))
    sim.launch(ring, (2,), (64,), [flags, device, 4])
for device in range(4):
    sim.check(sim.lib.hipSetDevice(device))
    sim.check(sim.lib.hipDeviceSynchronize())
result = np.zeros(16, np.uint32)
sim.check(sim.lib.hipMemcpy(result.ctypes.data_as(ctypes.c_void_p), flags, ctypes.c_size_t(64), 2))
assert result[:4].tolist() == [8, 8, 8, 8], result
stream = ctypes.c_void_p()
sim.check(sim.lib.hipStreamCreate(ctypes.byref(stream)))
sim.launch(sim.function(module, "bad"), (1,), (64,), [], stream=stream) if False else None
print("fine")
"""

RING = """
/* An all-reduce: every device adds 1 from each of its work-groups to every flag, then waits. */
KERNEL void ring(GLOBAL u32 *flags, u32 device, u32 devices) {
  if (TID() == 0) {
    for (u32 d = 0; d < devices; ++d) __atomic_fetch_add(&flags[d], 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&flags[device], __ATOMIC_ACQUIRE) < 2 * devices) __builtin_amdgcn_s_sleep(2);
  }
}
"""


def test_devices_wait_for_each_other(sim, build_dir, tmp_path):
    """Kernels of four devices, launched one after the other by one thread, meet in memory."""
    image = tmp_path / "ring.hsaco"
    image.write_bytes(compile_gpu(RING, "gfx942", "2", build_dir))
    environment = {**os.environ, "FLYDSL_SIM_DEVICES": "4"}
    command = [sys.executable, "-c", DEVICES, str(HERE), str(find_library()), str(image)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "fine" in done.stdout


def test_memory_that_disappears(sim, build_dir):
    """Host memory that is unmapped while a launch's table still lists it is an error, not a crash."""
    import mmap

    sim.set_arch("gfx942")
    module = sim.load(compile_gpu(STORE, "gfx942", "2", build_dir))
    store = sim.function(module, "store")
    block = mmap.mmap(-1, 1 << 16)
    address = ctypes.addressof(ctypes.c_char.from_buffer(block))
    sim.launch(store, (1,), (64,), [ctypes.c_void_p(address), 0])
    assert block[0] == 7
    libc = ctypes.CDLL(None)
    libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(1 << 16))
    with pytest.raises(SimError) as info:
        sim.launch(store, (1,), (64,), [ctypes.c_void_p(address), 0])
    assert info.value.code == 700
    sim.lib.hipModuleUnload(module)
    libc.mmap.restype = ctypes.c_void_p
    # Give the range back, so that the mmap object can be closed.
    libc.mmap(ctypes.c_void_p(address), ctypes.c_size_t(1 << 16), 3, 0x32, -1, 0)


IPC_CHILD = r"""
import ctypes, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from hiplib import Sim
sim = Sim(Path(sys.argv[2]))
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]
handle = Handle.from_buffer_copy(bytes.fromhex(sys.argv[3]))
pointer = ctypes.c_void_p()
sim.lib.hipIpcOpenMemHandle.argtypes = [ctypes.c_void_p, Handle, ctypes.c_uint]
sim.check(sim.lib.hipIpcOpenMemHandle(ctypes.byref(pointer), handle, 1))
values = (ctypes.c_uint * 4).from_address(pointer.value)
assert list(values) == [1, 2, 3, 4], list(values)
values[2] = 30
sim.check(sim.lib.hipIpcCloseMemHandle(pointer))
"""


def test_memory_shared_with_a_process(sim):
    """An exported allocation keeps its contents and is the same memory in another process."""
    pointer = ctypes.c_void_p()
    sim.check(sim.lib.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(10000)))
    values = (ctypes.c_uint * 8).from_address(pointer.value)
    values[:] = [9, 9, 9, 9, 1, 2, 3, 4]
    handle = (ctypes.c_char * 64)()
    sim.check(sim.lib.hipIpcGetMemHandle(handle, ctypes.c_void_p(pointer.value + 16)))
    command = [sys.executable, "-c", IPC_CHILD, str(HERE), str(find_library()), handle.raw.hex()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert values[6] == 30
    sim.check(sim.lib.hipFree(pointer))


def test_capture_of_two_streams(sim, build_dir):
    """A capture forks to a second stream by an event and joins again; the graph replays and updates."""
    sim.set_arch("gfx942")
    module = sim.load(compile_gpu(STORE, "gfx942", "2", build_dir))
    store = sim.function(module, "store")
    out = np.zeros(256, np.uint32)
    first, second, event, graph, launchable = (ctypes.c_void_p() for _ in range(5))
    lib, check = sim.lib, sim.check
    for s in (first, second):
        check(lib.hipStreamCreate(ctypes.byref(s)))
    check(lib.hipEventCreate(ctypes.byref(event)))

    def capture(offset: int) -> ctypes.c_void_p:
        check(lib.hipStreamBeginCapture(first, 0))
        sim.launch(store, (1,), (64,), [out, offset], stream=first)
        check(lib.hipEventRecord(event, first))
        check(lib.hipStreamWaitEvent(second, event, 0))
        sim.launch(store, (1,), (64,), [out, offset + 64], stream=second)
        check(lib.hipEventRecord(event, second))
        check(lib.hipStreamWaitEvent(first, event, 0))
        check(lib.hipStreamEndCapture(first, ctypes.byref(graph)))
        return ctypes.c_void_p(graph.value)

    one = capture(0)
    assert not out.any()
    check(lib.hipGraphInstantiate(ctypes.byref(launchable), one, None, None, 0))
    check(lib.hipGraphLaunch(launchable, first))
    assert (out[:128] == 7).all() and not out[128:].any()
    status = ctypes.c_int(9)
    check(lib.hipStreamIsCapturing(second, ctypes.byref(status)))
    assert status.value == 0
    result = ctypes.c_int(9)
    check(lib.hipGraphExecUpdate(launchable, capture(128), None, ctypes.byref(result)))
    check(lib.hipGraphLaunch(launchable, first))
    assert (out == 7).all()
    sim.lib.hipModuleUnload(module)


SLOTS = """
KERNEL void slots(GLOBAL u32 *p, u32 a, u32 pad0, u32 pad1, u32 pad2) { p[TID()] = a + pad2; }
"""


def test_argument_buffer_without_the_last_padding(sim, build_dir):
    """Hosts of hand-written kernels leave out the padding of the last 16-byte slot; more than that is an error."""
    sim.set_arch("gfx942")
    module = sim.load(compile_gpu(SLOTS, "gfx942", "2", build_dir))
    function = sim.function(module, "slots")
    out = np.full(64, 9, np.uint32)
    whole = np.array([out.ctypes.data & 0xFFFFFFFF, out.ctypes.data >> 32, 5, 1, 1, 1], np.uint32)

    def launch(size: int) -> None:
        given = ctypes.c_size_t(size)
        extra = (ctypes.c_void_p * 5)(1, whole.ctypes.data, 2, ctypes.addressof(given), 3)
        sim.check(sim.lib.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, None, extra))

    for size, expected in ((24, 6), (20, 5), (12, 5)):
        launch(size)
        np.testing.assert_array_equal(out, np.full(64, expected), err_msg=f"{size} bytes")
    for size in (22, 11, 4, 0):
        with pytest.raises(SimError, match=f"{size} bytes of arguments given, .* needed"):
            launch(size)
    sim.lib.hipModuleUnload(module)
