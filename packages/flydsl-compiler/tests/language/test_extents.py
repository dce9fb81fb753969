"""`oob`: stores beyond an extent of an array, whose address is that of another element."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.runtime as rt
from flydsl.utils import env

pytestmark = pytest.mark.usefixtures("device")

# (stored to, index, extent, mode, element of Y, shape of Y), where `t` counts to 63 and n is 1.
BEYOND = {
    "a row": ("Y[n, t]", 60, 60, 1, 120, (4, 60)),
    "before a row": ("Y[n, t - 1]", -1, 60, 1, 59, (4, 60)),
    "a view": ("Y[n, None][t]", 60, 60, 1, 120, (4, 60)),
    "a tile over the edge": ("fx.flat_divide(Y, (2, 48))[None, None, 0, 1][1, t % 48]", 60, 60, 1, 120, (4, 60)),
    "of two tilings": ("fx.flat_divide(fx.flat_divide(Y, (2, 48))[None, None, 0, 1], (2, 16))[1, t % 16, 0, n]",
                       67, 67, 1, 134, (4, 67)),
    "a buffer": ("fx.rocdl.make_buffer_tensor(Y)[n, t]", 60, 60, 1, 120, (4, 60)),
    "a transposed view": ("fx.select(Y, [1, 0])[t, n]", 60, 60, 1, 120, (4, 60)),
}
KERNEL = """
@flyc.kernel
def k(Y: fx.Tensor, n: fx.Int32):
    t = fx.thread_idx.x
    if t >= n - 1:
        {target} = fx.Float32(3.0)  # here

@flyc.jit
def run(Y: fx.Tensor, n: fx.Int32):
    k(Y, n).launch(grid=1, block={block})
"""


def marked_line(module: Any) -> int:
    """Number of the line with the store."""
    lines = Path(module.__file__).read_text(encoding="utf-8").splitlines()
    return 1 + next(i for i, text in enumerate(lines) if "# here" in text)


def program(load: Any, target: str, block: int = 64) -> Any:
    return load(KERNEL.format(target=target, block=block))


@pytest.mark.parametrize("arch", ["gfx942", "gfx1250"])
@pytest.mark.parametrize("name", BEYOND)
def test_stores_beyond_an_extent_are_found(load: Any, name: str, arch: str) -> None:
    target, index, extent, mode, element, shape = BEYOND[name]
    module = program(load, target)
    with env.override(arch=arch):
        module.run(np.zeros(shape, np.float32), 1)  # inside of the memory: nothing faults without the check
        with rt.checked("oob") as report:
            module.run(np.zeros(shape, np.float32), 1)
        module.run(np.zeros(shape, np.float32), 1)
    (finding,) = report
    line = marked_line(module)
    assert finding.check == "oob" and finding.site.source.endswith(f":{line}")
    assert finding.site.access == "write"
    assert finding.message.startswith(f"write beyond the extent of mode {mode} of Y: index {index}, and the extent is "
                                      f"{extent}, at Y (float32[")
    assert finding.message.endswith(f"+ {element} elements")


def test_a_column_of_a_matrix_that_runs_along_columns(load: Any) -> None:
    """The mode with the unit stride is the first one; the array is a view of another's memory."""
    whole = np.zeros((8, 4), np.float32)
    module = program(load, "Y[t, n]", block=4)
    with rt.checked("oob") as report:
        module.run(whole.T[:3], 1)
    messages = [finding.message for finding in report]
    assert any("index 3, and the extent is 3" in m and "mode 0 of Y" in m for m in messages), messages


