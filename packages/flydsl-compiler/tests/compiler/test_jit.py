"""Kernels and jit functions through a recording launcher: no device, real code generation."""

from __future__ import annotations

import gc
import linecache
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flydsl._mlir.dialects.fly")

import flydsl.compiler as flyc  # noqa: E402
import flydsl.expr as fx  # noqa: E402
from flydsl.compiler.launch.compiled import CompiledFunction  # noqa: E402
from flydsl.compiler.passes.pipeline import stage_label  # noqa: E402
from flydsl.compiler.trace.launch import validate_block_size  # noqa: E402
from flydsl.tracing.diagnostics import DSLCompileError  # noqa: E402

SOURCE = """
import flydsl.compiler as flyc
import flydsl.expr as fx

FACTOR = 3

@flyc.kernel
def k(n: fx.Int32, c: fx.Constexpr[int]):
    i = fx.block_idx.x * c + fx.thread_idx.x
    if i < n * FACTOR:
        fx.barrier() if False else None

@flyc.jit
def run(n: fx.Int32, c: fx.Constexpr[int], stream: fx.Stream = fx.Stream(None)):
    k(n, c).launch(grid=((n + c - 1) // c,), block=c, stream=stream)
"""


class Recorder(CompiledFunction):
    """Records the run-time arguments of each launch instead of launching."""

    made: list[Recorder] = []

    def __new__(cls, artifact: Any, converters: Any = (), processors: Any = ()) -> Any:
        self = super().__new__(cls, artifact, converters)
        self.plan, self.hsaco, self.calls = artifact.plan, artifact.hsaco, []
        Recorder.made.append(self)
        return self

    def __call__(self, *args: Any) -> None:
        self.calls.append(tuple(args[i] for i in self.artifact.positions))


@pytest.fixture(autouse=True)
def recorder(monkeypatch: pytest.MonkeyPatch) -> list[Recorder]:
    from flydsl.compiler import jit_function
    from flydsl.compiler.launch import dispatch

    monkeypatch.setattr(jit_function, "CompiledFunction", Recorder)
    monkeypatch.setattr(dispatch.FastPath, "add", lambda *args: None)
    Recorder.made = []
    return Recorder.made


def test_compile_and_launch(load: Any, recorder: list[Recorder]) -> None:
    module = load(SOURCE)
    assert module.run(100, 64) is None
    (launcher,) = recorder
    assert launcher.hsaco.startswith(b"\x7fELF") and launcher.arch == "gfx942"
    assert [n for n, _ in launcher.calls] == [100]
    module.run(7, 64)
    assert len(recorder) == 1 and launcher.calls[-1][0] == 7
    module.run(7, 32)
    assert len(recorder) == 2


def test_disk_cache_across_instances(load: Any, recorder: list[Recorder], monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(SOURCE)
    module.run(1, 64)
    assert module.run.cache_info()[:2] == (0, 1)
    second = load_again(module)
    monkeypatch.setattr(type(second.run), "_compile", _must_not_compile)
    second.run(1, 64)
    assert second.run.cache_info().hits == 1


def load_again(module: Any) -> Any:
    import importlib.util

    spec = importlib.util.spec_from_file_location(module.__name__, module.__file__)
    assert spec is not None and spec.loader is not None
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    return fresh


def _must_not_compile(*args: Any) -> None:
    raise AssertionError("compiled although the cache has it")


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "foreign"])
def test_damaged_cache_file_is_compiled_again(load: Any, damage: str) -> None:
    module = load(SOURCE)
    module.run(1, 64)
    (path,) = Path(os.environ["FLYDSL_RUNTIME_CACHE_DIR"]).glob("*/*.fly")
    good = path.read_bytes()
    path.write_bytes(
        {"truncate": good[:-50], "flip": good[:300] + b"\xff" + good[301:], "empty": b"", "foreign": b"PK" * 500}[
            damage
        ]
    )
    second = load_again(module)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second.run(1, 64)
    assert second.run.cache_info().misses == 1
    assert path.read_bytes()[:8] == good[:8]


def test_unwritable_cache_directory_only_warns(
    load: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recorder: list[Recorder]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "file" / "cache"))
    module = load(SOURCE)
    with pytest.warns(UserWarning, match="cannot be written"):
        module.run(1, 64)
    assert recorder


