"""Reading and checking arguments: what is accepted, and what each error says."""

from __future__ import annotations

import ctypes
import math
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runtime_plans import HSACO, launch, launch_plan, scalar, tensor, values_plan

from flydsl.runtime import DeviceArray, Launcher, describe_tensor, memcpy

CPU, ROCM, CUDA, ROCM_HOST = 1, 10, 2, 11


def read_tensor(argument: Any, **spec: Any) -> dict[str, Any]:
    """Pass `argument` as a tensor; the pointer, extents and strides that the plan sees."""
    rank = spec.get("rank", 2)
    code: list[list[Any]] = [["ptr", 0, 0]]
    for dim in range(rank):
        code += [["shape", 1 + dim, 0, dim], ["stride", 1 + rank + dim, 0, dim]]
    launcher = Launcher(values_plan([tensor("A", **spec)], *code, results=list(range(1 + 2 * rank))), HSACO)
    launcher(argument)
    values = struct.unpack(f"<{1 + 2 * rank}q", launcher.evaluate(argument)[0]["kernargs"])
    return {"data": values[0], "shape": values[1 : 1 + rank], "strides": values[1 + rank :]}


def read_scalar(argument: Any, type: str) -> bytes:
    launcher = Launcher(values_plan([scalar("n", type)], ["arg", 0, 0], results=[0]), b"")
    return launcher.evaluate(argument)[0]["kernargs"]


class Managed(ctypes.Structure):
    """DLManagedTensor, to make DLPack capsules of any content."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


CAPSULE_NAME = ctypes.c_char_p(b"dltensor")  # a capsule keeps a pointer to its name


class Producer:
    """A DLPack producer of any device and dtype; `keywords` are those that `__dlpack__` takes."""

    def __init__(
        self,
        shape: tuple[int, ...] = (2, 3),
        strides: tuple[int, ...] | None = None,
        device: tuple[int, int] = (CPU, 0),
        dtype: tuple[int, int, int] = (2, 32, 1),
        offset: int = 0,
        keywords: tuple[str, ...] = ("stream", "max_version"),
    ) -> None:
        self.memory = ctypes.create_string_buffer(4096)
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = (ctypes.c_int64 * len(shape))(*strides) if strides else None
        self.managed = Managed(
            ctypes.addressof(self.memory), *device, len(shape), *dtype, self.shape, self.strides, offset, None, None
        )
        self.keywords = keywords
        self.exports = 0

    def __dlpack__(self, **keywords: Any) -> Any:
        unknown = set(keywords) - set(self.keywords)
        if unknown:
            raise TypeError(f"unexpected keyword {unknown}")
        assert keywords.get("stream", -1) == -1
        self.exports += 1
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), CAPSULE_NAME, None)


class TorchLike:
    """The attributes of a torch tensor that a launch reads."""

    def __init__(self, array: np.ndarray, device: int = -1, dtype: str | None = None) -> None:
        self.array, self.device_index = array, device
        self.dtype = f"torch.{dtype or array.dtype}"
        self.shape = array.shape

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def stride(self) -> tuple[int, ...]:
        return tuple(stride // self.array.itemsize for stride in self.array.strides)

    def get_device(self) -> int:
        return self.device_index


class Wrapper:
    """An argument object that stands for another one."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    @property
    def __flydsl_runtime_arg__(self) -> Any:
        return self.inner


def test_numpy_array_in_place() -> None:
    array = np.zeros((4, 6), np.float32)[1:, ::2]
    assert read_tensor(array) == {"data": array.ctypes.data, "shape": (3, 3), "strides": (6, 2)}
    assert read_tensor(array.T)["strides"] == (2, 6)
    assert read_tensor(array[::-1])["strides"] == (-6, 2)


def test_numpy_subclass_and_memory_map(tmp_path: Any) -> None:
    mapped = np.memmap(tmp_path / "data", np.float32, "w+", shape=(2, 3))
    assert read_tensor(mapped)["data"] == mapped.ctypes.data


@pytest.mark.parametrize("keywords", [(), ("stream",), ("stream", "max_version")])
def test_dlpack_producers(keywords: tuple[str, ...]) -> None:
    producer = Producer((2, 3), offset=16, keywords=keywords)
    result = read_tensor(producer)
    assert result == {"data": ctypes.addressof(producer.memory) + 16, "shape": (2, 3), "strides": (3, 1)}
    assert producer.exports == 2  # one for each of the two calls
    assert read_tensor(Producer((2, 3), (1, 2)))["strides"] == (1, 2)