def test_the_first_one_is_the_error_of_the_launch(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_SIM_CHECK", "oob")
    module = program(load, "Y[n, t]")
    with pytest.raises(rt.SimulatorError) as info:
        module.run(np.zeros((4, 60), np.float32), 1)
    line = marked_line(module)
    assert re.match(rf"run\(\): Y \(float32\[4,60\]\) \+ 120 elements, \S*\.py:{line}, workgroup \(0,0,0\), wave 0, "
                    r"lane 60: check oob: write beyond the extent of mode 1 of Y: index 60, and the extent is 60\n",
                    str(info.value)), info.value
    assert info.value.source == (module.__file__, line)


COPY = """
@flyc.kernel
def k(Y: fx.Tensor, n: fx.Int32):
    t = fx.thread_idx.x
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    narrow = fx.make_copy_atom(fx.rocdl.BufferCopy32b(), fx.Float32)
    r = fx.make_rmem_tensor(4, fx.Float32)
    r.fill(3.0)
    one = fx.make_layout(1, 1)
    parts = fx.logical_divide(r, one)
    tiles = fx.flat_divide(Y, (1, 4))
    buffer = fx.flat_divide(fx.rocdl.make_buffer_tensor(Y), (1, 4))
    tiled = fx.make_tiled_copy_tv(atom, fx.make_ordered_layout((2, 8), (1, 0)), fx.make_layout((1, 2), (2, 1)))
    mine = tiled.get_slice(t).partition_D(fx.flat_divide(Y, (2, 16))[None, None, 0, n])
    fragment = fx.make_fragment_like(mine)
    fragment.fill(3.0)
    pred = fx.make_rmem_tensor(4, fx.Boolean)
    for i in fx.range_constexpr(4):
        pred[i] = 4 * t + i < {columns}
    {statement}  # here

@flyc.jit
def run(Y: fx.Tensor, n: fx.Int32):
    k(Y, n).launch(grid=1, block=16)
"""
# (statement, shape of Y, the first index along which mode and the extent); without a finding: None.
COPIES = {
    "a copy": ("fx.copy(atom, parts, fx.logical_divide(tiles[0, None, n, t], one))", (4, 61), (1, 61, 61)),
    "of one access": ("fx.copy_atom_call(fx.make_copy_atom(fx.UniversalCopy128b(), 32), r, tiles[0, None, n, t])",
                      (4, 60), (1, 60, 60)),
    "a vector": ("tiles[0, None, n, t].store(r.load())", (4, 62), (1, 62, 62)),
    "a fragment that is filled": ("tiles[0, None, n, t].fill(3.0)", (4, 62), (1, 62, 62)),
    "a buffer": ("fx.copy(narrow, parts, fx.logical_divide(buffer[0, None, n, t], one))", (4, 62), (1, 62, 62)),
    "a tiled copy": ("fx.copy(tiled, fragment, mine)", (4, 30), (1, 30, 30)),
    "the last row": ("fx.copy(narrow, parts, fx.logical_divide(buffer[0, None, n + 3, t], one))", (4, 64), None),
    "a whole tile": ("fx.copy(atom, parts, fx.logical_divide(tiles[0, None, n, t], one))", (4, 64), None),
    "a predicate": ("fx.copy(atom, parts, fx.logical_divide(tiles[0, None, n, t], one), pred=pred)", (4, 62), None),
    "bounds": ("fx.copy(atom, parts, fx.logical_divide(tiles[0, None, n, t], one), bounds=True)", (4, 62), None),
    "a load": ("fx.copy(atom, fx.logical_divide(tiles[0, None, n, t], one), parts)", (4, 62), None),
}


@pytest.mark.parametrize("arch", ["gfx942", "gfx1250"])
@pytest.mark.parametrize("name", COPIES)
def test_copies_beyond_an_extent_are_found(load: Any, name: str, arch: str) -> None:
    statement, shape, beyond = COPIES[name]
    module = load(COPY.format(statement=statement, columns=shape[1]))
    with env.override(arch=arch), rt.checked("oob") as report:
        module.run(np.zeros(shape, np.float32), 1)
    if beyond is None:
        assert not list(report), report
        return
    (finding,) = report
    mode, index, extent = beyond
    assert finding.site.source.endswith(f":{marked_line(module)}")
    assert finding.message.startswith(f"write beyond the extent of mode {mode} of Y: index {index}, and the extent is "
                                      f"{extent}, at Y (float32["), finding.message


RIGHT = {
    "all of a matrix": ("Y[n, t]", (4, 64)),
    "a guarded column": ("Y[n, fx.where(t < 60, t, 0)]", (4, 60)),
    "linear coordinates": ("Y[t]", (4, 16)),
    "linear coordinates in a tile": ("fx.flat_divide(Y, (2, 32))[None, None, 0, 1][t]", (4, 64)),
    "a pointer to the memory": ("fx.make_view(fx.get_iter(Y), fx.make_layout((2, 128), (128, 1)))[0, t + 64]", (4, 64)),
    "a base before the tile": ("(fx.get_iter(Y) + 64)[t]", (4, 32)),
    "LDS": ("fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64]).peek().view(fx.make_layout((2, 32), (32, 1)))"
            "[0, t]", (4, 64)),
    "registers": ("fx.make_rmem_tensor((2, 2), fx.Float32)[0, 1]", (4, 64)),
    "a transposed view": ("fx.select(Y, [1, 0])[t, n]", (4, 64)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_programs_that_are_right_have_no_findings(load: Any, name: str) -> None:
    target, shape = RIGHT[name]
    module = program(load, target)
    with rt.checked("oob", "race", "uninit", "barrier") as report:
        module.run(np.zeros(shape, np.float32), 1)
    assert not [finding for finding in report if finding.check == "oob"], report


def test_the_mark_is_compiled_under_the_check_only(load: Any) -> None:
    import flydsl.compiler as flyc
    import flydsl.ir

    module, y = program(load, "Y[n, t]"), np.zeros((4, 60), np.float32)
    before = flyc.compile(module.run, y, 1)
    with rt.checked("oob"):
        marked = flyc.compile(module.run, y, 1)
    assert "s_trap" not in flydsl.ir.disassemble(before.artifact.hsaco)
    assert "s_trap" in flydsl.ir.disassemble(marked.artifact.hsaco)
    marked(y, 1)  # outside of the block it does nothing
    with rt.checked("race") as report:
        marked(y, 1)
    assert (y[1] == 3).all() and not [f for f in report if f.check == "oob"]
    with rt.checked("oob"):
        assert env.extents_checked()
        with env.override(compile_only=True):  # what is compiled here runs elsewhere
            assert not env.extents_checked()


def test_checks_that_are_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    from flydsl.runtime.requested_checks import requested

    monkeypatch.delenv("FLYDSL_SIM_CHECK", raising=False)
    assert requested() == frozenset()
    monkeypatch.setenv("FLYDSL_SIM_CHECK", "oob, race")
    assert requested() == {"oob", "race"}
    monkeypatch.setenv("FLYDSL_SIM_CHECK", "all")
    assert requested() >= {"oob", "uninit", "race", "barrier"}
    monkeypatch.setenv("FLYDSL_SIM_CHECK", "oob, race")
    with rt.checked():
        assert requested() == {"oob", "uninit", "race", "barrier"}
        with rt.checked("nan"):
            assert requested() == {"nan"}
        assert "oob" in requested()
    assert requested() == {"oob", "race"}
