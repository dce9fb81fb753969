"""Registers beyond 256 of gfx1250: values are in the banks that need few switches, and switches where they belong."""

import importlib.util
import re
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

LANES = 64
STEP = 37  # between a sum and the one that is added to it


def sums(count: int) -> str:
    """A loop of as many turns as `turns` says over `count` sums, each multiplied by 5 and added to another."""
    partner = [(STEP * k + 11) % count for k in range(count)]
    lines = ["define amdgpu_kernel void @k(ptr addrspace(1) %turns, ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {",
             "entry:", "%n = load i32, ptr addrspace(1) %turns", "%t = call i32 @llvm.amdgcn.workitem.id.x()",
             "%from = getelementptr i32, ptr addrspace(1) %in, i32 %t",
             "%to = getelementptr i32, ptr addrspace(1) %out, i32 %t"]
    for k in range(count):
        lines += [f"%p{k} = getelementptr i32, ptr addrspace(1) %from, i64 {LANES * k}",
                  f"%v{k} = load i32, ptr addrspace(1) %p{k}"]
    lines += ["br label %loop", "loop:", "%i = phi i32 [ 0, %entry ], [ %j, %loop ]"]
    lines += [f"%a{k} = phi i32 [ %v{k}, %entry ], [ %b{k}, %loop ]" for k in range(count)]
    for k in range(count):
        lines += [f"%m{k} = mul i32 %a{k}, 5", f"%b{k} = add i32 %m{k}, %a{partner[k]}"]
    lines += ["%j = add i32 %i, 1", "%c = icmp ult i32 %j, %n", "br i1 %c, label %loop, label %end", "end:"]
    for k in range(count):
        lines += [f"%q{k} = getelementptr i32, ptr addrspace(1) %to, i64 {LANES * k}",
                  f"store i32 %b{k}, ptr addrspace(1) %q{k}"]
    lines += ["ret void", "}", "declare i32 @llvm.amdgcn.workitem.id.x()",
              f'attributes #0 = {{ "amdgpu-flat-work-group-size"="{LANES},{LANES}" "amdgpu-waves-per-eu"="1" }}']
    return "\n".join(lines)


def loop_of(isa: str) -> str:
    """The assembly text of the loop."""
    return isa.split("\n.LBB0_1:")[1].split("s_cbranch")[0]


def _wrong_registers(isa: str) -> list[str]:
    """Vector instructions whose registers are not those of the last `s_set_vgpr_msb` before them in their block."""
    wrong, fields = [], None
    for line in isa.splitlines():
        text = line.strip()
        if text.endswith(":") or text.startswith("s_set_vgpr_msb"):
            value = None if text.endswith(":") else int(text.split()[1], 0)
            fields = None if value is None else [value >> shift & 3 for shift in (6, 0, 2, 4)]
        found = re.match(r"v_(?!dual)\S+ (.*?)(?: ;.*)?$", text)
        if found is None or fields is None:
            continue
        for operand, field in zip(re.split(r", (?![^[]*\])", found[1]), fields, strict=False):
            number = re.search(r"/\*v\[?(\d+)", operand) or re.match(r"v\[?(\d+)", operand)
            if number and int(number[1]) // 256 != field:
                wrong.append(text)
    return wrong


def test_loop_over_two_banks_has_few_switches():
    """LLVM 22 alone places 276 in this loop."""
    isa = flyir.emit_isa(sums(400), "gfx1250", llvm_options={"verify-machineinstrs": True})
    assert 0 < loop_of(isa).count("s_set_vgpr_msb") < 110  # 134 if values moved one by one only
    assert not _wrong_registers(isa)


def test_banks_leave_waves_and_copies_as_they_are():
    """400 registers leave room for two waves. Sums come back to the registers that they had: no turn copies them."""
    hsaco = flyir.compile_hsaco(sums(400), "gfx1250")
    assert flyir.kernel_resources(hsaco)["k"].vgprs <= 512
    assert hsaco == flyir.compile_hsaco(sums(400), "gfx1250")


def test_one_bank_needs_no_switch():
    assert "s_set_vgpr_msb" not in flyir.emit_isa(sums(200), "gfx1250")


@pytest.mark.parametrize("count", [280, 400, 700])
def test_sums_in_several_banks(gfx1250, count):
    values = np.random.default_rng(count).integers(0, 2**32, (count, LANES), np.uint32)
    out = np.full_like(values, 0xDEAD)
    hsaco = flyir.compile_hsaco(sums(count), "gfx1250")
    assert b"s_set_vgpr_msb" in flyir.disassemble(hsaco).encode()
    math_accuracy.launch(gfx1250, hsaco, [np.array([3], np.uint32), values, out], groups=1)
    expected, partner = values, (STEP * np.arange(count) + 11) % count
    for _ in range(3):
        expected = expected * np.uint32(5) + expected[partner]
    np.testing.assert_array_equal(out, expected)


def test_registers_beyond_256_are_switched_to_behind_barriers():
    """LLVM 22 would place the switch one instruction too early."""
    count = 300
    lines = ["define amdgpu_kernel void @k(ptr addrspace(1) %p) #0 {"]
    for k in range(count):
        lines += [f"%q{k} = getelementptr i32, ptr addrspace(1) %p, i64 {64 * k}",
                  f"%v{k} = load volatile i32, ptr addrspace(1) %q{k}"]
    for k in range(count):
        lines += [f"%a{k} = add i32 %v{k}, {7 * k + 100}", "call void @llvm.amdgcn.s.barrier.signal(i32 -1)",
                  "call void @llvm.amdgcn.s.barrier.wait(i16 -1)",
                  f"%b{k} = mul i32 %v{(37 * k + 11) % count}, %a{k}",
                  f"store volatile i32 %b{k}, ptr addrspace(1) %q{k}"]
    lines += ["ret void", "}", 'attributes #0 = { "amdgpu-flat-work-group-size"="128,128" }']
    isa = flyir.emit_isa("\n".join(lines), "gfx1250", waves_per_eu=1)
    assert isa.count("s_set_vgpr_msb") > 10 and isa.count("s_barrier_wait") == count
    assert not _wrong_registers(isa)
