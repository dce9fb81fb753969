"""Random C programs for differential tests: one source, run on the simulator and on the host.

A program works on a block of lanes in lock step. Per-lane variables are scalars on the GPU and arrays
on the host (``V(x)``); statements inside ``LANES { ... }`` run for every lane. Between such parts lanes
exchange values through LDS, permutes, DPP and ballots. All arithmetic is defined behaviour.
"""

from __future__ import annotations

import random

BLOCK = 128

PROGRAM_PRELUDE = """
#define BLOCK 128
#ifdef __AMDGCN__
#if defined(__GFX12__)
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
#define SHARED(n) static LDS u32 lds##n[BLOCK * 2] __attribute__((loader_uninitialized))
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
#define SHARED(n) static u32 lds##n[BLOCK * 2]
#define ADD(p, v) (*(p) += (v))
#define XOR(p, v) (*(p) ^= (v))
#define MAX(p, v) (*(p) = *(p) > (v) ? *(p) : (v))
#define GROUP 0
#define WAVE HOST_WAVE
#endif
"""

INTS = ("u32", "i32", "u16", "i16", "u8", "i8", "u64", "i64")
DPP = [(0x111, "row_shr"), (0x101, "row_shl"), (0x121, "row_ror"), (0x1B, "quad"), (0x140, "mirror"), (0x141, "half")]


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

    def pick(self, items):
        return self.rng.choice(list(items))

    def constant(self, ty: str) -> str:
        if ty in ("f32", "f64"):
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
        others = [n for n, t in names.items() if t not in ("f32", "f64")]
        if others and roll < 0.85 and ty not in ("f32", "f64"):
            return f"({ty}){self.pick(others)}"
        if ty in ("f32", "f64") and others and roll < 0.8:
            return f"({ty})(i16){self.pick(others)}"
        return self.constant(ty)

    def expr(self, ty: str, names: dict[str, str], depth: int = 3) -> str:
        if depth == 0 or self.rng.random() < 0.12:
            return self.leaf(ty, names)
        a = self.expr(ty, names, depth - 1)
        b = self.expr(ty, names, depth - 1)
        if ty in ("f32", "f64"):
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
        ]
        callable_ = [f for f in self.functions if f[1] == ty]
        if callable_ and self.rng.random() < 0.3:
            name, _, parameters = self.pick(callable_)
            arguments = ", ".join(self.leaf(p, names) for p in parameters)
            return f"{name}({arguments})"
        return self.pick(choices)

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
            elif roll < 0.93:
                self.emit(f"switch ({self.leaf('u32', names)} % 5) {{")
                for case in range(self.rng.randint(2, 5)):
                    self.emit(f"case {case}:")
                    self.block(names, nesting)
                    if self.rng.random() < 0.75:
                        self.emit("  break;")
                self.emit("}")
            else:
                self.counter += 1
                a = f"t{self.counter}"
                n = self.pick(targets)
                size = self.pick([4, 8, 16])
                ty = self.pick(["u32", "u8", "u16", "u64"])
                self.emit(f"{{ {ty} {a}[{size}]; for (u32 q = 0; q < {size}; ++q) {a}[q] = ({ty})({self.leaf('u32', names)} * q + {self.leaf('u32', names)});")
                self.emit(f"  {a}[{self.leaf('u32', names)} & {size - 1}] ^= ({ty})({self.leaf('u32', names)});")
                self.emit(f"  {n} = ({names[n]})(i16)({a}[{self.leaf('u32', names)} & {size - 1}] + {a}[{self.leaf('u32', names)} & {size - 1}]); }}")

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

    def compute(self) -> None:
        names = {f"V({n})": t for n, t in self.vars.items()}
        self.emit("LANES {")
        self.depth += 1
        self.statements(names, self.rng.randint(3, 7), 3)
        self.depth -= 1
        self.emit("}")

    def exchange(self) -> None:
        lds = f"lds{self.seed}"
        source = self.pick([n for n, t in self.vars.items() if t == "u32"])
        target = self.pick([n for n, t in self.vars.items() if t == "u32"])
        odd, add, flip = self.rng.randrange(1, 128, 2), self.rng.randrange(128), self.rng.randrange(128)
        kind = self.rng.randrange(6)
        if kind == 0:
            self.emit(f"SYNC(); LANES {{ {lds}[(L * {odd} + {add}) & {BLOCK - 1}] = V({source}); }}")
            self.emit(f"SYNC(); LANES {{ V({target}) += {lds}[L ^ {flip}]; }}")
        elif kind == 1:
            op = self.pick(["ADD", "XOR", "MAX"])
            self.emit(f"SYNC(); LANES {{ {lds}[L] = {add}; }} SYNC();")
            self.emit(f"LANES {{ if (V({source}) & {self.pick([1, 2, 4])}) {op}(&{lds}[V({source}) >> 7 & 15], V({source}) & 0xffff); }}")
            self.emit(f"SYNC(); LANES {{ V({target}) ^= {lds}[L & 31]; }}")
        elif kind == 2:
            self.emit("#ifdef __AMDGCN__")
            self.emit(f"{target} = __builtin_amdgcn_ds_bpermute((int)((({odd} * {source}) & {BLOCK - 1}) * 4), {source});")
            self.emit("#else")
            self.emit(f"{{ u32 c[BLOCK]; memcpy(c, {source}, sizeof c); LANES {{ {target}[L] = c[(L & ~(WAVE - 1)) | (({odd} * c[L]) & (WAVE - 1) & {BLOCK - 1})]; }} }}")
            self.emit("#endif")
        elif kind == 3:
            bit = self.rng.randrange(8)
            self.emit("#ifdef __AMDGCN__")
            self.emit(f"{{ u64 m = BALLOT({source} >> {bit} & 1); {target} += (u32)m * 3 + (u32)(m >> 32) + __builtin_popcountll(m & ((1ull << (L & (WAVE - 1))) - 1)); }}")
            self.emit("#else")
            self.emit("for (u32 w = 0; w < BLOCK; w += WAVE) { u64 m = 0;")
            self.emit(f"  for (u32 l = 0; l < WAVE; ++l) m |= (u64)({source}[w + l] >> {bit} & 1) << l;")
            self.emit(f"  for (u32 l = 0; l < WAVE; ++l) {target}[w + l] += (u32)m * 3 + (u32)(m >> 32) + __builtin_popcountll(m & ((1ull << l) - 1)); }}")
            self.emit("#endif")
        elif kind == 4:
            ctrl, name = self.pick(DPP)
            n = ctrl & 15
            lane = {
                "row_shr": f"(L & 15) < {n} ? -1 : (int)L - {n}",
                "row_shl": f"(L & 15) + {n} > 15 ? -1 : (int)L + {n}",
                "row_ror": f"(int)((L & ~15u) | ((L - {n}) & 15))",
                "quad": f"(int)((L & ~3u) + ({ctrl & 255} >> 2 * (L & 3) & 3))",
                "mirror": "(int)((L & ~15u) + 15 - (L & 15))",
                "half": "(int)((L & ~7u) + 7 - (L & 7))",
            }[name]
            bound = self.rng.randrange(2)
            self.emit("#ifdef __AMDGCN__")
            self.emit(f"{target} ^= __builtin_amdgcn_update_dpp({add}, {source}, {ctrl}, 15, 15, {bound});")
            self.emit("#else")
            self.emit(f"{{ u32 c[BLOCK]; memcpy(c, {source}, sizeof c); LANES {{ int s = {lane}; {target}[L] ^= s < 0 ? {0 if bound else add} : c[s]; }} }}")
            self.emit("#endif")
        else:
            self.emit("#ifdef __AMDGCN__")
            self.emit(f"{target} -= __builtin_amdgcn_readlane({source}, {add & 31}) * 5 + __builtin_amdgcn_readfirstlane({source});")
            self.emit("#else")
            self.emit(f"{{ u32 c[BLOCK]; memcpy(c, {source}, sizeof c); LANES {{ u32 w = L & ~(WAVE - 1); {target}[L] -= c[w + {add & 31}] * 5 + c[w]; }} }}")
            self.emit("#endif")

    def text(self) -> str:
        """The program as C."""
        for n in range(self.rng.randint(0, 2)):
            self.helper(n)
        kinds = ["u32", "u32", self.pick(INTS), self.pick(INTS), self.pick(["f32", "f64", "u32"])]
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
        if last in ("f32", "f64"):
            bits = "u32" if last == "f32" else "u64"
            self.emit(f"  {last} f = V(v4); {bits} b; memcpy(&b, &f, sizeof b); r = r * 31 + (f == f ? b : 0x7fc);")
        else:
            self.emit("  r = r * 31 + (u64)V(v4);")
        self.emit("  out[L] = r; }")
        body = "\n".join(self.lines)
        helpers = "\n".join(self.helpers)
        return f"{helpers}\nSHARED({self.seed});\nENTRY({self.seed})(const GLOBAL u32 *in, GLOBAL u64 *out) {{\n{body}\n}}\n"


def batch(first: int, count: int) -> str:
    """C text with the programs of `count` consecutive seeds."""
    return PROGRAM_PRELUDE + "\n".join(Program(seed).text() for seed in range(first, first + count))
