"""Arrays that reach a kernel by their addresses: descriptors, tables of pointers, `from_c_void_p`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx

X = np.random.default_rng(1).random(64, np.float32)


def poisoned() -> np.ndarray:
    return np.full(64, -7, np.float32)


STORES = {
    "buffer resource": "buffer_ops.buffer_store(v, buffer_ops.create_buffer_resource(Y), i)",
    "masked": "buffer_ops.buffer_store(v, buffer_ops.create_buffer_resource(Y), i, mask=i < 8)",
    "buffer of a size": "buffer_ops.buffer_store(v, buffer_ops.create_buffer_resource(Y, num_records_bytes=256), i)",
    "size of another": "buffer_ops.buffer_store(v, buffer_ops.create_buffer_resource(Y, "
    "num_records_bytes=fx.Int64(X.shape[0]) * 4), i)",
    "address": "buffer_ops.buffer_store(v, buffer_ops.create_buffer_resource_from_addr("
    "buffer_ops.extract_base_index(Y)), i)",
    "part": "buffer_ops.buffer_store(v, buffer_ops.create_buffer_resource("
    "fx.logical_divide(Y, fx.make_layout(64, 1))[None, 0]), i)",
    "LLVM pointer": "llvm.StoreOp(v.ir_value(), buffer_ops.get_element_ptr(buffer_ops._base_pointer(Y), i * 4))",
    "carried": "r = buffer_ops.create_buffer_resource(Y)\n"
    "    for _ in range(X.shape[0] // 64):\n        buffer_ops.buffer_store(v, r, i)",
}


@pytest.mark.parametrize("how", STORES)
def test_stores_by_address(load: Any, device: None, how: str) -> None:
    """An array is stored to by whatever way its address takes; sizes and offsets of others do not count."""
    module = load(f"""
from flydsl.expr import buffer_ops
from flydsl._mlir.dialects import llvm
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor):
    i = fx.Int32(fx.thread_idx.x)
    v = X[i]
    {STORES[how]}
@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor):
    k(X, Y).launch(grid=1, block=64)
""")
    x, y, frozen = X.copy(), poisoned(), poisoned()
    x.flags.writeable = frozen.flags.writeable = False
    for run in (module.run, module.run, flyc.compile(module.run, x, y)):
        y[:] = -7
        run(x, y)
        np.testing.assert_array_equal(y, np.where(np.arange(64) < 8, X, -7) if how == "masked" else X)
        with pytest.raises(ValueError, match="argument 'Y'.*read-only"):
            run(x, frozen)


TABLES = {
    "element": "buffer_ops.create_buffer_resource_from_addr(P[1])",
    "sum": "buffer_ops.create_buffer_resource_from_addr(P[1] + fx.Int64(X.shape[0]) * 0)",
    "chosen": "buffer_ops.create_buffer_resource_from_addr((X.shape[0] > 3).select(P[1], P[0]))",
    "resource": "buffer_ops.create_buffer_resource_from_addr(buffer_ops.buffer_load("
    "buffer_ops.create_buffer_resource(P), 1, vec_width=1, dtype=fx.Int64))",
    "uniform": "buffer_ops.create_buffer_resource_from_addr(rocdl.readfirstlane(fx.Int64.ir_type, P[1]))",
    "part": "buffer_ops.create_buffer_resource_from_addr(fx.logical_divide(P, fx.make_layout(1, 1))[0, 1])",
}


@pytest.mark.parametrize("how", TABLES)
@pytest.mark.parametrize("sign", ["int64", "uint64"])
def test_tables_of_pointers(load: Any, device: None, how: str, sign: str) -> None:
    """A kernel may write where the elements of a 64-bit integer tensor point."""
    module = load(f"""
from flydsl.expr import buffer_ops, rocdl
@flyc.kernel
def k(P: fx.Tensor, X: fx.Tensor):
    i = fx.Int32(fx.thread_idx.x)
    buffer_ops.buffer_store(X[i], {TABLES[how]}, i)
@flyc.jit
def run(P: fx.Tensor, X: fx.Tensor):
    k(P, X).launch(grid=1, block=64)
""")
    outputs = np.full((2, 64), -7, np.float32)
    table = np.array([row.ctypes.data for row in outputs], sign)
    module.run(table, X)
    np.testing.assert_array_equal(outputs, [[-7] * 64, X])


@pytest.mark.parametrize(
    "use", ["X[P[0].to(fx.Int32)] = 1.0", "buffer_ops.buffer_store(fx.Float32(1.0), buffer_ops."
            "create_buffer_resource_from_addr(fx.Int64(buffer_ops.extract_base_index(X)) + P[0] * 4), 0)"]
)
def test_integers_that_are_no_addresses(load: Any, device: None, use: str) -> None:
    """Indices are not pointers: the memory of such a launch stays that of its arguments."""
    module = load(f"""
from flydsl.expr import buffer_ops
@flyc.kernel
def k(P: fx.Tensor, X: fx.Tensor):
    {use}
@flyc.jit
def run(P: fx.Tensor, X: fx.Tensor):
    k(P, X).launch(grid=1, block=1)
""")
    x = poisoned()
    module.run(np.array([3]), x)
    np.testing.assert_array_equal(np.flatnonzero(x == 1), [3])
    entries = module.run.last_compiled.artifact.plan["args"]
    assert [e.get("addresses", False) for e in entries[:2]] == [False, False]


@pytest.mark.parametrize("wrap", ["from_dlpack", "from_torch_tensor", "from_c_void_p"])
@pytest.mark.parametrize(
    "align, error", [(0, ValueError), (-4, ValueError), (6, ValueError), (True, TypeError), (8.0, TypeError),
                     ("8", TypeError)],
)
def test_alignments_that_no_element_can_have(wrap: str, align: Any, error: type[Exception]) -> None:
    """An alignment is promised as it was said or refused where it was said; 0 was taken for none."""
    data = np.zeros(8, np.float32)
    arguments = (fx.Float32, data.ctypes.data) if wrap == "from_c_void_p" else (data,)
    with pytest.raises(error, match="assumed_align"):
        getattr(flyc, wrap)(*arguments, assumed_align=align)
    assert getattr(flyc, wrap)(*arguments, assumed_align=np.int64(8)).alignment == 8


@pytest.mark.parametrize(
    "element, address, message",
    [(int, 0, "numeric class"), (fx.Float32.width, 0, "numeric class"), (fx.Float32, "0x10", "an address"),
     (fx.Float32, 16.0, "an address"), (fx.Float32, -1, "64 bits"), (fx.Float32, 1 << 64, "64 bits")],
)
def test_what_is_no_address(element: Any, address: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        flyc.from_c_void_p(element, address)
