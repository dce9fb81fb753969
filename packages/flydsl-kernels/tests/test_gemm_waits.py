"""What stays in flight over the barriers of the GEMMs' main loops: copies and loads of later tiles."""

from __future__ import annotations

import re

import pytest
from kernel_helpers import needs, random, torch

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.ir
import flydsl.runtime as rt
from flydsl.kernels import gemm
from flydsl.kernels.target import target

M, N, BLOCK = 128, 128, dict(block_m=64, block_n=64, block_k=64)
COPIES = 2 * (64 * 64 * 2) // (16 * 256)  # of a tile of both operands, by 256 lanes of 16 bytes


def general(k: int, **knobs):
    """Launcher and arguments of the general GEMM, and a check of its result."""
    a, b, c = random(M, k, dtype="bf16"), random(N, k, dtype="bf16", seed=1), torch.empty(M, N, dtype=torch.bfloat16)
    launch = gemm.build_gemm_module(N, k, "bf16", None, "nt", False, **BLOCK, **knobs)

    def check() -> None:
        torch.testing.assert_close(c.double(), a.double() @ b.double().T, rtol=2**-7, atol=0.05)

    return launch, [c, a, b, c, c, M], check


def instructions(launch, arguments) -> list[str]:
    """Disassembly of the kernel, an instruction an entry."""
    text = flydsl.ir.disassemble(flyc.compile(launch, *arguments).artifact.hsaco)
    return [line.split("//")[0].strip() for line in text.splitlines() if line.startswith("\t")]


def waits_at_barriers(code: list[str]) -> list[int | None]:
    """For each barrier, the last count of vector memory operations that was waited for since the one before."""
    found: list[int | None] = []
    last = None
    for text in code:
        if count := re.search(r"vmcnt\((\d+)\)|s_wait_loadcnt\w* 0x([0-9a-f]+)", text):
            last = int(count[1]) if count[1] else int(count[2], 16)
        if text == "s_barrier" or text.startswith("s_barrier_signal"):
            found.append(last)
            last = None
    return found


@needs("gfx950")
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_ring_leaves_the_copies_of_later_tiles_in_flight(stages):
    launch, arguments, check = general(64 * 9, use_async_copy=True, stages=stages, cshuffle=False)
    waits = waits_at_barriers(instructions(launch, arguments))
    later = (stages - 2) * COPIES
    # Before the loop there is one tile more, of which some copies are not started yet; then the loop, and its tail.
    assert waits[0] > later
    assert waits[1] == later
    assert waits[-1] == 0
    assert sorted(waits, reverse=True) == waits
    launch(*arguments)
    check()


@needs("gfx950")
@pytest.mark.parametrize("stages", [3, 4])
def test_every_count_of_a_ring_is_the_largest(stages, monkeypatch):
    """One more in flight, and the simulator finds a tile that is read before it is there."""
    written = fx.rocdl.s_waitcnt
    monkeypatch.setattr(fx.rocdl, "s_waitcnt", lambda *, vmcnt: written(vmcnt=vmcnt + 1))
    # A reduction of its own, so that nothing that was compiled before is taken.
    launch, arguments, _ = general(64 * 11, use_async_copy=True, stages=stages, cshuffle=False)
    with rt.checked("race") as report:
        launch(*arguments)
        rt.synchronize()
    assert any("no wait for its end" in finding.message for finding in report.findings)


@needs("gfx950")
@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_preshuffled_weights_stay_in_flight(dtype):
    """The direct copies of the next tile are waited for, but not the younger loads of the weight."""
    size = 2 if dtype == "bf16" else 1
    m, n, k, tile_k = 64, 128, 1024, 128 // size
    launch = gemm.compile_preshuffle_gemm(N=n, K=k, tile_m=64, tile_n=128, tile_k=tile_k, in_dtype=dtype,
                                          use_async_copy=True)
    data = [torch.zeros(rows * k * size, dtype=torch.int8) for rows in (m, n)]
    data = [x.view(torch.bfloat16) for x in data] if dtype == "bf16" else data
    arguments = [torch.empty(m * n, dtype=torch.bfloat16), *data, torch.ones(m), torch.ones(n), torch.ones(n), m, n]
    waits = waits_at_barriers(instructions(launch, arguments))
    loads = 128 * 128 // (16 * 256)  # of the weight's tile
    assert waits[1:-1] == [loads] * len(waits[1:-1])
    launch(*arguments)


@needs("gfx120")
def test_loads_into_registers_stay_in_flight():
    """On gfx12 a barrier that orders all memory waits for every load."""
    launch, arguments, check = general(64 * 9, cshuffle=False)
    waits = waits_at_barriers(instructions(launch, arguments))
    assert len(waits) >= 4
    assert all(waits[:-1])  # at the last one nothing is left to load
    launch(*arguments)
    check()


def test_no_product_of_a_tile_ahead_waits_behind_the_barrier():
    """Its fragments are in registers, and on gfx12 products follow between the halves of the barrier too."""
    launch, arguments, check = general(64 * 6, tile_ahead=True, cshuffle=False)
    code = instructions(launch, arguments)
    product = [text.startswith(("v_mfma", "v_wmma", "v_smfma")) for text in code]
    inside = range(product.index(True), len(code) - product[::-1].index(True))  # the loop and its tail
    barriers = [i for i in inside if code[i] == "s_barrier" or code[i].startswith("s_barrier_signal")]
    assert len(barriers) >= 2
    for i in barriers:
        following = code[i + 1 : product.index(True, i)]
        assert not [text for text in following if text.startswith("s_wait") and ("lgkm" in text or "dscnt" in text)]
        if target().split_barriers:
            assert not [text for text in following if text.startswith("s_barrier_wait")]
    launch(*arguments)
    check()
