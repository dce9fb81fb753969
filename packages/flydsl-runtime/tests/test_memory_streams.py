"""Memory helpers, streams, events and device queries."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.runtime as rt


def test_allocate_copy_set_free(fake_hip) -> None:
    source = np.arange(8, dtype=np.int32)
    target = np.zeros_like(source)
    address = rt.malloc(32)
    rt.memcpy(address, source)
    rt.memcpy(target, address)
    assert (source == target).all()
    rt.memset(address, 0xFF, 4)
    rt.memcpy(target, address, 8)
    assert target.tolist() == [-1, *range(1, 8)]
    rt.memset(target, 0)
    assert not target.any()
    rt.free(address)


def test_queued_copy(fake_hip) -> None:
    source, target = np.ones(4, np.float32), np.zeros(4, np.float32)
    rt.memcpy(target, source, stream=5)
    assert fake_hip.lines("memcpy_async") == ["memcpy_async bytes=16 stream=5"]
    assert target.all()


def test_copy_errors() -> None:
    a, b = np.zeros(4, np.float32), np.zeros(3, np.float32)
    with pytest.raises(ValueError, match="give nbytes, or two tensors of one size"):
        rt.memcpy(a, b)
    with pytest.raises(ValueError, match="give nbytes"):
        rt.memcpy(1, 2)
    with pytest.raises(ValueError, match="16 bytes do not fit in a tensor of 12 bytes"):
        rt.memcpy(a, b, 16)
    with pytest.raises(ValueError, match="contiguous"):
        rt.memcpy(a[::2], b[::2])
    with pytest.raises(TypeError, match="expected an address or a tensor, got str"):
        rt.memcpy("x", a)
    with pytest.raises(ValueError, match="give nbytes for an address"):
        rt.memset(1, 0)
    with pytest.raises(ValueError, match="17 bytes do not fit"):
        rt.memset(a, 0, 17)
    for call, arguments in ((rt.malloc, ()), (rt.memcpy, (a, a)), (rt.memset, (a, 0))):
        with pytest.raises(ValueError, match=f"{call.__name__}: -1 is no number of bytes"):
            call(*arguments, -1)
    with pytest.raises(TypeError, match="expected an address or a tensor, got NoneType"):
        rt.memcpy(None, a)


def test_failed_allocation(fake_hip) -> None:
    fake_hip.fail("hipMalloc", 2)
    with pytest.raises(rt.HipError, match="simulated failure of hipMalloc") as info:
        rt.malloc(1)
    assert info.value.code == 2


def test_device_array_round_trip() -> None:
    values = np.arange(24, dtype=np.float16).reshape(2, 3, 4)
    array = rt.DeviceArray.from_numpy(values.transpose(2, 0, 1))
    assert (array.shape, array.stride(), array.dtype) == ((4, 2, 3), (6, 3, 1), np.float16)
    assert (array.numpy() == values.transpose(2, 0, 1)).all()
    assert np.array_equal(array, values.transpose(2, 0, 1)) and np.asarray(array, np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="copy=False is not possible"):
        np.array(array, copy=False)
    assert rt.DeviceArray(5, "int32").nbytes == 20
    with pytest.raises(ValueError, match="extents are not negative"):
        rt.DeviceArray((2, -3))
    assert "shape=(5,)" in repr(rt.DeviceArray(5))


def test_stream_and_events(fake_hip) -> None:
    stream = rt.Stream()
    start = stream.record_event()
    end = rt.Event()
    end.record(stream)
    stream.wait_event(start)
    stream.synchronize()
    end.synchronize()
    assert stream.query() and end.query()
    assert start.elapsed_time(end) == 1.5
    assert repr(stream) == f"Stream({stream.ptr:#x})"
    end.record()
    end.record(stream.ptr)
    fake_hip.fail("hipStreamQuery", 600)
    assert not stream.query()
    fake_hip.fail("hipEventQuery", 600)
    assert not end.query()
    del stream
    assert fake_hip.lines("stream_destroy") == ["stream_destroy"]


def test_wrapped_stream_is_not_destroyed(fake_hip) -> None:
    rt.Stream(0x10)
    assert fake_hip.lines("stream_destroy") == []
    with pytest.raises(ValueError, match="ordered is for a new stream"):
        rt.Stream(0x10, ordered=True)


def test_devices(fake_hip) -> None:
    assert rt.device_count() == 2
    assert rt.current_device() == 0
    info = rt.device_info(1)
    assert (info.index, info.name, info.arch, info.kind) == (1, "fake device 1", "gfx942", "sim")
    assert (info.warp_size, info.compute_units, info.total_memory) == (64, 304, 1 << 30)
    assert info.clock_khz is None
    with pytest.raises(rt.HipError, match="hipSetDevice failed with hipErrorInvalidDevice"):
        rt.set_device(9)
    rt.synchronize()
    fake_hip.fail("hipDeviceSynchronize", 719)
    with pytest.raises(rt.SimulatorError, match="simulated failure of hipDeviceSynchronize"):
        rt.synchronize()


def test_public_names() -> None:
    for name in rt.__all__:
        assert getattr(rt, name) is not None
    assert set(rt.__all__) <= set(dir(rt))
    assert rt.__version__
    with pytest.raises(AttributeError, match="has no attribute 'missing'"):
        _ = rt.missing


def test_stub_lists_the_native_names() -> None:
    import ast
    from pathlib import Path

    from flydsl.runtime import _native, device

    def names(body: list[ast.stmt]) -> set[str]:
        found = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        return found | {node.target.id for node in body if isinstance(node, ast.AnnAssign)}

    stub = ast.parse((Path(device.__file__).parent / "_native.pyi").read_text())
    assert names(stub.body) == {name for name in vars(_native) if not name.startswith("__")}
    for described in (node for node in stub.body if isinstance(node, ast.ClassDef)):
        methods = {name for name in vars(getattr(_native, described.name)) if not name.startswith("__")}
        assert names(described.body) - {"__new__", "__call__"} == methods, described.name
