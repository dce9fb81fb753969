"""Small kernels as a table: name, result type, operand types, C code in terms of x, y, z and i.

Code without ``return`` is an expression. Everything is free of undefined behaviour, so that the
host's result is the only right one.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One per-lane function; `loose` lets -0 equal +0 (minimum and maximum)."""

    name: str
    result: str
    operands: tuple[str, ...]
    code: str
    helper: str = ""
    loose: bool = False

    def function(self) -> str:
        """The C function that computes one lane."""
        parameters = ", ".join(f"{t} {v}" for t, v in zip(self.operands, "xyz", strict=False))
        body = self.code if "return" in self.code else f"return {self.code};"
        return f"{self.helper}\nstatic {self.result} f_{self.name}({parameters}, u32 i) {{ {body} }}\n"


UNSIGNED = ("u8", "u16", "u32", "u64")
SIGNED = ("i8", "i16", "i32", "i64")
FLOATS = ("f16", "f32", "f64")
BITS = {"8": 8, "16": 16, "32": 32, "64": 64}


def bits(ty: str) -> int:
    """Width of a scalar type name in bits."""
    return 16 if ty == "bf16" else int(ty[1:])


def integer_cases() -> list[Case]:
    """Arithmetic, logic, shifts, division and bit counting of every integer type."""
    out = []
    for t in UNSIGNED + SIGNED:
        m = bits(t) - 1
        for name, code in {
            "add": "x + y",
            "sub": "x - y",
            "mul": "x * y",
            "logic": "(x & ~y) | (y ^ (x >> 1))",
            "div": f"x / ({t})(y == 0 || y == ({t})-1 ? 3 : y)",
            "rem": f"x % ({t})(y == 0 || y == ({t})-1 ? 7 : y)",
            "shift": f"({t})(x << (y & {m})) ^ (x >> ((y >> 3) & {m}))",
            "minmax": "__builtin_elementwise_max(__builtin_elementwise_min(x, y), (%s)(x ^ 5))" % t,
            "select": "x < y ? x - y : x * 3",
            "cmp": "(x < y) + 2 * (x == y) + 4 * (x >= 17) + 8 * (y != x)",
            "sat": "__builtin_elementwise_sub_sat(__builtin_elementwise_add_sat(x, y), (%s)(x << 1))" % t,
            "divk": "x / 7 + x % 10 + x / 16",
        }.items():
            out.append(Case(f"{name}_{t}", t, (t, t), code))
    for t in UNSIGNED:
        w = bits(t)
        out += [
            Case(f"popcount_{t}", "u32", (t,), "__builtin_popcountg(x)"),
            Case(f"clz_{t}", "u32", (t,), f"__builtin_clzg(x, {w})"),
            Case(f"ctz_{t}", "u32", (t,), f"__builtin_ctzg(x, {w})"),
            Case(f"rev_{t}", t, (t,), "__builtin_elementwise_bitreverse(x)"),
            Case(f"rotl_{t}", t, (t, t), f"(x << (y & {w - 1})) | (x >> (-y & {w - 1}))"),
        ]
    for t in ("i32", "i64"):
        out.append(Case(f"abs_{t}", t, (t,), "x < 0 ? -x : x"))
        out.append(Case(f"overflow_{t}", t, (t, t), f"{t} r; return __builtin_mul_overflow(x, y, &r) ? 77 : r;"))
    out += [
        Case("mulhi_u32", "u32", ("u32", "u32"), "(u64)x * y >> 32"),
        Case("mulhi_i32", "i32", ("i32", "i32"), "(i64)x * y >> 32"),
        Case("mulhi_u64", "u64", ("u64", "u64"), "(unsigned __int128)x * y >> 64"),
        Case("add128", "u64", ("u64", "u64"), "(u64)(((unsigned __int128)x << 64 | y) + ((unsigned __int128)y << 64 | x) >> 64)"),
        Case("mad64", "u64", ("u32", "u32", "u64"), "(u64)x * y + z"),
        Case("mad24", "u32", ("u32", "u32", "u32"), "(x & 0xffffff) * (y & 0xffffff) + z"),
        Case("imad24", "i32", ("i32", "i32", "i32"), "(x << 8 >> 8) * (y << 8 >> 8) + z"),
        Case("bfe", "u32", ("u32", "u32"), "x >> (y & 15) & 0x3ff"),
        Case("bfe_s", "i32", ("i32", "u32"), "x << 5 >> 20"),
        Case("bfi", "u32", ("u32", "u32", "u32"), "(x & y) | (~x & z)"),
        Case("alignbit", "u32", ("u32", "u32", "u32"), "(u32)(((u64)x << 32 | y) >> (z & 31))"),
        Case("perm", "u32", ("u32", "u32"), "(x >> 24) | (y & 0xff00) | (x & 0xff) << 16 | y << 24"),
        Case("bswap32", "u32", ("u32",), "__builtin_bswap32(x)"),
        Case("bswap64", "u64", ("u64",), "__builtin_bswap64(x)"),
        Case("xor3", "u32", ("u32", "u32", "u32"), "x ^ y ^ z"),
        Case("lshladd", "u32", ("u32", "u32", "u32"), "((x << 3) + y) | z"),
        Case("med3", "i32", ("i32", "i32", "i32"), "__builtin_elementwise_max(__builtin_elementwise_min(x, y), __builtin_elementwise_min(__builtin_elementwise_max(x, y), z))"),
        Case("min3", "u32", ("u32", "u32", "u32"), "__builtin_elementwise_min(__builtin_elementwise_min(x, y), z)"),
        Case("sad", "u32", ("u32", "u32", "u32"), "(x > y ? x - y : y - x) + z"),
        Case("dot4", "i32", ("u32", "u32", "i32"), "for (int k = 0; k < 32; k += 8) z += (i32)(i8)(x >> k) * (i8)(y >> k); return z;"),
        Case("udot4", "u32", ("u32", "u32", "u32"), "for (int k = 0; k < 32; k += 8) z += (x >> k & 255) * (y >> k & 255); return z;"),
        Case("dot2", "i32", ("u32", "u32", "i32"), "z + (i32)(i16)x * (i16)y + (i32)(i16)(x >> 16) * (i16)(y >> 16)"),
        Case("pkadd", "u32", ("u32", "u32"), "v2u16 a, b; memcpy(&a, &x, 4); memcpy(&b, &y, 4); a = a * b + (b >> 3); u32 r; memcpy(&r, &a, 4); return r;"),
        Case("pkmin", "u32", ("u32", "u32"), "v2i16 a, b; memcpy(&a, &x, 4); memcpy(&b, &y, 4); a = __builtin_elementwise_min(a, b) - __builtin_elementwise_max(a, (v2i16)3); u32 r; memcpy(&r, &a, 4); return r;"),
        Case("pksat", "u32", ("u32", "u32"), "v2i16 a, b; memcpy(&a, &x, 4); memcpy(&b, &y, 4); a = __builtin_elementwise_add_sat(a, b); u32 r; memcpy(&r, &a, 4); return r;"),
        Case("bytes4", "u32", ("u32", "u32"), "v4u8 a, b; memcpy(&a, &x, 4); memcpy(&b, &y, 4); a = a * b + (a > b ? (v4u8)1 : (v4u8)9); u32 r; memcpy(&r, &a, 4); return r;"),
    ]
    return out


