"""Random functions of LLVM IR for differential tests: the same text for AMD GPUs and for the host.

A function takes four 64-bit words of a lane, and the lane's word of memory, and returns one. It is straight code with a
loop whose trips differ from lane to lane; every operation is defined for all operands. What C cannot say is what these
are for: saturation, funnel shifts, overflow bits, conversions that saturate, exact minima and maxima, roundings,
vectors of small elements, atomic operations of all kinds in all scopes.
"""

from __future__ import annotations

import random

INTS = ("i8", "i16", "i32", "i64")
FLOATS = ("half", "bfloat", "float", "double")
VECTORS = ("<2 x i16>", "<4 x i8>", "<2 x i32>", "<3 x i16>")
BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "half": 16, "bfloat": 16, "float": 32, "double": 64}
NAN = {"half": "0xH7E00", "bfloat": "0xR7FC0", "float": "0x7FF8000000000000", "double": "0x7FF8000000000000"}
SUFFIX = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}
TWO = ("add", "sub", "mul", "and", "or", "xor")
INT_CALLS = ("sadd.sat", "uadd.sat", "ssub.sat", "usub.sat", "sshl.sat", "ushl.sat", "smin", "smax", "umin", "umax")
ONE_CALLS = ("bitreverse", "ctpop", "ctlz", "cttz", "abs")
VECTOR_CALLS = ("sadd.sat", "uadd.sat", "ssub.sat", "usub.sat", "smin", "smax", "umin", "umax")
ROUNDINGS = ("floor", "ceil", "trunc", "roundeven", "round")
ATOMICS = ("xchg", "add", "sub", "and", "nand", "or", "xor", "max", "min", "umax", "umin", "uinc_wrap", "udec_wrap")
ORDERS = ("monotonic", "acquire", "release", "acq_rel", "seq_cst")
SCOPES = ("", 'syncscope("agent") ', 'syncscope("workgroup") ', 'syncscope("wavefront") ', 'syncscope("agent-one-as") ')
COMPARES = ("oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno")


def lanes(vector: str) -> tuple[int, str]:
    """Number and type of the elements of a vector type."""
    count, _, element = vector.strip("<>").split()
    return int(count), element


def suffix(kind: str) -> str:
    """How the name of an overloaded intrinsic ends for a type."""
    if kind.startswith("<"):
        count, element = lanes(kind)
        return f"v{count}{element}"
    return SUFFIX.get(kind, kind)


