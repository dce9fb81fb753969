"""Code from elsewhere: an external LLVM, LLVM options, bitcode, initialisers of loaded modules."""

from __future__ import annotations

import os
import stat
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flydsl._mlir.dialects.fly")

import flydsl.compiler as flyc  # noqa: E402
from flydsl.compiler.passes.external_llvm import ExternalLLVMError  # noqa: E402
from flydsl.compiler.passes.link_utils import append_link_options  # noqa: E402

SOURCE = """
import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.extern_link import BoundExternFunction, link_extern

@flyc.kernel
def k(X: fx.Tensor, c: fx.Constexpr[int]):
    X[fx.thread_idx.x] = X[fx.thread_idx.x] + fx.Float32(c)

@flyc.jit
def run(X: fx.Tensor, c: fx.Constexpr[int] = 1, stream: fx.Stream = fx.Stream(None)):
    k(X, c).launch(grid=(1,), block=64, stream=stream)
"""

# Our own passes behind the command line of mlir-opt.
FAKE_TOOL = """#!{python}
import sys, pathlib
from flydsl._mlir import ir, passmanager
source, pipeline = sys.argv[1], sys.argv[2].partition("=")[2]
output = sys.argv[sys.argv.index("-o") + 1]
pathlib.Path(__file__).with_name("calls.txt").open("a").write(" ".join(sys.argv[1:]) + "\\n")
mode = pathlib.Path(__file__).with_name("mode.txt").read_text()
if mode == "fail":
    print("progress"); sys.exit("cannot do that")
if mode == "silent":
    sys.exit(0)
with ir.Context() as context:
    context.load_all_available_dialects()
    module = ir.Module.parse(pathlib.Path(source).read_text())
    passmanager.PassManager.parse(pipeline).run(module.operation)
    text = str(module)
    if mode == "rename":
        text = text.replace("gpu.binary @kernels", "gpu.binary @others")
    pathlib.Path(output).write_text(text)
"""


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tool = tmp_path / "llvm" / "bin" / "mlir-opt"
    tool.parent.mkdir(parents=True)
    tool.write_text(textwrap.dedent(FAKE_TOOL).format(python=sys.executable))
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    (tool.parent / "mode.txt").write_text("work")
    monkeypatch.setenv("FLYDSL_COMPILE_LLVM_DIR", str(tool.parent.parent))
    return tool.parent.parent