def float_cases() -> list[Case]:
    """Arithmetic, roundings, comparisons and conversions of the float types."""
    out = []
    suffix = {"f16": "f16", "f32": "f", "f64": ""}
    for t in FLOATS:
        s = suffix[t]
        for name, code in {
            "add": "x + y",
            "sub": "x - y",
            "mul": "x * y",
            "div": "x / y",
            "mad": "x * y + x",
            "neg": "-x * -y - x",
            "abs": f"__builtin_fabs{s}(x) - y",
            "round": f"__builtin_floor{s}(x) + __builtin_ceil{s}(y) + __builtin_trunc{s}(x * y) + __builtin_rint{s}(x)",
            "sqrt": f"__builtin_sqrt{s}(__builtin_fabs{s}(x))",
            "copysign": f"__builtin_copysign{s}(x, y)",
            "select": "x < y ? x : y * 2",
        }.items():
            if t == "f16":
                code = code.replace("__builtin_fabsf16", "__builtin_elementwise_abs").replace("__builtin_floorf16", "__builtin_elementwise_floor")
                code = code.replace("__builtin_ceilf16", "__builtin_elementwise_ceil").replace("__builtin_truncf16", "__builtin_elementwise_trunc")
                code = code.replace("__builtin_rintf16", "__builtin_elementwise_rint").replace("__builtin_sqrtf16", "__builtin_elementwise_sqrt")
            out.append(Case(f"{name}_{t}", t, (t, t), code))
        out.append(Case(f"cmp_{t}", "u32", (t, t), "(x < y) | (x <= y) << 1 | (x == y) << 2 | (x != y) << 3 | !(x > y) << 4 | !(x >= y) << 5 | __builtin_isunordered(x, y) << 6 | __builtin_islessgreater(x, y) << 7"))
        out.append(Case(f"class_{t}", "u32", (t,), "__builtin_isnan(x) | __builtin_isinf_sign(x) << 1 & 2 | __builtin_isfinite(x) << 2 | __builtin_isnormal(x) << 3 | __builtin_issubnormal(x) << 4 | __builtin_iszero(x) << 5"))
        out.append(Case(f"clamp_{t}", t, (t,), f"{t} v = x > 0 ? x : 0; return v < 1 ? v : 1;", loose=True))
        out.append(Case(f"minmax_{t}", t, (t, t), "__builtin_elementwise_maxnum(__builtin_elementwise_minnum(x, y), x * 2)", loose=True))
        for k in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"):
            out.append(Case(f"{k}_to_{t}", t, (k,), f"({t})x"))
            w = bits(k)
            low = "0" if k[0] == "u" else f"-{2 ** (w - 1)}.0"
            high = {8: "120.0", 16: "32000.0", 32: "2147480000.0", 64: "9.2e18"}[w]
            if t == "f16" and w > 16:
                high, low = "65000.0", "0" if k[0] == "u" else "-65000.0"
            out.append(Case(f"{t}_to_{k}", k, (t,), f"f64 v = x; v = v == v ? v : 3; v = v < {low} ? {low} : v > {high} ? {high} : v; return ({k})({t})v;"))
    for a in ("f16", "bf16", "f32", "f64"):
        for b in ("f16", "bf16", "f32", "f64"):
            if a != b and not (a == "bf16" and b == "f16") and not (a == "f16" and b == "bf16"):
                out.append(Case(f"{a}_cvt_{b}", b, (a,), f"({b})x"))
    out += [
        Case("bf16_math", "bf16", ("bf16", "bf16"), "x * y + x"),
        Case("fma_f32", "f32", ("f32", "f32", "f32"), "__builtin_fmaf(x, y, z)"),
        Case("fma_f64", "f64", ("f64", "f64", "f64"), "__builtin_fma(x, -y, z)"),
        Case("fma_neg", "f32", ("f32", "f32", "f32"), "__builtin_fmaf(-__builtin_fabsf(x), y, -z)"),
        Case("omod", "f32", ("f32", "f32"), "(x + y) * 0.5f"),
        Case("ldexp_f32", "f32", ("f32", "i32"), "__builtin_ldexpf(x, y % 300)"),
        Case("ldexp_f64", "f64", ("f64", "i32"), "__builtin_ldexp(x, y % 2100)"),
        Case("frexp_f32", "f32", ("f32",), "int e; f32 v = __builtin_isfinite(x) ? x : 3; f32 m = __builtin_frexpf(v, &e); return m + e;"),
        Case("polynomial", "f32", ("f32",), "((x * 0.5f + 1.25f) * x - 3.0f) * x + 0.125f"),
        Case("packed_f32", "f32", ("f32", "f32"), "v2f32 a = {x, y}, b = {y, x * 2}; a = a * b + a; return a.x - a.y;"),
        Case("packed_f16", "f16", ("f16", "f16"), "v2f16 a = {x, y}, b = {y, x}; a = a * b + b; return a.x - a.y;"),
        Case("mixed", "f32", ("f16", "f16", "f32"), "__builtin_fmaf((f32)x, (f32)y, z)"),
        Case("vec4", "f32", ("f32", "f32"), "v4f32 a = {x, y, x - y, 2}; a = a.wzyx * a + a.yxwz; return a.x + a.y * a.z - a.w;"),
        Case("bits_f32", "u32", ("f32",), "u32 u; memcpy(&u, &x, 4); return u >> 23 ^ u << 9;"),
        Case("div_const", "f32", ("f32",), "x / 3.0f + 1.0f / 7.0f"),
        Case("chain_f64", "f64", ("f64", "f64"), "for (int k = 0; k < 9; ++k) x = x * y + k; return x;"),
    ]
    return out


