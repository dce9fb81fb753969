"""Programs that no compiler writes, for the fuzzer: they jump into the middle of instructions, store to their own code,
run loops without lanes, take traps, send messages, and name buffers and tensors by random words.

A program is a row of pieces. A piece is a fragment of assembly whose literals are chosen anew, or one instruction: its
mnemonic is drawn first, so that each has its turn, then one of many random encodings.
"""

from __future__ import annotations

import ctypes
import json
import random
import re
import struct
import subprocess
from dataclasses import dataclass

from hiplib import LLVM, Sim, assemble
from object_mutations import edge, put, tables
from object_seeds import kernel, metadata

ARCHS = ("gfx942", "gfx950", "gfx1201", "gfx1250", "gfx1100", "gfx90a")
WORDS = 512  # of code, which start as s_nop
NOP, MARK = 0xBF800000, 0x7AF00000

#: Literals that are chosen for each use: any number, a distance in code, the upper half of an address.
ANY, NEAR, HIGH = 0x7A110000, 0x7A220000, 0x7A330000
LITERALS = {"ANY": ANY, "NEAR": NEAR, "HIGH": HIGH}

#: First bits of the encoding families of gfx9, gfx11 and gfx12.
FAMILIES = (0xD0, 0xD1, 0xD2, 0xD3, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8, 0xD9, 0xDA, 0xDB, 0xDC, 0xDD, 0xDE, 0xDF, 0xC0, 0xC4,
            0xC5, 0xC6, 0xC8, 0xC9, 0xCA, 0xCC, 0xCD, 0xE0, 0xE1, 0xE8, 0xE9, 0xEC, 0xED, 0xEE, 0xF0, 0xF4, 0xF8, 0xBE,
            0xBF, 0xBF, 0xB0, 0xB8, 0xBA, 0x80, 0x90, 0x96, 0x98, 0x7E, 0x7C, 0x7D, 0x02, 0x1E, 0x30, 0x40, 0x56)

