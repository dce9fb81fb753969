"""Random C programs for differential tests: one source, run on the simulator and on the host.

A program works on a block of lanes in lock step. Per-lane variables are scalars on the GPU and arrays
on the host (``V(x)``); statements inside ``LANES { ... }`` run for every lane. Between such parts lanes
exchange values through LDS, permutes, DPP and ballots. All arithmetic is defined behaviour.
"""

from __future__ import annotations

import random

from program_lanes import KINDS

PROGRAM_PRELUDE = """
#define BLOCK 128
#define ALIAS __attribute__((may_alias))
typedef u8 ALIAS a8; typedef u16 ALIAS a16; typedef u32 ALIAS a32; typedef u64 ALIAS a64; typedef v4u32 ALIAS a128;
typedef u32 ALIAS au32; typedef i32 ALIAS ai32; typedef u64 ALIAS au64; typedef i64 ALIAS ai64;
typedef f32 ALIAS af32; typedef f64 ALIAS af64;
#ifdef __AMDGCN__
#if defined(__GFX11__) || defined(__GFX12__)
#define WAVE 32
#define BALLOT(c) ((u64)__builtin_amdgcn_ballot_w32(c))
#else
#define WAVE 64
#define BALLOT(c) __builtin_amdgcn_ballot_w64(c)
#endif
#define LANES
#define L TID()
#define V(x) x
#define DECL(t, x) t x = 0
#define SYNC() do { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); \\
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"); } while (0)
#define ENTRY(n) KERNEL __attribute__((amdgpu_flat_work_group_size(BLOCK, BLOCK))) void p##n
#define SHARED(n) static LDS u32 lds##n[BLOCK * 2] __attribute__((loader_uninitialized, aligned(16)))
#define ADD(p, v) __atomic_fetch_add(p, v, __ATOMIC_RELAXED)
#define XOR(p, v) __atomic_fetch_xor(p, v, __ATOMIC_RELAXED)
#define MAX(p, v) __atomic_fetch_max(p, v, __ATOMIC_RELAXED)
#define GROUP WG()
#else
#define LANES for (u32 L = 0; L < BLOCK; ++L)
#define V(x) x[L]
#define DECL(t, x) t x[BLOCK] = {0}
#define SYNC()
#define ENTRY(n) void p##n
#define SHARED(n) static u32 lds##n[BLOCK * 2] __attribute__((aligned(16)))
#define ADD(p, v) (*(p) += (v))
#define XOR(p, v) (*(p) ^= (v))
#define MAX(p, v) (*(p) = *(p) > (v) ? *(p) : (v))
#define GROUP 0
#define WAVE HOST_WAVE
#endif
"""

FLOATS = ("f16", "bf16", "f32", "f64")
INTS = ("u32", "i32", "u16", "i16", "u8", "i8", "u64", "i64")


