"""Divergent switches: every way into a block brings its own value (LLVM 22's structurizer loses some of them)."""

import ctypes
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from flydsl import ir as flyir

runtime = pytest.importorskip("flydsl.runtime", reason="needs flydsl-runtime for a device")

_spec = importlib.util.spec_from_file_location(
    "math_accuracy", Path(__file__).resolve().parents[1] / "tools" / "math_accuracy.py"
)
math_accuracy = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(math_accuracy)

KERNEL = """
define amdgpu_kernel void @k(ptr addrspace(1) %which, ptr addrspace(1) %values, ptr addrspace(1) %out) {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr i32, ptr addrspace(1) %which, i32 %t
  %q = getelementptr i32, ptr addrspace(1) %values, i32 %t
  %d = load i32, ptr addrspace(1) %p
  %x = load i32, ptr addrspace(1) %q
  %b = trunc i32 %x to i8
  switch i32 %d, label %other [ CASES ]
other:
  OTHER
three:
  %half = lshr i8 %b, 1
  %halfwide = zext i8 %half to i32
  br label %join
zero:
  %more = add i8 %b, 1
  %morewide = zext i8 %more to i32
  br label %join
join:
  %r = phi i32 [ %morewide, %zero ], [ %halfwide, %three ] DIRECT
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %r, ptr addrspace(1) %o
  ret void
}
declare i32 @llvm.amdgcn.workitem.id.x()
"""
WIDEN = "%wide = zext i8 %b to i32\n br label %join"


def run(cases: str, other: str, direct: str, level: int, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The values, and what the kernel makes of them."""
    text = KERNEL.replace("CASES", cases).replace("OTHER", other).replace("DIRECT", direct)
    hsaco = flyir.compile_hsaco(text, runtime.device_info().arch, opt_level=level)
    values = np.arange(100, 164, dtype=np.uint32)
    out = np.full(64, 0xDEAD, np.uint32)
    math_accuracy.launch(ctypes.CDLL(str(runtime.library_path())), hsaco, [which, values, out], groups=1)
    return values, out


@pytest.mark.parametrize("level", range(4))
def test_default_with_an_extension(level):
    which = np.arange(64, dtype=np.uint32) % 5
    values, out = run("i32 0, label %zero i32 3, label %three", WIDEN, ", [ %wide, %other ]", level, which)
    np.testing.assert_array_equal(out, np.choose(which, [values + 1, values, values, values >> 1, values]))


@pytest.mark.parametrize("level", range(4))
def test_cases_that_share_a_block(level):
    which = np.arange(64, dtype=np.uint32) % 8
    cases = "i32 0, label %zero i32 3, label %three i32 5, label %zero i32 6, label %join i32 7, label %join"
    direct = ", [ %wide, %other ], [ %d, %entry ], [ %d, %entry ]"
    values, out = run(cases, WIDEN, direct, level, which)
    expected = [values + 1, values, values, values >> 1, values, values + 1, which, which]
    np.testing.assert_array_equal(out, np.choose(which, expected))


@pytest.mark.parametrize("level", range(4))
def test_default_that_is_not_reached(level):
    which = np.arange(64, dtype=np.uint32) % 2 * 3
    values, out = run("i32 0, label %zero i32 3, label %three", "unreachable", "", level, which)
    np.testing.assert_array_equal(out, np.where(which == 0, values + 1, values >> 1))
