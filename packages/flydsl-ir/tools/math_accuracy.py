"""Measures the accuracy of math operations after fly-expand-math, against float64 on the host.

    python packages/flydsl-ir/tools/math_accuracy.py [--arch gfx942] [--count 200000]

Runs generated kernels on the device of flydsl.runtime (the simulator, if there is no GPU) and prints the largest error
in units of the last place of the correctly rounded float32 result. Results below the smallest normal number are left
out.
"""

from __future__ import annotations

import argparse
import ctypes
import math
from collections.abc import Callable

import numpy as np

from flydsl import ir as flyir
from flydsl._mlir import ir, passmanager

#: Operation: (reference on float64, lowest and highest argument, spread evenly (linear) or by exponent (log)).
CASES: dict[str, tuple[Callable[..., np.ndarray], float, float, str]] = {
    "acos": (np.arccos, -1, 1, "linear"),
    "acosh": (np.arccosh, 1, 1e30, "log"),
    "asin": (np.arcsin, -1, 1, "linear"),
    "asinh": (np.arcsinh, -1e30, 1e30, "log"),
    "atan": (np.arctan, -1e6, 1e6, "log"),
    "atanh": (np.arctanh, -1, 1, "linear"),
    "cbrt": (np.cbrt, -1e30, 1e30, "log"),
    "cos": (np.cos, -1e4, 1e4, "linear"),
    "cosh": (np.cosh, -88, 88, "linear"),
    "erf": (np.vectorize(math.erf), -5, 5, "log"),
    "erfc": (np.vectorize(math.erfc), -5, 9, "linear"),
    "exp": (np.exp, -87, 88, "linear"),
    "exp2": (np.exp2, -126, 128, "linear"),
    "expm1": (np.expm1, -20, 88, "log"),
    "log": (np.log, 1e-37, 1e38, "log"),
    "log10": (np.log10, 1e-37, 1e38, "log"),
    "log1p": (np.log1p, -1, 1e30, "log"),
    "log2": (np.log2, 1e-37, 1e38, "log"),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1e-37, 1e38, "log"),
    "sin": (np.sin, -1e4, 1e4, "linear"),
    "sinh": (np.sinh, -88, 88, "log"),
    "sqrt": (np.sqrt, 1e-37, 1e38, "log"),
    "tan": (np.tan, -1e4, 1e4, "linear"),
    "tanh": (np.tanh, -10, 10, "log"),
    "atan2": (np.arctan2, -1e6, 1e6, "log"),
    "powf": (np.power, 1e-6, 1e6, "log"),
}
BINARY = ("atan2", "powf")


