"""The general GEMM in all layouts, split reductions, and the WMMA module."""

import os

import numpy as np
import pytest
from kernel_helpers import DENSE_GEMM, DTYPES, FULL, Guarded, cases, close_relative, needs, random, torch

import flydsl.runtime as rt
from flydsl.kernels import hgemm_splitk, ops
from flydsl.kernels.gemm import (
    build_gemm_module,
    compile_fp8_gemm,
    compile_hgemm_kernel,
    create_wmma_gemm_module,
    gemm_a16w16,
    get_default_kwargs,
    get_semaphore,
    hgemm_splitk_,
    pick_tile,
    preshuffle_b_fp8,
    rdna3_gemm_autotuned,
)
from flydsl.kernels.target import target

pytestmark = needs(*DENSE_GEMM)
MFMA = target().matrix == "mfma"
ROUNDING = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 1e-5}
SHAPES = cases([(136, 200, 328), (8, 64, 64), (40, 136, 72)], [(264, 384, 1032), (512, 256, 512), (24, 5120, 256)])


def run(m, n, k, dtype, layout="nt", bias=False, out=None, **knobs):
    a, b = random(m, k, dtype=dtype), random(k, n, dtype=dtype, seed=1)
    exact = a.double() @ b.double()
    added = random(n, dtype=dtype, seed=2) if bias else None
    exact = exact + added.double() if bias else exact
    stored = [x if letter == "n" else x.T.contiguous() for x, letter in zip((a, b), layout, strict=True)]
    c = Guarded(m, n, dtype=DTYPES[out or dtype])
    gemm_a16w16(*stored, c.out, added, knobs, layout=layout)
    close_relative(c.check(), exact, ROUNDING[out or dtype] * 1.01, f"{dtype} {layout} {knobs}")


@pytest.mark.parametrize(("size", "layout", "dtype"), [
    (size, layout, dtype) for i, size in enumerate(SHAPES) for j, layout in enumerate(["nt", "nn", "tn", "tt"])
    for t, dtype in enumerate(["f16", "bf16"]) if FULL or (i + j + t) % 2], ids=str)  # each pair of two of them
def test_layouts(size, layout, dtype):
    m, n, k = size
    run(m, n, k, dtype, layout, bias=True)


@pytest.mark.parametrize("layout", ["nn", "tn", "tt"])
@pytest.mark.parametrize("block", [(64, 64, 64), (128, 128, 32), (64, 256, 64 if target().dma128 else 32)])
def test_transposed_operands_have_no_bank_conflicts(layout, block):
    """Operands that are consecutive in their rows are turned around: by the reads on gfx950 and gfx1250, else on their
    way to LDS."""
    m, n, k = 136, 264, 160
    run(m, n, k, "bf16", layout, **dict(zip(("block_m", "block_n", "block_k"), block, strict=True)))
    if rt.kind() != "sim" or os.environ.get("FLYDSL_SIM_CHECK"):
        return
    with rt.profile() as result:
        run(m, n, k, "bf16", layout, **dict(zip(("block_m", "block_n", "block_k"), block, strict=True)))
    transposing = any("tr_b16" in i.mnemonic or "load_tr16" in i.mnemonic for i in result[0].instructions)
    assert transposing == (target().dma128 or target().tensor_moves)
    clocks, conflicts, _ = result[0].lds_conflicts()
    assert conflicts <= 0.01 * clocks


def test_f32_output():
    run(70, 136, 256, "bf16", out="f32")
    a, b = random(5, 64, dtype="f16"), random(16, 64, dtype="f16", seed=1)
    assert ops.gemm(a, b, out_dtype=torch.float32).dtype == torch.float32


@pytest.mark.parametrize("m", [1, 3, 17])
def test_few_rows(m):
    run(m, 384, 1024, "f16", bias=True)


SPLIT = cases([dict(split_k=4, block_m=32, block_n=64), dict(split_k=3, block_m=64, block_n=64, block_k=32)],
              [dict(split_k=8, block_m=32, block_n=64), dict(split_k=7, block_m=64, block_n=64)])


@pytest.mark.parametrize("knobs", SPLIT)
@pytest.mark.parametrize("layout", ["nt", "tn"])
def test_split_reduction(knobs, layout):
    run(48, 128, 520, "bf16", layout, bias=True, **knobs)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("bias", [False, True])