class Function:
    """One random function; everything follows from the seed."""

    def __init__(self, seed: int, length: int = 30) -> None:
        self.rng, self.name, self.number = random.Random(seed), f"f{seed}", 0
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self.values: dict[str, list[str]] = {kind: [] for kind in (*INTS, *FLOATS, *VECTORS)}
        self.values["i64"] = ["%a", "%b", "%c", "%d"]
        for kind in (*INTS[:3], *FLOATS, *VECTORS):
            for _ in range(2):
                self.fresh(kind)
        for _ in range(length // 2):
            self.step()
        self.loop(length // 4)
        for _ in range(length // 2):
            self.step()
        self.result = self.mix()

    def emit(self, text: str) -> str:
        self.number += 1
        self.lines.append(f"  %v{self.number} = {text}")
        return f"%v{self.number}"

    def call(self, result: str, name: str, *arguments: tuple[str, str], overload: str = "") -> str:
        full = f"@llvm.{name}.{overload or suffix(result)}"
        self.declared.add(f"declare {result} {full}({', '.join(kind for kind, _ in arguments)})")
        return self.emit(f"call {result} {full}({', '.join(f'{kind} {value}' for kind, value in arguments)})")

    def pick(self, kind: str) -> str:
        return self.rng.choice(self.values[kind])

    def bits_of(self, kind: str, value: str) -> str:
        """The bits of a value as i64."""
        width = BITS[kind] if kind in BITS else lanes(kind)[0] * BITS[lanes(kind)[1]]
        bits = value if kind in INTS else self.emit(f"bitcast {kind} {value} to i{width}")
        return bits if width == 64 else self.emit(f"zext i{width} {bits} to i64")

    def fresh(self, kind: str) -> None:
        """A value from the bits of a word; floats of all sorts, mostly moderate ones."""
        width = BITS[kind] if kind in BITS else lanes(kind)[0] * BITS[lanes(kind)[1]]
        word = self.emit(f"call i64 @llvm.fshl.i64(i64 {self.pick('i64')}, i64 {self.pick('i64')}, "
                         f"i64 {self.rng.randrange(64)})")
        if kind in FLOATS and self.rng.random() < 0.5:
            self.values[kind].append(self.emit(f"sitofp i8 {self.pick('i8')} to {kind}"))
            return
        bits = word if width == 64 else self.emit(f"trunc i64 {word} to i{width}")
        self.add(kind, bits if kind in INTS else self.emit(f"bitcast i{width} {bits} to {kind}"))

    def add(self, kind: str, value: str) -> None:
        """Keeps a value; of NaNs there is one, as architectures choose bits of their own."""
        if kind in FLOATS:
            nan = self.emit(f"fcmp uno {kind} {value}, {value}")
            value = self.emit(f"select i1 {nan}, {kind} {NAN[kind]}, {kind} {value}")
        self.values[kind].append(value)

    def amount(self, kind: str) -> str:
        return self.emit(f"and {kind} {self.pick(kind)}, {BITS[kind] - 1}")

    def integer(self, kind: str) -> None:
        pick, rng = self.pick, self.rng
        form = rng.randrange(8)
        if form == 0:
            value = self.emit(f"{rng.choice(TWO)} {kind} {pick(kind)}, {pick(kind)}")
        elif form == 1:
            value = self.emit(f"{rng.choice(('shl', 'lshr', 'ashr'))} {kind} {pick(kind)}, {self.amount(kind)}")
        elif form == 2:
            name = rng.choice(INT_CALLS)
            second = self.amount(kind) if "shl" in name else pick(kind)
            value = self.call(kind, name, (kind, pick(kind)), (kind, second))
        elif form == 3:
            value = self.call(kind, rng.choice(("fshl", "fshr")), *((kind, pick(kind)) for _ in range(3)))
        elif form == 4:
            name = rng.choice(ONE_CALLS)
            flag = [("i1", "false")] if name in ("ctlz", "cttz", "abs") else []
            value = self.call(kind, name, (kind, pick(kind)), *flag)
        elif form == 5:
            name = rng.choice(("sadd", "uadd", "ssub", "usub", "smul", "umul"))
            both = self.call(f"{{{kind}, i1}}", f"{name}.with.overflow", (kind, pick(kind)), (kind, pick(kind)),
                             overload=kind)
            low, flag = (self.emit(f"extractvalue {{{kind}, i1}} {both}, {n}") for n in (0, 1))
            value = self.emit(f"select i1 {flag}, {kind} {low}, {kind} {pick(kind)}")
        elif form == 6:
            divisor = self.emit(f"or {kind} {pick(kind)}, 1")
            positive = self.emit(f"lshr {kind} {divisor}, 1")
            odd = self.emit(f"or {kind} {positive}, 1")
            value = self.emit(f"{rng.choice(('udiv', 'urem', 'sdiv', 'srem'))} {kind} {pick(kind)}, {odd}")
        else:
            source = rng.choice(FLOATS)
            value = self.call(kind, rng.choice(("fptosi.sat", "fptoui.sat")), (source, pick(source)),
                              overload=f"{kind}.{SUFFIX[source]}")
        self.add(kind, value)

    def float(self, kind: str) -> None:
        pick, rng = self.pick, self.rng
        form = rng.randrange(8)
        if form == 0:
            name = rng.choice(("fadd", "fsub", "fmul", "fdiv"))
            value = self.emit(f"{name} {kind} {pick(kind)}, {pick(kind)}")
            if name == "fmul" and kind == "bfloat":  # LLVM loses the sign of a zero (test_compiler_faults.py)
                zero = self.emit(f"fcmp oeq {kind} {value}, 0.0")
                value = self.emit(f"select i1 {zero}, {kind} 0.0, {kind} {value}")
        elif form == 1 and kind in ("float", "double"):
            value = self.call(kind, "fma", *((kind, pick(kind)) for _ in range(3)))
        elif form == 2:
            value = self.call(kind, rng.choice(ROUNDINGS), (kind, pick(kind)))
        elif form == 3:
            value = self.call(kind, rng.choice(("minimum", "maximum", "minimumnum", "maximumnum")), (kind, pick(kind)),
                              (kind, pick(kind)))
        elif form == 4:
            value = self.call(kind, "copysign", (kind, pick(kind)), (kind, pick(kind)))
        elif form == 5:
            smaller = [k for k in FLOATS if BITS[k] < BITS[kind]]
            wider = [k for k in FLOATS if BITS[k] > BITS[kind]]
            source = rng.choice(smaller + wider)
            value = self.emit(f"{'fpext' if source in smaller else 'fptrunc'} {source} {pick(source)} to {kind}")
        elif form == 6:  # exact, or rounded once
            source = rng.choice(INTS[:2] if BITS[kind] == 16 else INTS)
            source = "i8" if kind == "bfloat" else source
            value = self.emit(f"{rng.choice(('sitofp', 'uitofp'))} {source} {pick(source)} to {kind}")
        else:
            root = self.call(kind, "sqrt", (kind, self.call(kind, "fabs", (kind, pick(kind)))))
            value = self.emit(f"fneg {kind} {root}")
        self.add(kind, value)

    def vector(self, kind: str) -> None:
        pick, rng, (count, element) = self.pick, self.rng, lanes(kind)
        form = rng.randrange(4)
        if form == 0:
            value = self.emit(f"{rng.choice(TWO)} {kind} {pick(kind)}, {pick(kind)}")
        elif form == 1:
            value = self.call(kind, rng.choice(VECTOR_CALLS), (kind, pick(kind)), (kind, pick(kind)))
        elif form == 2:
            value = self.emit(f"insertelement {kind} {pick(kind)}, {element} {pick(element)}, "
                              f"i32 {rng.randrange(count)}")
        else:
            chosen = ", ".join(f"i32 {rng.randrange(2 * count)}" for _ in range(count))
            value = self.emit(f"shufflevector {kind} {pick(kind)}, {kind} {pick(kind)}, <{count} x i32> <{chosen}>")
        self.add(kind, value)
        self.add(element, self.emit(f"extractelement {kind} {value}, i32 {rng.randrange(count)}"))

    def atomic(self) -> None:
        """An atomic operation on the lane's own word, by whose old and new contents it is judged."""
        rng, scope = self.rng, self.rng.choice(SCOPES)
        kind = rng.choice((*INTS, "i32", "i64", "float", "double"))
        self.lines.append(f"  store {kind} {self.pick(kind)}, PTR %slot")
        if kind in FLOATS:
            old = self.emit(f"atomicrmw {rng.choice(('fadd', 'fsub'))} PTR %slot, {kind} {self.pick(kind)} "
                            f"{scope}{rng.choice(ORDERS)}")
        elif rng.random() < 0.2:
            pair = self.emit(f"cmpxchg PTR %slot, {kind} {self.pick(kind)}, {kind} {self.pick(kind)} "
                             f"{scope}{rng.choice(ORDERS)} monotonic")
            old = self.emit(f"extractvalue {{{kind}, i1}} {pair}, 0")
        else:
            old = self.emit(f"atomicrmw {rng.choice(ATOMICS)} PTR %slot, {kind} {self.pick(kind)} "
                            f"{scope}{rng.choice(ORDERS)}")
        self.add(kind, old)
        self.add(kind, self.emit(f"load {kind}, PTR %slot"))

    def step(self) -> None:
        if self.rng.random() < 0.06:
            self.atomic()
            return
        kind = self.rng.choice((*INTS, *INTS, *FLOATS, *FLOATS, *VECTORS[:3], VECTORS[3]))
        if self.rng.random() < 0.1:
            source = self.rng.choice(FLOATS)
            test = self.emit(f"fcmp {self.rng.choice(COMPARES)} {source} {self.pick(source)}, {self.pick(source)}")
            self.values[kind].append(self.emit(f"select i1 {test}, {kind} {self.pick(kind)}, {kind} {self.pick(kind)}"))
        elif kind in INTS:
            self.integer(kind)
        elif kind in FLOATS:
            self.float(kind)
        else:
            self.vector(kind)

    def loop(self, length: int) -> None:
        """A loop of up to seven trips that carries a word and a float."""
        trips = self.emit(f"and i64 {self.pick('i64')}, 7")
        word, number = self.pick("i64"), self.pick("float")
        at = len(self.lines)
        saved = {kind: list(values) for kind, values in self.values.items()}
        self.values["i64"] += ["%word", "%trip"]
        self.values["float"] += ["%number", "%number"]
        for _ in range(length):
            self.step()
        last, final = self.values["i64"][-1], self.values["float"][-1]
        body = self.lines[at:]
        self.lines[at:] = [
            "  br label %head", "head:", "  %trip = phi i64 [0, %entry], [%next, %body]",
            f"  %word = phi i64 [{word}, %entry], [{last}, %body]",
            f"  %number = phi float [{number}, %entry], [{final}, %body]",
            f"  %more = icmp ult i64 %trip, {trips}", "  br i1 %more, label %body, label %rest", "body:", *body,
            "  %next = add i64 %trip, 1", "  br label %head", "rest:"]
        self.values = saved
        self.values["i64"].append("%word")
        self.values["float"].append("%number")

    def mix(self) -> str:
        """One word that depends on every value."""
        total = "0"
        for kind, values in self.values.items():
            for value in values:
                turned = self.emit(f"mul i64 {total}, 1099511628211")
                total = self.emit(f"xor i64 {turned}, {self.bits_of(kind, value)}")
        return total

    def text(self) -> str:
        return "\n".join([f"define internal i64 @{self.name}(i64 %a, i64 %b, i64 %c, i64 %d, PTR %slot) {{", "entry:",
                          *self.lines, f"  ret i64 {self.result}", "}"])


def module(first: int, count: int, gpu: bool) -> str:
    """Functions f<first>... with an entry `k` that gives the words of all lanes to each of them in turn."""
    functions = [Function(seed) for seed in range(first, first + count)]
    places = ["ptr addrspace(3)" if n % 2 else "ptr addrspace(1)" for n in range(count)] if gpu else ["ptr"] * count
    declared = {line for f in functions for line in f.declared} | {"declare i64 @llvm.fshl.i64(i64, i64, i64)"}
    space = " addrspace(1)" if gpu else ""
    calls = []
    for n, f in enumerate(functions):
        slot = "%shared" if places[n] == "ptr addrspace(3)" else f"%to{n}"
        calls += [f"  %at{n} = add i64 %base, {n}",
                  f"  %to{n} = getelementptr i64, ptr{space} %out, i64 %at{n}",
                  f"  %r{n} = call i64 @{f.name}(i64 %w0, i64 %w1, i64 %w2, i64 %w3, {places[n]} {slot})",
                  f"  store i64 %r{n}, ptr{space} %to{n}"]
    lane = ["  %id = call i32 @llvm.amdgcn.workitem.id.x()", "  %lane = zext i32 %id to i64"] if gpu else []
    head = "define amdgpu_kernel void @k(" if gpu else "define void @k(i64 %lane, "
    loads = [line for n in range(4) for line in (
        f"  %p{n} = getelementptr i64, ptr{space} %in, i64 %i{n}", f"  %w{n} = load i64, ptr{space} %p{n}")]
    indexes = ["  %i0 = mul i64 %lane, 4", *(f"  %i{n} = add i64 %i0, {n}" for n in (1, 2, 3))]
    if gpu:
        declared.add("declare i32 @llvm.amdgcn.workitem.id.x()")
        lane.append("  %shared = getelementptr i64, ptr addrspace(3) @lds, i64 %lane")
    head_lines = ['target triple = "amdgcn-amd-amdhsa"', "@lds = internal addrspace(3) global [64 x i64] poison"]
    return "\n".join([*head_lines * gpu, *sorted(declared),
                      *(f.text().replace("PTR", place) for f, place in zip(functions, places, strict=True)),
                      f"{head}ptr{space} %in, ptr{space} %out) {{", *lane, *indexes, *loads,
                      f"  %base = mul i64 %lane, {count}", *calls, "  ret void", "}", ""])
