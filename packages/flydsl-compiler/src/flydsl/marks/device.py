"""The device side of `flydsl.expr.ktrace`: functions that write event records, defined in the lowered GPU module.

A trace buffer is an array of 32-byte slots. Slot 0 is the head; the wave counter of partition p is at slot 8 * (p + 1);
after the counters come the waves, 256 slots each: a header and up to 255 events. A wave takes its slots from the
partition of its work-group, so that waves of different work-groups seldom wait for one counter. The address of the
buffer is a variable of the code object, which the host sets when it loads the module.
"""

from __future__ import annotations

from typing import Any

from flydsl.tracing.ir_walk import children

__all__ = ["ARCHITECTURES", "BEGIN", "BUFFER", "EVENT", "EVENTS", "SLOT", "WAVE_BYTES", "block_filter",
           "define_functions"]

BUFFER, BEGIN, EVENT = "__fly_ktrace_buffer", "__fly_ktrace_begin", "__fly_ktrace_event"
SLOT, EVENTS = 32, 255
WAVE_BYTES = SLOT * (EVENTS + 1)

#: Those that have the clock and the registers that the functions read.
ARCHITECTURES = ("gfx942", "gfx950")

# Registers of the wave's place: HW_ID (4) and XCC_ID (20), 32 bits each.
_HW_ID, _XCC_ID = 31 << 11 | 4, 31 << 11 | 20