def test_slices_that_add_to_c(dtype, bias):
    """In place, in any order: a rounding for each slice. The flags are clear again, so a second launch works."""
    m, n, k, split = 50, 136, 640, 5
    kind = "bf16" if dtype == "f32" else dtype
    a, b, added = random(m, k, dtype=kind), random(n, k, dtype=kind, seed=1), random(n, dtype=kind, seed=2)
    exact = a.double() @ b.double().T + (added.double() if bias else 0)
    knobs = dict(split_k=split, block_m=32, block_n=64, block_k=64 if MFMA else 32, atomic=True)
    for _ in range(2):
        c = Guarded(m, n, dtype=DTYPES[dtype])
        gemm_a16w16(a, b, c.out, added if bias else None, knobs)
        close_relative(c.check(), exact, (split + 2) * ROUNDING[dtype])
    assert not any(flags.any() for flags in get_semaphore(None, a.device))


@pytest.mark.parametrize("bias", [None, "bf16", "f32"])
def test_a_sum_over_nothing_is_the_bias(bias):
    given = None if bias is None else random(24).to(DTYPES[bias])
    out = torch.full((5, 24), torch.nan).bfloat16()
    assert gemm_a16w16(torch.empty(5, 0).bfloat16(), torch.empty(24, 0).bfloat16(), out, given) is out
    assert torch.equal(out, torch.zeros_like(out) if given is None else given.bfloat16().expand(5, 24))


def test_slices_that_add_have_a_limit():
    a, b = random(17 * 32, 64, dtype="bf16"), random(16 * 64, 64, dtype="bf16")
    c = torch.empty(17 * 32, 16 * 64).bfloat16()
    with pytest.raises(ValueError, match="at most 256 tiles"):
        hgemm_splitk_(c, a, b, None, {"SPLIT_K": 2, "TILE_M": 32, "TILE_N": 64, "TILE_K": 32})


@pytest.mark.skipif(not MFMA, reason="tiles of wave64")
def test_waves_that_share_k():
    run(16, 64, 512, "bf16", block_m=16, block_n=64, block_k=128, m_waves=1, n_waves=2, k_waves=2)
    run(20, 128, 512, "f16", bias=True, block_m=32, block_n=64, block_k=128, m_waves=1, n_waves=1, k_waves=4)


@pytest.mark.skipif(not target().dma128, reason="direct copies to LDS are gfx950's")
@pytest.mark.parametrize(("layout", "stages"), [("nt", 2), ("nt", 3), ("nn", 2), ("tn", 2), ("tt", 3)])
@pytest.mark.parametrize("k_tiles", [1, 2, 3, 7])
def test_ring_of_buffers(layout, stages, k_tiles):
    m, n, k = 130 if layout[0] == "n" else 136, 264 if layout[1] == "n" else 250, 64 * k_tiles
    launch = build_gemm_module(n, k, "bf16", layout=layout, use_async_copy=True, stages=stages, block_m=64, block_n=64)
    a, b, c = random(m, k, dtype="bf16"), random(k, n, dtype="bf16", seed=1), Guarded(m, n, dtype=torch.bfloat16)
    stored = [x if letter == "n" else x.T.contiguous() for x, letter in zip((a, b), layout, strict=True)]
    launch(c.out, *stored, c.out, c.out, m)
    close_relative(c.check(), a.double() @ b.double(), ROUNDING["bf16"] * 1.01)


@pytest.mark.skipif(MFMA, reason="of wave32, whose tiles are one barrier ahead in a third buffer")
@pytest.mark.parametrize("layout", ["nt", "tt"])
@pytest.mark.parametrize("k", [32, 64, 96, 128, 168, 352])
def test_third_buffer(layout, k):
    """The first fragments of a tile are read before the barrier: they were written one earlier."""
    m = 130 if layout[0] == "n" else 136
    run(m, 72, k, "bf16", layout=layout, stages=3, split_k=1, block_m=64, block_n=64, block_k=32)


@pytest.mark.parametrize(("layout", "stages"), [("nt", 2), ("nn", 3), ("tn", 2), ("tt", 4)])
@pytest.mark.parametrize("k", [40, 192, 448])
def test_fragments_a_tile_ahead(layout, stages, k):
    """Tiles are read while the one before is multiplied, and the one after comes to a stage that is free."""
    tile = dict(block_m=32, block_n=64, block_k=64 if MFMA else 32, m_waves=2, n_waves=2)
    with rt.checked("race") as report:
        run(40, 72, k, "bf16", layout=layout, stages=stages, split_k=1, tile_ahead=True, **tile)
    assert not report.findings


