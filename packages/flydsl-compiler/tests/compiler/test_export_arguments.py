"""Exported functions take structs and containers as their parts, one slot of the C interface each."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flydsl._mlir.dialects.fly")

import flydsl.compiler as flyc  # noqa: E402

SOURCE = """
import flydsl.compiler as flyc
import flydsl.expr as fx

@fx.struct
class Inner:
    half: fx.Float16
    wide: fx.Int64

@fx.struct
class Outer:
    k: fx.Int32
    times: fx.Constexpr[int]
    inner: Inner

@flyc.kernel
def write(X: fx.Tensor, k: fx.Int32, half: fx.Float16, wide: fx.Int64, a: fx.Float32, b: fx.Uint8):
    X[fx.thread_idx.x] = k.to(fx.Float64) + half.to(fx.Float64) + wide.to(fx.Float64) + a.to(fx.Float64) * b

@flyc.jit
def parts(X: fx.Tensor, p: Outer, more, p_k: fx.Float32):
    for _ in fx.range_constexpr(p.times):
        write(X, p.k, p.inner.half, p.inner.wide, p_k, more["b"]).launch(grid=1, block=4)
"""

MAIN = """
#include <stdio.h>
#include "parts.h"

int hipDeviceSynchronize(void);

int main(void) {
  double x[4] = {0};
  parts_X_layout_t layout = {.shape = {4}};
  int32_t status = parts_call_auto(x, &layout, -7, 0x3800 /* 0.5 */, 1ll << 40, 200, 1.5f, NULL);
  if (status != 0 || hipDeviceSynchronize() != 0) return 1;
  printf("%.17g\\n%s\\n", x[3], parts__metadata);
  return 0;
}
"""


def test_structs_and_containers_are_exported_as_their_parts(load: Any, tmp_path: Path) -> None:
    gcc = shutil.which("gcc") or shutil.which("cc")
    if gcc is None:
        pytest.skip("no C compiler")
    import flydsl.expr as fx
    import flydsl.runtime as rt
    from flydsl.runtime import simulator_directory

    module, x = load(SOURCE), np.zeros(4)
    value = module.Outer(-7, 2, module.Inner(0.5, 1 << 40))
    expected = -7 + 0.5 + 2**40 + 1.5 * 200
    module.parts(x, value, {"b": fx.Uint8(200)}, 1.5)
    rt.synchronize()
    assert (x == expected).all()
    function = flyc.compile(module.parts, x, value, {"b": fx.Uint8(200)}, 1.5)
    x[:] = 0
    function(x, value.replace(k=-8), {"b": 100}, 3.0)
    rt.synchronize()
    assert (x == expected - 1).all()
    function.export_to_c(tmp_path, "parts")
    (tmp_path / "main.c").write_text(MAIN)
    directory = str(simulator_directory())
    subprocess.run([gcc, "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", "program", "main.c", "parts.o",
                    f"-L{directory}", "-l:libamdhip64.so.7", "-pthread"], cwd=tmp_path, check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": directory, "FLYDSL_SIM_ARCH": function.artifact.arch,
                   "FLYDSL_SIM_HOST_MEMORY": "mapped"}
    result = subprocess.run([tmp_path / "program"], capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    number, _, text = result.stdout.partition("\n")
    assert float(number) == expected
    slots = json.loads(text)["abi"]
    assert [(s["arg_index"], s["arg_name"], s.get("field"), s["ctype"]) for s in slots[2:]] == [
        (1, "p", "k", "int32"), (1, "p", "inner.half", "uint16"), (1, "p", "inner.wide", "int64"),
        (2, "more", "['b']", "uint8"), (3, "p_k", None, "float"), (None, "", None, "pointer"),
    ]
    assert slots[3]["encoding"] == "float16_bits"


def test_registered_types_are_not_exported(load: Any, tmp_path: Path) -> None:
    class Celsius:
        degrees = 3.0

    import flydsl.expr as fx

    @flyc.JitArgumentRegistry.register(Celsius, dsl_type=fx.Float32)
    class CelsiusArg:
        def __init__(self, value: Any) -> None:
            self.value = value

        def __get_ir_types__(self) -> Any:
            return [fx.Float32.ir_type]

        def __cache_signature__(self) -> Any:
            return (CelsiusArg,)

        def __c_abi_spec__(self) -> Any:
            def fill(given: Any, slot: Any) -> None:
                slot.value = getattr(given, "value", given).degrees

            return [(ctypes.c_float, fill)]

    source = SOURCE.replace("p_k: fx.Float32)", "p_k)")
    module, x = load(source), np.zeros(4)
    function = flyc.compile(module.parts, x, module.Outer(1, 1, module.Inner(0.5, 0)), {"b": fx.Uint8(2)}, Celsius())
    with pytest.raises(NotImplementedError, match="registered Python types"):
        function.export_to_c(tmp_path, "parts")


def test_parameters_named_like_what_the_header_has(load: Any, tmp_path: Path) -> None:
    if shutil.which("gcc") is None and shutil.which("cc") is None:
        pytest.skip("no C compiler")
    function = load("""
        import flydsl.compiler as flyc
        import flydsl.expr as fx

        @flyc.kernel
        def write(X: fx.Tensor, n: fx.Int32):
            X[fx.thread_idx.x] = n

        @flyc.jit
        def pick(x_data: fx.Int32, x: fx.Tensor, x_layout: fx.Int32, pick: fx.Int32, pick_call: fx.Int32, é: fx.Int32,
                 ü: fx.Int32, status: fx.Int32, linux: fx.Int32, int32_t: fx.Int32, requires: fx.Int32):
            total = x_data + x_layout + pick + pick_call + é + ü + status + linux + int32_t + requires
            write(x, total).launch(grid=1, block=4)
    """).pick
    flyc.compile(function, 1, np.zeros(4, np.int32), 1, 1, 1, 1, 1, 1, 1, 1, 1).export_to_c(tmp_path, "pick")
    (tmp_path / "main.c").write_text('#include "pick.h"\nint main(void) { return PICK_NUM_ARGS; }\n', encoding="utf-8")
    compiler = shutil.which("gcc") or shutil.which("cc")
    for language, standard in (("c", "gnu17"), ("c++", "gnu++20")):
        command = [compiler, "-x", language, f"-std={standard}", "-Wall", "-Werror", "-fsyntax-only", "main.c"]
        subprocess.run(command, cwd=tmp_path, check=True)
    header = (tmp_path / "pick.h").read_text(encoding="utf-8")
    assert "int32_t x_data, void *x__data, const pick_x__layout_t *x__layout, int32_t x_layout, int32_t pick_" in header