def test_capsule_is_borrowed() -> None:
    producer = Producer()
    capsule = producer.__dlpack__()
    assert read_tensor(capsule)["shape"] == (2, 3)
    with pytest.raises(TypeError, match="capsule 'other' is not an unused DLPack capsule"):
        set_name = ctypes.pythonapi.PyCapsule_SetName
        set_name.argtypes = [ctypes.py_object, ctypes.c_char_p]
        set_name(capsule, b"other")
        read_tensor(capsule)


def test_exchange_api_of_the_type() -> None:
    calls = []
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)

    @function
    def fill(tensor: Any, out: int) -> int:
        calls.append(tensor)
        ctypes.memmove(out, ctypes.byref(tensor.managed), Managed.manager.offset)
        return 0

    class Api(ctypes.Structure):
        _fields_ = [
            ("version", ctypes.c_uint32 * 2),
            ("previous", ctypes.c_void_p),
            ("allocate", ctypes.c_void_p),
            ("managed_from", ctypes.c_void_p),
            ("to_object", ctypes.c_void_p),
            ("tensor_from", function),
            ("stream", ctypes.c_void_p),
        ]

    api = Api((ctypes.c_uint32 * 2)(1, 3), None, None, None, None, fill, None)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    name = ctypes.create_string_buffer(b"dlpack_exchange_api")
    capsule = new(ctypes.addressof(api), ctypes.addressof(name), None)

    class Tensor(Producer):
        __dlpack_c_exchange_api__ = capsule

    tensor_object = Tensor((4, 5))
    assert read_tensor(tensor_object)["shape"] == (4, 5)
    assert calls == [tensor_object, tensor_object]
    assert tensor_object.exports == 0


def test_torch_like_attributes() -> None:
    array = np.zeros((4, 6), np.float32)
    assert read_tensor(TorchLike(array)) == {"data": array.ctypes.data, "shape": (4, 6), "strides": (6, 1)}
    assert read_tensor(TorchLike(array.view(np.uint16), dtype="bfloat16"), dtype="bf16")["shape"] == (4, 12)


def test_device_array() -> None:
    array = DeviceArray.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert read_tensor(array) == {"data": array.data_ptr(), "shape": (2, 3), "strides": (3, 1)}


def test_wrapped_arguments() -> None:
    array = np.zeros((2, 3), np.float32)
    assert read_tensor(Wrapper(array))["data"] == array.ctypes.data
    assert read_tensor(Wrapper(Wrapper(array)))["shape"] == (2, 3)
    assert read_tensor(Wrapper(Producer()))["shape"] == (2, 3)
    assert struct.unpack("<q", read_scalar(Wrapper(5), "i32"))[0] == 5
    with pytest.raises(TypeError, match="argument 'n' .*expected i32, got 'x' of type 'str'"):
        read_scalar(Wrapper("x"), "i32")


def test_describe_tensor() -> None:
    array = np.zeros((4, 6), np.float16)
    expected = ("f16", (4, 6), (6, 1), array.ctypes.data, CPU, 0)
    assert describe_tensor(array) == expected
    assert describe_tensor(Wrapper(array)) == expected
    assert describe_tensor(Producer(device=(ROCM, 3)))[4:] == (ROCM, 3)
    assert describe_tensor([1, 2]) is None
    assert describe_tensor(3) is None


DTYPES = {
    "bool": "i1", "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "int32": "i32", "uint32": "u32",
    "int64": "i64", "uint64": "u64", "float16": "f16", "float32": "f32", "float64": "f64", "complex64": "complex<f32>",
}


@pytest.mark.parametrize("expected", sorted(set(DTYPES.values())))
@pytest.mark.parametrize("found", DTYPES)
def test_dtype_must_match(expected: str, found: str) -> None:
    array = np.zeros((2, 3), found)
    name = DTYPES[found]
    if name == expected:
        assert read_tensor(array, dtype=expected)["shape"] == (2, 3)
        return
    with pytest.raises(TypeError) as info:
        read_tensor(array, dtype=expected)
    wanted = f"f(): argument 'A' (position 1): expected a tensor of dtype {expected}, got dtype {name}"
    signs = expected[0] == "i" and name == "u" + expected[1:]
    assert str(info.value).startswith(wanted)
    assert ("compiled for signed numbers" in str(info.value)) == signs


