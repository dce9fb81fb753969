"""What an exported function takes: the slots of its array of arguments."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from flydsl.runtime.plan import TensorArgument

from ..store.artifact import CompiledArtifact

__all__ = ["KEYWORDS", "Slot", "slots_of"]

#: Keywords of C23 and C++26, what the header itself names, macros of GNU's C, and what every program has.
KEYWORDS = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class "
    "co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue "
    "contract_assert decltype default delete do double dynamic_cast else enum explicit export extern false float "
    "for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private "
    "protected public register reinterpret_cast requires restrict return short signed sizeof static static_assert "
    "static_cast struct switch template this thread_local throw true try typedef typeid typename typeof "
    "typeof_unqual union unsigned using virtual void volatile wchar_t while xor xor_eq args stream status device "
    "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t linux unix main".split()
)

#: What parameters of the typed call end in, by the kind of the argument.
_ENDINGS = {"tensor": ("_data", "_layout")}
_SCALARS = {  # plan type -> (ctype, bytes, encoding)
    "i1": ("bool", 1, ""), "i8": ("int8", 1, ""), "i16": ("int16", 2, ""), "i32": ("int32", 4, ""),
    "i64": ("int64", 8, ""), "u8": ("uint8", 1, ""), "u16": ("uint16", 2, ""), "u32": ("uint32", 4, ""),
    "u64": ("uint64", 8, ""), "index": ("int64", 8, ""), "f32": ("float", 4, ""), "f64": ("double", 8, ""),
    "f16": ("uint16", 2, "float16_bits"), "bf16": ("uint16", 2, "bfloat16_bits"),
}


@dataclasses.dataclass
class Slot:
    """One pointer of the ``args`` array.

    Attributes:
        plan_argument: index of the plan argument it belongs to; -1 for the unnamed stream.
        arg_index, arg_name: parameter of the jit function; None and "" for the unnamed stream.
        field: what of the parameter it is, of a struct (``k``, ``inner.k``) or a container (``[0]``); "" for all of it.
        name: in C; no two slots have the same, but for the data and the layout of one tensor.
    """

    plan_argument: int
    arg_index: int | None
    arg_name: str
    kind: str
    ctype: str
    size: int
    alignment: int
    field: str = ""
    name: str = "stream"
    encoding: str = ""
    shape_dims: list[int] = dataclasses.field(default_factory=list)
    stride_dims: list[int] = dataclasses.field(default_factory=list)
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
        if self.field:
            found["field"] = self.field
        return found


def _identifier(name: str, taken: set[str], endings: tuple[str, ...] = ("",)) -> str:
    """A name in C for ``p``, ``p.field`` or ``p['key']``; added, with each ending, to those that are ``taken``."""
    text = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") if re.search(r"[.\[]", name) else name
    text = "".join(c if c.isalnum() and c.isascii() or c == "_" else "_" for c in text)
    while text in KEYWORDS or any(text + ending in taken for ending in endings):
        text += "_"
    taken.update(text + ending for ending in endings)
    return text


def slots_of(artifact: CompiledArtifact, symbol: str) -> list[Slot]:
    """ABI slots of an exported symbol in parameter order. NotImplementedError for arguments that have none."""
    slots: list[Slot] = []
    names = {symbol + ending for ending in ("", "_call", "__module_init", "__module_load")}  # what the header calls
    for i, argument in enumerate(artifact.plan["args"]):
        position = artifact.positions[i]
        parameter = artifact.parameters[position]
        base = {"plan_argument": i, "arg_index": position, "arg_name": parameter,
                "field": argument["name"].removeprefix(parameter).removeprefix("."),
                "name": _identifier(argument["name"], names, _ENDINGS.get(argument["kind"], ("",)))}
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
