"""gfx1250 tensor data mover: descriptor words as specified, and code generation."""

from __future__ import annotations

from typing import Any

import pytest

from flydsl.expr.rocdl import tdm_ops
from flydsl.runtime.device import get_rocm_device_count
from flydsl.utils import env


def test_padding_encoding() -> None:
    assert tdm_ops.compute_padding_encoding(64, 8, 16) == (4, 3)
    assert tdm_ops.compute_padding_encoding(0, 8) == (0, 0)
    with pytest.raises(AssertionError):
        tdm_ops.compute_padding_encoding(48, 8, 16)
    assert tdm_ops._control_word(0, 2, False, False, (4, 3, True)) == 118554624
    assert tdm_ops._control_word(0, 2, True, True, (0, 0, False)) == 2424832


@pytest.mark.parametrize(
    ("tile", "waves", "expected"),
    [
        ((128, 64), 4, ((4, 1), (32, 64))),
        ((2, 64), 8, ((2, 4), (1, 16))),
        ((1, 64), 4, ((1, 4), (1, 16))),
        ((16, 16), 1, ((1, 1), (16, 16))),
        ((3, 2), 8, ((2, 4), (2, 1))),
    ],
)
def test_warp_distribution(tile: Any, waves: int, expected: Any) -> None:
    assert tdm_ops.compute_warp_distribution(tile, waves) == expected


def _compile(load: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, body: str) -> str:
    """Assembly of a gfx1250 kernel with tensors A and an LDS pointer ``lds``."""
    import numpy as np

    for name, value in {"ARCH": "gfx1250", "COMPILE_ONLY": "1", "FLYDSL_DUMP_IR": "1",
                        "FLYDSL_DUMP_DIR": str(tmp_path / "dump")}.items():
        monkeypatch.setenv(name, value)
    text = "\n".join("    " + line for line in body.strip().splitlines())
    source = f"""
from flydsl.expr.rocdl import tdm_ops

@flyc.kernel
def k(A: fx.Tensor, n: fx.Int32):
    lds = fx.SharedAllocator().allocate(16384).peek().ptr
{text}

@flyc.jit
def run(A: fx.Tensor, n: fx.Int32):
    k(A, n).launch(grid=1, block=128)
"""
    module = load(source)
    module.run(np.zeros((128, 64), np.float16), 3)
    (assembly,) = (tmp_path / "dump" / "k_0").glob("*_final_isa.s")
    return assembly.read_text()


def test_two_dimensional_load_and_store(load: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    body = """
d = tdm_ops.make_tensor_descriptor_2d(A, lds, (n * 16, 0), (128, 64), (64, 1), (32, 64), num_warps=4,
                                      pad_interval=64, pad_amount=8, oob_outer_bound=n * 20)
tdm_ops.tensor_load_2d(d)
tdm_ops.tensor_wait(0)
d = tdm_ops.update_tensor_descriptor_2d_addr64(d, tdm_ops._lane(d.dgroup0, 2), tdm_ops._lane(d.dgroup0, 3), 64)
tdm_ops.tensor_store_2d(tdm_ops.update_tensor_descriptor_2d_lds_addr(d, 128))
tdm_ops.l2_prefetch_tile(A, (0, 0), (32, 64), (64, 1))
"""
    text = _compile(load, monkeypatch, tmp_path, body)
    for instruction in ("tensor_load_to_lds", "tensor_store_from_lds", "s_wait_tensorcnt 0x0", "global_prefetch"):
        assert instruction in text


@pytest.mark.parametrize("bits", [32, 16])
def test_gather(load: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, bits: int) -> None:
    body = f"""
d = tdm_ops.make_tensor_gather_descriptor(A, lds, [n, 5, n + 1], 64, 64, n * 9, 64, elem_bytes=2, index_size={bits})
tdm_ops.tensor_load_gather(d)
tdm_ops.tensor_wait()
"""
    assert "tensor_load_to_lds" in _compile(load, monkeypatch, tmp_path, body)


def test_tdm_atom_checks_its_arguments(load: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for call, text in (
        ("fx.rocdl.make_tdm_atom(A, [n] * 6, num_warps=4)", "1 to 5 modes"),
        ("fx.rocdl.make_tdm_atom(A, [n, 64], [64, 1, 1], num_warps=4)", r"need 1 strides \(or 2\), got 3"),
    ):
        with pytest.raises(ValueError, match=text):
            _compile(load, monkeypatch, tmp_path, call)
    monkeypatch.setenv("ARCH", "gfx942")


def test_tdm_needs_gfx1250(run: Any) -> None:
    with pytest.raises(ValueError, match="gfx942"):
        run("fx.rocdl.TDM(2, 4)")


MASKS = """
@flyc.kernel
def k(Out: fx.Tensor, m: fx.Constexpr[int], n: fx.Constexpr[int]):
    (x, y), (bx, by, _) = fx.rocdl.cluster.compute_cluster_position(), fx.block_idx
    a, b = fx.rocdl.cluster.compute_mcast_masks(x, y, m, n)
    Out[bx, by, 0], Out[bx, by, 1] = fx.Int32(a), fx.Int32(b)

@flyc.jit
def run(Out: fx.Tensor, m: fx.Constexpr[int], n: fx.Constexpr[int]):
    attributes = {"rocdl.cluster_dims": f"{m},{n},1"}
    k(Out, m, n, value_attrs=attributes).launch(grid=(2 * m, n, 1), block=32, cluster=(m, n, 1))
"""


@pytest.mark.usefixtures("device")
@pytest.mark.skipif(get_rocm_device_count() > 0, reason="a simulated device follows the code, a GPU does not")
@pytest.mark.parametrize(("m", "n"), [(2, 2), (2, 3), (4, 1), (1, 3)])
def test_multicast_masks_name_the_workgroups_of_a_row_and_of_a_column(
    load: Any, m: int, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit i is workgroup i of the cluster, with x the fastest."""
    import numpy as np

    monkeypatch.delenv("FLYDSL_SIM_ARCH", raising=False)
    out = np.zeros((2 * m, n, 2), np.int32)
    with env.override(arch="gfx1250"):
        load(MASKS).run(out, m, n)
    for x in range(2 * m):
        for y in range(n):
            same_x = sum(1 << (i + j * m) for i in range(m) for j in range(n) if i == x % m)
            same_y = sum(1 << (i + j * m) for i in range(m) for j in range(n) if j == y)
            assert out[x, y].tolist() == [same_x, same_y]
