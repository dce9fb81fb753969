"""The launch plan: what the host side of a compiled function may do, as one table.

A plan is JSON-able data: entries of arguments, and a list of instructions over 64-bit registers. The compiler emits it
and :func:`check` holds it to the table; the native parser reads it by the same table, and an export to C has a form for
the instructions that say so. What each instruction does is in the package's README, section "The launch plan".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

__all__ = [
    "ARGUMENT_FLAGS", "ARGUMENT_KINDS", "DTYPES", "FLOAT_BINARY", "FLOAT_PREDICATES", "FLOAT_TYPES", "FLOAT_UNARY",
    "INSTRUCTIONS", "INTEGER_BINARY", "Instruction", "MAX_RANK", "NUMBER_TYPES", "PREDICATES", "PlanError",
    "SCALAR_TYPES", "TensorArgument", "VERSION", "check",
]

VERSION = 1
MAX_RANK = 32
MAX_REGISTERS = 1 << 20
MAX_KERNARG_BYTES = 1 << 20

ARGUMENT_KINDS = ("tensor", "scalar", "pointer", "stream", "absent")
#: What an entry may say of its argument, as a bool: kernels store to it, it is whole 32-bit words, it holds addresses.
ARGUMENT_FLAGS = ("stored", "words", "addresses")
SCALAR_TYPES = ("i1", "i8", "i16", "i32", "i64", "index", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64")
DTYPES = (
    "i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64", "bf16", "complex<f32>",
    "complex<f64>", "f8E3M4", "f8E4M3", "f8E4M3B11FNUZ", "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ",
    "f8E8M0FNU", "f6E2M3FN", "f6E3M2FN", "f4E2M1FN",
)

INTEGER_BINARY = ("add", "sub", "mul", "sdiv", "srem", "udiv", "urem", "ceildivs", "ceildivu", "floordivs", "mins",
                  "maxs", "minu", "maxu", "and", "or", "xor", "shl", "shrs", "shru")
#: In the order of `arith.cmpi`.
PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
FLOAT_TYPES = ("f16", "bf16", "f32", "f64")
FLOAT_BINARY = ("add", "sub", "mul", "div", "rem", "minimum", "maximum", "minnum", "maxnum", "pow", "atan2", "copysign")
FLOAT_UNARY = ("neg", "abs", "sqrt", "rsqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin",
               "cos", "tan", "tanh", "erf", "floor", "ceil", "trunc", "round", "roundeven")
#: In the order of `arith.cmpf`.
FLOAT_PREDICATES = ("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une",
                    "uno", "true")
NUMBER_TYPES = (*FLOAT_TYPES, *(f"{sign}{width}" for sign in "iu" for width in (1, 8, 16, 32, 64)))


class PlanError(ValueError):
    """A plan that the table does not allow; the message names the entry."""


class Instruction(NamedTuple):
    """A row of the table.

    Attributes:
        name: the first entry of the instruction.
        operands: kinds of the entries after it, in order, as in `OPERANDS`.
        effect: what is done besides writing the result: "" for nothing, "flow" (another instruction is next, or the
            call ends), "output" (text on the standard output) or "launch" (the HIP API is called).
    """

    name: str
    operands: tuple[str, ...]
    effect: str = ""


def _table(*rows: tuple[str, str] | tuple[str, str, str]) -> dict[str, Instruction]:
    return {name: Instruction(name, tuple(operands.split()), *effect)
            for names, operands, *effect in rows for name in names.split()}


#: The instructions by name. The thread that launches executes them: the runtime's evaluator, or an export's C code.
INSTRUCTIONS: Mapping[str, Instruction] = _table(
    ("const", "result immediate"),
    ("arg", "result scalar_argument"),
    ("ptr", "result memory_argument"),
    ("stream", "result stream_argument"),
    ("shape stride", "result tensor_argument dimension"),
    (" ".join(INTEGER_BINARY), "result register register width"),
    ("cmp", "result predicate register register width"),
    ("select", "result register register register"),
    ("sext zext trunc", "result register width"),
    ("mov", "result register"),
    ("fbin", "result float_binary register register float_type"),
    ("fun", "result float_unary register float_type"),
    ("fcmp", "result float_predicate register register float_type"),
    ("convert", "result register source_type target_type"),
    ("print", "register number_type", "output"),
    ("print_text", "text", "output"),
    ("br", "target", "flow"),
    ("cond_br", "register target target", "flow"),
    ("assert", "register text", "flow"),
    ("ret", "", "flow"),
    ("launch", "kernel registers registers optional_register optional_register kernel_arguments bytes "
               "optional_registers", "launch"),
)


class TensorArgument(NamedTuple):
    """The entry of a tensor: what is fixed of it, and what a call passes.

    Attributes:
        shape, strides: an extent or a stride in elements; None for one that only the call knows.
        align: bytes that its address is a multiple of.
        shape_div, stride_div: what a call's extents and strides are multiples of.
        index_width: bits in which a stride of the call is passed, for each dimension.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    align: int = 1
    shape_div: tuple[int, ...] | None = None
    stride_div: tuple[int, ...] | None = None
    index_width: int = 64

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> TensorArgument:
        """The argument that an entry of a plan describes."""
        widths = entry.get("index_width", 64)
        strides = tuple(entry["strides"])
        passed = {64} if widths is None else {widths} if isinstance(widths, int) else {
            w or 64 for w, s in zip(widths, strides, strict=True) if s is None}
        if len(passed) > 1:
            raise PlanError(f"argument {entry['name']!r}: its strides are passed in different widths: {sorted(passed)}")
        return cls(entry["name"], entry["dtype"], tuple(entry["shape"]), strides, entry.get("align", 1),
                   entry.get("shape_div"), entry.get("stride_div"), passed.pop() if passed else 64)

    def entry(self) -> dict[str, Any]:
        """Its entry in a plan."""
        rank = len(self.shape)
        return {
            "kind": "tensor", "name": self.name, "dtype": self.dtype, "rank": rank, "shape": list(self.shape),
            "strides": list(self.strides), "align": self.align, "shape_div": list(self.shape_div or [1] * rank),
            "stride_div": list(self.stride_div or [1] * rank), "index_width": [self.index_width] * rank,
        }

    @property
    def dynamic_extents(self) -> list[int]:
        """Dimensions whose extent a call passes, as i32, in the order in which a kernel gets them."""
        return [d for d, extent in enumerate(self.shape) if extent is None]

    @property
    def dynamic_strides(self) -> list[int]:
        """Dimensions whose stride a call passes, in `index_width` bits, behind the extents."""
        return [d for d, stride in enumerate(self.strides) if stride is None]

    @property
    def layout_bytes(self) -> int:
        """Bytes of the packed extents and strides that a call passes."""
        return 4 * len(self.dynamic_extents) + self.index_width // 8 * len(self.dynamic_strides)