#: Pieces of assembly. An architecture leaves out those that it does not assemble.
FRAGMENTS = """
s_mov_b64 exec, 0 | v_mov_b32 v1, v2 | s_cbranch_execz .-8
s_mov_b64 exec, 0
s_mov_b32 exec_lo, ANY
s_mov_b32 exec_hi, ANY
s_mov_b64 exec, -1
s_mov_b32 vcc_lo, ANY
s_mov_b32 m0, ANY
s_mov_b32 s4, ANY
s_mov_b32 s5, HIGH
s_mov_b32 s6, ANY
s_mov_b32 s8, ANY
s_mov_b32 s9, HIGH
s_mov_b32 s10, ANY
s_mov_b32 s11, ANY
s_mov_b32 s16, ANY | s_mov_b32 s17, ANY | s_mov_b32 s18, ANY | s_mov_b32 s19, ANY
s_mov_b32 s20, ANY | s_mov_b32 s21, ANY | s_mov_b32 s22, ANY | s_mov_b32 s23, ANY
s_mov_b64 s[8:9], s[4:5] | s_mov_b32 s10, ANY | s_mov_b32 s11, ANY
s_mov_b64 s[16:17], s[4:5] | s_or_b32 s17, s17, ANY
v_mov_b32 v1, ANY
v_mov_b32 v2, ANY | v_mov_b32 v3, HIGH
v_mov_b32 v2, s4 | v_mov_b32 v3, s5
v_mul_lo_u32 v1, v0, v0
v_lshlrev_b32 v4, 4, v0
s_getpc_b64 s[10:11] | s_add_u32 s10, s10, NEAR | s_addc_u32 s11, s11, 0 | s_setpc_b64 s[10:11]
s_getpc_b64 s[10:11] | s_sub_u32 s10, s10, NEAR | s_subb_u32 s11, s11, 0 | s_setpc_b64 s[10:11]
s_getpc_b64 s[10:11] | s_add_u32 s10, s10, NEAR | s_addc_u32 s11, s11, 0 | s_swappc_b64 s[12:13], s[10:11]
s_setpc_b64 s[4:5]
s_setpc_b64 s[12:13]
s_swappc_b64 s[10:11], s[6:7]
s_call_b64 s[12:13], 3
s_rfe_b64 s[10:11]
s_getpc_b64 s[10:11] | v_mov_b32 v2, s10 | v_mov_b32 v3, s11 | flat_store_dwordx4 v[2:3], v[4:7] offset:16
s_getpc_b64 s[10:11] | v_mov_b32 v2, s10 | v_mov_b32 v3, s11 | flat_store_b128 v[2:3], v[4:7] offset:16
s_getpc_b64 s[10:11] | global_store_dword v1, v2, s[10:11]
s_getpc_b64 s[10:11] | global_store_b32 v1, v2, s[10:11]
s_getpc_b64 s[10:11] | v_mov_b32 v2, s10 | v_mov_b32 v3, s11 | flat_atomic_add v[2:3], v4
s_getpc_b64 s[10:11] | v_mov_b32 v2, s10 | v_mov_b32 v3, s11 | flat_atomic_add_u32 v[2:3], v4
s_icache_inv
s_dcache_inv
s_cbranch_scc1 .-16
s_cbranch_execnz .-24
s_branch .+8
s_branch .-40
s_load_dwordx2 s[8:9], s[0:1], 0x38 | s_waitcnt lgkmcnt(0) | v_mov_b32 v1, 8 | global_store_dwordx2 v1, v[2:3], s[8:9]
s_load_dwordx2 s[8:9], s[0:1], 0x40 | s_waitcnt lgkmcnt(0) | v_mov_b32 v1, 0 | global_atomic_add_x2 v1, v[2:3], s[8:9]
s_load_dwordx2 s[8:9], s[0:1], 0x48 | s_waitcnt lgkmcnt(0) | v_mov_b32 v1, 0 | global_store_dwordx4 v1, v[2:5], s[8:9]
s_load_b64 s[8:9], s[0:1], 0x38 | s_wait_kmcnt 0 | v_mov_b32 v1, 8 | global_store_b64 v1, v[2:3], s[8:9]
s_load_b64 s[8:9], s[0:1], 0x40 | s_wait_kmcnt 0 | v_mov_b32 v1, 0 | global_atomic_add_u64 v1, v[2:3], s[8:9]
s_load_b64 s[8:9], s[0:1], 0x48 | s_wait_kmcnt 0 | v_mov_b32 v1, 0 | global_store_b128 v1, v[2:5], s[8:9]
s_load_dwordx2 s[8:9], s[0:1], 0x40 | s_waitcnt lgkmcnt(0) | s_sendmsg 1
s_trap 2
s_trap 0xe0
s_sendmsg 1
s_sendmsghalt 3
s_sethalt 1
s_sleep 127
s_barrier
s_cbranch_scc0 .+8 | s_barrier
s_barrier_signal -1
s_barrier_wait -1
s_barrier_signal_isfirst -1
s_barrier_signal -3 | s_barrier_wait -3
s_barrier_init m0
s_barrier_join m0
s_barrier_signal m0
s_get_barrier_state s8, m0
s_set_gpr_idx_on s2, 15
s_set_gpr_idx_mode 9
s_set_gpr_idx_off
s_set_vgpr_msb 0xff
s_set_vgpr_msb 0xe4
s_setreg_b32 hwreg(HW_REG_MODE), s4
s_setreg_imm32_b32 hwreg(HW_REG_MODE), ANY
s_setreg_imm32_b32 hwreg(HW_REG_STATUS), ANY
s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE), ANY
s_setreg_imm32_b32 hwreg(HW_REG_WAVE_STATUS), ANY
s_setreg_imm32_b32 hwreg(31), ANY
v_readlane_b32 s4, v1, s6
v_writelane_b32 v1, s4, s6
v_readfirstlane_b32 s10, v1
v_cmpx_gt_u32 exec, v1, v0
v_cmpx_gt_u32_e64 v1, v0
buffer_load_dwordx4 v[4:7], v1, s[16:19], 0 idxen offen offset:4095
buffer_store_dwordx4 v[4:7], v1, s[16:19], s4 offen
buffer_load_b128 v[4:7], v1, s[16:19], null offen offset:4095
buffer_store_b128 v[4:7], v[1:2], s[16:19], s4 idxen offen
buffer_load_dword v1, s[16:19], 0 offen lds
buffer_load_dwordx4 v1, s[16:19], 0 offen lds
buffer_atomic_add v4, v1, s[16:19], 0 offen
buffer_load_format_xyzw v[4:7], v1, s[16:19], 0 idxen
buffer_load_format_xyzw v[4:7], v1, s[16:19], null idxen
tbuffer_load_format_xyzw v[4:7], v1, s[16:19], 0 format:[BUF_DATA_FORMAT_32_32_32_32,BUF_NUM_FORMAT_FLOAT] idxen
image_load v[4:7], v[0:1], s[16:23] dmask:0xf dim:SQ_RSRC_IMG_2D
image_load v[4:7], v[0:1], s[16:23] dmask:0xf unorm
tensor_load_to_lds s[16:19], s[20:27]
tensor_store_from_lds s[16:19], s[20:27]
tensor_load_to_lds s[16:19], s[20:27], s[4:7], s[8:11]
tensor_load_to_lds s[4:7], s[16:23], s[8:11], s[20:23]
global_load_async_to_lds_b128 v1, v[2:3], off
global_store_async_from_lds_b128 v[2:3], v1, off
cluster_load_async_to_lds_b32 v1, v[2:3], off
ds_read_b128 v[4:7], v1 offset:65520
ds_write_b128 v1, v[4:7] offset:65520
ds_load_b128 v[4:7], v1 offset:65520
ds_store_2addr_stride64_b64 v1, v[2:3], v[4:5] offset0:255 offset1:255
ds_write2st64_b64 v1, v[2:3], v[4:5] offset0:255 offset1:255
ds_add_rtn_u64 v[2:3], v1, v[4:5]
ds_append v1
ds_consume v1 offset:65532
ds_bpermute_b32 v2, v1, v4
scratch_store_dword off, v3, s4 offset:4
scratch_load_dwordx4 v[4:7], v1, off offset:-2048
scratch_store_b32 v1, v3, s4 offset:4
scratch_load_b128 v[4:7], v1, off offset:-2048
flat_load_dwordx4 v[4:7], v[2:3]
flat_load_b128 v[4:7], v[2:3]
s_mov_b64 s[10:11], src_shared_base | v_mov_b32 v2, v1 | v_mov_b32 v3, s11 | flat_store_dwordx4 v[2:3], v[4:7]
s_mov_b64 s[10:11], src_shared_base | v_mov_b32 v2, v1 | v_mov_b32 v3, s11 | flat_store_b128 v[2:3], v[4:7]
s_mov_b64 s[10:11], src_private_base | v_mov_b32 v2, v1 | v_mov_b32 v3, s11 | flat_store_dwordx4 v[2:3], v[4:7]
s_mov_b64 s[10:11], src_private_base | v_mov_b32 v2, v1 | v_mov_b32 v3, s11 | flat_store_b128 v[2:3], v[4:7]
global_load_dwordx4 v[4:7], v1, s[4:5]
global_store_dwordx4 v1, v[4:7], s[4:5]
global_load_b128 v[4:7], v1, s[4:5]
global_store_b128 v1, v[4:7], s[4:5]
s_load_dwordx16 s[16:31], s[4:5], 0x0
s_load_b512 s[16:31], s[4:5], 0x0
s_buffer_load_dwordx4 s[16:19], s[8:11], s4
s_buffer_load_b128 s[16:19], s[8:11], s4
s_movrels_b64 s[10:11], s[98:99]
s_movreld_b64 s[98:99], s[10:11]
v_movrels_b32 v4, v250
v_movreld_b32 v250, v4
v_mfma_f32_32x32x8_f16 a[240:255], v[8:9], v[10:11], a[240:255]
v_smfmac_f32_16x16x32_f16 v[4:7], v[8:9], v[10:13], v1
s_alloc_vgpr s4
s_endpgm
"""

