"""What an exported function takes: the slots of its array of arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flydsl.runtime.plan import TensorArgument

from ..store.artifact import CompiledArtifact

__all__ = ["Slot", "slots_of"]

_SCALARS = {  # plan type -> (ctype, bytes, encoding)
    "i1": ("bool", 1, ""), "i8": ("int8", 1, ""), "i16": ("int16", 2, ""), "i32": ("int32", 4, ""),
    "i64": ("int64", 8, ""), "u8": ("uint8", 1, ""), "u16": ("uint16", 2, ""), "u32": ("uint32", 4, ""),
    "u64": ("uint64", 8, ""), "index": ("int64", 8, ""), "f32": ("float", 4, ""), "f64": ("double", 8, ""),
    "f16": ("uint16", 2, "float16_bits"), "bf16": ("uint16", 2, "bfloat16_bits"),
}


@dataclass
class Slot:
    """One pointer of the ``args`` array.

    Attributes:
        plan_argument: index of the plan argument it belongs to; -1 for the unnamed stream.
        arg_index, arg_name: parameter of the jit function; None and "" for the unnamed stream.
    """

    plan_argument: int
    arg_index: int | None
    arg_name: str
    kind: str
    ctype: str
    size: int
    alignment: int
    encoding: str = ""
    shape_dims: list[int] = field(default_factory=list)
    stride_dims: list[int] = field(default_factory=list)
    stride_bits: int = 64

    def metadata(self) -> dict[str, Any]:
        """The slot's entry in the metadata."""
        found: dict[str, Any] = {"arg_index": self.arg_index, "arg_name": self.arg_name, "kind": self.kind,
                                 "ctype": self.ctype, "size": self.size, "alignment": self.alignment}
        if self.kind == "tensor_layout":
            found.update(shape_dims=self.shape_dims, stride_dims=self.stride_dims, shape_bits=32,
                         stride_bits=self.stride_bits)
        if self.encoding:
            found["encoding"] = self.encoding
        return found


def slots_of(artifact: CompiledArtifact) -> list[Slot]:
    """ABI slots in parameter order. NotImplementedError for arguments that have none."""
    slots: list[Slot] = []
    for i, argument in enumerate(artifact.plan["args"]):
        position = artifact.positions[i]
        base = {"plan_argument": i, "arg_index": position, "arg_name": argument["name"]}
        kind = argument["kind"]
        if kind == "tensor":
            tensor = TensorArgument.of(argument)
            slots.append(Slot(**base, kind="tensor_data", ctype="pointer", size=8, alignment=8))
            if tensor.layout_bytes:
                slots.append(Slot(**base, kind="tensor_layout", ctype="bytes", size=tensor.layout_bytes, alignment=1,
                                  shape_dims=tensor.dynamic_extents, stride_dims=tensor.dynamic_strides,
                                  stride_bits=tensor.index_width))
        elif kind == "scalar":
            if argument["type"] not in _SCALARS:
                raise NotImplementedError(f"argument {argument['name']!r}: {argument['type']} cannot be exported to C")
            ctype, size, encoding = _SCALARS[argument["type"]]
            slots.append(Slot(**base, kind="scalar", ctype=ctype, size=size, alignment=size, encoding=encoding))
        elif kind != "absent":
            slots.append(Slot(**base, kind=kind, ctype="pointer", size=8, alignment=8))
    streams = sum(s.kind == "stream" for s in slots)
    if streams > 1:
        raise NotImplementedError(f"{artifact.name}: {streams} stream parameters cannot be exported to C")
    if not streams:
        slots.append(Slot(-1, None, "", "stream", "pointer", 8, 8))
    return slots