def test_fragments_a_tile_ahead_share_k_and_slices():
    tile = dict(block_m=32, block_n=64, block_k=128, m_waves=1, n_waves=2, k_waves=2)
    run(40, 64, 512, "f16", bias=True, tile_ahead=True, split_k=2, **tile)


@pytest.mark.skipif(not target().dma128, reason="the large tile is gfx950's")
def test_large_tile_is_for_whole_tiles_of_k():
    """Loads of a ragged k go through registers, of which the large tile has none left."""
    assert get_default_kwargs(8192, 8192, 8192)["block_m"] == 256
    assert get_default_kwargs(8192, 8192, 8200)["block_m"] == 128


def test_block_order():
    run(300, 256, 128, "f16", group_m=2, block_m=64, block_n=64)


def test_older_names():
    a, b, bias = random(20, 128, dtype="f16"), random(64, 128, dtype="f16", seed=1), random(64, dtype="f16", seed=2)
    c = torch.full((20, 64), float("nan")).half()
    hgemm_splitk_(c, a, b, bias, {"SPLIT_K": 2, "TILE_M": 32, "TILE_N": 64, "TILE_K": 32, "BLOCK_M_WARPS": 1,
                                  "BLOCK_N_WARPS": 1})
    close_relative(c, a.double() @ b.double().T + bias.double(), 4 * 2.0**-11)  # a rounding for each slice
    launch = compile_hgemm_kernel("f16", 64, 128, TILE_M=64, TILE_N=64)
    c.fill_(float("nan"))
    launch(c, a, b, c, c, 20)
    close_relative(c, a.double() @ b.double().T, 2.0**-11 * 1.01)


def test_default_knobs_are_accepted():
    for size in ((1, 128, 4096), (4096, 4096, 4096), (32, 384, 7168), (100, 72, 64)):
        knobs = get_default_kwargs(*size)
        build_gemm_module(size[1], size[2], "bf16", **knobs)


@pytest.mark.parametrize("size", [(7, 384, 4096), (130, 64, 128)])
def test_older_default_knobs(size):
    """By the names that the older builder and function take."""
    m, n, k = size
    knobs = hgemm_splitk.get_default_kwargs(m, n, k)
    a, b = random(m, k, dtype="f16"), random(n, k, dtype="f16", seed=1)
    exact = a.double() @ b.double().T
    c = torch.full((m, n), float("nan")).half()
    hgemm_splitk_(c, a, b, None, knobs)
    close_relative(c, exact, knobs["SPLIT_K"] * 2.0**-10)  # a rounding for each slice
    c.fill_(float("nan"))
    compile_hgemm_kernel("f16", n, k, **{**knobs, "SPLIT_K": 1})(c, a, b, c, c, m)
    close_relative(c, exact, 2.0**-11 * 1.01)


@needs("gfx11", "gfx120")
@pytest.mark.parametrize(("dtype", "out"), [("bf16", "bf16"), ("f16", "f16"), ("f16", "bf16"), ("bf16", "f16")])
@pytest.mark.parametrize("reg", cases([(4, 4, 2, 2, 2)], [(2, 2, 2, 2, 2), (4, 2, 4, 1, 2), (2, 4, 2, 2, 1)]))
def test_wmma_module(dtype, out, reg):
    names = dict(zip(("reg_m", "reg_n", "reg_k", "waves_m", "waves_n"), reg, strict=True))
    m, n, k = 256, 256, 128
    launch, bm, bn, bk = create_wmma_gemm_module(m, n, k, dtype, out, **names)
    assert (bm, bn, bk) == (16 * reg[0] * reg[3], 16 * reg[1] * reg[4], 16 * reg[2])
    a, b, c = random(m, k, dtype=dtype), random(n, k, dtype=dtype, seed=1), Guarded(m, n, dtype=DTYPES[out])
    launch(c.out, a, b)
    close_relative(c.check(), a.double() @ b.double().T, ROUNDING[out] * 1.01)


