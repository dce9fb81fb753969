"""Compiled kernels on the device of this machine: a GPU, or the simulator."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flydsl._mlir.dialects.fly")

import flydsl.compiler as flyc  # noqa: E402
import flydsl.expr as fx  # noqa: E402

SOURCE = """
import flydsl.compiler as flyc
import flydsl.expr as fx

@flyc.kernel
def clip(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32, lo: fx.Constexpr[float]):
    i = fx.block_idx.x * 128 + fx.thread_idx.x
    if i < n:
        v = X[i]
        if v < lo:
            v = fx.Float32(lo)
        Y[i] = v

@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32, lo: fx.Constexpr[float], stream: fx.Stream = fx.Stream(None)):
    clip(X, Y, n, lo).launch(grid=((n + 127) // 128,), block=128, stream=stream)
"""


@pytest.fixture(autouse=True)
def device() -> None:
    import flydsl.runtime

    try:
        flydsl.runtime.device_count()
    except flydsl.runtime.HipError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("n", [1, 128, 1000])
def test_clip(load: Any, n: int) -> None:
    x = np.linspace(-1, 1, n, dtype=np.float32)
    y = np.zeros_like(x)
    module = load(SOURCE)
    module.run(x, y, n, 0.25)
    np.testing.assert_array_equal(y, np.maximum(x, np.float32(0.25)))
    compiled = flyc.compile(module.run, x, y, n, 0.5)
    y[:] = 0
    compiled(x, y, n, 0.5, None)
    np.testing.assert_array_equal(y, np.maximum(x, np.float32(0.5)))


def test_a_target_may_name_its_features(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a device reports them: the last minus belongs to the feature, not to a variant such as gfx1250-strict."""
    monkeypatch.setenv("ARCH", "gfx942:sramecc+:xnack-")
    x = np.zeros(8, np.float32)
    compiled = flyc.compile(load(SOURCE).run, x, x, 8, 0.25)
    assert b"amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-" in compiled.artifact.hsaco


def test_assembly_is_dumped_though_the_disk_cache_has_the_kernel(
    load: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "cache"))
    x = np.zeros(8, np.float32)
    load(SOURCE).run(x, x, 8, 0.25)
    monkeypatch.setenv("FLYDSL_DEBUG_DUMP_ASM", "1")
    monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path / "dump"))
    load(SOURCE).run(x, x, 8, 0.25)
    (file,) = (f for f in (tmp_path / "dump").rglob("*") if f.is_file())
    assert file.name.endswith("_final_isa.s") and "clip" in file.read_text()


def test_code_compiled_for_another_device_is_one_hit(load: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Compiled ahead of time there are no line tables, which the simulator has otherwise."""
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path))
    x = np.arange(8, dtype=np.float32)
    with monkeypatch.context() as ahead:
        ahead.setenv("COMPILE_ONLY", "1")
        first = load(SOURCE).run
        first(x, x, 8, 0.25)
        assert first.cache_info()[:2] == (0, 1)
    second, y = load(SOURCE).run, np.full(8, -77, np.float32)
    second(x, y, 8, 2.5)
    assert second.cache_info()[:2] == (0, 1)  # of another compile-time value
    second(x, y, 8, 0.25)
    assert second.cache_info()[:2] == (1, 1) and np.array_equal(y, np.maximum(x, 0.25))


def test_the_key_that_run_only_misses_is_the_one_to_ship(
    load: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """It is that of COMPILE_ONLY, which the simulator's line tables and a moved comment do not change."""
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "cache"))
    x, messages = np.zeros(8, np.float32), []
    with monkeypatch.context() as run_only:
        run_only.setenv("FLYDSL_RUNTIME_RUN_ONLY", "1")
        for source in (SOURCE, "# a comment\n\n" + textwrap.dedent(SOURCE)):
            with pytest.raises(RuntimeError, match="RUN_ONLY is set and run .*does not exist") as miss:
                load(source).run(x, x, 8, 0.25)
            messages.append(str(miss.value))
    assert messages[0] == messages[1]
    monkeypatch.setenv("COMPILE_ONLY", "1")
    load(SOURCE).run(x, x, 8, 0.25)
    (artifact,) = (tmp_path / "cache").glob("*/*.fly")
    assert str(artifact.parent) in messages[0] and f"key {artifact.stem})" in messages[0]
    assert f"manager key {artifact.parent.name.rpartition('_')[2]}," in messages[0]


