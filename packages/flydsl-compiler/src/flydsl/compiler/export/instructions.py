"""The instructions of a launch plan as C: one form for each row of `flydsl.runtime.plan`'s table."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from flydsl.runtime.plan import INSTRUCTIONS

from ..store.artifact import CompiledArtifact
from . import floats as export_floats
from .preconditions import check_lines
from .slots import Slot

__all__ = ["FORMS", "run_text"]

_BINARY = {
    "add": "(int64_t)(UA + UB)", "sub": "(int64_t)(UA - UB)", "mul": "(int64_t)(UA * UB)", "sdiv": "quotient(SA, SB)",
    "srem": "remainder_(SA, SB)", "udiv": "(int64_t)(UA / UB)", "urem": "(int64_t)(UA % UB)",
    "ceildivs": "ceil_quotient(SA, SB)", "ceildivu": "(int64_t)(UA / UB + (UA % UB != 0))",
    "floordivs": "floor_quotient(SA, SB)", "mins": "(SA < SB ? SA : SB)", "maxs": "(SA > SB ? SA : SB)",
    "minu": "(int64_t)(UA < UB ? UA : UB)", "maxu": "(int64_t)(UA > UB ? UA : UB)", "and": "(int64_t)(UA & UB)",
    "or": "(int64_t)(UA | UB)", "xor": "(int64_t)(UA ^ UB)", "shl": "(UB >= W ? 0 : (int64_t)(UA << UB))",
    "shrs": "(SA >> (UB < 63 ? UB : 63))", "shru": "(UB >= W ? 0 : (int64_t)(UA >> UB))",
}
_DIVISIONS = frozenset(("sdiv", "srem", "udiv", "urem", "ceildivs", "ceildivu", "floordivs"))
_PREDICATES = {
    "eq": "SA == SB", "ne": "SA != SB", "slt": "SA < SB", "sle": "SA <= SB", "sgt": "SA > SB", "sge": "SA >= SB",
    "ult": "UA < UB", "ule": "UA <= UB", "ugt": "UA > UB", "uge": "UA >= UB",
}


def run_text(artifact: CompiledArtifact, slots: list[Slot], kernels: list[str]) -> str:
    """The launch plan as a C function. NotImplementedError for what needs the mathematical library."""
    plan = artifact.plan
    function = _Function(plan["args"], slots, kernels)
    lines = ["static int run(const Loaded *code, void **args) {", f"  int64_t r[{max(1, plan['regs'])}] = {{0}};",
             "  int status = 0;", "  (void)args;"]
    lines += ["  " + text for text in check_lines(plan["args"], function.data, function.read_extent)]
    targets = {number for i in plan["code"] for number in _targets(i)}
    for number, instruction in enumerate(plan["code"]):
        if number in targets:
            lines.append(f"L{number}:;")
        lines += ["  " + text for text in FORMS[instruction[0]](function, instruction)]
    if len(plan["code"]) in targets:
        lines.append(f"L{len(plan['code'])}:;")
    return "\n".join([*lines, "  return status;", "}", ""])


def _targets(i: list[Any]) -> list[int]:
    """The instructions to which one may branch."""
    return [value for kind, value in zip(INSTRUCTIONS[i[0]].operands, i[1:], strict=True) if kind == "target"]


class _Function:
    """The C function of a plan: where its arguments are, and the forms of the instructions that use them."""

    def __init__(self, arguments: list[dict[str, Any]], slots: list[Slot], kernels: list[str]) -> None:
        self.arguments, self.kernels = arguments, kernels
        self.data = {s.plan_argument: i for i, s in enumerate(slots) if s.kind != "tensor_layout"}
        self.layout = {s.plan_argument: (i, s) for i, s in enumerate(slots) if s.kind == "tensor_layout"}

    def address(self, i: list[Any]) -> list[str]:
        """``ptr``, ``stream``."""
        return [f"r[{i[1]}] = (int64_t){_read(self.data[i[2]], 'uintptr_t')};"]

    def scalar(self, i: list[Any]) -> list[str]:
        """``arg``: a scalar's bits as registers hold them, integers extended to 64 bits, floats raw."""
        _, register, index = i
        slot, kind = self.data[index], self.arguments[index]["type"]
        kinds = {"i1": "bool", "index": "int64_t", "f16": "uint16_t", "bf16": "uint16_t", "f32": "uint32_t",
                 "f64": "uint64_t"}
        ctype = kinds.get(kind) or f"{'u' if kind[0] == 'u' else ''}int{kind[1:]}_t"
        if kind in ("f32", "f64"):
            # Through memcpy: the caller's storage is a float, which other types must not alias.
            return [f"{{ {ctype} bits; memcpy(&bits, args[{slot}], sizeof bits); r[{register}] = (int64_t)bits; }}"]
        return [f"r[{register}] = (int64_t){_read(slot, ctype)};"]

    def extent(self, i: list[Any]) -> list[str]:
        """``shape``, ``stride``."""
        op, register, index, dim = i
        return self.read_extent(op, index, dim, f"r[{register}]")

    def read_extent(self, op: str, index: int, dim: int, target: str) -> list[str]:
        """Assign the extent (``shape``) or the stride of a tensor argument's dimension."""
        fixed = self.arguments[index]["shape" if op == "shape" else "strides"][dim]
        if fixed is not None:
            return [f"{target} = {fixed};"]
        slot, where = self.layout[index]
        if op == "shape":
            offset, ctype = 4 * where.shape_dims.index(dim), "int32_t"
        else:
            width = where.stride_bits // 8
            offset = 4 * len(where.shape_dims) + width * where.stride_dims.index(dim)
            ctype = f"int{where.stride_bits}_t"
        read = f"memcpy(&value, (const char *)args[{slot}] + {offset}, sizeof value);"
        return [f"{{ {ctype} value; {read} {target} = value; }}"]

    def launch(self, i: list[Any]) -> list[str]:
        """``launch``."""
        _, kernel, grid, block, shared, stream, triples, size, cluster = i

        def triple(registers: list[int] | None) -> str:
            return "{" + ", ".join("1" if registers is None else f"r[{n}]" for n in registers or (0, 0, 0)) + "}"

        queue = f"r[{stream}]" if stream >= 0 else "0"
        if stream < 0 and -1 in self.data:  # the slot of a stream that the function does not name
            queue = f"(int64_t){_read(self.data[-1], 'uintptr_t')}"
        copies = [f"  memcpy(kernargs + {offset}, &r[{register}], {length});" for register, offset, length in triples]
        return [
            "{", f"  _Alignas(64) char kernargs[{max(1, size)}] = {{0}};", *copies,
            f"  const int64_t grid[3] = {triple(grid)}, block[3] = {triple(block)}, cluster[3] = {triple(cluster)};",
            f"  const int error = launch(code->functions[{self.kernels.index(kernel)}], grid, block, cluster, "
            f"{f'r[{shared}]' if shared >= 0 else '0'}, {queue}, kernargs, {size});",
            "  status = status ? status : error;", "}",
        ]