@needs("gfx11", "gfx120")
def test_wmma_stochastic_rounding():
    m = n = k = 128
    launch, *_ = create_wmma_gemm_module(m, n, k, rounding="rs")
    a, b = random(m, k, dtype="bf16"), random(n, k, dtype="bf16", seed=1)
    exact, outs = a.double() @ b.double().T, []
    for seed in range(4):
        c = torch.full((m, n), float("nan"), dtype=torch.bfloat16)
        launch(c, a, b, None, seed)
        outs.append(c.double())
    again = torch.empty(m, n, dtype=torch.bfloat16)
    launch(again, a, b, None, 3)
    assert torch.equal(again.double(), outs[3]) and not torch.equal(outs[0], outs[1])
    close_relative(outs[0], exact, 2.0**-7)
    # Unbiased: the mean over seeds is nearer than one result.
    mean = torch.stack(outs).mean(0)
    assert (mean - exact).norm() < 0.75 * (outs[0] - exact).norm()


@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
@pytest.mark.parametrize(("m", "n", "k"), [(4, 16, 8), (5, 7, 9), (13, 24, 101), (33, 17, 64)])
def test_any_sizes_in_every_layout(m, n, k, layout):
    a, b = random(m, k, dtype="f16"), random(k, n, dtype="f16", seed=1)
    stored = [x if letter == "n" else x.T.contiguous() for x, letter in ((a, layout[0]), (b, layout[1]))]
    for operands in (stored, [x.numpy() for x in stored]):
        out = torch.as_tensor(gemm_a16w16(*operands, layout=layout))
        close_relative(out, a.double() @ b.double(), 2.0**-10)


def test_a_dtype_of_results_is_one_of_either_library_or_a_name():
    a, b = random(5, 48, dtype="f16"), random(7, 48, dtype="f16", seed=1)
    for operands, own in (((a, b), torch), ((a.numpy(), b.numpy()), np)):
        for size in ("16", "32"):
            dtype = getattr(own, f"float{size}")
            for given in (f"f{size}", f"float{size}", dtype):
                for product in (ops.gemm, gemm_a16w16):
                    assert product(*operands, out_dtype=given).dtype == dtype
        with pytest.raises(TypeError, match="out_dtype must be .*float16 or float32"):
            ops.gemm(*operands, out_dtype="bf16")
        with pytest.raises(TypeError, match="out_dtype must be f16 or f32, got bf16"):
            gemm_a16w16(*operands, out_dtype="bf16")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: build_gemm_module(100, 64, "bf16", layout="nn"), "N must be a multiple of 8"),
        (lambda: build_gemm_module(64, 60, "bf16"), "K must be a multiple of 8"),
        (lambda: build_gemm_module(64, 64, "f32"), "'f16' or 'bf16'"),
        (lambda: build_gemm_module(64, 64, "bf16", layout="xx"), "layout must be one of"),
        (lambda: build_gemm_module(64, 64, "bf16", block_m=24), "block_m must be a positive multiple"),
        (lambda: build_gemm_module(64, 64, "bf16", tile=3), "unknown options tile"),
        (lambda: build_gemm_module(256, 256, "bf16", block_m=256, block_n=256, block_k=128, tile_ahead=True),
         "fragments a tile ahead take"),
        (lambda: gemm_a16w16(random(4, 8, dtype="f16"), random(4, 16, dtype="f16")), "reduction lengths differ"),
    ],
)
def test_unsupported_arguments(call, text):
    with pytest.raises(ValueError, match=text):
        call()


@pytest.mark.parametrize("kind", [torch.int16, torch.bool, torch.float64])
def test_a_bias_of_another_kind(kind):
    a, b, bias = random(4, 8, dtype="f16"), random(64, 8, dtype="f16"), torch.zeros(64).to(kind)
    for call in (ops.gemm, ops.linear):
        with pytest.raises(TypeError, match="bias: dtype .* is not supported"):
            call(a, b, bias)


@needs("gfx11", "gfx120")
@pytest.mark.parametrize(("options", "text"), [
    (dict(lda=132),
     "lda must be 0 or, of whole tiles in layout nt, a multiple of 8 elements and at least 128, got 132"),
    (dict(ldc=128),
     "ldc must be 0 or, of whole tiles in layout nt, a multiple of 8 elements and at least 256, got 128"),
    (dict(persistent_wgs=3), "persistent_wgs must be 0 or the 4 tiles, got 3"),
    (dict(lds_layout="rows"), "lds_layout must be 'pad' or 'kblock'"),
    (dict(reg_m=2, reg_n=2, reg_k=8), "at least two tiles of k are needed"),
])
def test_wmma_module_says_what_it_lacks(options, text):
    with pytest.raises(ValueError, match=text):
        create_wmma_gemm_module(256, 256, 128, **options)


