"""Measures the accuracy of math operations after fly-expand-math, against wider floats on the host.

    python packages/flydsl-ir/tools/math_accuracy.py [--arch gfx942] [--type f32] [--count 200000] [operation...]

Runs generated kernels on the device of flydsl.runtime (the simulator, if there is no GPU) and prints the largest error
in units of the last place of the correctly rounded result. f32 is compared with float64, f64 with the 80-bit floats of
x86 (mpmath for the error function). Results below the smallest normal number are left out.
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


def _mpmath(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """A function of mpmath on arrays of float64, as longdouble."""

    def function(x: np.ndarray) -> np.ndarray:
        import mpmath

        mpmath.mp.prec = 120
        exact = [getattr(mpmath, name)(mpmath.mpf(float(value))) for value in x]
        # The sum of two float64 carries more bits than longdouble has.
        high = np.array([float(value) for value in exact], np.longdouble)
        low = np.array([float(value - float(value)) if mpmath.isfinite(value) else 0 for value in exact], np.longdouble)
        return high + low

    return function


#: The same for f64. Some operations appear twice, with the range of arguments as a suffix.
CASES64: dict[str, tuple[Callable[..., np.ndarray], float, float, str]] = {
    "acos": (np.arccos, -1, 1, "linear"),
    "acosh": (np.arccosh, 1, 1e300, "log"),
    "acosh:one": (np.arccosh, 1, 1.01, "linear"),
    "asin": (np.arcsin, -1, 1, "linear"),
    "asinh": (np.arcsinh, -1e300, 1e300, "log"),
    "atan": (np.arctan, -1e10, 1e10, "log"),
    "atanh": (np.arctanh, -1, 1, "linear"),
    "cbrt": (np.cbrt, -1e300, 1e300, "log"),
    "cos": (np.cos, -1e5, 1e5, "linear"),
    "cos:large": (np.cos, -1e308, 1e308, "log"),
    "cosh": (np.cosh, -710, 710, "linear"),
    "erf": (_mpmath("erf"), -7, 7, "log"),
    "erfc": (_mpmath("erfc"), -6, 26, "linear"),
    "exp": (np.exp, -708, 709, "linear"),
    "exp2": (np.exp2, -1022, 1023.9, "linear"),
    "expm1": (np.expm1, -40, 709, "log"),
    "log": (np.log, 1e-307, 1e308, "log"),
    "log:one": (np.log, 0.5, 2, "linear"),
    "log10": (np.log10, 1e-3, 1e3, "log"),
    "log1p": (np.log1p, -1, 1e300, "log"),
    "log2": (np.log2, 1e-3, 1e3, "log"),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1e-300, 1e300, "log"),
    "sin": (np.sin, -1e5, 1e5, "linear"),
    "sin:large": (np.sin, -1e308, 1e308, "log"),
    "sinh": (np.sinh, -710, 710, "log"),
    "sqrt": (np.sqrt, 1e-300, 1e300, "log"),
    "tan": (np.tan, -1e5, 1e5, "linear"),
    "tan:large": (np.tan, -1e308, 1e308, "log"),
    "tanh": (np.tanh, -25, 25, "log"),
    "atan2": (np.arctan2, -1e10, 1e10, "log"),
    "powf": (np.power, 1e-10, 1e10, "log"),
}

#: By name of the type: (that of NumPy, wider type of the reference, cases).
TYPES = {"f32": (np.float32, np.float64, CASES), "f64": (np.float64, np.longdouble, CASES64)}


def arguments(low: float, high: float, spread: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """float64 arguments between ``low`` and ``high``."""
    if spread == "linear":
        return rng.uniform(low, high, count)
    largest = max(abs(low), abs(high))
    magnitude = np.exp2(rng.uniform(math.log2(low) if low > 0 else -20, math.log2(largest), count))
    values = magnitude * (rng.choice([-1, 1], count) if low < 0 else 1)
    return np.clip(values, low, high)


def compile_operation(name: str, arch: str, dtype: str = "f32") -> bytes:
    """A code object whose kernel ``k`` applies the operation to a pair of arrays of ``dtype`` (f32 or f64)."""
    arguments = "%x, %y" if name in BINARY else "%x"
    return compile_body(f"%z = math.{name} {arguments} : {dtype}", arch, dtype)


def compile_body(body: str, arch: str, dtype: str = "f32") -> bytes:
    """A code object whose kernel ``k`` computes ``%z`` from ``%x`` and ``%y``, all ``dtype``, for all elements."""
    text = f"""gpu.module @m {{ gpu.func @k(%a: !llvm.ptr<1>, %b: !llvm.ptr<1>, %c: !llvm.ptr<1>) kernel {{
      %t = gpu.thread_id x
      %g = gpu.block_id x
      %n = arith.constant 64 : index
      %o = arith.muli %g, %n : index
      %s = arith.addi %o, %t : index
      %i = arith.index_cast %s : index to i32
      %p = llvm.getelementptr %a[%i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, {dtype}
      %q = llvm.getelementptr %b[%i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, {dtype}
      %r = llvm.getelementptr %c[%i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, {dtype}
      %x = llvm.load %p : !llvm.ptr<1> -> {dtype}
      %y = llvm.load %q : !llvm.ptr<1> -> {dtype}
      {body}
      llvm.store %z, %r : {dtype}, !llvm.ptr<1>
      gpu.return }} }}"""
    with ir.Context():
        module = ir.Module.parse(text)
        passmanager.PassManager.parse(
            "builtin.module(gpu.module(fly-expand-math,convert-scf-to-cf,convert-gpu-to-rocdl{chipset="
            + arch
            + " index-bitwidth=32 runtime=HIP use-bare-ptr-memref-call-conv=true}),convert-vector-to-llvm,"
            "reconcile-unrealized-casts)",
        ).run(module.operation)
        return flyir.compile_hsaco(module, arch)


def launch(hip: ctypes.CDLL, hsaco: bytes, arrays: list[np.ndarray], groups: int | None = None) -> None:
    """Run kernel ``k`` with one work-item for each element, or as many groups of 64."""
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
    groups = groups or arrays[0].size // 64
    check(hip.hipModuleLaunchKernel(function, groups, 1, 1, 64, 1, 1, 0, None, slots, None))
    check(hip.hipDeviceSynchronize())
    check(
        hip.hipMemcpy(arrays[-1].ctypes.data_as(ctypes.c_void_p), pointers[-1], ctypes.c_size_t(arrays[-1].nbytes), 2)
    )
    for pointer in pointers:
        hip.hipFree(pointer)


def measure(hip: ctypes.CDLL, name: str, arch: str, count: int, dtype: str = "f32") -> tuple[float, float]:
    """The largest error in ulp, and the argument (first of a pair) where it occurs."""
    narrow, wide, cases = TYPES[dtype]
    reference, low, high, spread = cases[name]
    name = name.partition(":")[0]
    rng = np.random.default_rng(0)
    x = arguments(low, high, spread, count, rng).astype(narrow)
    y = arguments(-high, high, "log", count, rng) if name == "atan2" else rng.uniform(-6, 6, count)
    y = y.astype(narrow)
    result = np.full(count, np.nan, narrow)
    launch(hip, compile_operation(name, arch, dtype), [x, y, result])
    with np.errstate(all="ignore"):
        exact = reference(x.astype(wide), y.astype(wide)) if name in BINARY else reference(x.astype(wide))
        nearest = exact.astype(narrow)
        ulp = np.abs(result.astype(wide) - exact) / np.spacing(np.abs(nearest)).astype(wide)
    ulp[~np.isfinite(nearest) & (result == nearest)] = 0
    ulp[np.abs(exact) < np.finfo(narrow).tiny] = 0
    ulp[np.isnan(ulp)] = np.inf
    ulp[np.isnan(exact) & np.isnan(result)] = 0
    worst = int(np.argmax(ulp))
    return float(ulp[worst]), float(x[worst])


def main() -> None:
    """Command line."""
    from flydsl import runtime

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--type", choices=list(TYPES), default="f32")
    parser.add_argument("--count", type=int, default=64 * 2048)
    parser.add_argument("operations", nargs="*")
    options = parser.parse_args()
    hip = ctypes.CDLL(str(runtime.library_path()))
    print(f"| operation | largest error on {options.arch} (ulp) | at |\n|---|---|---|")
    for name in options.operations or TYPES[options.type][2]:
        error, where = measure(hip, name, options.arch, options.count // 64 * 64, options.type)
        print(f"| {name} | {error:.3g} | {where:.6g} |", flush=True)


if __name__ == "__main__":
    main()
