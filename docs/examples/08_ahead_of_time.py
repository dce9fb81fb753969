"""Ahead of time: a compiled kernel as a file for `flydsl-runtime` alone, and as an object in a C program.

The C program (08_ahead_of_time.c) knows nothing of Python or FlyDSL; it links with the HIP library that this machine
has, which without an AMD GPU is the simulator.

    python docs/examples/08_ahead_of_time.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import _common as common
import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.runtime as rt

THREADS = 128
ROWS, COLUMNS = 37, 200


@flyc.kernel
def scale_rows_kernel(x: fx.Tensor, factors: fx.Tensor, columns: fx.Int32, bias: fx.Float32):
    """One workgroup scales one row by its factor and adds a bias."""
    row, first = fx.block_idx.x, fx.thread_idx.x
    for column in range(first, columns, THREADS):
        x[row, column] = x[row, column] * factors[row] + bias


@flyc.jit
def scale_rows(x: fx.Tensor, factors: fx.Tensor, rows: fx.Int32, columns: fx.Int32, bias: fx.Float32,
               stream: fx.Stream = fx.Stream(None)):
    """x[r, :] = x[r, :] * factors[r] + bias for a row-major float32 matrix."""
    scale_rows_kernel(x, factors, columns, bias).launch(grid=rows, block=THREADS, stream=stream)


LOAD = """
import sys
import numpy as np
from flydsl.runtime import load_artifact, synchronize
scale_rows = load_artifact(sys.argv[1])
data = np.load(sys.argv[2])
x, factors = data["x"], data["factors"]
scale_rows(x, factors, *x.shape, 0.5, None)
synchronize()
assert not any(name.startswith(("flydsl.compiler", "flydsl._mlir")) for name in sys.modules)
np.save(sys.argv[3], x)
"""


def run_with_the_runtime_alone(compiled, folder: Path, x: np.ndarray, factors: np.ndarray, want: np.ndarray) -> None:
    """Save the artifact and launch it in a process that does not import the compiler."""
    path = compiled.save(folder / "scale_rows.fly")
    np.savez(folder / "data.npz", x=x, factors=factors)
    subprocess.run([sys.executable, "-c", LOAD, path, folder / "data.npz", folder / "out.npy"], check=True)
    name = f"{path.name} ({path.stat().st_size} bytes) without the compiler"
    common.check(name, np.load(folder / "out.npy"), want, 1e-6)


def run_in_c(compiled, folder: Path) -> None:
    """Export object and header, build the C program with them, and run it."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        print("no C compiler: the C program is left out")
        return
    compiled.export_to_c(folder, "scale_rows")
    library = Path(rt.library_path())
    source = Path(__file__).with_suffix(".c")
    command = [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{folder}", source, folder / "scale_rows.o",
               f"-L{library.parent}", f"-l:{library.name}", f"-Wl,-rpath,{library.parent}", "-pthread", "-o",
               folder / "program"]
    subprocess.run(command, check=True)
    environment = {**os.environ, "FLYDSL_SIM_ARCH": compiled.artifact.arch}
    result = subprocess.run([folder / "program"], capture_output=True, text=True, env=environment)
    print(result.stdout, end="")
    common.expect("the C program", result.returncode == 0)


def main() -> None:
    """Compile without launching, then use the result in two programs that do without the compiler."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    factors = rng.standard_normal(ROWS).astype(np.float32)
    want = x * factors[:, None] + np.float32(0.5)
    # Host arrays say enough about the arguments: nothing is launched here.
    compiled = flyc.compile(scale_rows, x, factors, ROWS, COLUMNS, 0.5, None)
    print(f"compiled for {common.describe_device()}: {compiled.artifact.metadata['kernels'][0]}")
    with tempfile.TemporaryDirectory() as folder:
        if rt.kind() == "sim":
            run_with_the_runtime_alone(compiled, Path(folder), x, factors, want)
            run_in_c(compiled, Path(folder))
        else:
            gpu = [common.to_device(x), common.to_device(factors)]
            compiled(*gpu, ROWS, COLUMNS, 0.5, None)
            common.check("on the GPU", gpu[0], want, 1e-6)


if __name__ == "__main__":
    main()