def _read(slot: int, ctype: str) -> str:
    return f"*(const {ctype} *)args[{slot}]"


def _fill(template: str, a: int, b: int, width: int) -> str:
    values = {"SA": f"sign_extend(r[{a}], {width})", "SB": f"sign_extend(r[{b}], {width})",
              "UA": f"zero_extend(r[{a}], {width})", "UB": f"zero_extend(r[{b}], {width})",
              "W": str(width)}
    return re.sub(r"\b(SA|SB|UA|UB|W)\b", lambda m: values[m.group(1)], template)


def _binary(i: list[Any]) -> list[str]:
    op, d, a, b, width = i
    check = [f"if (zero_extend(r[{b}], {width}) == 0)", "  return kInvalidValue;"] if op in _DIVISIONS else []
    return [*check, f"r[{d}] = canonical({_fill(_BINARY[op], a, b, width)}, {width});"]


def _resize(i: list[Any]) -> list[str]:
    call = {"sext": "sign_extend", "zext": "(int64_t)zero_extend", "trunc": "canonical"}[i[0]]
    return [f"r[{i[1]}] = {call}(r[{i[2]}], {i[3]});"]


def _comment(text: str) -> str:
    return text.replace("*/", "* /")


Form = Callable[[_Function, list[Any]], list[str]]


def _alone(form: Callable[[list[Any]], list[str]]) -> Form:
    """The form of an instruction whose text does not depend on the function's arguments."""
    return lambda function, i: form(i)


#: Instruction -> its statements.
FORMS: dict[str, Form] = {
    "const": _alone(lambda i: [f"r[{i[1]}] = (int64_t){i[2] & 0xFFFFFFFFFFFFFFFF:#x}ull;"]),
    "ptr": _Function.address, "stream": _Function.address, "arg": _Function.scalar,
    "shape": _Function.extent, "stride": _Function.extent, "launch": _Function.launch,
    **dict.fromkeys(_BINARY, _alone(_binary)),
    **dict.fromkeys(("sext", "zext", "trunc"), _alone(_resize)),
    **dict.fromkeys(export_floats.INSTRUCTIONS, _alone(export_floats.lines)),
    "cmp": _alone(lambda i: [f"r[{i[1]}] = {_fill(_PREDICATES[i[2]], i[3], i[4], i[5])};"]),
    "select": _alone(lambda i: [f"r[{i[1]}] = (r[{i[2]}] & 1) ? r[{i[3]}] : r[{i[4]}];"]),
    "mov": _alone(lambda i: [f"r[{i[1]}] = r[{i[2]}];"]),
    "br": _alone(lambda i: [f"goto L{i[1]};"]),
    "cond_br": _alone(lambda i: [f"if (r[{i[1]}] & 1)", f"  goto L{i[2]};", f"goto L{i[3]};"]),
    "assert": _alone(lambda i: [f"if (!(r[{i[1]}] & 1))", f"  return kInvalidValue; /* {_comment(i[2])} */"]),
    "ret": _alone(lambda i: ["return status;"]),
}
