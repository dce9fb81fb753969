"""Launcher: what reaches the HIP library, and lazy loading per device."""

from __future__ import annotations

import ctypes
import struct
import subprocess
import threading
from collections.abc import Callable

import numpy as np
import pytest
from runtime_fake_hip import FakeHip, build_fake_hip
from runtime_plans import HSACO, launch, launch_plan, plan, scalar, tensor, values_plan

import flydsl.runtime as rt
from flydsl.runtime import Launcher


def test_launch_reaches_hip_with_packed_arguments(fake_hip) -> None:
    arguments = [tensor("A", "f32", 2), scalar("n", "i32"), {"kind": "stream", "name": "stream"}]
    code = [
        ["ptr", 1, 0],
        ["shape", 2, 0, 1],
        ["stride", 3, 0, 0],
        ["arg", 4, 1],
        ["stream", 5, 2],
        ["const", 6, 128],
        launch("copy", (2, 0, 0), (6, 0, 0), 6, 5, ((1, 0, 8), (2, 8, 4), (3, 16, 8), (4, 24, 4)), 28),
    ]
    array = np.zeros((5, 7), np.float32)
    launcher = Launcher(launch_plan(arguments, *code), HSACO, arch="gfx942")
    assert launcher(array, -2, 0x1234) is None
    (record,) = fake_hip.launches()
    assert record["kernel"] == "copy"
    assert record["grid"] == "7,1,1"
    assert record["block"] == "128,1,1"
    assert record["smem"] == "128"
    assert record["stream"] == str(0x1234)
    expected = struct.pack("<qi4xqi", array.ctypes.data, 7, 7, -2)
    assert bytes.fromhex(record["args"]) == expected


def test_code_object_is_loaded_once_per_device_on_first_use(fake_hip) -> None:
    launcher = Launcher(launch_plan([], launch()), HSACO, arch="gfx942:sramecc+:xnack-")
    assert fake_hip.lines("load") == []
    launcher()
    launcher()
    try:
        rt.set_device(1)
        launcher()
    finally:
        rt.set_device(0)
    assert [line.split()[1] for line in fake_hip.lines("load")] == ["device=0", "device=1"]
    assert [record["device"] for record in fake_hip.launches()] == ["0", "0", "1"]


def test_load_ahead_of_the_first_call(fake_hip) -> None:
    launcher = Launcher(launch_plan([], launch()), HSACO)
    launcher.load()
    assert len(fake_hip.lines("load")) == 1
    launcher()
    assert len(fake_hip.lines("load")) == 1


def test_several_launches_in_program_order(fake_hip) -> None:
    code = launch_plan([], launch("first"), launch("second"), launch("first"))
    launcher = Launcher(code, HSACO)
    assert launcher.kernels == ("first", "second")
    launcher()
    assert [record["kernel"] for record in fake_hip.launches()] == ["first", "second", "first"]


def test_cluster_launch_passes_the_cluster_dimension(fake_hip) -> None:
    code = [["const", 1, 4], ["const", 2, 2], launch("k", grid=(1, 1, 0), cluster=[2, 1, 0])]
    Launcher(launch_plan([], *code), HSACO)()
    assert fake_hip.launches()[0]["cluster"] == "2,4,1"


def test_cluster_must_divide_the_grid() -> None:
    code = [["const", 1, 4], ["const", 2, 3], launch("k", grid=(1, 0, 0), cluster=[2, 0, 0])]
    with pytest.raises(ValueError, match=r"kernel 'k' .*cluster \(3, 1, 1\).*multiple of the cluster"):
        Launcher(launch_plan([], *code), HSACO)()