def arguments(low: float, high: float, spread: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """float32 arguments between ``low`` and ``high``."""
    if spread == "linear":
        return rng.uniform(low, high, count).astype(np.float32)
    largest = max(abs(low), abs(high))
    magnitude = np.exp2(rng.uniform(math.log2(low) if low > 0 else -20, math.log2(largest), count))
    values = magnitude * (rng.choice([-1, 1], count) if low < 0 else 1)
    return np.clip(values, low, high).astype(np.float32)


def compile_operation(name: str, arch: str) -> bytes:
    """A code object whose kernel ``k`` applies the operation to a pair of arrays."""
    return compile_body(f"%z = math.{name} %x, %y : f32" if name in BINARY else f"%z = math.{name} %x : f32", arch)


def compile_body(body: str, arch: str) -> bytes:
    """A code object whose kernel ``k`` computes ``%z`` from ``%x`` and ``%y``, all f32, for every element of arrays."""
    text = f"""gpu.module @m {{ gpu.func @k(%a: !llvm.ptr<1>, %b: !llvm.ptr<1>, %c: !llvm.ptr<1>) kernel {{
      %t = gpu.thread_id x
      %g = gpu.block_id x
      %n = arith.constant 64 : index
      %o = arith.muli %g, %n : index
      %s = arith.addi %o, %t : index
      %i = arith.index_cast %s : index to i32
      %p = llvm.getelementptr %a[%i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
      %q = llvm.getelementptr %b[%i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
      %r = llvm.getelementptr %c[%i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
      %x = llvm.load %p : !llvm.ptr<1> -> f32
      %y = llvm.load %q : !llvm.ptr<1> -> f32
      {body}
      llvm.store %z, %r : f32, !llvm.ptr<1>
      gpu.return }} }}"""
    with ir.Context():
        module = ir.Module.parse(text)
        passmanager.PassManager.parse(
            "builtin.module(gpu.module(fly-expand-math,convert-scf-to-cf,convert-gpu-to-rocdl{chipset="
            + arch
            + " index-bitwidth=32 runtime=HIP use-bare-ptr-memref-call-conv=true}),reconcile-unrealized-casts)",
        ).run(module.operation)
        return flyir.compile_hsaco(module, arch)


def launch(hip: ctypes.CDLL, hsaco: bytes, arrays: list[np.ndarray]) -> None:
    """Run kernel ``k`` with one work-item for each element."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    pointers = [ctypes.c_void_p() for _ in arrays]

    def check(code: int) -> None:
        if code:
            raise RuntimeError(f"HIP error {code}")

    check(hip.hipModuleLoadData(ctypes.byref(module), hsaco))
    check(hip.hipModuleGetFunction(ctypes.byref(function), module, b"k"))
    for pointer, array in zip(pointers, arrays, strict=True):
        check(hip.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(array.nbytes)))
        check(hip.hipMemcpy(pointer, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes), 1))
    slots = (ctypes.c_void_p * len(arrays))(*[ctypes.cast(ctypes.byref(p), ctypes.c_void_p) for p in pointers])
    check(hip.hipModuleLaunchKernel(function, arrays[0].size // 64, 1, 1, 64, 1, 1, 0, None, slots, None))
    check(hip.hipDeviceSynchronize())
    check(
        hip.hipMemcpy(arrays[-1].ctypes.data_as(ctypes.c_void_p), pointers[-1], ctypes.c_size_t(arrays[-1].nbytes), 2)
    )
    for pointer in pointers:
        hip.hipFree(pointer)


def measure(hip: ctypes.CDLL, name: str, arch: str, count: int) -> tuple[float, float]:
    """The largest error in ulp, and the argument (first of a pair) where it occurs."""
    reference, low, high, spread = CASES[name]
    rng = np.random.default_rng(0)
    x = arguments(low, high, spread, count, rng)
    y = arguments(-1e6, 1e6, "log", count, rng) if name == "atan2" else rng.uniform(-6, 6, count).astype(np.float32)
    result = np.full(count, np.nan, np.float32)
    launch(hip, compile_operation(name, arch), [x, y, result])
    with np.errstate(all="ignore"):
        wide = [x.astype(np.float64), y.astype(np.float64)] if name in BINARY else [x.astype(np.float64)]
        exact = reference(*wide)
        nearest = exact.astype(np.float32)
        ulp = np.abs(result.astype(np.float64) - exact) / np.spacing(np.abs(nearest)).astype(np.float64)
    ulp[~np.isfinite(nearest) & (result == nearest)] = 0
    ulp[np.abs(exact) < np.finfo(np.float32).tiny] = 0
    ulp[np.isnan(ulp)] = np.inf
    ulp[np.isnan(exact) & np.isnan(result)] = 0
    worst = int(np.argmax(ulp))
    return float(ulp[worst]), float(x[worst])


def main() -> None:
    """Command line."""
    from flydsl import runtime

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--count", type=int, default=64 * 2048)
    parser.add_argument("operations", nargs="*", default=list(CASES))
    options = parser.parse_args()
    hip = ctypes.CDLL(str(runtime.library_path()))
    print(f"| operation | largest error on {options.arch} (ulp) | at |\n|---|---|---|")
    for name in options.operations:
        error, where = measure(hip, name, options.arch, options.count // 64 * 64)
        print(f"| {name} | {error:.3g} | {where:.6g} |", flush=True)


if __name__ == "__main__":
    main()
