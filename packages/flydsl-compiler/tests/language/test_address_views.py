"""Views of one element are addresses: the atom of a copy says how much moves. Views with a layout are checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

FLOATS = 256

#: Ways to name 16 bytes at element `i` of the memory behind a pointer or tensor, by a view of one element.
VIEWS = {
    "divided": "fx.slice(fx.logical_divide({tensor}, fx.make_layout(1, 1)), (None, {i}))",
    "one_one": "fx.make_view(fx.add_offset(fx.get_iter({tensor}), {i}), fx.make_layout(1, 1))",
    "one_zero": "fx.make_view(fx.get_iter({tensor}) + {i}, fx.make_layout(1, 0))",
    "rank_one": "fx.make_view(fx.get_iter({tensor}) + {i}, fx.make_layout((1,), (1,)))",
}
#: Memory as another element type.
BYTES = "fx.make_view(fx.recast_iter(fx.Int8, fx.get_iter({tensor})), fx.make_layout(4 * FLOATS, 1))"

PRELUDE = f"FLOATS = {FLOATS}"


def check(run: Any, body: str, expected: Any = None) -> None:
    x = np.random.default_rng(7).random(FLOATS, np.float32)
    got = run(body, x=x, y=np.full(FLOATS, -7, np.float32), prelude=PRELUDE)
    np.testing.assert_array_equal(got, x if expected is None else expected(x))


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(
    ("space", "op"),
    [("{}", "fx.UniversalCopy128b()"), ("fx.rocdl.make_buffer_tensor({})", "fx.rocdl.BufferCopy128b()")],
)
@pytest.mark.parametrize("call", ["copy", "copy_atom_call"])
def test_global_and_buffer_memory(run: Any, view: str, space: str, op: str, call: str) -> None:
    source, target = (VIEWS[view].format(tensor=space.format(name), i="4 * t") for name in "XY")
    check(run, f"""r = fx.make_rmem_tensor(4, fx.Float32)
fx.{call}(fx.make_copy_atom({op}, fx.Float32), {source}, r)
fx.{call}(fx.make_copy_atom({op}, fx.Float32), r, {target})""")


@pytest.mark.parametrize("fragment", ["16, fx.Int8", "4, fx.Int32", "8, fx.BFloat16"])
def test_bytes(run: Any, fragment: str) -> None:
    """Memory of bytes moves as what the registers hold."""
    space = f"fx.rocdl.make_buffer_tensor({BYTES})"
    source, target = (VIEWS["divided"].format(tensor=space.format(tensor=name), i="16 * t") for name in "XY")
    check(run, f"""r = fx.make_rmem_tensor({fragment})
atom = fx.make_copy_atom(fx.rocdl.BufferCopy128b(), {fragment.split()[1]})
fx.copy(atom, {source}, r)
fx.copy(atom, r, {target})""")


def test_lds(run: Any) -> None:
    check(run, """base = fx.recast_iter(fx.Float32, fx.get_dyn_shared(fx.Int8))
atom, one = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32), fx.make_layout(1, 1)
r, s = fx.make_rmem_tensor(4, fx.Float32), fx.make_rmem_tensor(4, fx.Float32)
fx.copy(atom, fx.make_view(fx.get_iter(X) + 4 * t, one), r)
fx.copy(atom, r, fx.make_view(base + 4 * t, one))
fx.barrier()
fx.copy(atom, fx.make_view(base + 4 * (63 - t), one), s)
fx.copy(atom, s, fx.make_view(fx.get_iter(Y) + 4 * t, one))""".replace("fx.get_dyn_shared(fx.Int8)",
          "fx.SharedAllocator().allocate(fx.Array[fx.Int8, 1024, 16]).peek().ptr"),
          lambda x: x.reshape(64, 4)[::-1].reshape(-1))


@pytest.mark.parametrize("element", ["fx.Float32", "fx.Int8"])
def test_direct_copies_into_lds(run: Any, element: str) -> None:
    """The wave's base address in LDS; each lane's address in the buffer."""
    scale = 4 if element == "fx.Int8" else 1
    tensor = BYTES.format(tensor="X") if scale == 4 else "X"
    check(run, f"""lds = fx.SharedAllocator().allocate(fx.Array[{element}, {256 * scale}, 16]).peek().ptr
source = fx.logical_divide(fx.rocdl.make_buffer_tensor({tensor}), fx.make_layout(1, 1))
atom = fx.make_copy_atom(fx.rocdl.BufferCopyLDS32b(), {element})
for i in fx.range_constexpr(4):
    place = fx.make_view(lds + {64 * scale} * i, fx.make_layout(1, 1))
    fx.copy(atom, fx.slice(source, (None, {scale} * (t + 64 * i))), place)
fx.barrier()
tile = fx.make_view(fx.recast_iter(fx.Float32, lds), fx.make_layout(256, 1))
for i in fx.range_constexpr(4):
    Y[t + 64 * i] = tile[255 - t - 64 * i]""", lambda x: x[::-1])


def test_views_with_a_layout_are_checked(load: Any, kernel_text: Any) -> None:
    """Two elements are no address, and one element of a fragment has no neighbours."""
    for body, text in (
        ("fx.copy(atom, fx.make_view(fx.get_iter(X), fx.make_layout(2, 1)), fx.make_rmem_tensor(4, fx.Float32))",
         "moves 128 bits, but .* holds only 64"),
        ("fx.copy(atom, fx.make_view(fx.get_iter(X), fx.make_layout((1, 1), (1, 1))), "
         "fx.make_rmem_tensor((4, 1), fx.Float32))", "mode 0 of .* has one element, but a call of the atom moves"),
        ("fx.copy(atom, fx.make_view(fx.get_iter(X), fx.make_layout(1, 1)), fx.make_rmem_tensor(1, fx.Float32))",
         "moves 128 bits, but mode 0 of .* holds only 32"),
    ):
        module = load(kernel_text("atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)\n" + body))
        with pytest.raises((ValueError, RuntimeError), match=text):
            module.run(np.zeros(64, np.float32), np.zeros(64, np.float32), 1)