class Program:
    """Writes one random program; everything follows from `seed`."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.vars: dict[str, str] = {}
        self.lines: list[str] = []
        self.depth = 0
        self.counter = 0
        self.functions: list[tuple[str, str, list[str]]] = []
        self.helpers: list[str] = []
        self.calls = False
        # LLVM 22 has the wrong sign of products and differences that are zero and rounded to another type
        # (test_compiler_faults.py): a program either has no such roundings or does not tell -0 from +0.
        self.narrow = self.rng.random() < 0.5

    def pick(self, items):
        return self.rng.choice(list(items))

    def constant(self, ty: str) -> str:
        if ty in FLOATS:
            text = self.pick(["0.5", "1.0", "-2.25", "3.75", "0.125", "7.0", "-1.5"])
            return f"({ty}){text}"
        width = int(ty[1:])
        value = self.pick([0, 1, 2, 3, 7, 13, 255, self.rng.getrandbits(width), self.rng.getrandbits(8)])
        return f"({ty}){value & (2**width - 1)}{'ull' if width == 64 else 'u'}"

    def leaf(self, ty: str, names: dict[str, str]) -> str:
        same = [n for n, t in names.items() if t == ty]
        roll = self.rng.random()
        if same and roll < 0.6:
            return self.pick(same)
        others = [n for n, t in names.items() if t not in FLOATS]
        if others and roll < 0.85 and ty not in FLOATS:
            return f"({ty}){self.pick(others)}"
        if ty in FLOATS and others and roll < 0.8:
            return f"({ty})(i16){self.pick(others)}"
        return self.constant(ty)

    def expr(self, ty: str, names: dict[str, str], depth: int = 3) -> str:
        if depth == 0 or self.rng.random() < 0.12:
            return self.leaf(ty, names)
        a = self.expr(ty, names, depth - 1)
        b = self.expr(ty, names, depth - 1)
        if ty in ("f16", "bf16"):
            return self.pick(self.half_forms(ty, a, b, names, depth))
        if ty in FLOATS:
            fn = "f" if ty == "f32" else ""
            return self.pick(
                [
                    f"({a} + {b})",
                    f"({a} - {b})",
                    f"({a} * {b})",
                    f"({a} / ({b} * {b} + ({ty})0.25))",
                    f"__builtin_floor{fn}({a})",
                    f"__builtin_fabs{fn}({a})",
                    f"__builtin_sqrt{fn}(__builtin_fabs{fn}({a}))",
                    f"({self.condition(names, depth - 1)} ? {a} : {b})",
                    *self.float_forms(ty, fn, a, b, names),
                ]
            )
        w = int(ty[1:]) - 1
        # LLVM 22 at -O0 narrows an unsigned 32-bit division by sign bits, which is wrong for numerators
        # that are known to be near 2^32: keep them below 2^31.
        numerator = f"({a} >> 1)" if ty == "u32" else a
        choices = [
            f"({ty})({a} + {b})",
            f"({ty})({a} - {b})",
            f"({ty})({a} * {b})",
            f"({ty})({a} & {b})",
            f"({ty})({a} | {b})",
            f"({ty})({a} ^ {b})",
            f"({ty})({a} << ({b} & {w}))",
            f"({ty})({a} >> ({b} & {w}))",
            f"({ty})({numerator} / ({ty})(({b} & 31) + 1))",
            f"({ty})({numerator} % ({ty})(({b} & 63) + 3))",
            f"(({a}) < ({b}) ? {a} : {b})",
            f"({self.condition(names, depth - 1)} ? {a} : {b})",
            f"({ty})__builtin_popcountll((u64){a})",
            f"({ty})~{a}",
            *self.integer_forms(ty, a, b, names),
        ]
        callable_ = [f for f in self.functions if f[1] == ty]
        if callable_ and self.rng.random() < 0.3:
            name, _, parameters = self.pick(callable_)
            arguments = ", ".join(self.leaf(p, names) for p in parameters)
            return f"{name}({arguments})"
        return self.pick(choices)

    def half_forms(self, ty: str, a: str, b: str, names: dict[str, str], depth: int) -> list[str]:
        """Expressions of f16 and bf16: those that are rounded once whether or not they are computed in f32."""
        forms = [
            f"({ty})({a} + {b})",
            f"({ty})({a} - {b})",
            f"({ty})({a} * {b})",
            f"({ty})({a} * {b})",
            f"({ty})({a} / ({b} * {b} + ({ty})0.25))",
            f"({ty})(-{a})",
            f"({self.condition(names, depth - 1)} ? {a} : {b})",
            f"({ty}){self.leaf('f32', names)}",
            f"({ty})(f32)({ty})((f32){a} * (f32){b})",
            f"({ty}){self.leaf('i8', names)}",
            f"({ty})__builtin_elementwise_abs(({ty}){a})",
        ]
        if ty == "f16":
            forms += [
                f"(f16)(__builtin_elementwise_min((f16){a}, (f16){b}) + (f16)0)",
                f"(f16)(__builtin_elementwise_max((f16){a}, (f16){b}) + (f16)0)",
                f"(f16)__builtin_elementwise_{self.pick(['floor', 'ceil', 'trunc', 'rint'])}((f16){a})",
            ]
        return forms

    @staticmethod
    def cast(ty: str, from_: str = "") -> str:
        """A cast to `ty` of an integer, with one rounding at most."""
        return f"({ty})(i16)" if ty in ("f16", "bf16") else f"({ty}){from_}"

    def float_forms(self, ty: str, fn: str, a: str, b: str, names: dict[str, str]) -> list[str]:
        """Fused, rounding, selecting and converting expressions; NaNs never pass on their sign or payload."""
        integer = self.pick(["i32", "u32", "i64", "u64", "u16", "i8"])
        value = self.leaf(integer, names)
        narrow = [f"({ty})({'f64' if ty == 'f32' else 'f32'}){a}", f"({ty})(f16){a}"] if self.narrow else []
        return [
            *narrow,
            f"__builtin_fma{fn}({a}, {b}, {self.leaf(ty, names)})",
            f"(__builtin_fmin{fn}({a}, {b}) + ({ty})0)",
            f"(__builtin_fmax{fn}({a}, {b}) + ({ty})0)",
            f"__builtin_{self.pick(['trunc', 'ceil', 'rint', 'roundeven'])}{fn}({a})",
            f"__builtin_copysign{fn}({a}, ({ty})(i16)({value}))",
            f"({ty}){value}",
            f"(-{a})",
        ]

    def integer_forms(self, ty: str, a: str, b: str, names: dict[str, str]) -> list[str]:
        """Bit tricks, saturation, wide products and divisions, and conversions from floats in range."""
        bits = int(ty[1:])
        signed = ty[0] == "i"
        wide = "__int128" if signed else "unsigned __int128"
        big = f"{ty[0]}64"
        real = self.pick(["f32", "f64"])
        value = self.leaf(real, names)
        absolute = f"__builtin_fabs{'f' if real == 'f32' else ''}({value})"
        limit = {8: "100", 16: "3e4", 32: "2e9", 64: "9e18"}[bits]
        lowest = f"-({real}){limit}" if signed else f"({real})0"
        divisor = f"(({a} & ({ty}){2 ** (bits - 1) - 1}u{'ll' if bits == 64 else ''}) | 1)"
        forms = [
            f"({ty})__builtin_clzll((u64){a} | 1)",
            f"({ty})__builtin_ctzll((u64){a} | 1)",
            f"({ty})__builtin_bitreverse{bits}({a})",
            f"({ty})__builtin_rotateleft{bits}({a}, {b})",
            f"({ty})__builtin_elementwise_add_sat(({ty}){a}, ({ty}){b})",
            f"({ty})__builtin_elementwise_sub_sat(({ty}){a}, ({ty}){b})",
            f"({ty})__builtin_elementwise_{self.pick(['min', 'max'])}(({ty}){a}, ({ty}){b})",
            f"({ty})((({wide}){a} * ({wide}){b}) >> {self.pick([8, 31, 32, 63, 64])})",
            f"({ty})((({wide})({big}){a} << ({b} & 63)) >> {self.pick([1, 32, 64])})",
            f"({ty})(({a} << {self.rng.randrange(bits)}) >> {self.rng.randrange(bits)})",
            f"({ty})(({big}){b} {self.pick('/%')} ({big}){divisor})",
            f"(({value}) >= {lowest} && {absolute} <= ({real}){limit} ? ({ty})({value}) : {b})",
        ]
        if bits > 8:
            forms.append(f"({ty})__builtin_bswap{bits}({a})")
        if signed:
            forms.append(f"({ty})__builtin_elementwise_abs(({ty}){a})")
        return forms

    def condition(self, names: dict[str, str], depth: int = 1) -> str:
        ty = self.pick([t for t in names.values()] or ["u32"])
        a, b = self.expr(ty, names, min(depth, 1)), self.expr(ty, names, min(depth, 1))
        return f"({a} {self.pick(['<', '<=', '>', '>=', '==', '!='])} {b})"

    def emit(self, text: str) -> None:
        self.lines.append("  " * (self.depth + 1) + text)

    def statements(self, names: dict[str, str], count: int, nesting: int) -> None:
        targets = [n for n in names if not n.startswith("k")]
        for _ in range(count):
            roll = self.rng.random()
            if roll < 0.5 or nesting == 0:
                n = self.pick(targets)
                self.emit(f"{n} = {self.expr(names[n], names)};")
            elif roll < 0.7:
                self.emit(f"if {self.condition(names)} {{")
                self.block(names, nesting)
                if self.rng.random() < 0.5:
                    self.emit("} else {")
                    self.block(names, nesting)
                self.emit("}")
            elif roll < 0.85:
                self.counter += 1
                k = f"k{self.counter}"
                bound = self.pick(["5", "9", f"({self.leaf('u32', names)} & 7)"])
                self.emit(f"for (u32 {k} = 0; {k} < {bound}; ++{k}) {{")
                self.block({**names, k: "u32"}, nesting)
                if self.rng.random() < 0.3:
                    self.emit(f"  if {self.condition(names)} {self.pick(['break', 'continue'])};")
                self.emit("}")
            elif roll < 0.92:
                self.emit(f"switch ({self.leaf('u32', names)} % 5) {{")
                for case in range(self.rng.randint(2, 5)):
                    self.emit(f"case {case}:")
                    self.block(names, nesting)
                    if self.rng.random() < 0.75:
                        self.emit("  break;")
                self.emit("}")
            else:
                target = self.pick(targets)
                forms = [self.array, self.array, self.vector, self.structure]
                if self.calls:
                    forms.append(self.call)
                self.emit(self.pick(forms)(target, names))

    def array(self, target: str, names: dict[str, str]) -> str:
        """An array of the lane's own with computed indices."""
        size, ty = self.pick([4, 8, 16]), self.pick(["u32", "u8", "u16", "u64"])
        volatile = self.pick(["", "", "volatile "])
        word = [self.leaf("u32", names) for _ in range(7)]
        return (
            f"{{ {volatile}{ty} t[{size}]; for (u32 q = 0; q < {size}; ++q) t[q] = ({ty})({word[0]} * q + {word[1]}); "
            f"t[{word[2]} & {size - 1}] ^= ({ty})({word[3]}); "
            f"{target} = ({names[target]})(i16)(t[{word[4]} & {size - 1}] + t[{word[5]} & {size - 1}]); }}"
        )

    def vector(self, target: str, names: dict[str, str]) -> str:
        """Arithmetic on two vectors, a shuffle, and elements at computed indices."""
        size = self.pick([2, 4, 8])
        ty = self.pick(["u8", "i8", "u16", "i16", "u32", "i32", "u64", "f16", "f32", "f64", "f16", "i16"])
        real = ty[0] == "f"
        inner = "i8" if real else ty
        parts = [", ".join(f"({ty})({inner}){self.leaf('u32', names)}" for _ in range(size)) for _ in "xy"]
        ops = ["+", "-", "*"] if real else ["+", "-", "*", "&", "|", "^"]
        shuffle = ", ".join(str(self.rng.randrange(2 * size)) for _ in range(size))
        index = [f"{self.leaf('u32', names)} & {size - 1}" for _ in range(4)]
        steps = [
            f"x = x {self.pick(ops)} y;",
            f"y = __builtin_shufflevector(x, y, {shuffle});",
            f"x[{index[0]}] = ({ty})({inner}){self.leaf('u32', names)};",
            f"y = y {self.pick(ops)} x;",
            f"x = __builtin_elementwise_{self.pick(['min', 'max'])}(x, y){' + (' + ty + ')0' if real else ''};",
        ]
        if not real:
            steps.append(f"x = x {self.pick(['<<', '>>'])} (y & ({ty}){int(ty[1:]) - 1});")
        text = " ".join(self.rng.sample(steps, self.rng.randint(2, len(steps))))
        one, other = f"x[{index[1]}]", f"y[{index[2]}]"
        if real and not (self.narrow and names[target] in FLOATS):
            value = f"(({one} < {other}) * 5 + (x[0] == y[1]) + ({other} != {one}) * 2)"
        else:
            value = f"({one} + {other})"
        return (
            f"{{ typedef {ty} vec __attribute__((ext_vector_type({size}))); vec x = {{{parts[0]}}}, y = {{{parts[1]}}}; "
            f"{text} {target} = {f'({names[target]})' if real else self.cast(names[target])}{value}; }}"
        )

    def structure(self, target: str, names: dict[str, str]) -> str:
        """An array of structures with members of all sizes, copied whole and in part."""
        word = [self.leaf("u32", names) for _ in range(6)]
        wide = self.leaf("u64", names)
        return (
            f"{{ struct part {{ u8 a; u16 b; i8 e[3]; u32 c; u64 d; }} s[4], w; for (u32 q = 0; q < 4; ++q) {{ "
            f"s[q].a = (u8)({word[0]} + q); s[q].b = (u16)({word[1]} * q); s[q].c = {word[2]} - q; s[q].d = {wide} >> q; "
            f"for (u32 z = 0; z < 3; ++z) s[q].e[z] = (i8)({word[3]} >> q * 3 + z); }} "
            f"memcpy(&w, &s[{word[4]} & 3], sizeof w); s[{word[5]} & 3].d = w.c; "
            f"{self.pick(['s[1] = w;', 'memcpy(s[2].e, &w.c, 3);', 's[3].c ^= w.b;', 'w.e[' + word[0] + ' % 3] = 7;'])} "
            f"{target} = {self.cast(names[target], '(i32)')}(w.a + w.b * 3 + w.e[{word[1]} % 3] + (u32)s[{word[2]} & 3].d "
            f"+ s[{word[3]} & 3].c + s[2].e[1]); }}"
        )

    def block(self, names: dict[str, str], nesting: int) -> None:
        self.depth += 1
        self.statements(names, self.rng.randint(1, 3), nesting - 1)
        self.depth -= 1

    def helper(self, number: int) -> None:
        ty = self.pick(INTS)
        parameters = [self.pick(INTS) for _ in range(self.rng.randint(1, 3))]
        names = {f"a{n}": p for n, p in enumerate(parameters)}
        saved, self.lines = self.lines, []
        known, self.functions = self.functions, []
        self.statements({**names, "r": ty}, self.rng.randint(2, 4), 2)
        self.functions = known
        body, self.lines = "\n".join(self.lines), saved
        name = f"fn{self.seed}_{number}"
        listed = ", ".join(f"{p} {n}" for n, p in names.items())
        self.helpers.append(f"NOINLINE static {ty} {name}({listed}) {{ {ty} r = 1;\n{body}\n  return r; }}")
        self.functions.append((name, ty, parameters))

    def called(self) -> None:
        """A recursive function with an array of its own, and two functions to be called by address."""
        one, two = self.rng.randrange(1, 99), self.rng.randrange(1, 99)
        n = self.seed
        self.helpers.append(
            f"NOINLINE static u32 rec{n}(u32 n, u32 x) {{ u32 a[4] = {{x, n, x ^ {one}, {two}}}; a[x & 3] += n;\n"
            f"  if (!n || x % 7 == 3) return a[n & 3];\n"
            f"  u32 y = rec{n}(n - 1, x * {one} + a[x >> 2 & 3]); return y + a[y & 3]; }}\n"
            f"NOINLINE static u32 pa{n}(u32 x, u64 y) {{ return x * {one} + (u32)(y >> {one & 31}); }}\n"
            f"NOINLINE static u32 pb{n}(u32 x, u64 y) {{ return (x ^ {two}) - (u32)(y / ((x & 15) + 1)); }}"
        )

    def call(self, target: str, names: dict[str, str]) -> str:
        """A recursive call, or one through an address that differs between lanes."""
        n, ty = self.seed, names[target]
        word = [self.leaf("u32", names) for _ in range(2)]
        if self.rng.random() < 0.5:
            return f"{target} = {self.cast(ty, '(i32)')}rec{n}({word[0]} & {self.pick([1, 3, 7])}, {word[1]});"
        wide = self.leaf("u64", names)
        return (
            f"{{ u32 (*f)(u32, u64) = {self.condition(names)} ? pa{n} : pb{n}; "
            f"{target} = {self.cast(ty, '(i32)')}f({word[0]}, {wide}); }}"
        )

    def compute(self) -> None:
        names = {f"V({n})": t for n, t in self.vars.items()}
        self.emit("LANES {")
        self.depth += 1
        self.statements(names, self.rng.randint(3, 7), 3)
        self.depth -= 1
        self.emit("}")

    def exchange(self) -> None:
        words = [n for n, t in self.vars.items() if t == "u32"]
        for line in self.pick(KINDS)(self.rng, f"lds{self.seed}", self.pick(words), self.pick(words)):
            self.emit(line)

    def text(self) -> str:
        """The program as C."""
        for n in range(self.rng.randint(0, 2)):
            self.helper(n)
        self.calls = self.rng.random() < 0.15
        if self.calls:
            self.called()
        kinds = ["u32", "u32", self.pick(INTS), self.pick(INTS), self.pick(["u32", *(FLOATS if self.narrow else ("f32", "f64"))])]
        self.vars = {f"v{n}": t for n, t in enumerate(kinds)}
        for n, t in self.vars.items():
            self.emit(f"DECL({t}, {n});")
        self.emit(f"LANES {{ V(v0) = in[L]; V(v1) = in[L + BLOCK]; V(v2) = ({kinds[2]})in[L + 2 * BLOCK]; }}")
        for _ in range(self.rng.randint(1, 4)):
            self.compute()
            if self.rng.random() < 0.8:
                self.exchange()
        self.emit("LANES { u64 r = V(v0); r = r * 31 + V(v1); r = r * 31 + (u64)V(v2); r = r * 31 + (u64)V(v3);")
        last = kinds[4]
        if last in FLOATS:
            zero = "if (f == 0) b = 0;" if self.narrow else ""
            bits = {"f32": "u32", "f64": "u64"}.get(last, "u16")
            self.emit(f"  {last} f = V(v4); {bits} b; memcpy(&b, &f, sizeof b); {zero} r = r * 31 + (f == f ? b : 0x7fc);")
        else:
            self.emit("  r = r * 31 + (u64)V(v4);")
        self.emit("  out[L] = r; }")
        body = "\n".join(self.lines)
        helpers = "\n".join(self.helpers)
        return f"{helpers}\nSHARED({self.seed});\nENTRY({self.seed})(const GLOBAL u32 *in, GLOBAL u64 *out) {{\n{body}\n}}\n"


def batch(first: int, count: int) -> str:
    """C text with the programs of `count` consecutive seeds."""
    return PROGRAM_PRELUDE + "\n".join(Program(seed).text() for seed in range(first, first + count))