def flow_cases() -> list[Case]:
    """Branches, loops, calls and private memory."""
    table = "static const u32 table_%s[16] = {3,1,4,1,5,9,2,6,5,3,5,8,9,7,9,3};"
    return [
        Case("collatz", "u32", ("u32",), "u32 n = x % 1000 + 1, k = 0; while (n != 1 && k < 500) { n = n & 1 ? 3 * n + 1 : n / 2; ++k; } return k;"),
        Case("gcd", "u32", ("u32", "u32"), "x %= 10007; y %= 9973; while (y) { u32 t = x % y; x = y; y = t; } return x;"),
        Case("nested", "u32", ("u32", "u32"), "u32 r = 0; if (x & 1) { if (y & 2) r = x * y; else { r = x + y; if (r & 4) r ^= 0x55; } } else if (x & 8) r = y - x; return r + i;"),
        Case("switch8", "u32", ("u32", "u32"), "switch (x % 9) { case 0: return y; case 1: return y * 3; case 2: y ^= 5; case 3: return y + 1; case 4: return ~y; case 5: return y >> 3; case 6: return y % 11; default: return 42; }"),
        Case("early", "u32", ("u32",), "for (u32 k = 0; k < 40; ++k) { if ((x ^ k) % 13 == 0) return k; x = x * 1664525 + 1013904223; } return 99;"),
        Case("breaks", "u32", ("u32", "u32"), "u32 s = 0; for (u32 a = 0; a < (x & 15); ++a) { for (u32 b = 0; b < 10; ++b) { if ((a * b + y) % 7 == 3) break; if ((a ^ b) == 5) continue; s += a * b + 1; } } return s;"),
        Case("goto", "u32", ("u32",), "u32 n = 0; again: x = x * 69069 + 1; if (++n < 20 && (x >> 28) != 7) goto again; return n;"),
        Case("call", "u32", ("u32", "u32"), "h_call(x, y) + h_call(y, x + 1)", helper="NOINLINE static u32 h_call(u32 a, u32 b) { return a % 17 > 8 ? a * b : a - b * 3; }"),
        Case("recursion", "u32", ("u32",), "h_fib(x % 11)", helper="NOINLINE static u32 h_fib(u32 n) { return n < 2 ? n : h_fib(n - 1) + h_fib(n - 2); }"),
        Case("indirect", "u32", ("u32", "u32"), "u32 (*fn)(u32) = i % 3 == 0 ? h_a : i % 3 == 1 ? h_b : h_c; return fn(x) ^ y;", helper="NOINLINE static u32 h_a(u32 v) { return v * 3; } NOINLINE static u32 h_b(u32 v) { return v + 9; } NOINLINE static u32 h_c(u32 v) { return ~v; }"),
        Case("manyargs", "u64", ("u64", "u32"), "h_many(x, y, 3, x >> 7, i, 2.5f, y * 2, x ^ 5, 9, 10, 11, (f64)y, 12, x * 3, 15, 16, 17, y, 19, 20, 21, x, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, y, 36)", helper="NOINLINE static u64 h_many(u64 a, u32 b, int c, u64 d, u32 e, f32 f, u32 g, u64 h, int k, int l, int m, f64 n, int o, u64 p, int q, int r, int s, u32 t, int u, int v, int w, u64 x, int y, int z, int a1, int b1, int c1, int d1, int e1, int f1, int g1, int h1, int i1, int j1, u32 k1, int l1) { return a + b * 2 + c * d + e + (u64)f + g + h * k + l + m + (u64)n + o + p + q * r + s + t + u + v + w + x * y + z + a1 + b1 + c1 + d1 * e1 + f1 + g1 + h1 + i1 + j1 + k1 * l1; }"),
        Case("array", "u32", ("u32", "u32"), "u32 a[16]; for (int k = 0; k < 16; ++k) a[k] = x * k + y; a[y & 15] ^= 0xff; for (int k = 1; k < 16; ++k) a[k] += a[(k * 7 + x) & 15]; return a[x & 15] + a[(y >> 4) & 15];"),
        Case("array8", "u32", ("u32", "u32"), "u8 a[24]; for (int k = 0; k < 24; ++k) a[k] = x >> (k & 15); u16 b[8]; memcpy(b, a + (y & 8), 16); return b[x & 7] * 3 + a[y % 24];"),
        Case("array64", "u64", ("u64", "u32"), "u64 a[6] = {x, y, 3, 4, 5, 6}; a[y % 6] = x * 5; v2u64 *p = (v2u64 *)a; u64 r = 0; for (int k = 0; k < 6; ++k) r = r * 31 + a[(k + y) % 6]; return r;"),
        Case("vecindex", "u32", ("u32", "u32"), "v4u32 v = {x, y, x + y, x ^ y}; v[y & 3] = 77; return v[x & 3] + v[(x >> 2) & 3];"),
        Case("vec32", "u32", ("u32", "u32"), "u32 a[32]; for (int k = 0; k < 32; ++k) a[k] = (x >> (k & 7)) + k; for (int k = 0; k < 8; ++k) a[(y >> k) & 31] += a[(x + k) & 31]; u32 s = 0; for (int k = 0; k < 32; ++k) s = s * 3 + a[k]; return s;"),
        Case("table", "u32", ("u32",), "table_t[x & 15] * 10 + table_t[i & 15]", helper=table % "t"),
        Case("structs", "u32", ("u32", "u32"), "struct S a = {x, y, x & y}, b = a; b.b += 3; struct S c = i & 1 ? a : b; return h_struct(c, &a) + a.a;", helper="struct S { u32 a; u16 b; u64 c; }; NOINLINE static u32 h_struct(struct S s, struct S *p) { p->a ^= 7; return s.a + s.b * 3 + (u32)(s.c >> 1); }"),
        Case("sort", "u32", ("u32", "u32"), "u32 a[8]; for (int k = 0; k < 8; ++k) a[k] = (x >> k * 3) ^ (y << k); for (int p = 0; p < 7; ++p) for (int k = 0; k < 7 - p; ++k) if (a[k] > a[k + 1]) { u32 t = a[k]; a[k] = a[k + 1]; a[k + 1] = t; } u32 r = 0; for (int k = 0; k < 8; ++k) r = r * 7 + a[k]; return r;"),
        Case("crc", "u32", ("u32",), "u32 c = ~x; for (int k = 0; k < 32; ++k) c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0); return ~c;"),
        Case("isprime", "u32", ("u32",), "x = x % 5000 + 2; for (u32 d = 2; d * d <= x; ++d) if (x % d == 0) return d; return 0;"),
        Case("sha", "u32", ("u32", "u32", "u32"), "for (int k = 0; k < 8; ++k) { u32 s = (x >> 6 | x << 26) ^ (x >> 11 | x << 21) ^ (x >> 25 | x << 7); u32 c = (x & y) ^ (~x & z); u32 t = s + c + k * 0x428a2f98u; z = y; y = x; x = t ^ i; } return x ^ y ^ z;"),
        Case("volatile", "u32", ("u32", "u32"), "volatile u32 a[4] = {x, y, 1, 2}; a[x & 3] = a[y & 3] + 1; return a[0] ^ a[1] * a[2] - a[3];"),
        Case("long", "i64", ("i64", "i64"), "i64 r = 0; for (int k = 0; k < 5; ++k) { r += x / (y / 3 | 1) + x % 1000003; x = x * 5 - r; } return r;"),
        Case("newton", "f32", ("f32",), "f32 v = x > 0 && x < 1e30f ? x : 2; f32 r = v; for (int k = 0; k < 60; ++k) { f32 n = 0.5f * (r + v / r); if (n == r) break; r = n; } return r;"),
        Case("mandel", "u32", ("u32", "u32"), "f32 cx = (x % 300) / 100.0f - 2, cy = (y % 200) / 100.0f - 1, a = 0, b = 0; u32 n = 0; while (n < 50 && a * a + b * b < 4) { f32 t = a * a - b * b + cx; b = 2 * a * b + cy; a = t; ++n; } return n;"),
    ]


