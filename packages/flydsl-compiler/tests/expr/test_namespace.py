"""What `fx` exposes: export rules, the stable catalogue, lazy namespaces."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import subprocess
import sys

import pytest

import flydsl.expr as fx

pytestmark = pytest.mark.l0_backend_agnostic

MODULES = "numeric typing enum primitive gpu derived struct arith math".split()
COUNTS = {
    "numeric": 31, "typing": 122, "enum": 1, "primitive": 143, "gpu": 13, "derived": 11, "struct": 11, "arith": 14,
    "math": 46, "meta": 5, "extern": 2, "utils": 2,
}
DEPRECATED = {"primitive": {"get"}, "arith": {"index_cast", "constant_vector"}}


def literal_all(module: str) -> list[str]:
    """`__all__` read from the source, as a tool without MLIR would."""
    spec = importlib.util.find_spec(f"flydsl.expr.{module}")
    assert spec is not None and spec.origin is not None
    with open(spec.origin, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "__all__":
            return ast.literal_eval(node.value)
    raise AssertionError(f"{module} has no literal __all__")


@pytest.mark.parametrize("module", COUNTS)
def test_all_is_literal_and_complete(module: str) -> None:
    names = literal_all(module)
    loaded = importlib.import_module(f"flydsl.expr.{module}")
    assert len(names) == len(set(names)) == COUNTS[module]
    assert list(loaded.__all__) == names
    for name in names:
        assert getattr(loaded, name) is not None
        if module in MODULES:
            assert getattr(fx, name) is getattr(loaded, name), name


def test_stable_count() -> None:
    stable = sum(len(literal_all(m)) - len(DEPRECATED.get(m, ())) for m in MODULES)
    assert stable == 31 + 122 + 1 + 142 + 13 + 11 + 11 + 12 + 46


def test_exported_twice() -> None:
    seen: dict[str, str] = {}
    twice = set()
    for module in MODULES:
        for name in literal_all(module):
            twice |= {name} if name in seen else set()
            seen[name] = module
    assert twice == {"make_tiled_copy"}


def test_special_names() -> None:
    assert not isinstance(fx.struct, type(fx.math))
    assert fx.gpu.thread_id and fx.arith.addf and fx.arith.AddFOp
    for missing in ("TFloat32", "print", "local_tile"):
        with pytest.raises(AttributeError, match=f"module 'flydsl.expr' has no attribute '{missing}'"):
            getattr(fx, missing)
    for old in ("thread_id", "smem_space", "block_product", "default_f8_type", "andi", "ArithValue", "_to_raw"):
        assert getattr(fx, old) is not None
    from flydsl.expr.arith import ArithValue, CmpIPredicate, _to_raw
    from flydsl.expr.numeric import Float32, Numeric
    from flydsl.expr.typing import Int32, ReductionOp, Stream, T, Vector, full
    from flydsl.expr.vector import ReductionOp as OldReductionOp

    assert OldReductionOp is ReductionOp and hasattr(Stream, "_is_stream_param")
    assert all((ArithValue, CmpIPredicate, _to_raw, Float32, Numeric, Int32, T, Vector, full))


def test_lazy_namespaces() -> None:
    script = (
        "import sys, flydsl.expr as fx\n"
        "assert not {'rocdl', 'tdm_ops', 'buffer_ops'} & set(vars(fx))\n"
        "assert 'flydsl._mlir.dialects.rocdl' not in sys.modules\n"
        "assert fx.rocdl.MFMA and 'rocdl' in vars(fx)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_tuple3d() -> None:
    with pytest.raises(AttributeError):
        _ = fx.thread_idx.w
    with pytest.raises(RuntimeError, match="no compile-time block size"):
        fx.known_block_size()


def test_stream() -> None:
    class Queue:
        cuda_stream = 7

    assert fx.Stream(None).value is None and fx.Stream(Queue()).value == 7 and fx.Stream(3).value == 3
    with pytest.raises(ValueError):
        fx.Stream("x")
    assert fx.Stream(0).__cache_signature__() == fx.Stream(5).__cache_signature__()