FIRST_CODE = {"gfx9": "s_load_dwordx4 s[4:7], s[0:1], 0x0\n s_waitcnt lgkmcnt(0)\n v_lshlrev_b32 v1, 2, v0",
              "gfx11": "s_load_b128 s[4:7], s[0:1], 0x0\n s_waitcnt lgkmcnt(0)\n v_lshlrev_b32 v1, 2, v0",
              "gfx12": "s_load_b128 s[4:7], s[0:1], 0x0\n s_wait_kmcnt 0\n v_lshlrev_b32 v1, 2, v0"}


@dataclass(frozen=True)
class Wild:
    """A program, and how it is launched."""

    image: bytes
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] | None
    lds: int
    cooperative: bool


def _assembled(arch: str, texts: list[str]) -> list[bytes]:
    """The code of those texts that `arch` has, mostly from one run of the assembler."""
    left = list(enumerate(texts))
    while True:
        lines: list[str] = []
        owners: list[int] = []
        for number, text in left:
            body = [f".long {MARK | number:#x}", *text.replace("|", "\n").split("\n")]
            lines += body
            owners += [number] * len(body)
        done = subprocess.run([str(LLVM / "llvm-mc"), "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-filetype=obj"],
                              input="\n".join([*lines, f".long {MARK | 0xFFFF:#x}", ""]).encode(), capture_output=True)
        wrong = {owners[int(n) - 1] for n in re.findall(rb"<stdin>:(\d+):", done.stderr)}
        if not wrong:
            break
        left = [item for item in left if item[0] not in wrong]
    words, pieces, piece = memoryview(done.stdout[: len(done.stdout) & ~3]).cast("I"), [], None
    for word in words:
        if word & 0xFFFF0000 == MARK:
            if piece:
                pieces.append(piece)
            if word == MARK | 0xFFFF:
                return pieces
            piece = b""
        elif piece is not None:
            piece += struct.pack("<I", word)
    raise RuntimeError(f"no end of the fragments of {arch}")