# --------------------------------------------------------------------------- the check


def check(plan: Any) -> None:
    """Hold a plan to the table, as the native parser does. PlanError names the first entry that is wrong."""
    if not isinstance(plan, dict):
        raise PlanError("invalid launch plan: expected a dictionary")
    version = _integer(_field(plan, "version", "plan"), "version")
    if version != VERSION:
        _fail("version", f"this package reads version {VERSION}, the plan is {version}")
    _text(_field(plan, "name", "plan"), "name")
    arguments = _sequence(_field(plan, "args", "plan"), "args")
    for i, entry in enumerate(arguments):
        _check_argument(entry, f"args[{i}]")
    registers = _integer(_field(plan, "regs", "plan"), "regs")
    if not 0 <= registers <= MAX_REGISTERS:
        _fail("regs", "out of range")
    code = _sequence(_field(plan, "code", "plan"), "code")
    checker = _Operands(arguments, registers, len(code))
    for i, instruction in enumerate(code):
        checker.check(_sequence(instruction, f"code[{i}]"), f"code[{i}]")


def _fail(where: str, what: str) -> Any:
    raise PlanError(f"invalid launch plan: {where}: {what}")


def _field(data: Any, key: str, where: str) -> Any:
    if key not in data:
        _fail(where, f"missing field '{key}'")
    return data[key]


