"""Every dense matrix instruction of an architecture through tiled MMA, partition, retile and copy, against torch.

    FLYDSL_SIM_ARCH=gfx950 python tests/matrix_atoms.py
"""

import sys

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.runtime as rt
from flydsl.runtime.device import get_rocm_arch

TORCH = {
    fx.Float16: torch.float16, fx.BFloat16: torch.bfloat16, fx.Float32: torch.float32, fx.Int8: torch.int8,
    fx.Float8E4M3FNUZ: torch.float8_e4m3fnuz, fx.Float8E4M3FN: torch.float8_e4m3fn, fx.Float8E5M2: torch.float8_e5m2,
}
F16, BF16, F32, I8, I32 = fx.Float16, fx.BFloat16, fx.Float32, fx.Int8, fx.Int32

MFMA = [(16, 16, 4, F32), (32, 32, 2, F32), (16, 16, 16, F16), (32, 32, 8, F16), (16, 16, 16, BF16), (32, 32, 8, BF16),
        (16, 16, 32, I8), (32, 32, 16, I8)]
ATOMS = {
    "gfx942": [*MFMA, (16, 16, 32, fx.Float8E4M3FNUZ), (32, 32, 16, fx.Float8E4M3FNUZ)],
    "gfx950": [*MFMA, (16, 16, 32, F16), (32, 32, 16, F16), (16, 16, 32, BF16), (32, 32, 16, BF16),
               (16, 16, 32, fx.Float8E4M3FN), (32, 32, 16, fx.Float8E4M3FN), (16, 16, 32, fx.Float8E5M2)],
    "gfx1201": [(16, 16, 16, t) for t in (F16, BF16, fx.Float8E4M3FN, fx.Float8E5M2, I8)],
    "gfx1250": [(16, 16, 32, F16), (16, 16, 32, BF16), (16, 16, 4, F32), (16, 16, 64, fx.Float8E4M3FN),
                (16, 16, 128, fx.Float8E4M3FN), (16, 16, 64, I8)],
}


@flyc.kernel
def product_kernel(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, mma: fx.TiledMma, operand: type, sum: type):
    t = fx.thread_idx.x
    thread = mma.get_slice(t)
    load = fx.make_copy_atom(fx.UniversalCopy(operand.width), operand)
    store = fx.make_copy_atom(fx.UniversalCopy32b(), sum)
    copy_a, copy_b = fx.make_tiled_copy_A(load, mma).get_slice(t), fx.make_tiled_copy_B(load, mma).get_slice(t)
    copy_c = fx.make_tiled_copy_C(store, mma).get_slice(t)
    a, b, c = thread.make_fragment_A(A), thread.make_fragment_B(B), thread.make_fragment_C(C)
    c.fill(0)
    fx.copy(load, copy_a.partition_S(A), copy_a.retile(a))
    fx.copy(load, copy_b.partition_S(B), copy_b.retile(b))
    fx.gemm(mma, c, a, b, c)
    fx.copy(store, copy_c.retile(c), copy_c.partition_D(C))


@flyc.jit
def product(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, mnk: fx.Constexpr, operand: type, sum: type,
            waves: fx.Constexpr, arch: fx.Constexpr[str], stream: fx.Stream = fx.Stream(None)):
    if fx.const_expr(arch.startswith("gfx9")):
        instruction = fx.rocdl.MFMA(*mnk, operand, sum)
    elif fx.const_expr(sum is fx.Int32):
        instruction = fx.rocdl.WMMA(*mnk, operand, sum, sign_a=True, sign_b=True)
    else:
        instruction = fx.rocdl.WMMA(*mnk, operand, sum)
    mma = fx.make_tiled_mma(fx.make_mma_atom(instruction), fx.make_layout(waves, (1, waves[0], 0)))
    threads = fx.size(mma.thr_layout_vmnk).unpack()
    product_kernel(A, B, C, mma, operand, sum).launch(grid=1, block=threads, stream=stream)


def error_of(arch: str, m: int, n: int, k: int, operand: type, waves: tuple, repeats: tuple) -> tuple[float, float]:
    """(error, bound) of the product of random matrices, relative to the sum of the absolute products."""
    rows, cols, depth = m * waves[0] * repeats[0], n * waves[1] * repeats[1], k * repeats[2]
    random = torch.Generator().manual_seed(m * 1000 + k)
    if operand is fx.Int8:
        a, b = (torch.randint(-128, 128, (x, depth), generator=random, dtype=torch.int8) for x in (rows, cols))
        c, sum = torch.full((rows, cols), -77, dtype=torch.int32), fx.Int32
    else:
        a, b = (torch.randn((x, depth), generator=random).to(TORCH[operand]) for x in (rows, cols))
        c, sum = torch.full((rows, cols), float("nan")), fx.Float32
    tensors = [flyc.from_dlpack(t) if operand.width > 8 or operand is fx.Int8 else flyc.from_torch_tensor(t)
               for t in (a, b)]
    product(*tensors, flyc.from_dlpack(c), (m, n, k), operand, sum, waves, arch)
    rt.synchronize()
    exact, size = a.double() @ b.double().T, a.double().abs() @ b.double().abs().T
    error = ((c.double() - exact).abs() / size.clamp_min(1e-30)).max().item()
    return error, 0.0 if sum is fx.Int32 else depth * 2.0**-24


def main() -> int:
    """Run all atoms of the device's architecture; 1 if one is wrong."""
    arch, wrong = get_rocm_arch().split(":")[0], 0
    for atom in ATOMS[arch]:
        for waves, repeats in (((1, 1, 1), (1, 1, 1)), ((2, 2, 1), (2, 1, 2))):
            error, bound = error_of(arch, *atom, waves, repeats)
            good = error <= bound
            wrong += not good
            name = f"{'x'.join(map(str, atom[:3]))} {atom[3].__name__}"
            print(f"{arch} {name} {waves[0]}x{waves[1]} waves: {error:.2e} of {bound:.2e} {'PASS' if good else 'FAIL'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