def all_cases() -> list[Case]:
    """Every kernel of the corpus."""
    return integer_cases() + float_cases() + flow_cases()


def source(cases: list[Case]) -> str:
    """C text with, for each case, a divergent (k_) and a uniform (u_) kernel and a host loop (cpu_)."""
    parts = []
    for c in cases:
        parts.append(c.function())
        pointers = ", ".join(f"const GLOBAL {t} *restrict p{n}" for n, t in enumerate(c.operands))
        lane = ", ".join(f"p{n}[i]" for n in range(len(c.operands)))
        group = ", ".join(f"p{n}[g]" for n in range(len(c.operands)))
        parts.append(f"""#ifdef __AMDGCN__
KERNEL void k_{c.name}({pointers}, GLOBAL {c.result} *restrict out, u32 n) {{
  u32 i = WG() * 256 + TID(); if (i < n) out[i] = f_{c.name}({lane}, i); }}
KERNEL void u_{c.name}({pointers}, GLOBAL {c.result} *restrict out, u32 n) {{
  u32 g = WG(); {c.result} r = f_{c.name}({group}, g); if (TID() == 0) out[g] = r; }}
#else
void cpu_{c.name}({pointers}, GLOBAL {c.result} *restrict out, u32 n) {{
  for (u32 i = 0; i < n; ++i) out[i] = f_{c.name}({lane}, i); }}
#endif
""")
    return "\n".join(parts)
