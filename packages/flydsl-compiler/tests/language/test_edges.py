"""Copies of the last tile of a tensor that its tiles do not fill: refused where that is certain, else warned of."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flydsl.tracing.diagnostics import DSLCompileError

Run = Callable[..., np.ndarray]

#: How each division counts its tiles: tile `I` of the rows of a matrix (5, 8) in tiles of (2, 8).
DIVISIONS = {
    "flat_divide": "(None, None, I, 0)", "tiled_divide": "(None, I, 0)", "zipped_divide": "(None, (I, 0))",
    "logical_divide": "((None, I), (None, 0))",
}


def program(division: str, copy: str, space: str = "{}", shape: str = "(5, 8), (8, 1)") -> str:
    """The body of a kernel whose 16 threads copy a tile of X to Y in the way of `copy`."""
    coordinate = DIVISIONS[division]
    return f"""
    views = [fx.make_view(fx.get_iter(v), fx.make_layout({shape})) for v in (X, Y)]
    A, B = [fx.{division}({space.format("v")}, fx.make_tile(2, 8)) for v in views]
    atom = fx.make_copy_atom({"fx.rocdl.BufferCopy32b()" if "buffer" in space else "fx.UniversalCopy32b()"}, fx.Float32)
    tile, tv = fx.make_layout_tv(fx.make_layout((2, 8), (8, 1)), fx.make_layout((1, 1), (1, 1)))
    thread = fx.make_tiled_copy(atom, tv, tile).get_slice(t)
    fragment = fx.make_rmem_tensor(thread.partition_S(A[{coordinate.replace("I", "0")}]).layout, fx.Float32)
    def move(i, **options):
        fx.copy(atom, thread.partition_S(A[{coordinate.replace("I", "i")}]), fragment, **options)
        fx.copy(atom, fragment, thread.partition_D(B[{coordinate.replace("I", "i")}]), **options)
    {copy}
    """


def execute(run: Run, body: str) -> np.ndarray:
    y = np.full(64, -77, np.float32)
    run(body, x=np.arange(64, dtype=np.float32), y=y, block=16, n=2)
    return y


def rows(*numbers: int) -> np.ndarray:
    out = np.full((8, 8), -77, np.float32)
    out[list(numbers)] = np.arange(64, dtype=np.float32).reshape(8, 8)[list(numbers)]
    return out.ravel()


@pytest.mark.parametrize("division", DIVISIONS)
@pytest.mark.parametrize("copy", ["move(2)", "for i in range(3):\n        move(i)"])
def test_the_last_tile_is_refused(division: str, copy: str, run: Run) -> None:
    message = "mode 0 of .* has extent 5 and is divided in tiles of 2, the last of which is copied whole"
    with pytest.raises(DSLCompileError, match=message) as error:
        execute(run, program(division, copy))
    assert "sample_1.py" in str(error.value)


@pytest.mark.parametrize("division", DIVISIONS)
@pytest.mark.parametrize(("copy", "want"), [
    ("move(1)", (2, 3)),
    ("for i in range(2):\n        move(i)", (0, 1, 2, 3)),
    ("move(2, bounds=True)", (4,)),
    ("if n < 2:\n        move(2)", ()),
])
def test_what_lies_inside_is_copied(division: str, copy: str, want: tuple[int, ...], run: Run) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(execute(run, program(division, copy)), rows(*want))


def test_a_tile_that_is_known_at_run_time_is_warned_of(run: Run) -> None:
    with pytest.warns(UserWarning, match="which one is copied is known only at run time") as caught:
        np.testing.assert_array_equal(execute(run, program("flat_divide", "move(n - 1)")), rows(2, 3))
    assert caught[0].filename.endswith("sample_1.py")


BUFFER = "fx.rocdl.make_buffer_tensor({}, max_size=False)"


def test_buffers_end_behind_their_last_row(run: Run) -> None:
    np.testing.assert_array_equal(execute(run, program("flat_divide", "move(2)", BUFFER)), rows(4))


def test_columns_of_buffers_have_neighbours(run: Run) -> None:
    with pytest.raises(DSLCompileError, match="mode 0 of .* has extent 5"):
        execute(run, program("flat_divide", "move(2)", BUFFER, shape="(5, 8), (1, 5)"))


def test_a_part_of_a_tile_may_be_copied(run: Run) -> None:
    """The first row of the last tile exists: rows are taken apart before the copy."""
    body = """
    A, B = [fx.flat_divide(fx.make_view(fx.get_iter(v), fx.make_layout((5, 8), (8, 1))), (2, 8)) for v in (X, Y)]
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    fx.copy(atom, fx.logical_divide(A[0, None, 2, 0], fx.make_layout(1, 1)),
            fx.logical_divide(B[0, None, 2, 0], fx.make_layout(1, 1)))
    """
    np.testing.assert_array_equal(execute(run, body), rows(4))


@pytest.mark.parametrize("whole", ["A[None, i]", "A[None, None][None, i]"])
def test_vectors(whole: str, run: Run) -> None:
    body: Any = """
    A, B = [fx.logical_divide(fx.make_view(fx.get_iter(v), fx.make_layout(10, 1)), fx.make_layout(4, 1))
            for v in (X, Y)]
    atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
    r = fx.make_rmem_tensor(4, fx.Float32)
    for i in fx.range_constexpr(TILES):
        fx.copy(atom, WHOLE, r)
        fx.copy(atom, r, B[None, i])
    """.replace("WHOLE", whole)
    out = execute(run, body.replace("TILES", "2"))
    np.testing.assert_array_equal(out[:10], [0, 1, 2, 3, 4, 5, 6, 7, -77, -77])
    with pytest.raises(DSLCompileError, match="mode 0 of .* has extent 10 and is divided in tiles of 4"):
        execute(run, body.replace("TILES", "3"))


COPY_OF_64 = """
tile, tv = fx.make_layout_tv(fx.make_layout((8, 8), (8, 1)), fx.make_layout((1, 1), (1, 1)))
atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
A, B = [fx.make_view(fx.get_iter(v), fx.make_layout((8, 8), (8, 1))) for v in (X, Y)]
"""


def test_more_threads_than_the_copy_is_of(run: Run) -> None:
    """The elements of threads 64 to 127 would lie behind the tile."""
    copy = "thread = fx.make_tiled_copy(atom, tv, tile).get_slice(WHO)\n"
    copy += "fx.copy(atom, thread.partition_S(A), thread.partition_D(B))"
    body = COPY_OF_64 + copy
    with pytest.raises(DSLCompileError, match="is of 64 threads, but 128 execute it.*if thread < 64:"):
        run(body.replace("WHO", "t"), block=128)
    branch = COPY_OF_64 + "if t < 64:\n    " + copy.replace("\n", "\n    ").replace("WHO", "t")
    for right in (body.replace("WHO", "t % 64"), branch):
        out = run(right, block=128)
        np.testing.assert_array_equal(out, [*range(64), *[-77] * 64])