_FUNCTIONS = """
llvm.mlir.global external @__fly_ktrace_buffer(0 : i64) {addr_space = 1 : i32, alignment = 8 : i64} : i64
llvm.func internal @__fly_ktrace_first() -> i1 attributes {passthrough = ["alwaysinline"]} {
  %all = llvm.mlir.constant(-1 : i32) : i32
  %zero = llvm.mlir.constant(0 : i32) : i32
  %low = llvm.call_intrinsic "llvm.amdgcn.mbcnt.lo"(%all, %zero) : (i32, i32) -> i32
  %lane = llvm.call_intrinsic "llvm.amdgcn.mbcnt.hi"(%all, %low) : (i32, i32) -> i32
  %leader = rocdl.readfirstlane %lane : i32
  %first = llvm.icmp "eq" %lane, %leader : i32
  llvm.return %first : i1
}
llvm.func internal @__fly_ktrace_begin(%kernel: i32) -> i64 attributes {passthrough = ["alwaysinline"]} {
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %z = llvm.mlir.constant(0 : i32) : i32
  %one = llvm.mlir.constant(1 : i32) : i32
  %variable = llvm.mlir.addressof @__fly_ktrace_buffer : !llvm.ptr<1>
  %buffer = llvm.load volatile %variable {alignment = 8 : i64} : !llvm.ptr<1> -> i64
  %none = llvm.icmp "eq" %buffer, %c0 : i64
  llvm.cond_br %none, ^out, ^attached
^attached:
  %base = llvm.inttoptr %buffer : i64 to !llvm.ptr<1>
  %enabled = llvm.load volatile %base {alignment = 4 : i64} : !llvm.ptr<1> -> i32
  %off = llvm.icmp "eq" %enabled, %z : i32
  llvm.cond_br %off, ^out, ^on
^on:
  %gx = rocdl.workgroup.id.x : i32
  %gy = rocdl.workgroup.id.y : i32
  %gz = rocdl.workgroup.id.z : i32
  %xccreg = llvm.mlir.constant(@XCC@ : i32) : i32
  %xcc_raw = llvm.call_intrinsic "llvm.amdgcn.s.getreg"(%xccreg) : (i32) -> i32
  %c15 = llvm.mlir.constant(15 : i32) : i32
  %xcc = llvm.and %xcc_raw, %c15 : i32
@FILTER@
^wanted:
  %first = llvm.call @__fly_ktrace_first() : () -> i1
  llvm.cond_br %first, ^alloc, ^join(%c0 : i64)
^alloc:
  %c31 = llvm.mlir.constant(31 : i32) : i32
  %c131 = llvm.mlir.constant(131 : i32) : i32
  %hy = llvm.mul %gy, %c31 : i32
  %hz = llvm.mul %gz, %c131 : i32
  %h0 = llvm.add %gx, %hy : i32
  %h1 = llvm.add %h0, %hz : i32
  %p_slot = llvm.getelementptr %base[8] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
  %partitions = llvm.load %p_slot {alignment = 4 : i64} : !llvm.ptr<1> -> i32
  %w_slot = llvm.getelementptr %base[12] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
  %waves = llvm.load %w_slot {alignment = 4 : i64} : !llvm.ptr<1> -> i32
  %p = llvm.urem %h1, %partitions : i32
  %p1 = llvm.add %p, %one : i32
  %p64 = llvm.zext %p1 : i32 to i64
  %c256 = llvm.mlir.constant(256 : i64) : i64
  %counter_at = llvm.mul %p64, %c256 : i64
  %counter = llvm.getelementptr %base[%counter_at] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i8
  %index = llvm.atomicrmw add %counter, %one syncscope("agent") monotonic : !llvm.ptr<1>, i32
  %fits = llvm.icmp "ult" %index, %waves : i32
  llvm.cond_br %fits, ^write, ^join(%c0 : i64)
^write:
  %parts64 = llvm.zext %partitions : i32 to i64
  %one64 = llvm.mlir.constant(1 : i64) : i64
  %counters = llvm.add %parts64, %one64 : i64
  %data = llvm.mul %counters, %c256 : i64
  %before = llvm.mul %p, %waves : i32
  %number = llvm.add %before, %index : i32
  %number64 = llvm.zext %number : i32 to i64
  %wave_bytes = llvm.mlir.constant(8192 : i64) : i64
  %offset = llvm.mul %number64, %wave_bytes : i64
  %place = llvm.add %data, %offset : i64
  %wave = llvm.add %buffer, %place : i64
  %slot = llvm.inttoptr %wave : i64 to !llvm.ptr<1>
  %time = llvm.call_intrinsic "llvm.amdgcn.s.memrealtime"() : () -> i64
  llvm.store %time, %slot {alignment = 8 : i64} : i64, !llvm.ptr<1>
  %s8 = llvm.getelementptr %slot[8] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
  llvm.store %z, %s8 {alignment = 4 : i64} : i32, !llvm.ptr<1>
  %s12 = llvm.getelementptr %slot[12] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
  llvm.store %kernel, %s12 {alignment = 4 : i64} : i32, !llvm.ptr<1>
  %s16 = llvm.getelementptr %slot[16] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
  llvm.store %gx, %s16 {alignment = 4 : i64} : i32, !llvm.ptr<1>
  %c16 = llvm.mlir.constant(16 : i32) : i32
  %gz_high = llvm.shl %gz, %c16 : i32
  %gyz = llvm.or %gy, %gz_high : i32
  %s20 = llvm.getelementptr %slot[20] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
  llvm.store %gyz, %s20 {alignment = 4 : i64} : i32, !llvm.ptr<1>
  %hwreg = llvm.mlir.constant(@HW@ : i32) : i32
  %hw = llvm.call_intrinsic "llvm.amdgcn.s.getreg"(%hwreg) : (i32) -> i32
  %c65535 = llvm.mlir.constant(65535 : i32) : i32
  %hw_low = llvm.and %hw, %c65535 : i32
  %xcc_high = llvm.shl %xcc, %c16 : i32
  %where = llvm.or %hw_low, %xcc_high : i32
  %s24 = llvm.getelementptr %slot[24] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
  llvm.store %where, %s24 {alignment = 4 : i64} : i32, !llvm.ptr<1>
  %implicit = llvm.call_intrinsic "llvm.amdgcn.implicitarg.ptr"() : () -> !llvm.ptr<4>
  %nx = llvm.load %implicit {alignment = 4 : i64} : !llvm.ptr<4> -> i32
  %ny_at = llvm.getelementptr %implicit[4] : (!llvm.ptr<4>) -> !llvm.ptr<4>, i8
  %ny = llvm.load %ny_at {alignment = 4 : i64} : !llvm.ptr<4> -> i32
  %nz_at = llvm.getelementptr %implicit[8] : (!llvm.ptr<4>) -> !llvm.ptr<4>, i8
  %nz = llvm.load %nz_at {alignment = 4 : i64} : !llvm.ptr<4> -> i32
  %nxy = llvm.mul %nx, %ny : i32
  %groups = llvm.mul %nxy, %nz : i32
  %bx_at = llvm.getelementptr %implicit[12] : (!llvm.ptr<4>) -> !llvm.ptr<4>, i8
  %bx16 = llvm.load %bx_at {alignment = 2 : i64} : !llvm.ptr<4> -> i16
  %bx = llvm.zext %bx16 : i16 to i32
  %by_at = llvm.getelementptr %implicit[14] : (!llvm.ptr<4>) -> !llvm.ptr<4>, i8
  %by16 = llvm.load %by_at {alignment = 2 : i64} : !llvm.ptr<4> -> i16
  %by = llvm.zext %by16 : i16 to i32
  %tx = rocdl.workitem.id.x : i32
  %ty = rocdl.workitem.id.y : i32
  %tz = rocdl.workitem.id.z : i32
  %tzy = llvm.mul %tz, %by : i32
  %tyz = llvm.add %ty, %tzy : i32
  %trow = llvm.mul %tyz, %bx : i32
  %thread = llvm.add %tx, %trow : i32
  %c6 = llvm.mlir.constant(6 : i32) : i32
  %wave_in_group = llvm.lshr %thread, %c6 : i32
  %groups_high = llvm.shl %groups, %c6 : i32
  %shape = llvm.or %wave_in_group, %groups_high : i32
  %s28 = llvm.getelementptr %slot[28] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
  llvm.store %shape, %s28 {alignment = 4 : i64} : i32, !llvm.ptr<1>
  llvm.br ^join(%wave : i64)
^out:
  llvm.br ^done(%c0 : i64)
^join(%mine: i64):
  %c32 = llvm.mlir.constant(32 : i64) : i64
  %high64 = llvm.lshr %mine, %c32 : i64
  %low32 = llvm.trunc %mine : i64 to i32
  %high32 = llvm.trunc %high64 : i64 to i32
  %low_all = rocdl.readfirstlane %low32 : i32
  %high_all = rocdl.readfirstlane %high32 : i32
  %low_wide = llvm.zext %low_all : i32 to i64
  %high_wide = llvm.zext %high_all : i32 to i64
  %high_up = llvm.shl %high_wide, %c32 : i64
  %uniform = llvm.or %low_wide, %high_up : i64
  llvm.br ^done(%uniform : i64)
^done(%result: i64):
  llvm.return %result : i64
}
llvm.func internal @__fly_ktrace_event(%wave: i64, %name: i32, %kind: i32, %payload: i64, %token: i32) -> i32
    attributes {passthrough = ["alwaysinline"]} {
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %z = llvm.mlir.constant(0 : i32) : i32
  %none = llvm.icmp "eq" %wave, %c0 : i64
  llvm.cond_br %none, ^done(%z : i32), ^on
^on:
  %time = llvm.call_intrinsic "llvm.amdgcn.s.memrealtime"() : () -> i64
  %first = llvm.call @__fly_ktrace_first() : () -> i1
  llvm.cond_br %first, ^count, ^join(%z : i32)
^count:
  %one = llvm.mlir.constant(1 : i32) : i32
  %base = llvm.inttoptr %wave : i64 to !llvm.ptr<1>
  %counter = llvm.getelementptr %base[8] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
  %index = llvm.atomicrmw add %counter, %one syncscope("agent") monotonic : !llvm.ptr<1>, i32
  %number = llvm.add %index, %one : i32
  %limit = llvm.mlir.constant(255 : i32) : i32
  %fits = llvm.icmp "ult" %index, %limit : i32
  llvm.cond_br %fits, ^write, ^join(%number : i32)
^write:
  %wide = llvm.zext %number : i32 to i64
  %c32 = llvm.mlir.constant(32 : i64) : i64
  %offset = llvm.mul %wide, %c32 : i64
  %slot = llvm.getelementptr %base[%offset] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i8
  llvm.store %time, %slot {alignment = 8 : i64} : i64, !llvm.ptr<1>
  %s8 = llvm.getelementptr %slot[8] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
  llvm.store %name, %s8 {alignment = 4 : i64} : i32, !llvm.ptr<1>
  %s12 = llvm.getelementptr %slot[12] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
  llvm.store %kind, %s12 {alignment = 4 : i64} : i32, !llvm.ptr<1>
  %s16 = llvm.getelementptr %slot[16] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
  llvm.store %payload, %s16 {alignment = 8 : i64} : i64, !llvm.ptr<1>
  %s24 = llvm.getelementptr %slot[24] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
  llvm.store %token, %s24 {alignment = 4 : i64} : i32, !llvm.ptr<1>
  llvm.br ^join(%number : i32)
^join(%mine: i32):
  %uniform = rocdl.readfirstlane %mine : i32
  llvm.br ^done(%uniform : i32)
^done(%result: i32):
  llvm.return %result : i32
}
"""