def test_settings_of_a_block_are_part_of_the_key(load: Any) -> None:
    from flydsl.utils import env

    run, x = load(SOURCE).run, np.zeros(8, np.float32)
    keys = []
    for level in (2, 0, 2):
        with env.override(opt_level=level):
            keys.append(run.resolve_call(x, x, 8, 0.25).key)
    assert keys[0] == keys[2] != keys[1]


def test_compiled_function_checks_its_tensors(load: Any) -> None:
    module = load(SOURCE)
    x = np.zeros(8, np.float32)
    compiled = flyc.compile(module.run, x, x.copy(), 8, 0.5)
    with pytest.raises((TypeError, ValueError), match="X"):
        compiled(np.zeros(8, np.float16), x, 8, 0.5, None)
    with pytest.raises((TypeError, ValueError), match="X"):
        compiled(np.zeros((8, 8), np.float32), x, 8, 0.5, None)


def test_loop_carried_value(load: Any) -> None:
    module = load(
        SOURCE
        + """
@flyc.kernel
def total(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    acc = fx.Float32(0.0)
    for i in range(n):
        acc = acc + X[i]
    Y[fx.thread_idx.x] = acc

@flyc.jit
def run_total(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    total(X, Y, n).launch(block=64)
"""
    )
    x, y = np.arange(10, dtype=np.float32), np.zeros(64, np.float32)
    module.run_total(x, y, 10)
    assert (y == 45).all()


def test_second_process_starts_from_the_disk_cache(tmp_path: Any) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        SOURCE
        + """
import numpy as np
x = np.linspace(-1, 1, 300, dtype=np.float32); y = np.zeros_like(x)
run(x, y, 300, 0.25)
assert (y == np.maximum(x, np.float32(0.25))).all()
print("hits", run.cache_info().hits)
"""
    )
    for hits in (0, 1):
        out = subprocess.run(
            [sys.executable, str(script)], check=True, capture_output=True, text=True, env=os.environ.copy()
        )
        assert f"hits {hits}" in out.stdout


def test_fx_is_importable_without_device_work() -> None:
    assert fx.Int32(3).value == 3


LARGE = """
import flydsl.compiler as flyc
import flydsl.expr as fx

@flyc.kernel
def mark(X: fx.Tensor, row: fx.Int32, col: fx.Int32):
    X[row, col] = X[row, col] + fx.Float32(7.0)

@flyc.jit
def run(X: fx.Tensor, row: fx.Int32, col: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    mark(X, row, col).launch(grid=(1,), block=1, stream=stream)
"""


def test_offsets_over_four_gibibytes(load: Any) -> None:
    """Strides are 64-bit, so an element 12 GiB away is reached; 32-bit strides that cannot say it are refused."""
    import flydsl.runtime as rt

    module = load(LARGE)
    rows, columns = 4, 2**30  # 16 GiB of address space, of which two pages are touched
    try:
        storage = np.zeros((rows, columns), np.float32)
    except MemoryError:
        pytest.skip("no address space for a large array")
    if rt.kind() != "sim":
        pytest.skip("would copy 16 GiB to the device")
    module.run(storage, 3, 5)
    module.run(storage, 3, 5)
    module.run(storage, 0, columns - 1)
    rt.synchronize()
    assert storage[3, 5] == 14 and storage[0, columns - 1] == 7 and storage[0, 5] == 0 and storage[1, 5] == 0
    far = np.lib.stride_tricks.as_strided(storage, (2, 4), (3 * columns * 4, 4))
    narrow = flyc.from_dlpack(far, use_32bit_stride=True).mark_layout_dynamic()
    with pytest.raises(ValueError, match=r"stride \d+ of dimension 0 does not fit in 32 bits"):
        module.run(narrow, 0, 0)
    wide = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (2**31, 1), (0, 4))
    with pytest.raises(ValueError, match="extent 2147483648 of dimension 0 does not fit in 32 bits"):
        module.run(wide, 0, 0)