def _integer(value: Any, where: str) -> int:
    """A number of 64 bits; of an unsigned one the bits."""
    if not isinstance(value, int):
        _fail(where, "expected an integer")
    if not -(1 << 63) <= value < 1 << 64:
        _fail(where, "integer does not fit in 64 bits")
    return value - (1 << 64) if value >= 1 << 63 else value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        _fail(where, "expected a string")
    return value


def _sequence(value: Any, where: str) -> list[Any] | tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        _fail(where, "expected a list")
    return value


def _in_range(value: Any, limit: int, what: str, where: str) -> int:
    number = _integer(value, where)
    if not 0 <= number < limit:
        _fail(where, f"{what} {number} out of range")
    return number


def _among(names: tuple[str, ...], what: str) -> Callable[[_Operands, Any], Any]:
    known = frozenset(names)

    def verify(checker: _Operands, value: Any) -> Any:
        name = _text(value, checker.where)
        return name if name in known else _fail(checker.where, f"unknown {what} '{name}'")

    return verify


def _argument(*kinds: str, wrong: str = "is of another kind") -> Callable[[_Operands, Any], Any]:
    def verify(checker: _Operands, value: Any) -> Any:
        number = _in_range(value, len(checker.arguments), "argument", checker.where)
        entry = checker.arguments[number]
        if entry["kind"] not in kinds:
            _fail(checker.where, f"argument {number} {wrong}")
        return entry

    return verify


class _Operands:
    """The operands of one instruction after the other; `OPERANDS` has the check of each kind."""

    def __init__(self, arguments: Any, registers: int, length: int) -> None:
        self.arguments, self.registers, self.length = arguments, registers, length
        self.where = ""
        self.before: Any = None  # what the check of the operand before gave

    def check(self, instruction: Any, where: str) -> None:
        """One instruction, a sequence."""
        if not instruction:
            _fail(where, "empty instruction")
        name = _text(instruction[0], where)
        row = INSTRUCTIONS.get(name) or _fail(where, f"unknown opcode '{name}'")
        self.where = f"{where} ({name})"
        if len(instruction) - 1 != len(row.operands):
            _fail(self.where, f"expected {len(row.operands)} operands, got {len(instruction) - 1}")
        for kind, value in zip(row.operands, instruction[1:], strict=True):
            self.before = OPERANDS[kind](self, value)

    def register(self, value: Any) -> int:
        return _in_range(value, self.registers, "register", self.where)

    def optional_register(self, value: Any) -> int:
        number = -1 if value is None else _integer(value, self.where)
        return -1 if number == -1 else self.register(number)

    def three(self, value: Any) -> None:
        if len(_sequence(value, self.where)) != 3:
            _fail(self.where, "expected three registers")
        for entry in value:
            self.register(entry)

    def optional_three(self, value: Any) -> None:
        if value is not None:
            self.three(value)

    def dimension(self, value: Any) -> int:
        return _in_range(value, self.before["rank"], "dimension", self.where)

    def target(self, value: Any) -> int:
        """One past the end is a target: it ends the plan."""
        return _in_range(value, self.length + 1, "branch target", self.where)

    def width(self, value: Any) -> int:
        if not 1 <= (bits := _integer(value, self.where)) <= 64:
            _fail(self.where, "width must be between 1 and 64")
        return bits

    def target_type(self, value: Any) -> Any:
        name = _number_type(self, value)
        if name not in FLOAT_TYPES and self.before not in FLOAT_TYPES:
            _fail(self.where, "integers are converted by sext, zext and trunc")
        return name

    def kernel_arguments(self, value: Any) -> list[tuple[int, int]]:
        """(offset, size) of each, which the size of the segment has to hold."""
        found = []
        for entry in _sequence(value, self.where):
            if len(_sequence(entry, self.where)) != 3:
                _fail(self.where, "a kernel argument is [register, offset, size]")
            offset, size = _integer(entry[1], self.where), _integer(entry[2], self.where)
            if size not in (1, 2, 4, 8):
                _fail(self.where, "kernel argument size must be 1, 2, 4 or 8")
            self.register(entry[0])
            found.append((offset, size))
        return found

    def kernarg_bytes(self, value: Any) -> None:
        size = _integer(value, self.where)
        if not 0 <= size <= MAX_KERNARG_BYTES:
            _fail(self.where, "kernarg size out of range")
        if any(not 0 <= offset <= size - length for offset, length in self.before):
            _fail(self.where, "kernel argument lies outside the kernarg segment")


