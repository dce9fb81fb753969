"""Artifacts that leave the process: files that the runtime alone launches, objects for C programs."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flydsl._mlir.dialects.fly")

import flydsl.compiler as flyc  # noqa: E402
import flydsl.expr as fx  # noqa: E402
from flydsl.runtime.artifact import ArtifactError, load_artifact  # noqa: E402

SOURCE = """
import flydsl.compiler as flyc
import flydsl.expr as fx

@flyc.kernel
def scale_kernel(X: fx.Tensor, Y: fx.Tensor, rows: fx.Int32, alpha: fx.Float32, double: fx.Constexpr[bool]):
    r, c = fx.block_idx.x, fx.thread_idx.x
    v = X[r, c] * alpha
    if fx.const_expr(double):
        v = v + v
    Y[r, c] = v

@flyc.jit
def scale(X: fx.Tensor, Y: fx.Tensor, rows: fx.Int32, double: fx.Constexpr[bool], alpha: fx.Float32,
          flag: fx.Boolean, stream: fx.Stream = fx.Stream(None)):
    if flag:
        scale_kernel(X, Y, rows, alpha, double).launch(grid=(rows // 1,), block=64, stream=stream)
"""


@pytest.fixture
def compiled(load: Any) -> Any:
    x = np.zeros((4, 64), np.float32)
    return flyc.compile(load(SOURCE).scale, x, x, 4, True, 0.5, True, None)


RUN_ALONE = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[:2] in (["flydsl", p] for p in ("compiler", "expr", "ir", "_mlir", "layout", "utils")):
            raise ImportError(name + " is blocked")
sys.meta_path.insert(0, Blocked())
import numpy as np
from flydsl.runtime import load_artifact, synchronize
scale = load_artifact(sys.argv[1])
x = np.arange(5 * 64, dtype=np.float32).reshape(5, 64); y = np.full_like(x, -1)
scale(x, y, 5, "ignored", 0.5, True, None); synchronize()
assert (y == x).all(), y
y[:] = -1
scale(x, y, 5, None, 0.5, False, None); synchronize()
assert (y == -1).all()
for wrong, error in (((x, y, 5), IndexError), ((x.astype(np.float16), y, 5, 0, 1.0, True, None), TypeError),
                     ((x, y, 1 << 40, 0, 1.0, True, None), OverflowError)):
    try:
        scale(*wrong)
    except error as e:
        print(type(e).__name__)
    else:
        raise SystemExit("no error")
assert not [m for m in sys.modules if m.startswith(("flydsl.compiler", "flydsl._mlir"))]
print("PASS")
"""


def test_a_saved_artifact_runs_without_the_compiler(compiled: Any, tmp_path: Path) -> None:
    path = compiled.save(tmp_path / "scale.fly")
    result = subprocess.run([sys.executable, "-c", RUN_ALONE, str(path)], capture_output=True, text=True,
                            env={**os.environ, "FLYDSL_RUNTIME_KIND": "sim"})
    assert result.stdout.split()[-1:] == ["PASS"], result.stdout + result.stderr


def test_a_file_that_is_no_artifact(compiled: Any, tmp_path: Path) -> None:
    path = compiled.save(tmp_path / "scale.fly")
    data = path.read_bytes()
    for content, why in ((b"", "not a FlyDSL artifact"), (data[:-3], "checksum"),
                         (data[:100] + b"x" + data[101:], "checksum")):
        path.write_bytes(content)
        with pytest.raises(ArtifactError, match=f"scale.fly.*{why}"):
            load_artifact(path)
    with pytest.raises(FileNotFoundError):
        load_artifact(tmp_path / "missing.fly")


def test_blocks_per_compute_unit(compiled: Any, load: Any) -> None:
    assert compiled.max_blocks_per_cu() >= 1
    module = load(SOURCE.replace("block=64", "block=(rows, 1, 1)"))
    x = np.zeros((4, 64), np.float32)
    dynamic = flyc.compile(module.scale, x, x, 4, True, 0.5, True, None)
    with pytest.raises(ValueError, match="block size is computed"):
        dynamic.max_blocks_per_cu()


# ---- C

MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "scale.h"
#include "other.h"

int hipDeviceSynchronize(void);

int main(void) {
  enum { rows = 5, cols = 64 };
  float x[rows * cols], y[rows * cols];
  for (int i = 0; i < rows * cols; ++i) { x[i] = (float)i; y[i] = -1; }
  scale_X_layout_t lx; scale_Y_layout_t ly;
  lx.shape[0] = rows; lx.shape[1] = cols; lx.stride[0] = cols;
  memcpy(&ly, &lx, sizeof ly);
  if (scale_call(x, &lx, y, &ly, rows, 0.5f, true, NULL) != FLYDSL_AOT_ERR_NOT_INITIALIZED) return 1;
  if (scale__module_load(-1) != FLYDSL_AOT_ERR_NOT_INITIALIZED) return 2;
  if (scale__module_init() != FLYDSL_AOT_SUCCESS) return 3;
  if (scale_call(x, &lx, y, &ly, rows, 0.5f, true, NULL) != FLYDSL_AOT_ERR_NOT_LOADED) return 4;
  if (scale__module_load(0) != 0 || scale__module_load(-1) != 0) return 5;
  if (scale_call(x, &lx, y, &ly, rows, 0.5f, false, NULL) != 0 || hipDeviceSynchronize() != 0 || y[3] != -1) return 6;
  int32_t status = scale_call(x, &lx, y, &ly, rows, 0.5f, true, NULL);
  if (status != 0 || hipDeviceSynchronize() != 0) return 7;
  for (int i = 0; i < rows * cols; ++i) if (y[i] != x[i]) { printf("%d: %f\\n", i, y[i]); return 8; }
  if (scale_call(x, &lx, y, &ly, -3, 0.5f, true, NULL) == 0) return 9; /* no grid */
  status = other_call_auto(x, &lx, y, &ly, rows, 1.0f, true, NULL);
  if (status != 0 || hipDeviceSynchronize() != 0 || y[9] != 18) return 10;
  if (scale__module_unload() != 0) return 11;
  if (scale_call(x, &lx, y, &ly, rows, 0.5f, true, NULL) != FLYDSL_AOT_ERR_NOT_LOADED) return 12;
  printf("%d %s\\n", SCALE_NUM_ARGS, scale__metadata);
  return 0;
}
"""


def test_export_to_c(compiled: Any, tmp_path: Path) -> None:
    """Two exports in one C program that knows nothing of FlyDSL, on the simulator library."""
    gcc = shutil.which("gcc") or shutil.which("cc")
    if gcc is None:
        pytest.skip("no C compiler")
    from flydsl.runtime import simulator_directory

    compiled.export_to_c(tmp_path, "scale")
    compiled.export_to_c(tmp_path, "second", "other")
    (tmp_path / "second.h").rename(tmp_path / "other.h")
    (tmp_path / "main.c").write_text(MAIN.replace("other_call_auto(x, &lx, y, &ly",
        "other_call_auto(x, (other_X_layout_t *)&lx, y, (other_Y_layout_t *)&ly"))
    directory = str(simulator_directory())
    program = tmp_path / "program"
    subprocess.run([gcc, "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", program, "main.c", "scale.o", "second.o",
                    f"-L{directory}", "-l:libamdhip64.so.7", "-pthread"], cwd=tmp_path, check=True)
    # The program passes its own arrays, which HIP does not know.
    environment = {**os.environ, "LD_LIBRARY_PATH": directory, "FLYDSL_SIM_ARCH": "gfx942",
                   "FLYDSL_SIM_HOST_MEMORY": "mapped"}
    result = subprocess.run([program], capture_output=True, text=True, env=environment)
    assert result.returncode == 0, (result.returncode, result.stdout, result.stderr)
    count, _, text = result.stdout.partition(" ")
    metadata = json.loads(text)
    assert int(count) == len(metadata["abi"]) == 8 and metadata["schema_version"] == 2
    assert [s["kind"] for s in metadata["abi"]] == [
        "tensor_data", "tensor_layout", "tensor_data", "tensor_layout", "scalar", "scalar", "scalar", "stream",
    ]
    assert metadata["abi"][1]["shape_dims"] == [0, 1] and metadata["abi"][1]["stride_dims"] == [0]
    assert [s["ctype"] for s in metadata["abi"][4:7]] == ["int32", "float", "bool"]
    symbols = subprocess.run(["nm", "-g", "--defined-only", "scale.o"], cwd=tmp_path, capture_output=True, text=True)
    names = {line.split()[-1] for line in symbols.stdout.splitlines()}
    lifecycle = {f"scale__{n}" for n in ("module_init", "module_load", "module_unload", "metadata")}
    assert names == {"scale"} | lifecycle
    plus = shutil.which("g++")
    if plus:
        (tmp_path / "check.cpp").write_text('#include "scale.h"\nint main() { return SCALE_SCHEMA_VERSION - 2; }\n')
        subprocess.run([plus, "-Wall", "-Wextra", "-Werror", "-c", "check.cpp"], cwd=tmp_path, check=True)


WORDS = """
import flydsl.compiler as flyc
import flydsl.expr as fx

@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor):
    x, y = [fx.logical_divide(fx.rocdl.make_buffer_tensor(v), fx.make_layout(4, 1)) for v in (X, Y)]
    y[None, fx.thread_idx.x].store(x[None, fx.thread_idx.x].load())

@flyc.jit
def words(X: fx.Tensor, Y: fx.Tensor):
    k(X, Y).launch(grid=1, block=64)
"""
WORDS_MAIN = r"""
#include <stdio.h>
#include "words.h"

int hipDeviceSynchronize(void);

static _Alignas(16) uint16_t x[256], y[257];

static int call(uint16_t *from, uint16_t *to, int n, int m) {
  words_X_layout_t lx = {.shape = {n}};
  words_Y_layout_t ly = {.shape = {m}};
  return words_call_auto(from, &lx, to, &ly, NULL);
}

int main(void) {
  for (int i = 0; i < 256; ++i) x[i] = (uint16_t)(i + 1);
  printf("%d", call(x, y, 202, 202));
  hipDeviceSynchronize();
  for (int i = 0; i < 257; ++i)
    if (y[i] != (i < 202 ? x[i] : 0)) return 1;
  printf(" %d %d", call(x, y, 201, 202), call(x, y, 202, 203));   /* the end splits a word */
  printf(" %d", call(x, (uint16_t *)((char *)y + 1), 202, 202));  /* not aligned */
  printf(" %d %d", call(NULL, y, 202, 202), call(x, y, -4, 202)); /* no tensors */
  hipDeviceSynchronize();
  for (int i = 202; i < 257; ++i)
    if (y[i]) return 2;
  return 0;
}
"""


def test_exported_code_checks_its_tensors(load: Any, tmp_path: Path) -> None:
    """What a call of Python refuses is an error code of the C function: nothing is launched."""
    gcc = shutil.which("gcc") or shutil.which("cc")
    if gcc is None:
        pytest.skip("no C compiler")
    from flydsl.runtime import simulator_directory

    x = np.zeros(256, np.uint16)
    flyc.compile(load(WORDS).words, x, x).export_to_c(tmp_path, "words")
    header = (tmp_path / "words.h").read_text()
    assert "X: u16, shape (?), strides (1) in elements, address a multiple of 2 bytes" in header
    assert "whole 32-bit words (2 elements)" in header
    (tmp_path / "main.c").write_text(WORDS_MAIN)
    directory = str(simulator_directory())
    subprocess.run([gcc, "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", "program", "main.c", "words.o",
                    f"-L{directory}", "-l:libamdhip64.so.7", "-pthread"], cwd=tmp_path, check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": directory, "FLYDSL_SIM_ARCH": "gfx942",
                   "FLYDSL_SIM_HOST_MEMORY": "mapped"}
    result = subprocess.run([tmp_path / "program"], capture_output=True, text=True, env=environment)
    assert (result.returncode, result.stdout) == (0, "0 -3 -3 -3 -3 -3"), result.stderr


FLOATS = """
import flydsl.compiler as flyc
import flydsl.expr as fx

@flyc.kernel
def store(O: fx.Pointer, values):
    for i in fx.range_constexpr(len(values)):
        O[i] = values[i].to(fx.Float64)

@flyc.jit
def host(O: fx.Pointer, n: fx.Int32, f: fx.Float32, d: fx.Float64, u: fx.Uint32):
    fx.printf("n={} f={} \\"quoted\\\\ d={}", n, f, d)
    x = f
    if f < 100.0:
        x = x * 1.5 + 0.25
    store(O, [x, 1.0 / f, fx.Float32(n) / 3.0, d - f, -f, abs(-f), fx.max(f, d), fx.Float32(u), fx.Float64(u),
              fx.Int32(f * 10.0), fx.Int32(d * 1.0e30), fx.Uint32(f), (f != d).select(f, 2.0), fx.Float32(d),
              fx.maxnumf(f, x)]).launch(grid=1, block=1)

@flyc.jit
def root(O: fx.Pointer, f: fx.Float32):
    store(O, [fx.sqrt(f)]).launch(grid=1, block=1)

@flyc.jit
def half(O: fx.Pointer, f: fx.Float16):
    store(O, [f + f]).launch(grid=1, block=1)
"""
FLOATS_MAIN = """
#include <stdio.h>
#include "host.h"
int hipDeviceSynchronize(void);
int main(void) {
  double out[15];
  if (host_call_auto(out, -7, 1.7f, 2.5, 4000000000u, NULL) != 0 || hipDeviceSynchronize() != 0) return 1;
  for (int i = 0; i < 15; ++i) printf("%a\\n", out[i]);
  return 0;
}
"""


def test_exported_host_code_computes_with_floats_and_prints(load: Any, tmp_path: Path, capfd: Any) -> None:
    """The exported object gives what the launch plan gives, to the last bit."""
    gcc = shutil.which("gcc") or shutil.which("cc")
    if gcc is None:
        pytest.skip("no C compiler")
    import flydsl.runtime as rt
    from flydsl.runtime import simulator_directory

    module, out = load(FLOATS), np.zeros(15)
    null = flyc.from_c_void_p(fx.Float64, None)
    function = flyc.compile(module.host, null, 1, 1.0, 1.0, 1)
    function(out.ctypes.data, -7, 1.7, 2.5, 4000000000)
    rt.synchronize()
    printed = capfd.readouterr().out
    assert printed == 'n=-7 f=1.7 "quoted\\ d=2.5\n'
    function.export_to_c(tmp_path, "host")
    (tmp_path / "main.c").write_text(FLOATS_MAIN)
    directory = str(simulator_directory())
    subprocess.run([gcc, "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", "program", "main.c", "host.o",
                    f"-L{directory}", "-l:libamdhip64.so.7", "-pthread"], cwd=tmp_path, check=True)
    # The program passes its own arrays, which HIP does not know.
    environment = {**os.environ, "LD_LIBRARY_PATH": directory, "FLYDSL_SIM_ARCH": "gfx942",
                   "FLYDSL_SIM_HOST_MEMORY": "mapped"}
    result = subprocess.run([tmp_path / "program"], capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    head, *numbers = result.stdout.splitlines()
    assert head + "\n" == printed and [float.fromhex(n) for n in numbers] == out.tolist()
    for name, arguments, reason in (("root", (null, 1.0), "sqrt"), ("half", (null, 1.0), "f16")):
        with pytest.raises(NotImplementedError, match=reason):
            flyc.compile(getattr(module, name), *arguments).export_to_c(tmp_path, name)


def test_what_cannot_be_exported(compiled: Any, load: Any, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        compiled.export_to_c(tmp_path / "missing", "a")
    for name, prefix in (("a/b", ""), ("", ""), ("1a", ""), ("a", "int"), ("a", "co_await"), ("main", ""),
                         ("a", "a__b"), ("a", "_A"), ("a-b", "")):
        with pytest.raises(ValueError):
            compiled.export_to_c(tmp_path, name, prefix)
    assert list(tmp_path.glob("*.o")) == []
    two = load(SOURCE.replace("flag: fx.Boolean,", "flag: fx.Boolean, second: fx.Stream,"))
    x = np.zeros((4, 64), np.float32)
    with pytest.raises(NotImplementedError, match="2 stream parameters"):
        flyc.compile(two.scale, x, x, 4, True, 0.5, True, None, None).export_to_c(tmp_path, "a")


# ---- registered argument types


class Half2:
    def __init__(self, raw: int) -> None:
        self.raw = raw


@pytest.fixture(scope="module")
def half2() -> Any:
    @flyc.JitArgumentRegistry.register(Half2, dsl_type=fx.Uint32)
    class Half2Arg:
        def __init__(self, h: Any) -> None:
            self.h = h

        def __get_ir_types__(self) -> Any:
            return [fx.Uint32.ir_type]

        def __cache_signature__(self) -> Any:
            return (Half2Arg,)

        def __c_abi_spec__(self) -> Any:
            def fill(a: Any, slot: Any) -> None:
                slot.value = (a.h if isinstance(a, Half2Arg) else a).raw

            return [(ctypes.c_uint32, fill)]

    return Half2Arg


CUSTOM = """
import flydsl.compiler as flyc
import flydsl.expr as fx

@flyc.kernel
def k(X: fx.Tensor, h: fx.Uint32):
    X[fx.thread_idx.x] = fx.Int32(h)

@flyc.jit
def run(X: fx.Tensor, h):
    k(X, h).launch(grid=(1,), block=64)

@fx.struct
class Pair:
    a: fx.Int32
    b: fx.Float32

@flyc.kernel
def kp(X: fx.Tensor, p: Pair):
    X[fx.thread_idx.x] = p.a + fx.Int32(p.b)

@flyc.jit
def run_pair(X: fx.Tensor, p: Pair):
    kp(X, p).launch(grid=(1,), block=64)
"""


def test_registered_types_and_structs(half2: Any, load: Any, tmp_path: Path) -> None:
    import flydsl.runtime as rt

    module = load(CUSTOM)
    x = np.zeros(64, np.int32)
    for raw in (7, 9):
        module.run(x, Half2(raw))
        rt.synchronize()
        assert (x == raw).all()
    assert len(module.run._mem_cache) == 1
    compiled = flyc.compile(module.run, x, half2(Half2(1)))
    compiled(x, Half2(3))
    rt.synchronize()
    assert (x == 3).all()
    with pytest.raises(NotImplementedError, match="registered Python types"):
        compiled.save(tmp_path / "custom.fly")
    for a, b in ((1, 2.0), (5, 40.0)):
        module.run_pair(x, module.Pair(a, b))
        rt.synchronize()
        assert (x == a + b).all()
    assert len(module.run_pair._mem_cache) == 1


def test_every_instruction_of_the_plan_has_a_form_in_c():
    """By the table that the runtime reads plans by: an instruction that is new there is missing here."""
    from flydsl.compiler.export import floats, instructions
    from flydsl.runtime import plan

    assert set(instructions.FORMS) == set(plan.INSTRUCTIONS)
    assert set(instructions._BINARY) == set(plan.INTEGER_BINARY)
    assert set(instructions._PREDICATES) == set(plan.PREDICATES)
    assert {floats._compare(predicate) for predicate in plan.FLOAT_PREDICATES}
    assert set(floats._ARITHMETIC) < {*plan.FLOAT_BINARY, *plan.FLOAT_UNARY}