def test_dlpack_dtypes() -> None:
    assert read_tensor(Producer(dtype=(4, 16, 1)), dtype="bf16")["shape"] == (2, 3)
    assert read_tensor(Producer(dtype=(10, 8, 1)), dtype="f8E4M3FN")["shape"] == (2, 3)
    with pytest.raises(TypeError, match="expected a tensor of dtype f8E4M3FN, got dtype f8E4M3FNUZ"):
        read_tensor(Producer(dtype=(11, 8, 1)), dtype="f8E4M3FN")
    with pytest.raises(TypeError, match="vector elements"):
        read_tensor(Producer(dtype=(2, 32, 4)))


LIES = {
    "rank 1000": ({"ndim": 1000}, "rank 0 to 32, got rank 1000"),
    "rank 33": ({"ndim": 33}, "rank 0 to 32, got rank 33"),
    "negative rank": ({"ndim": -3}, "rank 0 to 32, got rank -3"),
    "huge rank": ({"ndim": 2**31 - 1}, "rank 0 to 32, got rank 2147483647"),
    "no shape": ({"shape": None}, "rank 2 but no shape"),
    "negative extent": ({"extents": (2, -3)}, r"extent of dimension 1 is negative \(-3\)"),
    "huge extents": ({"extents": (2**40, 2**40)}, "larger than the address space"),
    "huge extent": ({"extents": (2**62, 1)}, "larger than the address space"),
    "huge strides": ({"steps": (2**61, 1)}, "larger than the address space"),
    "least stride": ({"steps": (-(2**63), 1)}, "larger than the address space"),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("read", [describe_tensor, read_tensor, lambda producer: memcpy(0, producer, 1)])
def test_producers_that_lie(read: Any, lie: str) -> None:
    """A description that cannot be true is refused before anything is read or allocated by it."""
    fields, text = dict(LIES[lie][0]), LIES[lie][1]
    producer = Producer(fields.pop("extents", (2, 3)), fields.pop("steps", None))
    for name, value in fields.items():
        setattr(producer.managed, name, value)
    with pytest.raises(ValueError, match=text):
        read(producer)


def test_descriptions_at_the_limits() -> None:
    assert describe_tensor(Producer((1,) * 32)).shape == (1,) * 32
    assert describe_tensor(Producer((2**40, 2**40), (0, 0))).strides == (0, 0)
    assert describe_tensor(Producer((0, 2**40))).strides == (2**40, 1)
    assert describe_tensor(Producer((1, 3), (2**62, 1))).strides == (2**62, 1)
    with pytest.raises(ValueError, match="extent of dimension 0 is negative"):
        like = TorchLike(np.zeros((2, 3), np.float32))
        like.shape = (-2, 3)
        describe_tensor(like)
    with pytest.raises(TypeError, match="unknown element type"):
        memcpy(0, Producer(dtype=(9, 0, 1)))


@pytest.mark.parametrize("dtype", [">f4", "U3", "O", "M8[s]"])
def test_dtypes_that_no_kernel_takes(dtype: str) -> None:
    with pytest.raises(TypeError, match=r"f\(\): argument 'A' .*arrays of dtype .* cannot be passed"):
        read_tensor(np.zeros((2, 3), dtype))


def test_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert read_tensor(np.zeros((2, 3), ml_dtypes.bfloat16), dtype="bf16")["strides"] == (3, 1)
    assert read_tensor(np.zeros((2, 3), ml_dtypes.float8_e4m3fn), dtype="f8E4M3FN")["strides"] == (3, 1)


@pytest.mark.parametrize(
    ("argument", "spec", "error", "text"),
    [
        ([1.0], {}, TypeError, "expected a f32 tensor (NumPy array, torch tensor or DLPack producer), got 'list'"),
        (None, {}, TypeError, "got 'NoneType'"),
        (np.float32(1), {}, TypeError, "got 'numpy.float32'"),
        (np.zeros(3, "f4"), {}, ValueError, "expected a tensor of rank 2, got rank 1 with shape (3,)"),
        (np.zeros((2, 4), "f4"), {"shape": [None, 3]}, ValueError, "expected shape (?, 3), got (2, 4)"),
        (
            np.zeros((4, 2), "f4").T,
            {"strides": [None, 1]},
            ValueError,
            "expected strides (?, 1) (elements), got (1, 2)",
        ),
        (
            np.zeros((2, 6), "f4"),
            {"shape_div": [1, 4]},
            ValueError,
            "expected extent of dimension 1 to be divisible by 4, got 6",
        ),
        (
            np.zeros((2, 6), "f4"),
            {"stride_div": [4, 1]},
            ValueError,
            "expected stride of dimension 0 to be divisible by 4, got 6",
        ),
        (Producer(offset=4), {"align": 16}, ValueError, "expected data aligned to 16 bytes, got an address with rem"),
        (Producer((2, 2**31), (0, 1)), {}, ValueError, "extent 2147483648 of dimension 1 does not fit in 32 bits"),
        (
            Producer((2, 3), (2**31, 1)),
            {"index_width": 32},
            ValueError,
            "stride 2147483648 of dimension 0 does not fit in 32 bits",
        ),
        (Producer(device=(ROCM, 0)), {}, ValueError, "expected a tensor in host memory, because the simulator runs"),
        (Producer(device=(CUDA, 1)), {}, ValueError, "got one on CUDA device 1"),
        (TorchLike(np.zeros((2, 3), "f4"), device=1), {}, ValueError, "got one on ROCm device 1"),
    ],
)
def test_errors_name_argument_expected_and_found(argument: Any, spec: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as info:
        read_tensor(argument, **spec)
    assert str(info.value).startswith("f(): argument 'A' (position 1): ")
    assert text in str(info.value)


def test_stride_of_odd_bytes() -> None:
    array = np.zeros(8, "u1")[:6].view([("a", "u1"), ("b", "<u2")])["b"]
    with pytest.raises(ValueError, match="stride of dimension 0 is 3 bytes, not a multiple of the element size"):
        read_tensor(array, rank=1, dtype="u16")


def test_checks_that_do_not_apply() -> None:
    # No access depends on the stride of an extent of 1, nor on any stride of an empty tensor.
    row = np.zeros((3, 8), "f4")[:1]
    assert read_tensor(row, shape=[1, None], strides=[99, 1])["shape"] == (1, 8)
    empty = np.zeros((0, 3), "f4")
    assert read_tensor(empty, strides=[7, 1])["shape"] == (0, 3)
    assert read_tensor(empty, stride_div=[4, 1])["shape"] == (0, 3)
    assert read_tensor(Producer((2, 3), (2**31, 1)), index_width=[64, 32])["strides"] == (2**31, 1)
    assert read_tensor(Producer(device=(ROCM_HOST, 0)))["shape"] == (2, 3)


def test_failing_producer_keeps_its_error_as_cause() -> None:
    class Broken:
        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("requires grad")

    with pytest.raises(TypeError, match=r"f\(\): argument 'A' \(position 1\): requires grad") as info:
        read_tensor(Broken())
    assert isinstance(info.value.__cause__, BufferError)


INTEGERS = {f"{sign}{bits}": (sign, bits) for sign in "iu" for bits in (8, 16, 32, 64)}


@given(st.sampled_from(sorted(INTEGERS)), st.integers(-(2**65), 2**65))
def test_integers_are_range_checked(type: str, value: int) -> None:
    sign, bits = INTEGERS[type]
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if sign == "i" else (0, 2**bits - 1)
    if low <= value <= high:
        assert read_scalar(value, type) == struct.pack("<q" if value < 2**63 else "<Q", value)
    else:
        with pytest.raises(OverflowError, match=f"argument 'n' .*value {value} does not fit in {type}"):
            read_scalar(value, type)


@pytest.mark.parametrize("value", [3.5, 3.0, "3", None, [3], np.float32(3)])
def test_integers_reject_other_values(value: Any) -> None:
    with pytest.raises(TypeError, match="argument 'n' .*expected i32, got "):
        read_scalar(value, "i32")


def test_kinds_of_integers() -> None:
    assert read_scalar(np.int64(-5), "i32") == struct.pack("<q", -5)
    assert read_scalar(np.uint8(5), "index") == struct.pack("<q", 5)
    assert read_scalar(True, "i32") == struct.pack("<q", 1)
    for value in (True, np.True_, 1):
        assert read_scalar(value, "i1") == struct.pack("<q", 1)
    assert read_scalar(np.False_, "i1") == bytes(8)
    with pytest.raises(OverflowError, match="value 2 does not fit in i1"):
        read_scalar(2, "i1")


@given(st.floats(allow_nan=False), st.sampled_from(["f16", "f32", "f64"]))
def test_floats_are_rounded_to_nearest(value: float, type: str) -> None:
    numpy_type = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[type]
    with np.errstate(over="ignore"):
        expected = numpy_type(value)
    if np.isinf(expected) and math.isfinite(value):
        with pytest.raises(OverflowError, match=f"does not fit in {type}"):
            read_scalar(value, type)
    else:
        assert read_scalar(value, type)[: expected.itemsize] == expected.tobytes()


@given(st.floats(width=16, allow_nan=False), st.floats(-1, 1))
def test_half_between_two_numbers(value: float, fraction: float) -> None:
    near = value * (1 + fraction * 2**-10)
    with np.errstate(over="ignore"):
        expected = np.float16(near)
    if math.isfinite(expected):
        assert read_scalar(near, "f16")[:2] == expected.tobytes()


@given(st.floats(width=32))
def test_bf16_keeps_the_upper_half(value: float) -> None:
    bits = read_scalar(value, "bf16")[:2]
    if math.isnan(value):
        assert math.isnan(struct.unpack("<f", b"\0\0" + bits)[0])
    else:
        assert bits == struct.pack("<f", value)[2:]


def test_special_floats() -> None:
    for type, size in (("f16", 2), ("f32", 4), ("f64", 8)):
        code = {2: "<e", 4: "<f", 8: "<d"}[size]
        assert struct.unpack(code, read_scalar(math.inf, type)[:size])[0] == math.inf
        assert math.isnan(struct.unpack(code, read_scalar(math.nan, type)[:size])[0])
        assert math.copysign(1, struct.unpack(code, read_scalar(-0.0, type)[:size])[0]) == -1
    assert read_scalar(np.float32(1.5), "f32") == read_scalar(1.5, "f32") == read_scalar(np.float64(1.5), "f32")
    assert read_scalar(3, "f32")[:4] == struct.pack("<f", 3.0)
    for value in ("1.5", None, 1j):
        with pytest.raises(TypeError, match="argument 'n' .*expected f32, got "):
            read_scalar(value, "f32")
    with pytest.raises(OverflowError, match="does not fit in f64"):
        read_scalar(10**400, "f64")


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    base = torch.zeros(4, 6)
    view = base[1:, ::2]
    assert read_tensor(view) == {"data": view.data_ptr(), "shape": (3, 3), "strides": (6, 2)}
    assert read_tensor(torch.nn.Parameter(base))["data"] == base.data_ptr()
    assert read_tensor(base.requires_grad_())["data"] == base.data_ptr()
    for name, expected in (("bfloat16", "bf16"), ("float8_e4m3fn", "f8E4M3FN"), ("bool", "i1"), ("uint8", "u8")):
        assert read_tensor(torch.zeros(2, 3, dtype=getattr(torch, name)), dtype=expected)["strides"] == (3, 1)
    with pytest.raises(TypeError, match="expected a tensor of dtype f32, got dtype f64"):
        read_tensor(torch.zeros(2, 3, dtype=torch.float64))
    with pytest.raises(TypeError, match=r"argument 'A' \(position 1\): .*meta$"):
        read_tensor(torch.zeros(2, 3, device="meta"))


def test_memory_that_does_not_hold_the_values() -> None:
    class Masked(np.ma.MaskedArray):
        pass

    for array in (np.ma.masked_array(np.zeros((2, 3), np.float32), True), Masked(np.zeros((2, 3), np.float32))):
        for read in (read_tensor, describe_tensor):
            with pytest.raises(TypeError, match="masked array.*filled"):
                read(array)
    torch = pytest.importorskip("torch")
    values = torch.ones(2, 3)
    imaginary = torch.complex(values, values).conj().imag
    assert imaginary.is_neg()
    for lazy in (torch._neg_view(values), imaginary, torch.nn.Parameter(imaginary), torch._neg_view(values)[:, 1:]):
        for read in (read_tensor, describe_tensor):
            with pytest.raises(TypeError, match=r"is_neg\(\) is true.*resolve_neg"):
                read(lazy)
    with pytest.raises(TypeError, match=r"is_conj\(\) is true.*resolve_conj"):
        describe_tensor(torch.complex(values, values).conj())
    for plain in (imaginary.resolve_neg(), torch._neg_view(torch._neg_view(values)), torch.complex(values, values)):
        assert describe_tensor(plain) is not None


def test_torch_counts_stores() -> None:
    """What is overwritten has a new version, as after torch's own in-place functions; leaves are refused like there."""
    torch = pytest.importorskip("torch")
    names = [f"T{i}" for i in range(20)]  # more than are noted without allocating
    reads = Launcher(launch_plan([tensor("A")], launch()), HSACO)
    writes = Launcher(launch_plan([tensor(name, stored=True) for name in names], launch()), HSACO)
    tensors = [torch.zeros(2, 3) for _ in names]
    leaf = torch.zeros(2, 3, requires_grad=True)
    inner = leaf * 2
    with torch.inference_mode():
        inference = torch.zeros(2, 3)
    for argument in (leaf, inner, inference):
        reads(argument)
    writes(*tensors)
    writes(*tensors[:-1], inner)
    assert [t._version for t in tensors] == [2] * 19 + [1]
    assert (leaf._version, inner._version) == (0, 1)
    with pytest.raises(ValueError, match=r"argument 'T19' .*leaf that requires grad.*no_grad\(\).*detach\(\)"):
        writes(*tensors[:-1], leaf)
    assert [t._version for t in tensors] == [2] * 19 + [1]
    with torch.no_grad():
        writes(*tensors[:-1], leaf)
    writes(*tensors[:-1], leaf.detach())  # shares the version
    writes(*tensors[:-1], inference)  # has none
    with torch.inference_mode():
        writes(*tensors[:-1], inference)
    assert (leaf._version, tensors[0]._version) == (2, 6)


OTHER_TORCH = """
import torch
from runtime_plans import HSACO, launch, launch_plan, tensor
from flydsl.runtime import Launcher
for name in MISSING:
    delattr(torch._C, name)
writes = Launcher(launch_plan([tensor("A", stored=True)], launch()), HSACO)
with torch.inference_mode():  # the first launch of a serving process
    writes(torch.zeros(2, 3))
def refusal(argument):
    try:
        writes(argument)
    except (TypeError, ValueError) as error:
        return str(error)
    return "none"
assert "resolve_neg" in refusal(torch._neg_view(torch.ones(2, 3)))
assert "resolve_conj" in refusal(torch.ones(2, 3, dtype=torch.complex64).conj())
leaf, plain = torch.zeros(2, 3, requires_grad=True), torch.zeros(2, 3)
with torch.inference_mode():
    inference = torch.zeros(2, 3)
assert "leaf that requires grad" in refusal(leaf)
with torch.no_grad():
    writes(leaf)
for argument in (plain, leaf * 2, inference):
    writes(argument)
print(leaf._version, plain._version)
"""


@pytest.mark.parametrize(
    ("missing", "versions"),
    [([], "1 1"), (["_dispatch_keys"], "1 1"), (["_dispatch_keys", "_increment_version"], "0 0")],
)
def test_other_versions_of_torch(run_python: Any, fake_library: Path, missing: list[str], versions: str) -> None:
    """What cannot be read of a tensor in place is asked of torch; nothing is counted where torch cannot count."""
    pytest.importorskip("torch")
    done = run_python(
        OTHER_TORCH.replace("MISSING", repr(missing)), FLYDSL_HIP_LIBRARY=str(fake_library), ARCH="gfx942"
    )
    assert (done.returncode, done.stdout.strip()) == (0, versions), done.stderr


def test_arguments_are_released_after_an_error() -> None:
    array = np.zeros((2, 3), np.float32)
    producer = Producer()
    launcher = Launcher(launch_plan([tensor("A"), tensor("B"), scalar("n")], launch()), HSACO)
    before = sys.getrefcount(array), sys.getrefcount(producer)
    for _ in range(10):
        with pytest.raises(TypeError):
            launcher(array, producer, "x")
    assert (sys.getrefcount(array), sys.getrefcount(producer)) == before