@needs("gfx11", "gfx120")
@pytest.mark.parametrize("out", ["bf16", "f32"])
def test_wmma_module_takes_rows_that_are_apart(out):
    """What lies between the rows of the operands is not read, that of C not written; as views of these, or flat."""
    m, n, k, lda, ldb, ldc = 128, 64, 64, 80, 72, 88
    tile = dict(reg_m=2, reg_n=1, waves_m=2, waves_n=2)
    launch, *_ = create_wmma_gemm_module(m, n, k, out_dtype=out, lda=lda, ldb=ldb, ldc=ldc, **tile)
    a, b = (torch.full((rows, apart), torch.nan).bfloat16() for rows, apart in ((m, lda), (n, ldb)))
    a[:, :k], b[:, :k] = random(m, k, dtype="bf16"), random(n, k, dtype="bf16", seed=1)
    c = torch.full((m, ldc), 7.0, dtype=DTYPES[out])
    exact = a[:, :k].double() @ b[:, :k].double().T
    for views in ((c[:, :n], a[:, :k], b[:, :k]), (c.view(-1), a.view(-1), b.view(-1))):
        c[:, :n] = torch.nan
        launch(*views)
        close_relative(c[:, :n], exact, max(ROUNDING[out], 2.0**-20) * 1.01)
        assert (c[:, n:] == 7).all()
    for wrong in ((c[: m - 1], a, b), (c, a[: m - 1], b), (c, a, b[: n - 1])):
        with pytest.raises(ValueError, match="holds fewer elements"):
            launch(*wrong)


@needs("gfx11")
@pytest.mark.parametrize(("m", "n", "k", "tile"), [(64, 128, 256, (32, 64, 64)), (64, 96, 256, (32, 32, 64)),
                                                   (64, 128, 2048, (32, 32, 64)), (1024, 1024, 1024, (128, 64, 32)),
                                                   (4096, 8192, 256, (256, 256, 32)),
                                                   (2560, 2048, 128, (128, 128, 32))])
def test_tiles_of_rdna3(m, n, k, tile):
    launch, *found = create_wmma_gemm_module(m, n, k, lds_layout="kblock", ldc=n, **pick_tile(m, n, k))
    assert tuple(found) == tile
    if m == 64:
        a, b, c = random(m, k, dtype="bf16"), random(n, k, dtype="bf16", seed=1), Guarded(m, n, dtype=torch.bfloat16)
        launch(c.out, a, b)
        close_relative(c.check(), a.double() @ b.double().T, ROUNDING["bf16"] * 1.01)


@needs("gfx11")
def test_rdna3_gemm_takes_any_size():
    with pytest.raises(ValueError, match="no tile divides 33 x 40 x 72"):
        pick_tile(33, 40, 72)
    a, b, c = random(33, 72, dtype="f16"), random(40, 72, dtype="f16", seed=1), Guarded(33, 40, dtype=torch.float16)
    rdna3_gemm_autotuned(c.out, a, b)
    close_relative(c.check(), a.double() @ b.double().T, ROUNDING["f16"] * 1.01)


@needs("gfx120")
@pytest.mark.parametrize(("m", "n", "k"), cases([(32, 128, 256), (37, 256, 96)], [(300, 512, 1024), (1, 128, 32)]))
def test_rdna_fp8(m, n, k):
    a, b = (random(*s, seed=i).to(torch.float8_e4m3fn) for i, s in enumerate(((m, k), (k, n))))
    scale_a, scale_b = torch.rand(m) + 0.5, torch.rand(n) + 0.5
    c = Guarded(m, n, dtype=torch.bfloat16)
    launch = compile_fp8_gemm(M=m, N=n, K=k)
    launch(c.out, a.view(torch.int8), preshuffle_b_fp8(b).view(torch.int8), scale_a, scale_b)
    exact = a.double() @ b.double() * scale_a[:, None].double() * scale_b.double()
    close_relative(c.check(), exact, ROUNDING["bf16"] * 1.01)
