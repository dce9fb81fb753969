"""Parts of random programs in which lanes exchange values: C for the GPU and the same for the host.

Each function takes a random source and the names of the LDS array (256 u32, 16-byte aligned), of a u32
variable to read and of one to change, and returns lines of C. `BLOCK` lanes take part, in waves of `WAVE`.
"""

from __future__ import annotations

import random

BLOCK = 128
DPP = [(0x111, "row_shr"), (0x101, "row_shl"), (0x121, "row_ror"), (0x1B, "quad"), (0x140, "mirror"), (0x141, "half")]
ORDERS = ("RELAXED", "ACQUIRE", "RELEASE", "ACQ_REL", "SEQ_CST")
SCOPES = ("SYSTEM", "DEVICE", "WRKGRP")
COPY = "u32 c[BLOCK]; memcpy(c, {source}, sizeof c);"


def two(gpu: str, host: str) -> list[str]:
    """One line for the GPU, another for the host."""
    return ["#ifdef __AMDGCN__", gpu, "#else", host, "#endif"]


def through_lds(rng: random.Random, lds: str, source: str, target: str) -> list[str]:
    """A permutation through LDS."""
    odd, add, flip = rng.randrange(1, 128, 2), rng.randrange(128), rng.randrange(128)
    return [
        f"SYNC(); LANES {{ {lds}[(L * {odd} + {add}) & {BLOCK - 1}] = V({source}); }}",
        f"SYNC(); LANES {{ V({target}) += {lds}[L ^ {flip}]; }}",
    ]


def lds_atomics(rng: random.Random, lds: str, source: str, target: str) -> list[str]:
    """Commuting atomics of several lanes on one word of LDS."""
    op, bit = rng.choice(["ADD", "XOR", "MAX"]), rng.choice([1, 2, 4])
    return [
        f"SYNC(); LANES {{ {lds}[L] = {rng.randrange(128)}; }} SYNC();",
        f"LANES {{ if (V({source}) & {bit}) {op}(&{lds}[V({source}) >> 7 & 15], V({source}) & 0xffff); }}",
        f"SYNC(); LANES {{ V({target}) ^= {lds}[L & 31]; }}",
    ]


def bpermute(rng: random.Random, lds: str, source: str, target: str) -> list[str]:
    """ds_bpermute with an index of the lane's own."""
    index = f"({rng.randrange(1, 128, 2)} * {{}})"
    pick = f"c[(L & ~(WAVE - 1)) | ({index.format('c[L]')} & (WAVE - 1) & {BLOCK - 1})]"
    return two(
        f"{target} = __builtin_amdgcn_ds_bpermute((int)(({index.format(source)} & {BLOCK - 1}) * 4), {source});",
        f"{{ {COPY.format(source=source)} LANES {{ {target}[L] = {pick}; }} }}",
    )


def ballot(rng: random.Random, lds: str, source: str, target: str) -> list[str]:
    """A ballot and the number of lanes before."""
    bit = rng.randrange(8)
    use = "(u32)m * 3 + (u32)(m >> 32) + __builtin_popcountll(m & ((1ull << {}) - 1))"
    return two(
        f"{{ u64 m = BALLOT({source} >> {bit} & 1); {target} += {use.format('(L & (WAVE - 1))')}; }}",
        f"for (u32 w = 0; w < BLOCK; w += WAVE) {{ u64 m = 0; for (u32 l = 0; l < WAVE; ++l) "
        f"m |= (u64)({source}[w + l] >> {bit} & 1) << l; "
        f"for (u32 l = 0; l < WAVE; ++l) {target}[w + l] += {use.format('l')}; }}",
    )