class Pieces:
    """What programs of one architecture are made of."""

    def __init__(self, sim: Sim, arch: str, folder: str) -> None:
        self.arch = arch
        family = next(f for f in FIRST_CODE if arch.startswith(f))
        body = f"{FIRST_CODE[family]}\n .fill {WORDS}, 4, {NOP:#x}"
        self.image = assemble(kernel(arch, "k", body) + _open_metadata(arch), arch, folder)
        sections = tables(self.image)[1]
        self.code = next(s[4] for s in sections if s[1] == 1 and s[2] & 4)
        self.descriptor = next(s[4] for s in sections if s[1] == 1 and s[2] == 2 and s[5] == 64)
        nops = struct.pack("<I", NOP) * 8
        self.start = self.image.index(nops, self.code)
        texts = FRAGMENTS.strip().split("\n")
        for name, value in LITERALS.items():
            texts = [re.sub(rf"\b{name}\b", f"{value:#x}", text) for text in texts]
        self.fragments = _assembled(arch, texts)
        self.instructions = self._instructions(sim)
        self.mnemonics = sorted(self.instructions)

    def _instructions(self, sim: Sim) -> dict[str, list[bytes]]:
        """Random words that the disassembler reads as instructions, by mnemonic."""
        rng = random.Random(self.arch)
        found: dict[str, list[bytes]] = {}
        for _ in range(20):
            data = bytearray(self.image)
            for at in range(self.start, self.start + 4 * (WORDS - 4), 16):
                words = struct.pack("<I", rng.choice(FAMILIES) << 24 | _fields(rng) & 0xFFFFFF)
                words += struct.pack("<II", _fields(rng), _fields(rng))
                data[at : at + 12] = words
            text = ctypes.c_char_p()
            sim.check(sim.lib.flysimDisassemble(bytes(data), ctypes.c_size_t(len(data)), ctypes.byref(text)))
            listing = json.loads(text.value or b"[]")
            begin = listing[0]["address"]
            for here, behind in zip(listing, listing[1:], strict=False):
                mnemonic = here["text"].split(" ")[0]
                at = self.code + here["address"] - begin
                if at % 16 == self.start % 16 and re.fullmatch(r"[a-z]+_\w+", mnemonic) and mnemonic != "s_nop":
                    kept = found.setdefault(mnemonic, [])
                    if len(kept) < 40:
                        kept.append(bytes(data[at : at + behind["address"] - here["address"]]))
        return found

    def piece(self, rng: random.Random) -> bytes:
        """One fragment or instruction."""
        if rng.random() < 0.5:
            return rng.choice(self.instructions[rng.choice(self.mnemonics)])
        words = list(memoryview(rng.choice(self.fragments)).cast("I"))
        return struct.pack(f"<{len(words)}I", *(_literal(rng, w) for w in words))

    def program(self, rng: random.Random) -> Wild:
        """A random program with a descriptor and a launch that may not fit it."""
        data = bytearray(self.image)
        at = self.start
        for _ in range(rng.choice((1, 2, 4, 8, 12, 40))):
            piece = self.piece(rng)
            if at + len(piece) > self.start + 4 * WORDS:
                break
            data[at : at + len(piece)] = piece
            at += len(piece)
        if rng.random() < 0.3:
            for _ in range(rng.randrange(1, 4)):
                _damage(rng, data, self.descriptor)
        odd = tuple(edge(rng, 32) for _ in range(3))
        grid = rng.choice(((1, 1, 1), (2, 1, 1), (4, 2, 1), (4, 2, 4)))
        block = rng.choice(((64, 1, 1), (64, 1, 1), (32, 1, 1), (256, 1, 1), (1, 7, 9), (40, 1, 1)))
        cluster = rng.choice(((2, 1, 1), (2, 2, 1), (1, 1, 4), grid))
        clustered = rng.random() < (0.4 if self.arch == "gfx1250" else 0.02)
        return Wild(bytes(data), grid, block if _mostly(rng) else odd,
                    (cluster if _mostly(rng) else odd) if clustered else None,
                    rng.choice((0, 0, 0, 1024, 60000)) if _mostly(rng) else edge(rng, 32), rng.random() < 0.05)


