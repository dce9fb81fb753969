"""C compiled by clang for an AMD GPU and for the host, from the same source."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
from functools import cache
from pathlib import Path

from hiplib import LLVM

PRELUDE = r"""
typedef signed char i8; typedef unsigned char u8; typedef short i16; typedef unsigned short u16;
typedef int i32; typedef unsigned u32; typedef long long i64; typedef unsigned long long u64;
typedef _Float16 f16; typedef __bf16 bf16; typedef float f32; typedef double f64;
typedef f16 v2f16 __attribute__((ext_vector_type(2)));
typedef i16 v2i16 __attribute__((ext_vector_type(2)));
typedef u16 v2u16 __attribute__((ext_vector_type(2)));
typedef u8 v4u8 __attribute__((ext_vector_type(4)));
typedef i8 v4i8 __attribute__((ext_vector_type(4)));
typedef f32 v2f32 __attribute__((ext_vector_type(2)));
typedef f32 v4f32 __attribute__((ext_vector_type(4)));
typedef u32 v4u32 __attribute__((ext_vector_type(4)));
typedef u64 v2u64 __attribute__((ext_vector_type(2)));
#define NOINLINE __attribute__((noinline))
#ifdef __AMDGCN__
#define KERNEL __attribute__((device_kernel))
#define GLOBAL __attribute__((address_space(1)))
#define LDS __attribute__((address_space(3)))
#define TID() __builtin_amdgcn_workitem_id_x()
#define WG() __builtin_amdgcn_workgroup_id_x()
#else
#define GLOBAL
#define LDS
#endif
void *memcpy(void *, const void *, __SIZE_TYPE__);
#ifndef __AMDGCN__
/* Old run-time libraries lack these: round to nearest even, from double through an odd float. */
bf16 __truncsfbf2(f32 x) {
  u32 u; memcpy(&u, &x, 4);
  u = (u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16;
  u16 h = u; bf16 r; memcpy(&r, &h, 2); return r;
}
bf16 __truncdfbf2(f64 x) {
  f32 f = x; u32 u; memcpy(&u, &f, 4);
  if (f == f && (f64)f != x && !(u & 1)) u += ((f64)f > x) == ((i32)u >= 0) ? -1 : 1;
  memcpy(&f, &u, 4); return __truncsfbf2(f);
}
#endif
"""

COMMON = ["-nostdinc", "-ffp-contract=off", "-fwrapv", "-fno-math-errno", "-w", "-x", "c", "-std=gnu17"]


@cache
def find_clang() -> str | None:
    """A clang that can compile for AMD GPUs, or None."""
    for name in (str(LLVM / "clang"), "clang-22", "clang"):
        path = shutil.which(name)
        if not path:
            continue
        done = subprocess.run([path, "-print-targets"], capture_output=True, text=True)
        if "amdgcn" in done.stdout and "x86-64" in done.stdout:
            return path
    return None


def _compile(command: list[str], source: str) -> None:
    done = subprocess.run(command, input=source, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr[:4000]}")


@cache
def compile_gpu(source: str, arch: str, opt: str, tmp: str, *flags: str) -> bytes:
    """C text to a linked code object."""
    base = Path(tmp) / hashlib.sha1(f"{source}{arch}{opt}{flags}".encode()).hexdigest()[:16]
    clang = find_clang()
    assert clang
    target = ["--target=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-nogpulib", f"-O{opt}"]
    _compile([clang, *target, *COMMON, *flags, "-c", "-o", f"{base}.o", "-"], PRELUDE + source)
    _compile([str(LLVM / "ld.lld"), "-shared", f"{base}.o", "-o", f"{base}.hsaco"], "")
    return Path(f"{base}.hsaco").read_bytes()


@cache
def compile_host(source: str, tmp: str, opt: str = "1") -> ctypes.CDLL:
    """C text to a shared library of the host."""
    base = Path(tmp) / ("host" + hashlib.sha1(f"{source}{opt}".encode()).hexdigest()[:16])
    clang = find_clang()
    assert clang
    rounding = ["-Xclang", "-ffloat16-excess-precision=none", "-Xclang", "-fbfloat16-excess-precision=none"]
    flags = [*rounding, "-msse4.2", "-mfma", "-mf16c"]
    _compile([clang, f"-O{opt}", "-shared", "-fPIC", *COMMON, *flags, "-o", f"{base}.so", "-"], PRELUDE + source)
    return ctypes.CDLL(f"{base}.so")