def block_filter(text: str) -> tuple[str, tuple[int, ...]]:
    """A filter ``x,y,z`` (``*`` or nothing for any) or ``xcc:N`` as ("", ()), ("blocks", (x, y, z)) or ("xcc", (n,)).

    -1 stands for any. ValueError for other text.
    """
    text = text.strip()
    if not text:
        return "", ()
    if text.startswith("xcc:") and text[4:].isdigit():
        return "xcc", (int(text[4:]),)
    parts = [p.strip() for p in text.split(",")]
    if len(parts) > 3 or not all(p in ("", "*") or p.isdigit() for p in parts):
        raise ValueError(f"ktrace blocks {text!r}: x,y,z of a work-group (* for any), or xcc:N")
    x, y, z = ([-1 if p in ("", "*") else int(p) for p in parts] + [-1, -1])[:3]
    return "blocks", (x, y, z)


def _filter_code(blocks: str) -> str:
    kind, values = block_filter(blocks)
    names = {"xcc": ("xcc",), "blocks": ("gx", "gy", "gz")}.get(kind, ())
    wanted = [(name, value) for name, value in zip(names, values, strict=True) if value >= 0]
    lines = []
    for n, (name, value) in enumerate(wanted):
        target = "^wanted" if n == len(wanted) - 1 else f"^filter{n}"
        lines.append(f"  %want{n} = llvm.mlir.constant({value} : i32) : i32")
        lines.append(f'  %hit{n} = llvm.icmp "eq" %{name}, %want{n} : i32')
        lines.append(f"  llvm.cond_br %hit{n}, {target}, ^out")
        if target != "^wanted":
            lines.append(f"{target}:")
    return "\n".join(lines) if lines else "  llvm.br ^wanted"


def define_functions(module: Any, blocks: str) -> None:
    """Replace the declarations of the event functions by their code, in every GPU module that calls them."""
    from flydsl._mlir import ir

    text = _FUNCTIONS.replace("@XCC@", str(_XCC_ID)).replace("@HW@", str(_HW_ID))
    text = text.replace("@FILTER@", _filter_code(blocks))
    for top in children(module):
        if top.name != "gpu.module":
            continue
        declared = {op.attributes["sym_name"].value: op for op in children(top) if "sym_name" in op.attributes}
        if BEGIN not in declared or BUFFER in declared:
            continue
        for name in (BEGIN, EVENT):
            if name in declared:
                declared[name].erase()
        parsed = ir.Module.parse(text, context=module.context)
        for op in children(parsed):
            op.detach_from_parent()
            top.regions[0].blocks[0].append(op)