def test_cache_off_and_run_only(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(SOURCE)
    monkeypatch.setenv("FLYDSL_RUNTIME_RUN_ONLY", "1")
    with pytest.raises(RuntimeError, match="FLYDSL_RUNTIME_RUN_ONLY.*run"):
        module.run(1, 64)
    monkeypatch.delenv("FLYDSL_RUNTIME_RUN_ONLY")
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    module.run(1, 64)
    assert module.run.cache_info() is None
    assert not list(Path(os.environ["FLYDSL_RUNTIME_CACHE_DIR"]).glob("*/*.fly"))


def test_compile_only_then_other_architectures(
    load: Any, monkeypatch: pytest.MonkeyPatch, recorder: list[Recorder]
) -> None:
    module = load(SOURCE)
    monkeypatch.setenv("COMPILE_ONLY", "1")
    for arch in ("gfx942", "gfx950", "gfx1201"):
        monkeypatch.setenv("ARCH", arch)
        assert module.run(1, 64) is None
        assert module.run.last_compiled.artifact.arch == arch
    assert all(compiled.calls == [] for compiled in recorder)


def test_unknown_architecture(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCH", "gfx1")
    with pytest.raises(ValueError, match="unknown architecture 'gfx1'.*ARCH.*gfx942"):
        load(SOURCE).run(1, 64)


def test_compile_object(load: Any, recorder: list[Recorder]) -> None:
    module = load(SOURCE)
    compiled = flyc.compile[{"waves_per_eu": 2}](module.run, 5, 64)
    assert recorder[0].calls == []  # compiling never launches
    compiled(9, 64, 0)
    assert recorder[0].calls == [(9, 0)]
    with pytest.raises(IndexError):
        compiled(9)
    with pytest.raises(TypeError):
        compiled(n=9)
    with pytest.raises(TypeError, match="expects a dict"):
        flyc.compile[3]
    with pytest.raises(TypeError):
        flyc.compile(print, 1)
    assert flyc.compile(module.run) is module.run


def test_unknown_hints_and_variables_are_named(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from flydsl.compiler.specialization import call
    from flydsl.utils import env

    monkeypatch.setattr(call, "_warned_hints", set())
    monkeypatch.setattr(env, "_warned", set())
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACH", "0")
    module = load(SOURCE)
    module.run.compile_hints = {"wave_per_eu": 2}
    with pytest.warns(UserWarning) as caught:
        module.run(1, 64)
    messages = [str(w.message) for w in caught]
    assert any("'wave_per_eu' has no effect; did you mean 'waves_per_eu'?" in m for m in messages), messages
    assert any("did you mean FLYDSL_RUNTIME_ENABLE_CACHE?" in m for m in messages), messages
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module.run(1, 32)


def test_a_launch_without_the_declared_stream_is_named(load: Any) -> None:
    module = load(SOURCE.replace(", stream=stream)", ")"))
    with pytest.warns(UserWarning, match="k: launched without stream= .*default stream"):
        module.run(1, 64)


def test_kernel_outside_jit(load: Any) -> None:
    module = load(SOURCE)
    with pytest.raises(RuntimeError, match="kernel 'k' was called outside a jit function"):
        module.k(1, 64)


def test_errors_of_a_trace_leave_no_context(load: Any) -> None:
    from flydsl._mlir import ir

    module = load(
        SOURCE
        + """
@flyc.jit
def bad(n: fx.Int32):
    k(n, 3, 4).launch()

@flyc.jit
def bare(n: fx.Int32):
    k(5, 64).launch()

@flyc.kernel
def inner(n: fx.Int32):
    k(n, 64)

@flyc.jit
def nested(n: fx.Int32):
    inner(n).launch(block=64)
"""
    )
    with pytest.raises(TypeError, match="k\\(\\)"):
        module.bad(1)
    with pytest.raises(TypeError, match="bare Python value 5.*fx.Int32"):
        module.bare(1)
    with pytest.raises(DSLCompileError, match="launched from jit functions only"):
        module.nested(1)
    assert ir.Context.current is None
    module.run(1, 64)


LEAKING = """
import gc
import flydsl.compiler as flyc
import flydsl.expr as fx

KEPT, SEEN = [], []
CHECK = {1: 2}

@flyc.jit
def checked(x):
    if x > 3:
        for y in range(x):
            if y > 5:
                KEPT.append(y + x)
                raise_with(y * 2)

def raise_with(x):
    raise LookupError(x)

@flyc.kernel
def k(n: fx.Int32, how: fx.Constexpr[str]):
    SEEN.append(gc.isenabled())
    x = fx.thread_idx.x + n
    KEPT.append(x)
    KEPT.append(fx.make_layout(x, 1))
    if fx.const_expr(how == "dict"):
        CHECK[x]
    if x < 9:
        checked(x)

@flyc.kernel
def plain(n: fx.Int32):
    KEPT.append(fx.thread_idx.x + n)

@flyc.kernel
def uses():
    x = fx.thread_idx.x + KEPT[0]

@flyc.kernel
def large(n: fx.Int32):
    KEPT.append(fx.thread_idx.x + n)
    fx.SharedAllocator().allocate(fx.Array[fx.Float32, 1 << 20]).peek()[0] = 1.0

@flyc.jit
def run(n: fx.Int32, how: fx.Constexpr[str]):
    k(n, how).launch(grid=1, block=64)

@flyc.jit
def run_caught(n: fx.Int32):
    try:
        k(n, "branch").launch(grid=1, block=64)
    except LookupError as error:
        KEPT.append(error)
    plain(n).launch(grid=1, block=64)

@flyc.jit
def run_plain(n: fx.Int32):
    plain(n).launch(grid=1, block=64)

@flyc.jit
def run_uses():
    uses().launch(grid=1, block=64)

@flyc.jit
def run_large(n: fx.Int32):
    large(n).launch(grid=1, block=64)
"""


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("how", ["dict", "branch"])
def test_values_of_a_failed_trace_can_be_printed(load: Any, how: str, running: bool) -> None:
    """An error may have values, also of a branch that was not finished. The garbage collector runs as before."""
    mod = load(LEAKING)
    (gc.enable if running else gc.disable)()
    try:
        with pytest.raises(LookupError) as failed:
            mod.run(5, how)
        assert mod.SEEN == [False] and gc.isenabled() == running
    finally:
        gc.enable()
    assert "ArithValue" in repr(failed.value)
    del failed  # with its frames
    gc.collect()
    assert all("ArithValue" in repr(x) or "Layout" in repr(x) for x in mod.KEPT)


def test_values_outlive_their_trace(load: Any) -> None:
    """They can be printed, and are named where they are used in another one."""
    mod = load(LEAKING)
    mod.run_plain(5)
    gc.collect()
    assert len(mod.KEPT) == 1 and "Int32" in repr(mod.KEPT[0])
    with pytest.raises(DSLCompileError, match="a value of another trace is used"):
        mod.run_uses()


def test_values_outlive_a_trace_that_is_refused_as_a_whole(load: Any) -> None:
    mod = load(LEAKING)
    with pytest.raises(DSLCompileError, match="bytes of LDS"):
        mod.run_large(5)
    gc.collect()
    assert "Int32" in repr(mod.KEPT[0])


def test_a_kernel_that_fails_is_not_launched(load: Any, recorder: list[Recorder]) -> None:
    mod = load(LEAKING)
    mod.run_caught(5)
    assert [kernel for kernel in ("k_0", "plain_") if kernel in str(recorder[0].plan)] == ["plain_"]
    gc.collect()
    assert "ArithValue" in repr(mod.KEPT)


def test_block_size_rules(load: Any) -> None:
    for size, error, text in (
        (64, TypeError, "sequence of 3 positive integers"),
        ([1, 2], ValueError, "exactly 3"),
        ([1, 2, 0], ValueError, "must be positive"),
        ([1, 2, "3"], TypeError, "must be an int"),
    ):
        with pytest.raises(error, match=text):
            validate_block_size(size)
    module = load(SOURCE.replace("@flyc.kernel", "@flyc.kernel(known_block_size=[32, 1, 1])"))
    with pytest.raises(ValueError, match="differs from known_block_size"):
        module.run(1, 64)
    with pytest.raises(DSLCompileError, match="exceeds the limit of 1024"):
        load(SOURCE).run(1, 2048)


def test_scalar_arguments_are_checked(load: Any) -> None:
    module = load(SOURCE)
    with pytest.raises(OverflowError, match="'n'.*Int32"):
        module.run(2**40, 64)
    with pytest.raises(TypeError, match="'n'.*float 1.5"):
        module.run(1.5, 64)
    with pytest.raises(TypeError, match="'n'"):
        module.run("1", 64)
    with pytest.raises(TypeError, match="'c'"):
        module.run(1, [64])


def test_tensor_arguments() -> None:
    arg = flyc.from_dlpack(np.zeros((4, 8), np.float32))
    assert arg.__cache_signature__()[4:] == ((4, 8), (8, 1))
    assert arg.mark_layout_dynamic(divisibility=4).__cache_signature__()[4:] == ((-1, -1), (-4, 1))
    raw = flyc.JitArgumentRegistry and __import__("flydsl.compiler.jit_argument", fromlist=["x"]).resolve_argument
    assert raw("A", fx.Tensor, np.zeros((4, 8), np.float32)).spec.stride == (-1, 1)
    assert raw("A", fx.Tensor, np.zeros((4, 8), np.float32)[:, ::2], "f").spec.stride == (-1, -1)  # no unit stride
    with pytest.raises(TypeError, match="f: argument 'A': .*cannot be kernel arguments; supported: f16"):
        raw("A", fx.Tensor, np.zeros(4, np.complex64), "f")
    with pytest.raises(ValueError, match="f: argument 'A': zero-dimensional"):
        raw("A", fx.Tensor, np.zeros((), np.float32), "f")
    with pytest.raises(TypeError, match="'A' of type str"):
        raw("A", fx.Tensor, "x")
    with pytest.raises(ValueError):
        flyc.from_dlpack(np.zeros((), np.float32))
    for args, text in (
        ((0, [2]), "must be an int"),
        (([0, 1], [2]), "equal length"),
        ((5,), "out of range"),
        ((0, 3), "power of two"),
    ):
        with pytest.raises(ValueError, match=text):
            flyc.from_dlpack(np.zeros((4, 8), np.float32)).mark_shape_dynamic(*args)


def test_dumps(load: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FLYDSL_DUMP_IR", "1")
    monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path / "dumps"))
    load(SOURCE).run(1, 64)
    names = sorted(p.name for p in (tmp_path / "dumps" / "k_0").iterdir())
    assert names[0] == "00_origin.mlir" and names[-1].endswith("_final_isa.s") and names[-2].endswith("_llvm_ir.ll")
    assert "10_convert_scf_to_cf_cse_convert_gpu_to_rocdl.mlir" in names
    out = capsys.readouterr().out
    assert "[flydsl.compile] dump origin ->" in out and "FLYDSL_DUMP_IR=1 dir=" in out
    monkeypatch.delenv("FLYDSL_DUMP_IR")
    monkeypatch.setenv("FLYDSL_DEBUG_DUMP_ASM", "1")
    load(SOURCE).run(1, 64)
    assert f"[flydsl.compile] FLYDSL_DEBUG_DUMP_ASM=1 dir={tmp_path / 'dumps' / 'k_0'}\n" in capsys.readouterr().out


def test_dumps_that_cannot_be_written(load: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FLYDSL_DUMP_IR", "1")
    monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path / "file" / "dumps"))
    with pytest.raises(ValueError, match=r"FLYDSL_DUMP_DIR='.*dumps': .*/k_0 cannot be written \(Not a directory\)"):
        load(SOURCE).run(1, 64)
    (tmp_path / "dumps" / "k_0" / "00_origin.mlir").mkdir(parents=True)
    monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path / "dumps"))
    with pytest.raises(ValueError, match=r"00_origin.mlir cannot be written \(Is a directory\)"):
        load(SOURCE).run(1, 64)