BUFFERS = """
import flydsl.compiler as flyc
import flydsl.expr as fx

@flyc.kernel
def whole(X: fx.Tensor, Y: fx.Tensor):
    B = fx.rocdl.make_buffer_tensor(X)
    Y[fx.thread_idx.x] = B[fx.thread_idx.x, 1]

@flyc.kernel
def rows(X: fx.Tensor, Y: fx.Tensor):
    for i in fx.range_constexpr(4):
        B = fx.rocdl.make_buffer_tensor(fx.slice(X, (i, None)))
        Y[i] = B[1]

@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor, sliced: fx.Constexpr[bool]):
    if fx.const_expr(sliced):
        rows(X, Y).launch(grid=1, block=1)
    else:
        whole(X, Y).launch(grid=1, block=4)
"""


def test_buffer_offsets_over_four_gibibytes(load: Any) -> None:
    """A buffer offset has 32 bits: a tensor that is larger is refused, and its rows are taken one by one."""
    import flydsl.runtime as rt

    module = load(BUFFERS)
    small, out = np.arange(40, dtype=np.float32).reshape(4, 10), np.zeros(4, np.float32)
    for sliced in (False, True):
        module.run(small, out, sliced)
        rt.synchronize()
        np.testing.assert_array_equal(out, small[:, 1])
    if rt.kind() != "sim":
        pytest.skip("would copy 16 GiB to the device")
    try:
        large = np.zeros((4, 2**30), np.float32)
    except MemoryError:
        pytest.skip("no address space for a large array")
    large[:, 1] = [3, 1, 4, 1]
    with pytest.raises(ValueError, match=r"'X'.* at most 4294967296 bytes, got one that spans 17179869184"):
        module.run(large, out, False)
    module.run(large, out, True)
    rt.synchronize()
    np.testing.assert_array_equal(out, large[:, 1])


def test_compile_and_launch_takes_null_pointers(
    load: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Optional arguments of older programs: a null pointer is no reason not to launch. The first use is told."""
    from flydsl.compiler import jit_function

    module = load("""
import flydsl.compiler as flyc
import flydsl.expr as fx

@flyc.kernel
def k(X: fx.Tensor, p: fx.Pointer, has: fx.Constexpr[bool]):
    if fx.const_expr(has):
        X[fx.thread_idx.x] = p[fx.thread_idx.x]
    else:
        X[fx.thread_idx.x] = 7.0
@flyc.jit
def run(X: fx.Tensor, p: fx.Pointer, has: fx.Constexpr[bool]):
    k(X, p, has).launch(grid=1, block=64)
""")
    jit_function._say_once.cache_clear()
    monkeypatch.setenv("FLYDSL_COMPILE_AND_LAUNCH", "1")
    for _ in range(2):
        x = np.zeros(64, np.float32)
        flyc.compile(module.run, x, flyc.from_c_void_p(fx.Float32, None), False)
        assert (x == 7).all()
    assert capfd.readouterr().err.count("FLYDSL_COMPILE_AND_LAUNCH") == 1


def test_compile_never_launches_unless_asked(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import flydsl.runtime as rt

    module, x = load(LARGE), np.zeros((2, 4), np.float32)
    flyc.compile(module.run, x, 1, 2)
    rt.synchronize()
    assert not x.any()
    monkeypatch.setenv("FLYDSL_COMPILE_AND_LAUNCH", "1")
    compiled = flyc.compile(module.run, x, 1, 2)
    rt.synchronize()
    assert x[1, 2] == 7
    compiled(x, 1, 2, None)
    rt.synchronize()
    assert x[1, 2] == 14


def test_line_tables_of_a_kernel_that_a_helper_launches():
    """Operations of the host side then have call-site locations too, which the pass for debug scopes does not take."""
    import numpy as np

    import flydsl.compiler as flyc
    import flydsl.expr as fx
    from flydsl.utils import env

    @flyc.kernel
    def fill(out: fx.Tensor, n: fx.Int32):
        if fx.thread_idx.x < n:
            out[fx.thread_idx.x] = 7

    @flyc.jit
    def start(kernel, n, stream):
        if n > 0:
            kernel().launch(grid=1, block=64, stream=stream)

    @flyc.jit
    def launch(out: fx.Tensor, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        start(lambda: fill(out, n), n, stream)

    out = np.zeros(64, np.int32)
    with env.override(enable_debug_info=True):
        launch(out, 5)
    assert out.sum() == 35
