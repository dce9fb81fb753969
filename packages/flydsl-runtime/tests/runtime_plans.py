"""Builders of launch plans for tests."""

from __future__ import annotations

import struct
from typing import Any

#: An AMDGPU ELF header without contents: enough for a HIP library that executes nothing.
HSACO = struct.pack("<4sBBB9xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 3, 224, 1, 0, 0, 0, 0, 64, 56, 0, 64, 0, 0)


def tensor(name: str = "A", dtype: str = "f32", rank: int = 2, **fields: Any) -> dict[str, Any]:
    """A tensor argument, fully dynamic unless `fields` says otherwise."""
    shape = fields.pop("shape", [None] * rank)
    strides = fields.pop("strides", [None] * rank)
    result = {"kind": "tensor", "name": name, "dtype": dtype, "rank": rank, "shape": shape, "strides": strides}
    return {**result, "align": 1, **fields}


def scalar(name: str = "n", type: str = "i32") -> dict[str, Any]:
    return {"kind": "scalar", "name": name, "type": type}


def plan(args: list[dict[str, Any]], code: list[list[Any]], regs: int = 16, name: str = "f") -> dict[str, Any]:
    return {"version": 1, "name": name, "args": args, "regs": regs, "code": code}


def launch(
    kernel: str = "kernel",
    grid: tuple[int, int, int] = (0, 0, 0),
    block: tuple[int, int, int] = (0, 0, 0),
    smem: int = -1,
    stream: int = -1,
    args: tuple[tuple[int, int, int], ...] = (),
    size: int = 0,
    cluster: list[int] | None = None,
) -> list[Any]:
    """A launch instruction; numbers are registers. Register 0 holds 1 in `launch_plan`."""
    return ["launch", kernel, list(grid), list(block), smem, stream, [list(a) for a in args], size, cluster]


def launch_plan(args: list[dict[str, Any]], *instructions: list[Any], name: str = "f") -> dict[str, Any]:
    """A plan that puts 1 in register 0 and then runs `instructions`."""
    return plan(args, [["const", 0, 1], *instructions, ["ret"]], name=name)


def values_plan(arguments: list[dict[str, Any]], *instructions: list[Any], results: list[int]) -> dict[str, Any]:
    """A plan whose one launch has the 64-bit registers `results` as kernel arguments (register 15 holds 1)."""
    kernel_args = tuple((reg, 8 * i, 8) for i, reg in enumerate(results))
    call = launch(grid=(15, 15, 15), block=(15, 15, 15), args=kernel_args, size=8 * len(results))
    return plan(arguments, [["const", 15, 1], *instructions, call])