def test_stage_label() -> None:
    assert (
        stage_label("gpu.module(convert-scf-to-cf,cse,convert-gpu-to-rocdl{chipset=x})")
        == "convert_scf_to_cf_cse_convert_gpu_to_rocdl"
    )
    assert stage_label("{}") == "stage"


def test_imports_stay_light() -> None:
    """What few programs need is imported when it is used: each costs a share of the budget of every start."""
    code = "import sys; before = set(sys.modules); import flydsl.compiler; print(*set(sys.modules) - before)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "flydsl.compiler.jit_function" in loaded
    assert not {"flydsl._mlir", "numpy", "html", "subprocess", "tempfile"} & set(loaded)


STRAIGHT = """
import flydsl.compiler as flyc
import flydsl.expr as fx

@flyc.kernel
def k(n: fx.Int32):
    pass

@flyc.jit
def run(n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    k(n).launch(grid=(n * 2,), block=64, stream=stream)
"""


def test_straight_code_is_rewritten_when_it_is_traced(load: Any) -> None:
    """A call that the disk cache answers does without; what may be rejected is rewritten at its definition."""
    assert load(SOURCE.replace("    k(n, c)", "    if n > 0:\n        k(n, c)")).run._rewritten.done
    first = load(STRAIGHT)
    second = load_again(first)
    assert not first.run._rewritten.done
    first.run(4)
    assert first.run._rewritten.done
    second.run(4)
    assert second.run.cache_info().hits == 1 and not second.run._rewritten.done


def test_a_function_is_what_it_was_when_it_was_defined(load: Any) -> None:
    """Its file may change before its first call."""
    module = load(STRAIGHT)
    Path(module.__file__).write_text("\n\n" + STRAIGHT.replace("n * 2", "n * 5"), encoding="utf-8")
    linecache.checkcache()
    module.run(4)
    traced = module.run.last_compiled.source_ir
    assert "arith.constant 2 : i32" in traced and "arith.constant 5 : i32" not in traced