def _mostly(rng: random.Random) -> bool:
    return rng.random() < 0.96


def _open_metadata(arch: str) -> str:
    """Metadata that asks for no size of work-groups."""
    return metadata(arch, ["k"]).replace("    .reqd_workgroup_size: [64, 1, 1]\n", "")


def _fields(rng: random.Random) -> int:
    """A word whose bytes name registers that programs use, or any."""
    return int.from_bytes(bytes(rng.randrange(32) if rng.random() < 0.6 else rng.randrange(256) for _ in range(4)))


def _literal(rng: random.Random, word: int) -> int:
    if word == ANY:
        return edge(rng, 32)
    if word == HIGH:
        return rng.choice((0, 0x7FFF, 0x8001_0000, 0x8002_0000, 0xFFFF_FFFF, rng.getrandbits(32)))
    return rng.choice((2, 4, 6, 8, 12, 20, 60, 200, edge(rng, 32))) if word == NEAR else word


def _damage(rng: random.Random, data: bytearray, at: int) -> None:
    """Another value in one field of the kernel descriptor."""
    kind = rng.randrange(9)
    if kind < 3:  # LDS, private memory, arguments
        put(data, at + 4 * kind, 4, edge(rng, 32))
    elif kind == 3:  # the entry
        offset = int.from_bytes(data[at + 16 : at + 24], "little", signed=True)
        put(data, at + 16, 8, offset + rng.choice((-4, 2, 4, 6, 8, 1 << 12, 1 << 40, edge(rng, 64))))
    elif kind == 4:  # resources of a wave
        put(data, at + rng.choice((44, 48, 52)), 4, rng.getrandbits(32))
    elif kind == 5:  # registers
        words = int.from_bytes(data[at + 48 : at + 52], "little")
        put(data, at + 48, 4, words & ~0x3FF | rng.getrandbits(10))
    elif kind == 6:  # user SGPRs
        words = int.from_bytes(data[at + 52 : at + 56], "little")
        put(data, at + 52, 4, words & ~0x7E | rng.getrandbits(6) << 1 | rng.getrandbits(1) << 6)
    elif kind == 7:  # which of them, wave size, dynamic stack
        put(data, at + 56, 2, rng.getrandbits(16))
    else:  # preloaded arguments
        put(data, at + 58, 2, rng.choice((rng.getrandbits(16), 0x7F, 16, 16 | 500 << 7)))