_number_type = _among(NUMBER_TYPES, "type")

#: What an operand of each kind must be.
OPERANDS: Mapping[str, Callable[[_Operands, Any], Any]] = {
    "result": _Operands.register, "register": _Operands.register, "optional_register": _Operands.optional_register,
    "registers": _Operands.three, "optional_registers": _Operands.optional_three, "width": _Operands.width,
    "immediate": lambda checker, value: _integer(value, checker.where),
    "text": lambda checker, value: _text(value, checker.where),
    "kernel": lambda checker, value: _text(value, checker.where),
    "scalar_argument": _argument("scalar"), "tensor_argument": _argument("tensor"),
    "memory_argument": _argument("tensor", "pointer", wrong="has no data pointer"),
    "stream_argument": _argument("stream"), "dimension": _Operands.dimension,
    "predicate": _among(PREDICATES, "predicate"), "float_binary": _among(FLOAT_BINARY, "function"),
    "float_unary": _among(FLOAT_UNARY, "function"), "float_predicate": _among(FLOAT_PREDICATES, "predicate"),
    "float_type": _among(FLOAT_TYPES, "type"), "number_type": _number_type, "source_type": _number_type,
    "target_type": _Operands.target_type, "target": _Operands.target,
    "kernel_arguments": _Operands.kernel_arguments, "bytes": _Operands.kernarg_bytes,
}


def _check_argument(entry: Any, where: str) -> None:
    if not isinstance(entry, dict):
        _fail(where, "expected a dictionary")
    _text(_field(entry, "name", where), f"{where}.name")
    kind = _text(_field(entry, "kind", where), f"{where}.kind")
    align = entry.get("align")
    align = 1 if align is None else _integer(align, f"{where}.align")
    if align < 1 or align & (align - 1):
        _fail(where, "align must be a power of two")
    if entry.get("max_bytes") is not None:
        _integer(entry["max_bytes"], f"{where}.max_bytes")
    for flag in ARGUMENT_FLAGS:
        if not isinstance(entry.get(flag), (bool, type(None))):
            _fail(where, f"{flag} must be a bool")
    if kind == "tensor":
        _check_tensor(entry, where)
    elif kind == "scalar":
        if (name := _text(_field(entry, "type", where), f"{where}.type")) not in SCALAR_TYPES:
            _fail(where, f"unknown scalar type '{name}'")
    elif kind not in ARGUMENT_KINDS:
        _fail(where, f"unknown kind '{kind}'")


def _check_tensor(entry: dict[str, Any], where: str) -> None:
    dtype = _text(_field(entry, "dtype", where), f"{where}.dtype")
    if dtype not in DTYPES:
        _fail(where, f"unknown dtype '{dtype}'")
    rank = _integer(_field(entry, "rank", where), f"{where}.rank")
    if not 0 <= rank <= MAX_RANK:
        _fail(where, f"rank must be between 0 and {MAX_RANK}")

    def entries(value: Any, what: str) -> list[int | None]:
        if len(_sequence(value, f"{where}.{what}")) != rank:
            _fail(f"{where}.{what}", f"expected {rank} entries")
        numbers = [None if v is None else _integer(v, f"{where}.{what}") for v in value]
        return numbers if -(1 << 63) not in numbers else _fail(f"{where}.{what}", "out of range")

    for what in ("shape", "strides"):
        entries(_field(entry, what, where), what)
    for what in ("shape_div", "stride_div"):
        value = entry.get(what)
        if value is not None and any(v is not None and v < 1 for v in entries(value, what)):
            _fail(f"{where}.{what}", "divisors must be positive")
    width = entry.get("index_width")
    widths = [width] if isinstance(width, (int, type(None))) else entries(width, "index_width")
    if any(w not in (None, 32, 64) for w in widths):
        _fail(where, "index_width must be 32 or 64")
