"""Local memory (LDS) of the traced kernels, checked against the target before any code is generated."""

from __future__ import annotations

from typing import Any

from flydsl.tracing.diagnostics import DiagRecord, DSLCompileError, SourceFrame, location_frames
from flydsl.tracing.ir_walk import children, named

# Ops that only compute another address of the allocation; one whose result is unused uses nothing.
_ADDRESS_OPS = ("fly.recast_iter", "fly.add_offset", "fly.make_view", "fly.apply_swizzle", "memref.view",
                "memref.subview", "fly.slice", "fly.get_iter")


def _is_used(value: Any) -> bool:
    for use in value.uses:
        op = use.owner
        op = getattr(op, "operation", op)
        if op.name not in _ADDRESS_OPS or any(_is_used(r) for r in op.results):
            return True
    return False


def _align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def _element_bytes(ty: Any) -> int:
    total = 1
    for extent in ty.shape:
        total *= extent
    return total * max(1, getattr(ty.element_type, "width", 8) // 8)


def static_bytes(function: Any, globals_: dict[str, Any]) -> tuple[int, list[tuple[int, Any]]]:
    """LDS bytes that a kernel allocates statically, and (bytes, location) of each allocation.

    ``globals_`` has the builtin memref globals of the GPU module by symbol name.
    """
    offset, found, seen = 0, [], set()
    for op in named(function, "fly.make_ptr", "memref.get_global"):
        if op.name == "fly.make_ptr":
            if "dictAttrs" not in op.attributes:
                continue
            fields = op.attributes["dictAttrs"]
            if "allocBytes" not in fields or not _is_used(op.result):
                continue
            size, alignment = fields["allocBytes"].value, fields["allocAlign"].value
        else:
            name = op.attributes["name"].value
            if name in seen or name not in globals_ or not _is_used(op.result):
                continue
            seen.add(name)
            attributes = globals_[name].attributes
            size = _element_bytes(attributes["type"].value)
            alignment = attributes["alignment"].value if "alignment" in attributes else 1
        offset = _align(offset, alignment) + size
        found.append((size, op.location))
    return offset, found


def _constant(value: Any) -> int | None:
    owner = getattr(value.owner, "operation", value.owner)
    if getattr(owner, "name", None) == "arith.constant":
        return owner.attributes["value"].value
    return None


def check(module: Any, arch: str) -> None:
    """DSLCompileError when a launch needs more LDS than ``arch`` has: needed bytes, limit, allocating lines."""
    from flydsl.runtime.device import SMEM_CAPACITY_MAP

    limit = SMEM_CAPACITY_MAP.get(arch.split(":")[0], SMEM_CAPACITY_MAP.get(arch.split(":")[0].split("-")[0]))
    if limit is None:
        return
    functions: dict[str, Any] = {}
    globals_: dict[str, Any] = {}
    host = []
    for top in children(module):
        if top.name != "gpu.module":
            host.append(top)
            continue
        for op in children(top):
            kind = {"gpu.func": functions, "memref.global": globals_}.get(op.name)
            if kind is not None:
                kind[op.attributes["sym_name"].value] = op
    if not functions:
        return
    sizes = {name: static_bytes(function, globals_) for name, function in functions.items()}
    launched: dict[str, int] = {}
    for op in (launch for function in host for launch in named(function, "gpu.launch_func")):
        name = op.attributes["kernel"].value[-1]
        launched[name] = max(launched.get(name, 0), _dynamic_bytes(op))
    for name, (static, places) in sizes.items():
        dynamic = launched.get(name, 0)
        total = _align(static, 16) + dynamic if dynamic else static
        if total > limit:
            _fail(name, arch, static, dynamic, limit, places, total)


def _dynamic_bytes(launch: Any) -> int:
    segments = list(launch.attributes["operandSegmentSizes"])
    position = sum(segments[:10])
    return (_constant(launch.operands[position]) or 0) if segments[10] else 0


def _fail(
    name: str, arch: str, static: int, dynamic: int, limit: int, places: list[tuple[int, Any]], total: int
) -> None:
    parts = f"{static} allocated in the kernel" + (f" and {dynamic} dynamic" if dynamic else "")
    text = (f"kernel {name!r} needs {total} bytes of LDS per workgroup ({parts}), but {arch} has {limit}: use smaller "
            "tiles or fewer stages, or reuse space with fx.union")
    notes: list[str] = []
    chain: tuple[SourceFrame, ...] = ()
    for size, location in sorted(places, key=lambda p: -p[0]):
        frames = location_frames(location)
        if frames:
            chain = chain or frames
            notes.append(f"{size} bytes allocated here: {frames[0].filename}:{frames[0].line}")
    raise DSLCompileError(text, [DiagRecord(text, chain, tuple(notes[:6]))])
