"""Every matrix instruction of an architecture through tiled MMA, partition, retile and copy, against torch.

    FLYDSL_SIM_ARCH=gfx950 python tests/matrix_atoms.py
"""

import sys
from typing import NamedTuple

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.runtime as rt
from flydsl._mlir import ir
from flydsl.runtime.device import get_rocm_arch

F16, BF16, F32, I8, I4 = fx.Float16, fx.BFloat16, fx.Float32, fx.Int8, fx.Int4
FNUZ, FP8, BF8, FP4 = fx.Float8E4M3FNUZ, fx.Float8E4M3FN, fx.Float8E5M2, fx.Float4E2M1FN

TORCH = {F16: torch.float16, BF16: torch.bfloat16, F32: torch.float32, FNUZ: torch.float8_e4m3fnuz,
         FP8: torch.float8_e4m3fn, BF8: torch.float8_e5m2}
FP4_VALUES = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)
SCALE_A, SCALE_B = 2.0, 4.0


class Atom(NamedTuple):
    """An instruction: its extents, the types of A and B, and whether it multiplies with scales of blocks."""

    m: int
    n: int
    k: int
    a: type
    b: type
    scaled: bool = False


def dense(m: int, n: int, k: int, *operands: type) -> list[Atom]:
    """Atoms of these extents, A and B of one type."""
    return [Atom(m, n, k, operand, operand) for operand in operands]


def mixed(m: int, n: int, k: int, scaled: bool = False) -> list[Atom]:
    """Atoms of both 8-bit types, one of them for each operand."""
    return [Atom(m, n, k, FP8, BF8, scaled), Atom(m, n, k, BF8, FP8, scaled)]


MFMA = [*dense(16, 16, 4, F32), *dense(32, 32, 2, F32), *dense(16, 16, 16, F16, BF16), *dense(32, 32, 8, F16, BF16),
        *dense(16, 16, 32, I8), *dense(32, 32, 16, I8)]
ATOMS = {
    "gfx942": [*MFMA, *dense(16, 16, 32, FNUZ), *dense(32, 32, 16, FNUZ)],
    "gfx950": [*MFMA, *dense(16, 16, 32, F16, BF16, FP8, BF8), *dense(32, 32, 16, F16, BF16, FP8),
               *mixed(16, 16, 32), *mixed(32, 32, 16), *mixed(16, 16, 128, scaled=True),
               *mixed(32, 32, 64, scaled=True), Atom(16, 16, 128, FP4, FP4, True), Atom(32, 32, 64, FP4, FP4, True)],
    "gfx1100": dense(16, 16, 16, F16, BF16, I8, I4),
    "gfx1201": [*dense(16, 16, 16, F16, BF16, FP8, BF8, I8, I4), *dense(16, 16, 32, I4), *mixed(16, 16, 16)],
    "gfx1250": [*dense(16, 16, 32, F16, BF16), *dense(16, 16, 4, F32), *dense(16, 16, 64, FP8, I8),
                *dense(16, 16, 128, FP8), *mixed(16, 16, 64), *mixed(16, 16, 128), *mixed(16, 16, 128, scaled=True),
                Atom(16, 16, 128, FP4, FP4, True)],
}


@flyc.kernel
def product_kernel(bytes_a: fx.Tensor, bytes_b: fx.Tensor, C: fx.Tensor, mma: fx.TiledMma, depth: fx.Constexpr[int],
                   a_type: type, b_type: type, scales: fx.Constexpr):
    t = fx.thread_idx.x
    if fx.const_expr(scales):
        mma = mma.set_value({"scale_a": fx.Int32(scales[0]), "scale_b": fx.Int32(scales[1])})
    thread = mma.get_slice(t)

    def matrix(memory, operand, rows):
        return fx.make_view(fx.recast_iter(operand, fx.get_iter(memory)), fx.make_ordered_layout((rows, depth), (1, 0)))

    rows, cols = C.shape.unpack()
    A, B = matrix(bytes_a, a_type, rows), matrix(bytes_b, b_type, cols)
    # An element at a time, or the bytes that it is packed in.
    load_a, load_b = (fx.make_copy_atom(fx.UniversalCopy(max(x.width, 32 if x.width < 8 else 0)), x)
                      for x in (a_type, b_type))
    store = fx.make_copy_atom(fx.UniversalCopy32b(), C.dtype)
    copy_a, copy_b = fx.make_tiled_copy_A(load_a, mma).get_slice(t), fx.make_tiled_copy_B(load_b, mma).get_slice(t)
    copy_c = fx.make_tiled_copy_C(store, mma).get_slice(t)
    a, b, c = thread.make_fragment_A(A), thread.make_fragment_B(B), thread.make_fragment_C(C)
    c.fill(0)
    fx.copy(load_a, copy_a.partition_S(A), copy_a.retile(a))
    fx.copy(load_b, copy_b.partition_S(B), copy_b.retile(b))
    fx.gemm(mma, c, a, b, c)
    fx.copy(store, copy_c.retile(c), copy_c.partition_D(C))