def test_cluster_launch_without_hip_support_is_an_error(run_python) -> None:
    library = build_fake_hip("FAKE_HIP_SIMULATOR")
    code = """
from runtime_plans import HSACO, launch, launch_plan
from flydsl.runtime import Launcher
code = [["const", 1, 2], launch("k", grid=(1, 0, 0), cluster=[1, 0, 0])]
try:
    Launcher(launch_plan([], *code), HSACO)()
except RuntimeError as error:
    print(type(error).__name__, error)
"""
    result = run_python(code, FLYDSL_HIP_LIBRARY=str(library))
    assert result.stdout.startswith("HipError f(): launch of kernel 'k'"), result.stderr
    assert "hipDrvLaunchKernelEx" in result.stdout


@pytest.mark.parametrize(
    ("grid", "block", "problem"),
    [
        (0, 64, "must be positive"),
        (-1, 64, "must be positive"),
        (1, 0, "must be positive"),
        (1, 1025, "limit for block.x is 1024"),
        (1 << 40, 64, "exceeds 2\\^32 - 1 work-items"),
    ],
)
def test_bad_launch_size_names_kernel_and_configuration(grid: int, block: int, problem: str) -> None:
    code = [["const", 1, grid], ["const", 2, block], launch("scale", (1, 0, 0), (2, 0, 0))]
    launcher = Launcher(launch_plan([], *code, name="host"), HSACO)
    pattern = rf"host\(\): launch of kernel 'scale' with grid \({grid}, 1, 1\), block \({block}, 1, 1\).*{problem}"
    with pytest.raises(ValueError, match=pattern):
        launcher()


def test_block_and_lds_limits_of_the_device() -> None:
    many = [["const", 1, 64], launch("k", block=(1, 1, 0))]
    with pytest.raises(ValueError, match="block of 4096 work-items exceeds the device's limit of 1024"):
        Launcher(launch_plan([], *many), HSACO)()
    lds = [["const", 1, 65537], launch("k", smem=1)]
    with pytest.raises(ValueError, match="65537 bytes of dynamic LDS: the device's limit .* is 65536"):
        Launcher(launch_plan([], *lds), HSACO)()


def test_failed_launch_raises_the_simulators_text(fake_hip) -> None:
    launcher = Launcher(launch_plan([], launch("boom")), HSACO)
    fake_hip.fail("hipModuleLaunchKernel", 719)
    with pytest.raises(rt.SimulatorError, match="kernel 'boom' .*simulated failure of hipModuleLaunchKernel") as info:
        launcher()
    assert info.value.code == 719
    assert info.value.name == "hipErrorLaunchFailure"
    assert isinstance(info.value, rt.HipError)
    assert isinstance(info.value, RuntimeError)


def test_failed_load_and_missing_kernel(fake_hip) -> None:
    launcher = Launcher(launch_plan([], launch("k"), name="host"), HSACO)
    fake_hip.fail("hipModuleLoadData", 1)
    with pytest.raises(rt.HipError, match=r"host\(\): loading the code object on device 0"):
        launcher()
    fake_hip.clear()
    launcher()  # a failed load is tried again
    with pytest.raises(rt.HipError, match="kernel 'missing_kernel'.*hipErrorNotFound"):
        Launcher(launch_plan([], launch("missing_kernel")), HSACO)()


def test_architecture_of_code_object_and_device_must_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_SIM_ARCH", "gfx942")  # somebody said which device it is
    with pytest.raises(rt.HipError, match="compiled for gfx950, but device 0 is gfx942.*FLYDSL_SIM_ARCH=gfx950"):
        Launcher(launch_plan([], launch()), HSACO, arch="gfx950")()


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        (b"", "not an ELF file"),
        (HSACO[:63], "not an ELF file"),
        (b"x" * 100, "not an ELF file"),
        (HSACO[:18] + b"\x3e\0" + HSACO[20:], "not a 64-bit AMDGPU ELF file"),
        (HSACO[:56] + b"\2\0" + HSACO[58:], "truncated or damaged"),
        (HSACO[:60] + b"\2\0" + HSACO[62:], "truncated or damaged"),
    ],
    ids=["empty", "short", "other", "machine", "segments", "sections"],
)
def test_damaged_code_object_never_reaches_hip(fake_hip, image: bytes, problem: str) -> None:
    with pytest.raises(rt.HipError, match=rf"host\(\): the code object cannot be loaded: {problem}"):
        Launcher(launch_plan([], launch(), name="host"), image)()
    assert fake_hip.lines("load") == []


