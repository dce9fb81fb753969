"""Code from elsewhere: a device function in LLVM's language, called by a kernel and linked into its code object.

`fx.extern.ffi` declares the function, `link_extern` says which file defines it: LLVM assembly as here, or bitcode as
`clang --target=amdgcn-amd-amdhsa -emit-llvm -c` and the device libraries of ROCm have it. Linked functions are inlined,
so a call costs nothing of its own.

    python docs/examples/11_extern_link.py
"""

from __future__ import annotations

from pathlib import Path

import _common as common
import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.runtime as rt
from flydsl.compiler.extern_link import link_extern

THREADS = 256
SHIFT = 0.5

# Symbol, types of the arguments, and type of the result, as the file has them. `is_pure`: it touches no memory.
smooth_step = link_extern(
    fx.extern.ffi("smooth_step", ["float32", "float32"], "float32", is_pure=True),
    bitcode_path=str(Path(__file__).with_suffix(".ll")),
)


@flyc.kernel
def smooth_kernel(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32, shift: fx.Float32):
    """One thread computes one value."""
    i = fx.block_idx.x * THREADS + fx.thread_idx.x
    if i < n:
        Y[i] = fx.Float32(smooth_step(X[i], shift))


@flyc.jit
def smooth(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32, shift: fx.Float32, stream: fx.Stream = fx.Stream(None)):
    """Y = 3 t^2 - 2 t^3 with t = X + shift, kept within 0 and 1, of n float32 values."""
    smooth_kernel(X, Y, n, shift).launch(grid=fx.ceildiv(n, THREADS), block=THREADS, stream=stream)


def main() -> None:
    """Call the linked function for every value, and look for the call in the machine code."""
    x = common.random_f32((1000,), 1)
    y = common.poisoned_like(x)
    compiled, start = common.compiled(smooth, x, y, 1000, SHIFT, None)
    print(f"1000 float32 on {common.describe_device()}: {start}")
    compiled(x, y, 1000, SHIFT, None)
    common.synchronize()

    t = np.clip(common.to_host(x).astype(np.float64) + SHIFT, 0.0, 1.0)
    common.check("smooth step", y, t * t * (3.0 - 2.0 * t), 1e-6)
    if rt.kind() == "sim":  # whose disassembler is at hand
        calls = [i for i in rt.disasm(compiled.artifact.hsaco) if i.text.startswith(("s_swappc", "s_swap_pc"))]
        common.expect("no call is left in the machine code:", not calls)


if __name__ == "__main__":
    main()