def instruction_of(arch: str, m: int, n: int, k: int, a: type, b: type, scaled: bool):
    """The descriptor of an atom."""
    if scaled:
        return (fx.rocdl.cdna4.MFMA_Scale if arch == "gfx950" else fx.rocdl.WMMAScale)(m, n, k, a, b)
    if arch.startswith("gfx9"):
        if a is b:
            return fx.rocdl.MFMA(m, n, k, a)
        return ir.Type.parse(f"!fly_rocdl.cdna3.mfma<{m}x{n}x{k}, ({a.ir_type}, {b.ir_type}) -> f32>")
    if a.is_integer:
        return fx.rocdl.WMMA(m, n, k, a, fx.Int32, sign_a=True, sign_b=True)
    return fx.rocdl.WMMA(m, n, k, a, F32) if a is b else fx.rocdl.WMMA(m, n, k, a, F32, elem_ty_b=b)


@flyc.jit
def product(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, mnk: fx.Constexpr, a_type: type, b_type: type,
            scaled: fx.Constexpr[bool], depth: fx.Constexpr[int], waves: fx.Constexpr, arch: fx.Constexpr[str],
            stream: fx.Stream = fx.Stream(None)):
    instruction = instruction_of(arch, *mnk, a_type, b_type, scaled)
    mma = fx.make_tiled_mma(fx.make_mma_atom(instruction), fx.make_layout(waves, (1, waves[0], 0)))
    threads = fx.size(mma.thr_layout_vmnk).unpack()
    # Powers of two as f8E8M0FNU, for every block.
    scales = (0x80808080 - (1 << 32), 0x81818181 - (1 << 32)) if scaled else ()
    product_kernel(A, B, C, mma, depth, a_type, b_type, scales).launch(grid=1, block=threads, stream=stream)


def random_matrix(rows: int, depth: int, operand: type, random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """(bytes in memory, values) of a row-major matrix."""
    if operand is I8:
        values = torch.randint(-128, 128, (rows, depth), generator=random, dtype=torch.int8)
        return values.view(torch.uint8), values.double()
    if operand.width == 4:
        codes = torch.randint(0, 16, (rows, depth), generator=random, dtype=torch.uint8)
        values = FP4_VALUES[codes.long()] if operand is FP4 else ((codes ^ 8).double() - 8)
        return codes[:, ::2] | codes[:, 1::2] << 4, values
    values = torch.randn((rows, depth), generator=random).to(TORCH[operand])
    return values.view(torch.uint8), values.double()


def error_of(arch: str, atom: Atom, waves: tuple, repeats: tuple) -> tuple[float, float]:
    """(error, bound) of the product of random matrices, relative to the sum of the absolute products."""
    rows, cols, depth = atom.m * waves[0] * repeats[0], atom.n * waves[1] * repeats[1], atom.k * repeats[2]
    random = torch.Generator().manual_seed(atom.m * 1000 + atom.k)
    (bytes_a, a), (bytes_b, b) = (random_matrix(x, depth, t, random) for x, t in ((rows, atom.a), (cols, atom.b)))
    exactly = atom.a.is_integer
    c = torch.full((rows, cols), -77, dtype=torch.int32) if exactly else torch.full((rows, cols), float("nan"))
    memory = [flyc.from_dlpack(x.contiguous().flatten(), assumed_align=16) for x in (bytes_a, bytes_b)]
    product(*memory, flyc.from_dlpack(c), atom[:3], atom.a, atom.b, atom.scaled, depth, waves, arch)
    rt.synchronize()
    a = a * (SCALE_A * SCALE_B if atom.scaled else 1)
    exact, size = a @ b.T, a.abs() @ b.abs().T
    error = ((c.double() - exact).abs() / size.clamp_min(1e-30)).max().item()
    return error, 0.0 if exactly else depth * 2.0**-24


def main() -> int:
    """Run all atoms of the device's architecture; 1 if one is wrong."""
    arch, wrong = get_rocm_arch().split(":")[0], 0
    for atom in ATOMS[arch]:
        for waves, repeats in (((1, 1, 1), (1, 1, 1)), ((2, 2, 1), (2, 1, 2))):
            error, bound = error_of(arch, atom, waves, repeats)
            good = error <= bound
            wrong += not good
            types = " ".join(dict.fromkeys(t.__name__ for t in (atom.a, atom.b))) + " scaled" * atom.scaled
            name = f"{'x'.join(map(str, atom[:3]))} {types}"
            print(f"{arch} {name} {waves[0]}x{waves[1]} waves: {error:.2e} of {bound:.2e} {'PASS' if good else 'FAIL'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
