"""From the host function to the launch plan: straight-line instructions that the runtime evaluates.

The input is the lowered host `func.func` (arith, cf, llvm struct packing, `gpu.launch_func`). Every scalar
SSA value becomes a 64-bit register; packed structs exist only while planning, as lists of registers.
"""

from __future__ import annotations

import struct
from typing import Any, NoReturn

from flydsl.runtime.plan import FLOAT_PREDICATES, FLOAT_TYPES, FLOAT_UNARY, PREDICATES, VERSION, TensorArgument, check
from flydsl.tracing import ir_walk
from flydsl.tracing.diagnostics import DiagRecord, DSLCompileError, location_frames
from flydsl.tracing.ir_walk import PlainValue, children

_BINARY = {
    "arith.addi": "add", "arith.subi": "sub", "arith.muli": "mul", "arith.divsi": "sdiv", "arith.remsi": "srem",
    "arith.divui": "udiv", "arith.remui": "urem", "arith.ceildivsi": "ceildivs", "arith.ceildivui": "ceildivu",
    "arith.floordivsi": "floordivs", "arith.minsi": "mins", "arith.maxsi": "maxs", "arith.minui": "minu",
    "arith.maxui": "maxu", "arith.andi": "and", "arith.ori": "or", "arith.xori": "xor", "arith.shli": "shl",
    "arith.shrsi": "shrs", "arith.shrui": "shru", "llvm.add": "add", "llvm.sub": "sub", "llvm.mul": "mul",
}
_FLOAT_BINARY = {
    "arith.addf": "add", "arith.subf": "sub", "arith.mulf": "mul", "arith.divf": "div", "arith.remf": "rem",
    "arith.minimumf": "minimum", "arith.maximumf": "maximum", "arith.minnumf": "minnum", "arith.maxnumf": "maxnum",
    "math.powf": "pow", "math.atan2": "atan2", "math.copysign": "copysign",
}
_FLOAT_UNARY = {"arith.negf": "neg", "math.absf": "abs"} | {
    f"math.{name}": name for name in FLOAT_UNARY if name not in ("neg", "abs")
}
_CONVERSIONS = {"arith.sitofp": "i", "arith.uitofp": "u", "arith.fptosi": "i", "arith.fptoui": "u",
                "arith.extf": "", "arith.truncf": ""}
#: Casts between integers: how the operand is widened where the result is not narrower.
_RESIZES = dict.fromkeys(("arith.extsi", "arith.index_cast", "llvm.sext", "arith.trunci", "llvm.trunc"), "sext") | (
    dict.fromkeys(("arith.extui", "arith.index_castui", "llvm.zext"), "zext"))
_PUNCTUATION = {"no_punctuation": "", "newline": "\n", "comma": ", ", "open": "( ", "close": " )"}
_IDENTITY = ("builtin.unrealized_conversion_cast", "arith.bitcast", "llvm.ptrtoint", "llvm.inttoptr",
             "llvm.addrspacecast", "llvm.bitcast")
_IGNORED = ("gpu.module", "gpu.binary")
_NO_EFFECT = ("llvm.intr.assume", "llvm.intr.lifetime.start", "llvm.intr.lifetime.end")


class _Missing:
    """A value whose operation the plan cannot evaluate; only its use is an error."""

    def __init__(self, op: Any) -> None:
        self.op = op


def type_width(text: str) -> int:
    """Bits of a scalar type by its spelling; 64 for index and pointers."""
    if text == "index" or text.startswith(("!llvm.ptr", "!fly.ptr", "!gpu.async.token")):
        return 64
    if text == "bf16":
        return 16
    digits = "".join(c for c in text[1:] if c.isdigit())
    if text[:1] in "if" and text[1:].isdigit():
        return int(digits)
    if text.startswith("f8"):
        return 8
    raise DSLCompileError(f"launch plan: values of type {text} are not supported on the host side")


