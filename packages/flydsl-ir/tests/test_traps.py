"""Traps of gfx11, for which LLVM 22 puts a loop: nothing behind one is left unexpanded, and the kernel still stops."""

import ctypes
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from flydsl import ir as flyir

ARCHS = [name for name, arch in flyir.arch_table().items() if arch.has("trap_is_loop")]

#: Lane t takes in[t] + n + 12345678912 to out[t]; the lanes part at the first trap, none at the second. The additions
#: of 64 bits in scalar registers are pseudo-instructions.
KERNEL = """
define amdgpu_kernel void @k(ptr addrspace(1) %bounds, ptr addrspace(1) %in, ptr addrspace(1) %out) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %n = load i64, ptr addrspace(1) %bounds
  %p = getelementptr i64, ptr addrspace(1) %in, i32 %t
  %d = load i64, ptr addrspace(1) %p
  %large = icmp ugt i64 %d, %n
  br i1 %large, label %bad, label %inside
bad:
  call void @llvm.trap()
  AFTER
inside:
  %m = add i64 %n, 12345678912
  %small = icmp ult i64 %m, 12345679000
  br i1 %small, label %worse, label %fine
worse:
  call void @llvm.trap()
  call void @llvm.trap()
  unreachable
fine:
  %e = add i64 %d, %m
  %o = getelementptr i64, ptr addrspace(1) %out, i32 %t
  store i64 %e, ptr addrspace(1) %o
  ret void
}
declare i32 @llvm.amdgcn.workitem.id.x()
"""
AFTER = ("unreachable", "br label %inside")
SECOND = "br i1 %small, label %worse, label %fine"
ONCE = "br label %fine"


def test_architectures():
    assert {"gfx1100", "gfx1151"} <= set(ARCHS) and not any(name.startswith(("gfx9", "gfx12")) for name in ARCHS)


@pytest.mark.parametrize("second", [SECOND, ONCE])
@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("arch", ["gfx1100", "gfx1151"])
@pytest.mark.parametrize("level", range(4))
def test_what_follows_is_expanded(arch, level, after, second):
    text = KERNEL.replace("AFTER", after).replace(SECOND, second)
    lines = flyir.disassemble(flyir.compile_hsaco(text, arch, opt_level=level)).splitlines()
    assert sum("s_trap" in line for line in lines) == 1
    assert sum("global_store_b64" in line for line in lines) == 1


def test_nothing_but_a_trap():
    text = "define amdgpu_kernel void @k() {\n call void @llvm.trap()\n ret void\n}"
    for level in range(4):
        assert "s_trap" in flyir.disassemble(flyir.compile_hsaco(text, "gfx1100", opt_level=level))


def test_other_architectures_keep_each_trap():
    text = KERNEL.replace("AFTER", AFTER[0])
    lines = flyir.disassemble(flyir.compile_hsaco(text, "gfx1201", opt_level=0)).splitlines()
    assert sum("s_trap" in line for line in lines) > 1


@pytest.mark.parametrize("level", range(4))
def test_values_and_traps(level):
    runtime = pytest.importorskip("flydsl.runtime", reason="needs flydsl-runtime for a device")
    spec = importlib.util.spec_from_file_location(
        "math_accuracy", Path(__file__).resolve().parents[1] / "tools" / "math_accuracy.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    hsaco = flyir.compile_hsaco(KERNEL.replace("AFTER", AFTER[0]), runtime.device_info().arch, opt_level=level)
    simulator = ctypes.CDLL(str(runtime.library_path()))

    def run(bound, given):
        out = np.zeros(64, np.uint64)
        tool.launch(simulator, hsaco, [np.array([bound], np.uint64), given, out], groups=1)
        return out

    given = np.arange(64, dtype=np.uint64) * 5
    np.testing.assert_array_equal(run(1000, given), given + np.uint64(1000 + 12345678912))
    for bound, values in ((300, given), (10, given * 0)):  # some lanes; all of them
        with pytest.raises(RuntimeError, match="HIP error"):
            run(bound, values)
