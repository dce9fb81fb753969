"""The benchmark's cases: each operation that states some is listed under its family, with its bytes counted."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "packages" / "flydsl-kernels" / "bench"), str(ROOT / "tools" / "bench")]

import cases  # noqa: E402  (scripts of the bench folder)

import flydsl.kernels  # noqa: E402
from flydsl.kernels.op import Op, declarations  # noqa: E402
from flydsl.kernels.target import target  # noqa: E402


@pytest.mark.one_arch
def test_every_declared_case_is_listed():
    listed = list(cases.declared(target(), 64))
    stated = [case for op in declarations() if isinstance(op, Op) and op.available(target())
              for case in op.bench(target(), 64)]
    assert len(listed) == len(stated) > 10
    folders = {path.name for path in Path(next(iter(flydsl.kernels.__path__))).iterdir()}
    for case in listed:
        assert case.op in folders
        assert case.bytes > 0


def test_products_of_a_case_are_counted():
    listed = {case.name: case for case in cases.cases(target(), 64)}
    products = [case for case in listed.values() if case.op == "gemm"]
    assert products
    for case in products:
        m, n, k = map(int, case.shape.split("x"))
        assert case.flops == 2 * m * n * k