def test_keyword_and_wrong_count() -> None:
    launcher = Launcher(launch_plan([scalar("n"), scalar("m")], launch(), name="host"), HSACO)
    with pytest.raises(TypeError, match=r"host\(\): expected 2 arguments \(n, m\), got 1"):
        launcher(1)
    with pytest.raises(TypeError, match=r"expected 2 arguments \(n, m\), got 3"):
        launcher(1, 2, 3)
    with pytest.raises(TypeError, match="positional arguments only, got 'm'"):
        launcher(1, m=2)


def test_attributes_and_occupancy(fake_hip) -> None:
    launcher = Launcher(launch_plan([scalar("n")], launch("k"), name="host"), HSACO, arch="gfx942")
    assert (launcher.name, launcher.arch, launcher.argument_names) == ("host", "gfx942", ("n",))
    assert "host for gfx942" in repr(launcher)
    assert launcher.kernel_attributes("k")["num_regs"] == 50
    assert launcher.max_active_blocks("k", 256) == 8
    assert launcher.max_active_blocks("k", 256, 1024) == 1
    with pytest.raises(KeyError, match="no kernel 'other'"):
        launcher.kernel_attributes("other")


def test_evaluate_needs_no_device(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    code = """
from runtime_plans import launch, launch_plan, scalar
from flydsl.runtime import Launcher
code = [["arg", 1, 0], launch("k", grid=(1, 0, 0), args=((1, 4, 4),), size=8)]
print(Launcher(launch_plan([scalar("n")], *code), b"x").evaluate(3))
"""
    result = run_python(code, FLYDSL_HIP_LIBRARY="/nowhere/libamdhip64.so")
    assert eval(result.stdout) == [
        {
            "kernel": "k",
            "grid": (3, 1, 1),
            "block": (1, 1, 1),
            "cluster": None,
            "smem": 0,
            "stream": 0,
            "kernargs": b"\0\0\0\0\3\0\0\0",
        }
    ], result.stderr


def test_calls_from_many_threads(fake_hip) -> None:
    launcher = Launcher(values_plan([tensor("A", "f32", 1), scalar("n")], ["arg", 1, 1], results=[1]), HSACO)
    array = np.zeros(4, np.float32)
    errors: list[BaseException] = []

    def work(start: int) -> None:
        try:
            for i in range(start, start + 50):
                launcher(array, i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(100 * i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(fake_hip.lines("load")) == 1
    values = sorted(struct.unpack("<q", bytes.fromhex(record["args"]))[0] for record in fake_hip.launches())
    assert values == sorted(100 * i + j for i in range(8) for j in range(50))


def test_large_plans_leave_the_inline_storage(fake_hip) -> None:
    arguments = [tensor(f"t{i}", "f32", 3) for i in range(20)]
    code = [["ptr", 200 + i, i] for i in range(20)]
    kernel_args = tuple((200 + i, 100 * i, 8) for i in range(20))
    call = launch("k", (199, 199, 199), (199, 199, 199), args=kernel_args, size=2000)
    data = plan(arguments, [["const", 199, 1], *code, call], regs=256)
    arrays = [np.zeros((2, 3, 4), np.float32) for _ in range(20)]
    (record,) = Launcher(data, HSACO).evaluate(*arrays)
    for i, array in enumerate(arrays):
        assert record["kernargs"][100 * i : 100 * i + 8] == struct.pack("<Q", array.ctypes.data)
    Launcher(data, HSACO)(*arrays)
    assert len(fake_hip.launches()) == 1


def test_launchers_are_freed_and_hold_no_arguments() -> None:
    import gc
    import sys

    launcher = Launcher(launch_plan([tensor("A", "f32", 1)], launch()), HSACO)
    array = np.zeros(3, np.float32)
    before = sys.getrefcount(array)
    for _ in range(10):
        launcher(array)
    assert sys.getrefcount(array) == before
    none_before = sys.getrefcount(None)
    for _ in range(1000):
        launcher(array)
    assert sys.getrefcount(None) < none_before + 500
    del launcher
    gc.collect()


def test_pointer_arguments() -> None:
    launcher = Launcher(values_plan([{"kind": "pointer", "name": "p", "align": 4}], ["ptr", 1, 0], results=[1]), HSACO)

    def value(argument: object) -> int:
        return struct.unpack("<Q", launcher.evaluate(argument)[0]["kernargs"])[0]

    assert value(0xFFFF_8000_0000_0000) == 0xFFFF_8000_0000_0000
    assert value(ctypes.c_void_p(64)) == 64
    assert value(ctypes.c_void_p(None)) == 0
    assert value(None) == 0
    with pytest.raises(ValueError, match="argument 'p' .*aligned to 4 bytes"):
        launcher.evaluate(6)
    with pytest.raises(TypeError, match="expected a pointer .*got 'text' of type 'str'"):
        launcher.evaluate("text")


def test_stream_arguments() -> None:
    launcher = Launcher(launch_plan([{"kind": "stream", "name": "s"}], ["stream", 1, 0], launch(stream=1)), HSACO)

    class Object:
        def __init__(self, **attributes: object) -> None:
            self.__dict__.update(attributes)

    def value(argument: object) -> int:
        return launcher.evaluate(argument)[0]["stream"]

    assert value(None) == 0
    assert value(0x7F00) == 0x7F00
    for name in ("cuda_stream", "stream", "ptr", "value"):
        assert value(Object(**{name: 5})) == 5
    assert value(Object(value=None)) == 0
    assert value(rt.Stream(9)) == 9
    with pytest.raises(TypeError, match="argument 's' .*expected a stream"):
        launcher.evaluate(Object())
    with pytest.raises(TypeError, match="expected a stream"):
        launcher.evaluate("stream")


def test_memory_of_tensors_is_announced_to_the_simulator(fake_hip: FakeHip) -> None:
    """Before each launch, the bytes that each view covers: strides of both signs, and nothing for empty ones."""
    storage = np.zeros((8, 10), np.float32)
    views = [storage[2:5, 1:4], storage[::-1], storage[:0]]
    arguments = [tensor(f"t{i}") for i in range(3)]
    code = [["ptr", 1, 0], launch(args=((1, 0, 8),), size=8), launch(args=((1, 0, 8),), size=8)]
    Launcher(launch_plan(arguments, *code), HSACO)(*views)
    first, second = views[0].ctypes.data, storage.ctypes.data
    expected = [(first, (2 * 10 + 3) * 4), (second, 8 * 10 * 4)]
    found = [dict(f.split("=") for f in line.split()[1:]) for line in fake_hip.lines("range")]
    assert [(int(r["base"], 16), int(r["bytes"])) for r in found] == expected * 2


def test_post_load_processors_run_once_per_device_before_the_launch(fake_hip: FakeHip) -> None:
    seen: list[tuple[int, int]] = []
    note = lambda h: seen.append((h, len(fake_hip.launches())))  # noqa: E731
    target = Launcher(launch_plan([], launch()), HSACO, post_load=[note])
    assert seen == []
    target()
    target()
    ((handle, launches),) = seen
    assert handle and launches == 0 and len(fake_hip.launches()) == 2

    def fail(handle: int) -> None:
        raise KeyError("no symbol")

    broken = Launcher(launch_plan([], launch()), HSACO, post_load=[fail])
    for _ in range(2):
        with pytest.raises(KeyError, match="no symbol"):
            broken()