class PlanBuilder:
    """Builds the plan of one host function.

    Args:
        name: the jit function's name.
        arguments: plan entries of the jit function's arguments, in order, the implicit stream excluded.
    """

    def __init__(self, name: str, arguments: list[dict[str, Any]]) -> None:
        self.name, self.arguments = name, arguments
        self.code: list[list[Any]] = []
        self.regs = 0
        self._values: dict[int, Any] = {}
        self._labels: dict[Any, int] = {}
        self._fixups: list[tuple[list[Any], int, Any]] = []

    def build(self, function: Any) -> dict[str, Any]:
        """The plan of a host function. DSLCompileError names an operation that cannot run on the host."""
        blocks = list(function.regions[0].blocks)
        self._bind_arguments(ir_walk.arguments(blocks[0]))
        for block in blocks[1:]:
            for argument in ir_walk.arguments(block):
                self._set(argument, self._reg())
        for op in children(function):
            self._labels.setdefault(self._block_key(op.block), len(self.code))
            self._operation(op)
        for instruction, position, block in self._fixups:
            instruction[position] = self._labels[self._block_key(block)]
        plan = {"version": VERSION, "name": self.name, "args": self.arguments, "regs": self.regs, "code": self.code}
        check(plan)
        return plan

    # ---- values

    def _reg(self) -> int:
        self.regs += 1
        return self.regs - 1

    def _emit(self, opcode: str, *operands: Any) -> int:
        register = self._reg()
        self.code.append([opcode, register, *operands])
        return register

    @staticmethod
    def _block_key(block: Any) -> Any:
        return hash(block)

    def _set(self, value: PlainValue, what: Any) -> None:
        self._values[value.key] = what

    def _get(self, value: PlainValue) -> Any:
        found = self._values.get(value.key)
        if isinstance(found, _Missing):
            self._unsupported(found.op)
        return found

    def _unsupported(self, op: Any) -> NoReturn:
        message = (
            f"{self.name}: the host side of a launch uses {op.name}, which the launch plan cannot evaluate; host code "
            "may compute with numbers, print, and launch kernels. What touches the elements of a tensor belongs into "
            "a kernel"
        )
        raise DSLCompileError(message, [DiagRecord(message, location_frames(op.location))])

    def _register(self, value: PlainValue) -> int:
        found = self._get(value)
        if not isinstance(found, int):
            raise DSLCompileError(f"{self.name}: the host side uses a {value.type} where a scalar is needed")
        return found

    def _bind_arguments(self, values: list[PlainValue]) -> None:
        """Registers of the lowered parameters: pointer and layout structs of tensors, scalars, streams."""
        position = 0
        for index, entry in enumerate(self.arguments):
            kind = entry["kind"]
            if kind == "tensor":
                self._set(values[position], self._emit("ptr", index))
                position += 1
                if layout := self._layout(index, TensorArgument.of(entry)):
                    self._set(values[position], layout)
                    position += 1
                continue
            if kind == "absent":
                continue
            opcode = {"scalar": "arg", "pointer": "ptr", "stream": "stream"}[kind]
            self._set(values[position], self._emit(opcode, index))
            position += 1
        if position < len(values):
            # The implicit stream: the default queue.
            self._set(values[position], -1)
            position += 1
        if position != len(values):
            raise DSLCompileError(f"{self.name}: {len(values)} lowered parameters for {len(self.arguments)} arguments")

    def _layout(self, index: int, tensor: TensorArgument) -> list[Any]:
        """``struct<packed (struct<packed (extents)>, struct<packed (strides)>)>``, empty groups omitted."""
        passed = (("shape", tensor.dynamic_extents), ("stride", tensor.dynamic_strides))
        return [[self._emit(opcode, index, dim) for dim in dims] for opcode, dims in passed if dims]

    # ---- operations

    def _operation(self, op: Any) -> None:
        handler = _EFFECTS.get(op.name)
        if handler is not None:
            handler(self, op)
        elif op.name not in _IGNORED:
            self._pure(op)

    def _binary(self, op: Any) -> None:
        a, b = (self._try(o) for o in ir_walk.operands(op))
        result = ir_walk.results(op)[0]
        if isinstance(a, int) and isinstance(b, int):
            self._set(result, self._emit(_BINARY[op.name], a, b, type_width(result.type)))
        else:
            self._set(result, next((o for o in (a, b) if isinstance(o, _Missing)), None) or _Missing(op))

    def _return(self, op: Any) -> None:
        self.code.append(["ret"])

    def _assert(self, op: Any) -> None:
        self.code.append(["assert", self._register(ir_walk.operands(op)[0]), op.attributes["msg"].value])

    def _try(self, value: PlainValue) -> Any:
        return self._values.get(value.key)

    def _pure(self, op: Any) -> None:
        if len(op.results) == 0:
            if op.name not in _NO_EFFECT:
                self._unsupported(op)
            return
        operands = [self._try(o) for o in ir_walk.operands(op)]
        # The first operation that cannot be evaluated is the one to name.
        result = next((o for o in operands if isinstance(o, _Missing)), None)
        if result is None:
            result = self._evaluate(op, operands)
        for value in ir_walk.results(op):
            self._set(value, _Missing(op) if result is None else result)

    def _evaluate(self, op: Any, operands: list[Any]) -> Any:
        name = op.name
        text = ir_walk.results(op)[0].type
        if name in ("arith.constant", "llvm.mlir.constant"):
            bits = _constant_bits(op.attributes["value"])
            return None if bits is None else self._emit("const", bits)
        if name in _IDENTITY and len(op.results) == 1 and len(operands) == 1:
            return operands[0]
        if name in ("llvm.mlir.undef", "llvm.mlir.poison"):
            return _undef(text) if text.startswith("!llvm.struct") else self._emit("const", 0)
        if name == "llvm.mlir.zero":
            return self._emit("const", 0)
        if name == "llvm.extractvalue":
            found = operands[0]
            for index in op.attributes["position"]:
                found = found[index]
            return found
        if name == "llvm.insertvalue":
            return _insert(operands[0], list(op.attributes["position"]), operands[1])
        if name == "arith.cmpi":
            width = type_width(ir_walk.operands(op)[0].type)
            return self._emit("cmp", PREDICATES[op.attributes["predicate"].value], *operands, width)
        if name in ("arith.select", "llvm.select") and all(isinstance(o, int) for o in operands):
            return self._emit("select", *operands)
        if name in _FLOAT_BINARY or name in _FLOAT_UNARY or name == "arith.cmpf" or name in _CONVERSIONS:
            return self._float(op, operands, text)
        return self._conversion(op, operands, text)

    def _float(self, op: Any, operands: list[Any], text: str) -> Any:
        """A register with the result of an operation on floats; None for types that the runtime does not know."""
        name, source = op.name, ir_walk.operands(op)[0].type
        if not all(t in FLOAT_TYPES or t[:1] == "i" and t[1:].isdigit() for t in (source, text)):
            return None
        if name in _FLOAT_BINARY:
            return self._emit("fbin", _FLOAT_BINARY[name], *operands, text)
        if name in _FLOAT_UNARY:
            return self._emit("fun", _FLOAT_UNARY[name], *operands, text)
        if name == "arith.cmpf":
            return self._emit("fcmp", FLOAT_PREDICATES[op.attributes["predicate"].value], *operands, source)
        sign = _CONVERSIONS[name]
        from_, to = (t if t in FLOAT_TYPES else sign + t[1:] for t in (source, text))
        return self._emit("convert", operands[0], from_, to)

    def _print(self, op: Any) -> None:
        """``vector.print`` of a text, a number or nothing, and the punctuation after it."""
        attributes = op.attributes
        ending = str(attributes["punctuation"]) if "punctuation" in attributes else "newline"
        end = next(text for name, text in _PUNCTUATION.items() if name in ending)
        if "stringLiteral" in attributes:
            self.code.append(["print_text", attributes["stringLiteral"].value])
            return  # a text ends where it ends
        if len(op.operands):
            register, text = self._register(ir_walk.operands(op)[0]), ir_walk.operands(op)[0].type
            if text == "index":
                text = "i64"
            if text.startswith("ui"):
                text = f"u{text[2:]}"
            if text not in FLOAT_TYPES and not (text[:1] in ("i", "u") and text[1:].isdigit()):
                self._unsupported(op)
            self.code.append(["print", register, text])
        if end:
            self.code.append(["print_text", end])

    def _conversion(self, op: Any, operands: list[Any], text: str) -> Any:
        if op.name in _RESIZES:
            source, target = type_width(ir_walk.operands(op)[0].type), type_width(text)
            if target < source:
                return self._emit("trunc", operands[0], target)
            return self._emit(_RESIZES[op.name], operands[0], source)
        return self._gep(op, operands) if op.name == "llvm.getelementptr" else None

    def _gep(self, op: Any, operands: list[Any]) -> Any:
        """One index over a scalar element type: base + index * size."""
        constants = list(op.attributes["rawConstantIndices"])
        if len(constants) != 1:
            return None
        size = max(1, type_width(str(op.attributes["elem_type"].value)) // 8)
        dynamic = constants[0] == -(2**31)
        index = operands[1] if dynamic else self._emit("const", constants[0])
        if dynamic:
            index = self._emit("sext", index, type_width(ir_walk.operands(op)[1].type))
        return self._emit("add", operands[0], self._emit("mul", index, self._emit("const", size), 64), 64)

    def _branch(self, op: Any) -> None:
        successors = list(op.successors)
        if op.name == "cf.br":
            self._moves(ir_walk.operands(op), successors[0])
            self._jump(["br", None], 1, successors[0])
            return
        condition, true_count, false_count = _segments(op.attributes["operandSegmentSizes"])
        assert condition == 1
        operands = ir_walk.operands(op)
        split = 1 + true_count
        instruction = ["cond_br", self._register(operands[0]), None, None]
        self.code.append(instruction)
        for position, values, block in (
            (2, operands[1:split], successors[0]),
            (3, operands[split : split + false_count], successors[1]),
        ):
            if not values:
                self._fixups.append((instruction, position, block))
                continue
            instruction[position] = len(self.code)
            self._moves(values, block)
            self._jump(["br", None], 1, block)

    def _jump(self, instruction: list[Any], position: int, block: Any) -> None:
        self.code.append(instruction)
        self._fixups.append((instruction, position, block))

    def _moves(self, values: list[PlainValue], block: Any) -> None:
        # Through temporaries: a block argument may be the source of another one.
        temporaries = [self._emit("mov", self._register(v)) for v in values]
        for argument, temporary in zip(ir_walk.arguments(block), temporaries, strict=True):
            self.code.append(["mov", self._values[argument.key], temporary])

    def _launch(self, op: Any) -> None:
        operands = ir_walk.operands(op)
        segments = _segments(op.attributes["operandSegmentSizes"])
        groups, start = [], 0
        for count in segments:
            groups.append(operands[start : start + count])
            start += count
        dependencies, sizes, clusters, shared, arguments, async_object = (
            groups[0], [g[0] for g in groups[1:7]], [v for g in groups[7:10] for v in g], groups[10], groups[11],
            groups[12] if len(groups) > 12 else [])
        registers = [self._register(v) for v in sizes]
        streams = async_object or dependencies
        triples, size = self._kernel_arguments(arguments)
        symbol = op.attributes["kernel"].value[-1]
        self.code.append([
            "launch", symbol, registers[:3], registers[3:], self._register(shared[0]) if shared else -1,
            self._register(streams[0]) if streams else -1, triples, size,
            [self._register(v) for v in clusters] if clusters else None])
        for result in ir_walk.results(op):
            self._set(result, -1)

    def _kernel_arguments(self, values: list[PlainValue]) -> tuple[list[list[int]], int]:
        """(register, byte offset, byte size) of every leaf, and the size of the explicit kernarg segment.

        Scalars and pointers are aligned to their size, members of packed structs follow each other.
        """
        triples: list[list[int]] = []
        offset = 0
        for value in values:
            text = value.type
            if text.startswith("!llvm.struct"):
                for leaf, width in zip(_leaves(self._get(value)), _leaf_widths(text), strict=True):
                    size = max(1, width // 8)
                    if leaf is None:
                        raise DSLCompileError(f"{self.name}: a kernel argument is only partly initialised ({text})")
                    triples.append([leaf, offset, size])
                    offset += size
                continue
            size = max(1, type_width(text) // 8)
            offset = -(-offset // size) * size
            triples.append([self._register(value), offset, size])
            offset += size
        return triples, offset


#: What `PlanBuilder` makes of operations that are no plain values (binary ones name the first that is missing).
_EFFECTS = dict.fromkeys(_BINARY, PlanBuilder._binary) | {
    "cf.br": PlanBuilder._branch, "cf.cond_br": PlanBuilder._branch, "gpu.launch_func": PlanBuilder._launch,
    "func.return": PlanBuilder._return, "llvm.return": PlanBuilder._return, "cf.assert": PlanBuilder._assert,
    "vector.print": PlanBuilder._print,
}


def _segments(attribute: Any) -> list[int]:
    return [int(n) for n in attribute]


def _constant_bits(attribute: Any) -> int | None:
    """The value of a scalar constant as sign-extended integer or raw float bits."""
    from flydsl._mlir import ir

    if isinstance(attribute, ir.BoolAttr):
        return int(bool(attribute.value))
    if isinstance(attribute, ir.IntegerAttr):
        return int(attribute.value)
    if isinstance(attribute, ir.FloatAttr):
        text = str(attribute.type)
        if text == "f32":
            return struct.unpack("<i", struct.pack("<f", attribute.value))[0]
        if text == "f64":
            return struct.unpack("<q", struct.pack("<d", attribute.value))[0]
        if text == "f16":
            return struct.unpack("<h", struct.pack("<e", attribute.value))[0]
        if text == "bf16":
            return struct.unpack("<i", struct.pack("<f", attribute.value))[0] >> 16
    return None


def _split(text: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for char in text:
        depth += char in "<(["
        depth -= char in ">)]"
        if char == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += char
    return parts + ([current.strip()] if current.strip() else [])


def _members(text: str) -> list[str]:
    """Member types of ``!llvm.struct<packed (a, b)>`` or ``struct<packed (a, b)>``."""
    start, end = text.index("("), text.rindex(")")
    return _split(text[start + 1 : end])


def _is_struct(text: str) -> bool:
    return text.startswith(("!llvm.struct", "struct<"))


def _undef(text: str) -> list[Any]:
    return [_undef(m) if _is_struct(m) else None for m in _members(text)]


def _insert(tree: Any, position: list[int], value: Any) -> list[Any]:
    copy = list(tree)
    head, rest = position[0], position[1:]
    copy[head] = _insert(copy[head], rest, value) if rest else value
    return copy


def _leaves(tree: Any) -> list[Any]:
    return [leaf for item in tree for leaf in _leaves(item)] if isinstance(tree, list) else [tree]


def _leaf_widths(text: str) -> list[int]:
    widths: list[int] = []
    for member in _members(text):
        widths += (
            _leaf_widths(member)
            if _is_struct(member)
            else [type_width(member if member[:1] != "p" else "!llvm." + member)]
        )
    return widths