def divergent_ballot(rng: random.Random, lds: str, source: str, target: str) -> list[str]:
    """A ballot and the first active lane's value where some lanes do not come by."""
    here, bit = (f"({{}} >> {rng.randrange(4)} & 1)", f"({{}} >> {rng.randrange(4, 9)} & 1)")
    lane = f"{source}[w + l]"
    return two(
        f"if ({here.format(source)}) {{ u64 m = BALLOT({bit.format(source)}); "
        f"{target} += (u32)m + (u32)(m >> 32) * 5 + __builtin_amdgcn_readfirstlane({source}); }}",
        f"for (u32 w = 0; w < BLOCK; w += WAVE) {{ u64 m = 0; u32 f = 0, any = 0; for (u32 l = 0; l < WAVE; ++l) "
        f"if ({here.format(lane)}) {{ m |= (u64){bit.format(lane)} << l; if (!any) f = {lane}; any = 1; }} "
        f"for (u32 l = 0; l < WAVE; ++l) if ({here.format(lane)}) "
        f"{target}[w + l] += f + (u32)m + (u32)(m >> 32) * 5; }}",
    )


def dpp(rng: random.Random, lds: str, source: str, target: str) -> list[str]:
    """update_dpp of the controls that all architectures have."""
    ctrl, name = rng.choice(DPP)
    n, old, bound = ctrl & 15, rng.randrange(128), rng.randrange(2)
    lane = {
        "row_shr": f"(L & 15) < {n} ? -1 : (int)L - {n}",
        "row_shl": f"(L & 15) + {n} > 15 ? -1 : (int)L + {n}",
        "row_ror": f"(int)((L & ~15u) | ((L - {n}) & 15))",
        "quad": f"(int)((L & ~3u) + ({ctrl & 255} >> 2 * (L & 3) & 3))",
        "mirror": "(int)((L & ~15u) + 15 - (L & 15))",
        "half": "(int)((L & ~7u) + 7 - (L & 7))",
    }[name]
    rest = 0 if bound else old
    return two(
        f"{target} ^= __builtin_amdgcn_update_dpp({old}, {source}, {ctrl}, 15, 15, {bound});",
        f"{{ {COPY.format(source=source)} LANES {{ int s = {lane}; {target}[L] ^= s < 0 ? {rest} : c[s]; }} }}",
    )


def readlane(rng: random.Random, lds: str, source: str, target: str) -> list[str]:
    """A fixed lane's value, that of a lane computed from the first one's, and the first one's."""
    n = rng.randrange(32)
    return two(
        f"{{ u32 f = __builtin_amdgcn_readfirstlane({source}); "
        f"{target} -= __builtin_amdgcn_readlane({source}, {n}) * 5 "
        f"+ f + __builtin_amdgcn_readlane({source}, f & (WAVE - 1)); }}",
        f"{{ {COPY.format(source=source)} LANES {{ u32 w = L & ~(WAVE - 1); "
        f"{target}[L] -= c[w + {n}] * 5 + c[w] + c[w + (c[w] & (WAVE - 1))]; }} }}",
    )


def swizzle(rng: random.Random, lds: str, source: str, target: str) -> list[str]:
    """ds_swizzle in its bit mode."""
    keep, put, flip = rng.randrange(32), rng.randrange(32), rng.randrange(32)
    return two(
        f"{target} += __builtin_amdgcn_ds_swizzle({source}, {flip << 10 | put << 5 | keep});",
        f"{{ {COPY.format(source=source)} LANES {{ {target}[L] += "
        f"c[(L & ~31u) | ((((L & 31) & {keep}) | {put}) ^ {flip})]; }} }}",
    )


def permute(rng: random.Random, lds: str, source: str, target: str) -> list[str]:
    """ds_permute: every lane sends to another."""
    to = f"(({{}} * {rng.randrange(1, 64, 2)} + {rng.randrange(64)}) & (WAVE - 1))"
    return two(
        f"{target} ^= __builtin_amdgcn_ds_permute((int)({to.format('L')} * 4), {source});",
        f"{{ {COPY.format(source=source)} LANES {{ {target}[(L & ~(WAVE - 1)) + {to.format('L')}] ^= c[L]; }} }}",
    )


