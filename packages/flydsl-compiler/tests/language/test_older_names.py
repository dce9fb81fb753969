"""Names of earlier releases: importable from where they were, and doing the same."""
# ruff: noqa: E501 - one module a line

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import flydsl.expr as fx


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("flydsl.expr", "arith gpu math range_constexpr const_expr rocdl buffer_ops vector extern fmath thread_id block_id "
                        "smem_space lds_space block_product default_f8_type ArithValue _to_raw andi constant index "
                        "int_to_fp shli sitofp trunc_f unwrap xori vec_broadcast vec_select get index_cast tdm_ops"),
        ("flydsl.expr.typing", "T Int32 Stream Vector ReductionOp full Float16 Boolean MmaAtom CoordSwizzle"),
        ("flydsl.expr.numeric", "Float32 Numeric"),
        ("flydsl.expr.vector", "ReductionOp full Vector from_elements store load_op extract bitcast broadcast shuffle reduction"),
        ("flydsl.expr.arith", "ArithValue CmpIPredicate _to_raw constant index select unwrap sitofp select_by_index addf"),
        ("flydsl.expr.gpu", "thread_id block_id is_wave_leader cluster_signal_once_per_wg cluster_wait cluster_barrier "
                            "compute_cluster_position compute_mcast_masks CLUSTER_BARRIER_ID CLUSTER_WAIT_ALL"),
        ("flydsl.expr.fmath", "exp2 rsqrt"),
        ("flydsl.expr.mem_ops", "load_device_ptr load_i32_uncached store_i32 store_i32_uncached store_i32_uncached_flush "
                                "load_v4i32 store_v4i32 store_v4i32_nt invalidate_l1"),
        ("flydsl.utils.smem_allocator", "SmemAllocator SmemPtr check_smem_capacity SMEM_CAPACITY_MAP get_op_result_or_value"),
        ("flydsl.compiler.kernel_function", "CompilationContext create_gpu_module create_gpu_func get_gpu_module_body"),
    ],
)
def test_importable(module: str, names: str) -> None:
    found = importlib.import_module(module)
    assert [n for n in names.split() if not hasattr(found, n)] == []


def test_eight_bit_type_of_the_target() -> None:
    from flydsl._mlir import ir
    from flydsl.tracing.ambient import tracing_context

    with ir.Context(), ir.Location.unknown():
        for arch, text in (("gfx942", "f8E4M3FNUZ"), ("gfx950", "f8E4M3FN"), ("gfx1201", "f8E4M3FN")):
            with tracing_context(arch=arch):
                assert str(fx.T.f8) == str(fx.default_f8_type()) == text and str(fx.T.f8x4) == f"vector<4x{text}>"
        with tracing_context(arch="gfx1100"), pytest.raises(RuntimeError, match="gfx1100"):
            fx.default_f8_type()
    with pytest.raises(AttributeError):
        fx.T.f8x3  # noqa: B018


def test_memory_by_address(run: Any) -> None:
    body = """
    from flydsl.expr import mem_ops
    x, y = fx.ptrtoint(fx.get_iter(X)), fx.ptrtoint(fx.get_iter(Y))
    if t < 16:
        v = mem_ops.load_v4i32(x + t * 16)
        mem_ops.store_v4i32_nt(y + t * 16, v + 1)
    mem_ops.invalidate_l1()
    fx.barrier()
    if t == 20:
        mem_ops.store_i32_uncached_flush(y + 80, fx.Int32(mem_ops.load_i32_uncached(x + 4)) * 100)
    """
    x = np.arange(64, dtype=np.int32)
    expected = x + 1
    expected[20] = 100
    np.testing.assert_array_equal(run(body, x=x), expected)


def test_chain_of_selects(run: Any) -> None:
    out = run("Y[t] = fx.arith.select_by_index(t % 3, [X[t], fx.Float32(100.0), fx.Float32(200.0)])")
    i = np.arange(64)
    np.testing.assert_array_equal(out, np.select([i % 3 == 0, i % 3 == 1], [i, 100], 200))
