"""Files of the safetensors format: read as written, by the format's own package too, and refused where damaged."""

import json
import struct

import pytest
from kernel_helpers import random, torch

from flydsl.kernels.safetensors import load_file, save_file

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
          torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
ENCODED = [torch.float8_e8m0fnu, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float4_e2m1fn_x2, torch.uint16,
           torch.uint32, torch.uint64, torch.complex64]  # of quantised models: any bytes


def tensors():
    """One of each dtype, of odd sizes, so that most begin anywhere; without elements, without dimensions, turned."""
    found = {str(dtype): (random(3, 5, seed=i) * 4).to(dtype) for i, dtype in enumerate(DTYPES)}
    found |= {str(dtype): torch.arange(3 * 24, dtype=torch.uint8).view(3, 24).view(dtype) for dtype in ENCODED}
    return {"one": torch.ones(1, dtype=torch.int8), **found, "none": torch.zeros(0, 4), "scalar": torch.tensor(2.5),
            "turned": random(4, 6).T, "parameter": torch.nn.Parameter(random(2))}


def same(a, b):
    return a.keys() == b.keys() and all(
        a[k].dtype == b[k].dtype and a[k].shape == b[k].shape
        and torch.equal(a[k].detach().contiguous().reshape(-1).view(torch.uint8),
                        b[k].detach().contiguous().reshape(-1).view(torch.uint8)) for k in a)


def test_what_was_written_is_read(tmp_path):
    save_file(tensors(), tmp_path / "a")
    assert same(load_file(tmp_path / "a"), tensors())


def test_the_package_of_the_format_reads_and_writes_the_same(tmp_path):
    theirs = pytest.importorskip("safetensors.torch")
    given = {name: tensor.detach().contiguous() for name, tensor in tensors().items()}
    save_file(given, tmp_path / "a")
    assert same(theirs.load_file(tmp_path / "a"), given)
    theirs.save_file(given, tmp_path / "b", metadata={"format": "pt"})
    assert same(load_file(tmp_path / "b"), given)


def content(header, data=b"\0" * 16):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


GOOD = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}


@pytest.mark.parametrize(("data", "message"), [
    (b"\0" * 7, "no header"), (struct.pack("<Q", 2**63), "more than the file"), (content(b"{"), "not JSON"),
    (content(b"\xff\xff"), "not JSON"), (content(b"[" * 100000), "not JSON"), (content([1]), "not an object"),
    (content({"a": 3}), "dtype None"), (content({"a": {**GOOD, "dtype": "F6_E2M3"}}), "dtype 'F6_E2M3'"),
    (content({"a": {"dtype": "F4", "shape": [2, 15], "data_offsets": [0, 15]}}), "cannot be the bytes"),
    (content({"a": {"dtype": "F4", "shape": [], "data_offsets": [0, 0]}}), "cannot be the bytes"),
    (content({"a": {**GOOD, "dtype": ["F32"]}}), "not a known one"),
    (content({"a": {**GOOD, "shape": [2, 3]}}), "cannot be the bytes"),
    (content({"a": {**GOOD, "shape": [-2, -2]}}), "cannot be the bytes"),
    (content({"a": {**GOOD, "shape": [True, 4]}}), "cannot be the bytes"),
    (content({"a": {**GOOD, "data_offsets": [-16, 0]}}), "cannot be the bytes"),
    (content({"a": {**GOOD, "data_offsets": [16, 32]}}), "cannot be the bytes"),
    (content({"a": {**GOOD, "data_offsets": [0]}}), "cannot be the bytes"),
])
def test_a_damaged_file_is_an_error(tmp_path, data, message):
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(ValueError, match=message):
        load_file(tmp_path / "a")


def test_a_dtype_that_the_format_has_not(tmp_path):
    with pytest.raises(ValueError, match="'a' has the dtype torch.complex128"):
        save_file({"a": torch.zeros(2, dtype=torch.complex128)}, tmp_path / "a")