def mixed_lds(rng: random.Random, lds: str, source: str, target: str) -> list[str]:
    """LDS written with elements of one size and read with another, down to bytes and up to 16 bytes."""
    sizes = {"a8": 1, "a16": 2, "a32": 4, "a64": 8, "a128": 16}
    write, read = rng.choice(["a8", "a16", "a32", "a64"]), rng.choice(list(sizes))
    each, total = 8 // sizes[write], 1024 // sizes[read]
    value = f"((LDS {read} *){lds})[(V({source}) + {rng.randrange(total)}) & {total - 1}]"
    volatile = rng.choice(["", "volatile "])
    if read == "a128":
        value = f"({value}[0] ^ {value}[{rng.randrange(4)}] * 3)"
    elif read == "a64":
        value = f"(u32)({value} >> {rng.randrange(33)})"
    return [
        f"SYNC(); LANES {{ for (u32 q = 0; q < {each}; ++q) ((LDS {volatile}{write} *){lds})[L * {each} + q] = "
        f"({write})(V({source}) * (q + {rng.randrange(1, 9)}) + ((u64)V({target}) << {rng.randrange(33)})); }}",
        f"SYNC(); LANES {{ V({target}) += {value}; }}",
    ]


def own_atomics(rng: random.Random, lds: str, source: str, target: str) -> list[str]:
    """Atomics with a result on a word of LDS or of global memory that only this lane uses."""
    bits = rng.choice([32, 64])
    kind = rng.choice(["u", "i", "u", "f"])
    ty = f"{kind}{bits}"
    space, array = rng.choice([("LDS", lds), ("GLOBAL", "out")])
    cell = f"((({space} a{ty} *){array}) + L)"
    order = f"__ATOMIC_{rng.choice(ORDERS)}, __MEMORY_SCOPE_{rng.choice(SCOPES)}"
    start, value = f"(a{ty})(i16)V({source})", f"({ty})(i8)V({target})"
    op = rng.choice(["add", "sub", "add"] if kind == "f" else ["add", "sub", "and", "or", "xor", "min", "max", "inc"])
    if op == "inc":
        swap = f"__scoped_atomic_compare_exchange_n({cell}, &e, {value}, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED"
        step = (
            f"{{ {ty} e = ({ty})(V({source}) & 1 ? (i16)V({source}) : 5); "
            f"{swap}, __MEMORY_SCOPE_WRKGRP); V({target}) += (u32)e; }}"
        )
    else:
        step = f"V({target}) += (u32)(i32)__scoped_atomic_fetch_{op}({cell}, {value}, {order});"
    left = f"V({target}) ^= (u32)(i32)*{cell};"
    return ["SYNC();", f"LANES {{ *{cell} = {start}; {step} {left} }} SYNC();"]


def shared_atomics(rng: random.Random, lds: str, source: str, target: str) -> list[str]:
    """Commuting atomics of many lanes on few words of LDS or global memory."""
    bits, space = rng.choice([32, 64]), rng.choice(["LDS", "GLOBAL"])
    array = lds if space == "LDS" else "out"
    ty = rng.choice(["u", "i"]) + str(bits)
    op = rng.choice(["add", "sub", "and", "or", "xor", "min", "max"])
    cells, order = f"(({space} a{ty} *){array})", rng.choice(["RELAXED", "SEQ_CST"])
    value = f"({ty})V({source}){' * 0x10003ull' if bits == 64 else ''}"
    return [
        f"SYNC(); LANES {{ {cells}[L] = ({ty}){rng.getrandbits(31)}; }} SYNC();",
        f"LANES {{ if (V({source}) & {rng.choice([1, 3, 4])}) __scoped_atomic_fetch_{op}({cells} + (V({target}) & 7), "
        f"{value}, __ATOMIC_{order}, __MEMORY_SCOPE_{rng.choice(['WRKGRP', 'DEVICE'])}); }}",
        f"SYNC(); LANES {{ V({target}) ^= (u32)({cells}[L & 15] >> {rng.randrange(bits)}); }} SYNC();",
    ]


KINDS = (
    through_lds,
    lds_atomics,
    bpermute,
    ballot,
    divergent_ballot,
    dpp,
    readlane,
    swizzle,
    permute,
    mixed_lds,
    own_atomics,
    shared_atomics,
)