def test_an_external_llvm_generates_the_code(load: Any, prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import flydsl.runtime as rt

    module = load(SOURCE)
    x = np.zeros(64, np.float32)
    module.run.compile_hints = {"llvm_options": {"enable-post-misched": False, "disable-machine-sink": True}}
    module.run(x)
    rt.synchronize()
    assert (x == 1).all()
    (call,) = (prefix / "bin" / "calls.txt").read_text().splitlines()
    assert "--pass-pipeline=builtin.module(gpu-module-to-binary" in call
    assert call.endswith("--enable-post-misched=false --disable-machine-sink=true")
    external = module.run.manager_key
    monkeypatch.delenv("FLYDSL_COMPILE_LLVM_DIR")
    assert module.run.manager_key != external
    module.run(x)
    rt.synchronize()
    assert (x == 2).all() and len(module.run._mem_cache) == 2
    assert len((prefix / "bin" / "calls.txt").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("mode", "why"),
    [("fail", "status 1(.|\n)*mlir-opt(.|\n)*progress(.|\n)*cannot do that"), ("silent", "wrote no output"),
     ("rename", r"gave binaries \['others'\], expected \['kernels'\]")],
)
def test_failures_of_the_external_tool(load: Any, prefix: Path, mode: str, why: str) -> None:
    (prefix / "bin" / "mode.txt").write_text(mode)
    with pytest.raises(ExternalLLVMError, match=why):
        load(SOURCE).run(np.zeros(64, np.float32))


def test_a_missing_or_useless_tool(load: Any, prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid():
        (prefix / "bin" / "mlir-opt").chmod(0o600)
        with pytest.raises(ExternalLLVMError, match="not executable"):
            load(SOURCE).run(np.zeros(64, np.float32))
    monkeypatch.setenv("FLYDSL_COMPILE_LLVM_DIR", str(prefix / "nowhere"))
    with pytest.raises(ExternalLLVMError, match="there is no .*mlir-opt"):
        load(SOURCE).run(np.zeros(64, np.float32))


def test_llvm_options(load: Any) -> None:
    module = load(SOURCE)
    x = np.zeros(64, np.float32)
    wrong: tuple[tuple[Any, type[Exception]], ...] = (
        ({"no-such-option": True}, RuntimeError), ({"enable-post-misched": 1.5}, TypeError), ("misched", TypeError)
    )
    for options, error in wrong:
        module.run.compile_hints = {"llvm_options": options}
        with pytest.raises(error, match="Unknown LLVM option|Unsupported type|is a dict of names and values"):
            module.run(x)
    # What shipped kernels ask for; lsr-drop-solution is unset, not false, unless somebody says so.
    names = ("enable-post-misched", "lsr-drop-solution", "disable-machine-sink", "amdgpu-expert-scheduling-mode")
    for options in ({"enable-post-misched": False}, dict.fromkeys(names, True)):
        module.run.compile_hints = {"llvm_options": options}
        module.run(x)
    module.run.compile_hints = {}
    module.run(x)
    assert len(module.run._mem_cache) == 3


def test_link_options() -> None:
    linked = append_link_options(["a", "x-attach-target{a=b}", "b"], ["/p.bc"])
    assert linked == ["a", "x-attach-target{a=b l=/p.bc}", "b"]
    assert append_link_options(["x-attach-target"], ["/p", "/q"]) == ["x-attach-target{l=/p l=/q}"]
    assert append_link_options(["a"], []) == ["a"]
    with pytest.raises(RuntimeError):
        append_link_options(["a"], ["/p"])
    for path in ("", "a b", "a,b", "a{b", "a'b", 'a"b', "a\nb"):
        with pytest.raises(ValueError, match="Cannot pass external bitcode path"):
            append_link_options(["x-attach-target"], [path])


@pytest.mark.parametrize("initialiser", ["handles.append", "remember", "Owner().remember"])
def test_initialisers_of_loaded_modules(initialiser: str, load: Any, tmp_path: Path) -> None:
    """Once for each module, whatever the initialiser itself reads and changes."""
    import flydsl.runtime as rt

    source = SOURCE.replace("@flyc.kernel", f"""
handles = []

def remember(handle):
    handles.append(handle)

class Owner:
    def remember(self, handle):
        self.last = handle
        handles.append(handle)

ready = BoundExternFunction("llvm.amdgcn.s.getpc", [], "int64", module_init_fn={initialiser})

@flyc.kernel""").replace("    X[fx.thread_idx.x] = X", "    ready()\n    X[fx.thread_idx.x] = X")
    module = load(source)
    x = np.zeros(64, np.float32)
    compiled = flyc.compile(module.run, x)
    for _ in range(2):
        module.run(x)
    rt.synchronize()
    assert (x == 2).all() and len(module.handles) == 1 and module.handles[0] != 0
    assert module.run.cache_info().disk_size == 0  # such artifacts live in memory only
    for refused in (lambda: compiled.save(tmp_path / "a.fly"), lambda: compiled.export_to_c(tmp_path, "a")):
        with pytest.raises(NotImplementedError, match="initialisers"):
            refused()


BITCODE = """
target triple = "amdgcn-amd-amdhsa"
define float @add_seven(float %x) {
  %r = fadd float %x, 7.0
  ret float %r
}
"""


def test_bitcode_is_linked(load: Any, tmp_path: Path) -> None:
    import flydsl.runtime as rt

    path = tmp_path / "seven.ll"
    path.write_text(BITCODE)
    module = load(SOURCE.replace("@flyc.kernel", f"""
add_seven = link_extern(fx.extern.ffi("add_seven", ["float32"], "float32"), bitcode_path={str(path)!r})

@flyc.kernel""").replace("+ fx.Float32(c)", "+ fx.Float32(add_seven(fx.Float32(c)))"))
    x = np.zeros(64, np.float32)
    module.run(x)
    rt.synchronize()
    assert (x == 8).all()
    assert module.run.cache_info().disk_size == 0


@pytest.mark.parametrize(("kind", "constant", "error", "why"), [
    ("int32", "1 << 40", ValueError, "1099511627776 does not fit in int32"),
    ("uint64", "-(1 << 63) - 1", ValueError, "does not fit in uint64"),
    ("int64", "1.5", TypeError, "expected a int64 argument, got 1.5"),
])
def test_a_constant_fits_the_parameter(load: Any, kind: str, constant: str, error: type, why: str) -> None:
    """It was cut to the parameter's type."""
    module = load(SOURCE.replace("+ fx.Float32(c)", f"+ fx.extern.ffi('f', ['{kind}'], 'float32')({constant})"))
    with pytest.raises(error, match=why):
        module.run(np.zeros(64, np.float32))
