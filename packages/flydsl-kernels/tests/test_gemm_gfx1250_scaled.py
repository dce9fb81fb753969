"""fp8 and fp4 GEMMs of gfx1250 with e8m0 scales, against f64 products of what the OCP formats say the codes are."""

import formats
import numpy as np
import pytest
from kernel_helpers import DTYPES, Guarded, needs, torch

import flydsl.compiler as flyc
import flydsl.ir
import flydsl.runtime as rt
from flydsl.kernels import gemm, gemm_fp8fp4_gfx1250
from flydsl.kernels.gemm import tuned
from flydsl.kernels.gemm.scaled import product, tiled_wmma
from flydsl.kernels.target import target

HERE = needs("gfx1250")
ROUNDING = {"f32": 0.0, "bf16": 2.0**-8, "f16": 2.0**-11}
POISON = 0x7F  # NaN of e4m3


class Operand:
    """Random codes of `rows` x `k`, with random scales from 2^(middle - spread) to 2^(middle + spread) for `group` k.

    Attributes:
        codes: bytes, in a matrix of `length` elements a row whose end, and the rows after the last, are poisoned.
        scales: e8m0 bytes.
        values: f64.
    """

    def __init__(self, rows, k, dtype, seed, length=None, group=32, spread=6, middle=-8):
        rng, each = np.random.default_rng(seed), {"fp8": 1, "fp4": 2}[dtype]
        codes = rng.integers(0, 256, (rows, k // each), dtype=np.uint8)
        if dtype == "fp8":
            codes[codes & 0x7F == 0x7F] = 0x5A
            values = formats.e4m3fn()[codes]
        else:
            values = formats.e2m1()[np.stack([codes & 15, codes >> 4], -1)].reshape(rows, k)
        self.scales = rng.integers(127 + middle - spread, 128 + middle + spread, (rows, k // group), dtype=np.uint8)
        self.values = torch.from_numpy(values * np.repeat(formats.e8m0(self.scales), group, 1))
        storage = torch.full((rows + 5, (length or k) // each), POISON, dtype=torch.uint8)
        self.codes = storage[:rows]
        self.codes[:, : k // each] = torch.from_numpy(codes)

    @property
    def shuffled(self):
        return gemm.preshuffle_b_16x16(self.codes, *self.codes.shape)

    @property
    def words(self):
        return gemm.shuffle_scale_32x4(torch.from_numpy(self.scales))


def check(out, a, b, dtype):
    """Rounding to the output's type, and f32 sums: relative to the sum of the products' magnitudes."""
    exact, most = a @ b.T, a.abs() @ b.abs().T
    error = (out.double() - exact).abs() - exact.abs() * ROUNDING[dtype] - most * 2.0**-18
    assert error.max().item() <= 0, f"error exceeds its bound by {error.max().item()}"


FORMATS = {"fp4": ("fp4", "fp4"), "fp8": ("fp8", "fp8"), "a8w4": ("fp8", "fp4")}
CASES = [
    # m, n, k, tile, waves, buffers, formats, output
    (1, 64, 128, (32, 64, 128), (1, 1), 2, "a8w4", "bf16"),
    (69, 128, 384, (64, 64, 128), (2, 2), 2, "fp4", "f32"),
    (37, 128, 640, (32, 128, 128), (1, 2), 3, "fp8", "bf16"),
    (133, 256, 1536, (128, 128, 256), (2, 2), 4, "a8w4", "f32"),
    (70, 144, 768, (48, 48, 384), (1, 1), 2, "fp8", "f32"),  # scales of a tile begin in the middle of 32 rows
    (16, 32, 512, (16, 32, 256), (1, 1), 4, "fp4", "bf16"),
    (100, 256, 512, (128, 256, 512), (2, 2), 2, "a8w4", "bf16"),
    (130, 96, 512, (64, 96, 128), (4, 3), 3, "fp4", "f16"),
    (70, 128, 1536, (96, 128, 256), (2, 2), 2, "fp8", "f32"),
    (70, 256, 1536, (128, 256, 256), (2, 2), 2, "fp8", "f32"),  # more than 512 registers
    (20, 256, 640, (16, 256, 128), (1, 1), 2, "fp8", "f32"),
]


@HERE
@pytest.mark.parametrize(("m", "n", "k", "tile", "waves", "buffers", "data_format", "out"), CASES)
def test_microscaled(m, n, k, tile, waves, buffers, data_format, out):
    kinds = FORMATS[data_format]
    a, b = Operand(m, k, kinds[0], 1), Operand(n, k, kinds[1], 2)
    run = gemm.compile_fp8fp4_gemm(data_format=data_format, N=n, K=k, tile_m=tile[0], tile_n=tile[1], tile_k=tile[2],
                                   m_warp=waves[0], n_warp=waves[1], num_buffers=buffers, out_dtype=out)
    c = Guarded(m, n, dtype=DTYPES[out])
    arguments = (c.out, a.codes, b.shuffled, a.words, b.words, m, n, 0, 0)
    resources = flydsl.ir.kernel_resources(flyc.compile(run, *arguments).artifact.hsaco)
    assert resources and not any(r.vgpr_spills for r in resources.values())
    run(*arguments)
    check(c.check(), a.values, b.values, out)


def row_scaled(a, b):
    """(f32 scales of the rows of both operands, the values in f64): scales of the first 32 k are those of a row."""
    scales = [torch.from_numpy(formats.e8m0(x.scales[:, :1])) for x in (a, b)]
    codes = [torch.from_numpy(formats.e4m3fn()[x.codes.numpy()]) for x in (a, b)]
    return [s.float().flatten() for s in scales], [c * s for c, s in zip(codes, scales, strict=True)]


@HERE
@pytest.mark.parametrize(("dtypes", "tile"), [(d, t) for d, tiles in tuned.WMMA.items() for t in tiles],
                         ids=lambda x: f"{x.m}x{x.n}x{x.k}" if isinstance(x, tuned.Tile) else "-".join(x))
def test_tuned_entries(dtypes, tile):
    """Right in the loop, in its peeled tiles and at the last rows, and nothing is spilled."""
    turn = tile.stages if tile.direct else 2  # tiles of the loop
    m, n, k = tile.m - 11, tile.n, (tile.stages + turn + 1) * tile.k
    a, b = Operand(m, k, dtypes[0], 3), Operand(n, k, dtypes[-1], 4)
    if len(dtypes) == 1:  # f32 of rows and columns instead
        scales, exact = row_scaled(a, b)
    else:
        scales, exact = (a.words, b.words), (a.values, b.values)
    c = Guarded(m, n, dtype=torch.bfloat16)
    run = product(tiled_wmma("test", target(), n, k, tile, dtypes, "bf16"))
    arguments = c.out.view(-1), *(x.view(torch.int8).reshape(-1) for x in (a.codes, b.shuffled)), *(
        x.reshape(-1) if x.dtype == torch.float32 else x.view(torch.int8).reshape(-1) for x in scales), c.out, m
    resources = flydsl.ir.kernel_resources(flyc.compile(run, *arguments).artifact.hsaco)
    assert resources and not any(r.vgpr_spills for r in resources.values())
    run(*arguments)
    check(c.check(), *exact, "bf16")


@HERE
@pytest.mark.parametrize("tiles", [1, 2, 3, 5])
def test_weights_straight_to_registers(tiles):
    """Reductions about as short as the ring that the rows go through, of several workgroups."""
    tile = tuned.WMMA["fp8",][0]
    m, n, k = tile.m + 44, 2 * tile.n, tiles * tile.k
    a, b = Operand(m, k, "fp8", 3), Operand(n, k, "fp8", 4)
    scales, exact = row_scaled(a, b)
    c = Guarded(m, n, dtype=torch.bfloat16)
    run = product(tiled_wmma("test", target(), n, k, tile, ("fp8",), "bf16"))
    with rt.checked("oob,race,uninit") as report:
        run(c.out.view(-1), *(x.view(torch.int8).reshape(-1) for x in (a.codes, b.shuffled)), *scales, c.out, m)
        rt.synchronize()
    assert not report.findings, "\n".join(map(str, report.findings))
    check(c.check(), *exact, "bf16")


@HERE
@pytest.mark.parametrize(("dtypes", "least"), [(("fp8",), 0.6), (("fp8", "fp8"), 0.55), (("fp4", "fp4"), 0.35)],
                         ids=str)
def test_few_rows_read_the_weight_as_fast_as_memory_gives_it(dtypes, least):
    """Of a launch of few microseconds, whose first tiles nothing hides."""
    m, n, k = 16, 8192, 4096
    tile = tuned.choose(tuned.WMMA[dtypes], "test", target(), " ".join(dtypes), m, n, k)
    bits = [{"fp8": 8, "fp4": 4}[dtype] for dtype in (dtypes[0], dtypes[-1])]
    a, b = (torch.zeros(rows * k * width // 8, dtype=torch.int8) for rows, width in zip((m, n), bits, strict=True))
    scales = [torch.ones(rows) if len(dtypes) == 1 else torch.full((-(-rows // 32) * k,), 127, dtype=torch.int8)
              for rows in (m, n)]
    c = torch.empty(m * n, dtype=torch.bfloat16)
    with rt.profile(timing=True) as profile:
        product(tiled_wmma("test", target(), n, k, tile, dtypes, "bf16"))(c, a, b, *scales, c, m)
    timing = profile.launches[-1].timing
    assert timing.memory_cycles >= least * timing.cycles


@HERE
def test_tiles_of_few_rows_take_any_size_that_larger_ones_do():
    def chosen(m, n, k):
        tile = tuned.choose(tuned.WMMA["fp8", "fp8"], "test", target(), "fp8 fp8", m, n, k)
        return tile.m, tile.n, tile.k

    assert chosen(16, 8192, 4096) == (16, 32, 1024) and chosen(1, 4096, 11008) == (16, 32, 256)
    assert chosen(32, 8192, 4096) == (32, 32, 512) and chosen(64, 8192, 4096) == (64, 32, 512)
    assert chosen(1, 32, 128) == chosen(50, 96, 640) == (64, 32, 128)
    assert chosen(4096, 4096, 640) == (256, 256, 128) and chosen(200, 8192, 640) == (64, 128, 128)


@HERE
def test_largest_tile():
    m, n, k = 133, 256, 384
    a, b = Operand(m, k, "fp8", 20), Operand(n, k, "fp8", 21)
    c = Guarded(m, n, dtype=torch.bfloat16)
    gemm.compile_mxfp8_gemm(K=k, tile_m=256, tile_n=256, num_buffers=2)(c.out, a.codes, b.shuffled, a.words, b.words,
                                                                        m, n, 0, 0)
    check(c.check(), a.values, b.values, "bf16")


@HERE
@pytest.mark.parametrize("name", ["compile_mxscale_gemm", "compile_mxfp4_gemm", "compile_mxfp8_gemm",
                                  "compile_a8w4_gemm"])
def test_names_with_their_defaults(name):
    kinds = {"compile_mxfp8_gemm": "fp8", "compile_a8w4_gemm": "a8w4"}.get(name, "fp4")
    m, n, k = 130, 128, 640
    a, b = (Operand(rows, k, kind, i) for i, (rows, kind) in enumerate(zip((m, n), FORMATS[kinds], strict=True)))
    c = Guarded(m, n, dtype=torch.bfloat16)
    getattr(gemm_fp8fp4_gfx1250, name)(K=k)(c.out, a.codes, b.shuffled, a.words, b.words, m, n, k, n)
    check(c.check(), a.values, b.values, "bf16")


@HERE
@pytest.mark.parametrize("data_format", FORMATS)
def test_rows_apart(data_format):
    m, n, k, lda, ldc = 45, 64, 256, 320, 72
    kinds = FORMATS[data_format]
    a, b = Operand(m, k, kinds[0], 3, lda), Operand(n, k, kinds[1], 4)
    c = Guarded(m, ldc)
    run = gemm.compile_fp8fp4_gemm(data_format=data_format, K=k, tile_m=32, tile_n=32)
    run(c.out, a.codes, b.shuffled, a.words, b.words, m, n, lda, ldc)
    out = c.check()
    assert out[:, n:].isnan().all(), "columns outside the output were written"
    check(out[:, :n], a.values, b.values, "f32")


@HERE
@pytest.mark.parametrize(("data_format", "scale_mode", "split_k", "out", "ldc"), [
    ("a8w4", "mxscale", 2, "f32", 0), ("fp4", "mxscale", 3, "f32", 264), ("fp8", "ptpc", 2, "bf16", 0),
    ("fp8", "mxscale", 6, "f16", 0),
])
def test_split_reduction(data_format, scale_mode, split_k, out, ldc):
    m, n, k = 69, 256, 768
    kinds = FORMATS[data_format]
    options = {"spread": 0, "middle": 0} if scale_mode == "ptpc" else {}
    a, b = Operand(m, k, kinds[0], 14, **options), Operand(n, k, kinds[1], 15, **options)
    scales = (a.words, b.words) if scale_mode == "mxscale" else (torch.rand(m) * 1e-3, torch.rand(n) * 1e-3)
    values = [a.values, b.values]
    if scale_mode == "ptpc":
        values = [x * s[:, None].double() for x, s in zip(values, scales, strict=True)]
    c = Guarded(m, ldc or n, dtype=DTYPES[out])
    run = gemm.compile_fp8fp4_gemm(data_format=data_format, scale_mode=scale_mode, K=k, tile_m=64, tile_n=64,
                                   split_k=split_k, out_dtype=out)
    for _ in range(2):  # c is cleared by each launch
        run(c.out, a.codes, b.shuffled, *scales, m, n, 0, ldc)
    result = c.check()
    assert result[:, n:].isnan().all()
    # A rounding for each share, and for each sum of shares; none is larger than the sum of all magnitudes.
    exact, parts = values[0] @ values[1].T, torch.zeros(m, n, dtype=torch.float64)
    for left, right in zip(values[0].chunk(split_k, 1), values[1].chunk(split_k, 1), strict=True):
        parts += (left @ right.T).abs()
    most = values[0].abs() @ values[1].abs().T
    bound = parts * ROUNDING[out] * 2 * split_k + most * 2.0**-18
    assert ((result[:, :n].double() - exact).abs() <= bound).all()


@HERE
@pytest.mark.parametrize(("m", "cluster", "buffers", "split_k"), [
    (150, (2, 1), 2, 1), (33, (1, 2), 3, 1), (133, (2, 2), 4, 1), (10, (4, 4), 2, 1), (70, (2, 2), 2, 2),
])
def test_clusters(m, cluster, buffers, split_k):
    """Workgroups past the last row move what the others need, and store nothing."""
    n, k = 256, 640 if split_k == 1 else 768
    a, b = Operand(m, k, "fp8", 16), Operand(n, k, "fp4", 17)
    run = gemm.compile_fp8fp4_gemm(data_format="a8w4", N=n, K=k, tile_m=32, tile_n=64, num_buffers=buffers,
                                   split_k=split_k, cluster_m=cluster[0], cluster_n=cluster[1])
    c = Guarded(m, n)
    run(c.out, a.codes, b.shuffled, a.words, b.words, m, n, 0, 0)
    check(c.check(), a.values, b.values, "f32")


@HERE
def test_clusters_of_fp8():
    m, n, k = 70, 128, 384
    a, b = (Operand(rows, k, "fp8", i, spread=0, middle=0) for i, rows in ((18, m), (19, n)))
    scale_a, scale_b = torch.rand(m) * 1e-3, torch.rand(n) * 1e-3
    exact = a.values * scale_a[:, None].double(), b.values * scale_b[:, None].double()
    for built in (True, False):
        c = Guarded(m, n, dtype=torch.bfloat16)
        if built:
            run = gemm.compile_ptpc_gemm(K=k, tile_m=32, tile_n=64, cluster_m=2, cluster_n=2)
            run(c.out, a.codes, b.shuffled, scale_a, scale_b, m, n, 0, 0)
        else:
            gemm.launch_gemm_a8w8(c.out, a.codes, b.shuffled, scale_a, scale_b, m, None, n, k, tile_m=32, tile_n=64,
                                  cluster_m=2, cluster_n=2)
        check(c.check(), *exact, "bf16")


@HERE
@pytest.mark.parametrize("half", [0, 1])
def test_a8w4_launcher(half):
    m, n, k, lda, ldc = 133, 256, 512, 544, 264
    a, b = Operand(m, k, "fp8", 5, lda, spread=2), Operand(n, k, "fp4", 6, spread=2, middle=0)
    c = Guarded(m, ldc, dtype=torch.float16 if half else torch.bfloat16)
    gemm.launch_gemm_a8w4_mxscale(c.out, a.codes, b.shuffled, a.words, b.words, m, None, n, k, lda, ldc,
                                  out_is_f16=half)
    check(c.check()[:, :n], a.values, b.values, "f16" if half else "bf16")


@HERE
def test_ends_of_the_scales():
    """2^-127, 2^127 and NaN: a NaN belongs to its row or column alone."""
    m, n, k = 33, 32, 256
    a, b = Operand(m, k, "fp8", 7), Operand(n, k, "fp4", 8)
    a.scales[0], b.scales[0] = 0, 254
    a.scales[1], b.scales[1] = 254, 0
    a.scales[32, 3], b.scales[5, 7] = 255, 255
    c = Guarded(m, n)
    run = gemm.compile_fp8fp4_gemm(data_format="a8w4", N=n, K=k, tile_m=32, tile_n=32, m_warp=1)
    run(c.out, a.codes, b.shuffled, a.words, b.words, m, n, 0, 0)
    codes = formats.e4m3fn()[a.codes.numpy()], formats.e2m1()[np.stack([b.codes & 15, b.codes >> 4], -1)].reshape(n, k)
    left, right = (torch.from_numpy(x * np.repeat(formats.e8m0(y.scales), 32, 1))
                   for x, y in zip(codes, (a, b), strict=True))
    out, exact, most = c.check().double(), left @ right.T, left.abs() @ right.abs().T
    assert out.isnan().sum() == m + n - 1 and torch.equal(out.isnan(), exact.isnan())
    large = most > torch.finfo(torch.float32).max
    small = ~large & ~exact.isnan()
    assert ((out - exact).abs()[small] <= most[small] * 2.0**-18 + 2.0**-126).all()
    assert out[0, 0].abs() > 0 and out[1, 1].abs() > 0


@HERE
@pytest.mark.parametrize(("m", "n", "k", "tile", "stride", "buffers"), [
    (1, 128, 128, (32, 64, 128), 0, 2), (133, 192, 640, (64, 64, 128), 150, 3), (70, 256, 512, (128, 256, 256), 0, 2),
])
@pytest.mark.parametrize("half", [0, 1])
def test_block_scales(m, n, k, tile, stride, buffers, half):
    a, b = Operand(m, k, "fp8", 9, group=128, spread=2), Operand(n, k, "fp8", 10, group=128, spread=2)
    for i in range(n):  # 128 columns share their scales
        first = b.scales[i // 128 * 128].copy()
        b.values[i] *= torch.from_numpy(np.repeat(formats.e8m0(first) / formats.e8m0(b.scales[i]), 128))
        b.scales[i] = first
    scale_a = torch.full((k // 128, stride or m), 255, dtype=torch.uint8)
    scale_a[:, :m] = torch.from_numpy(a.scales.T)
    scale_b = torch.from_numpy(b.scales[::128].copy())
    c = Guarded(m, n, dtype=torch.float16 if half else torch.bfloat16)
    gemm.launch_gemm_a8w8(c.out, a.codes, b.shuffled, scale_a, scale_b, m, None, n, k, stride, tile_m=tile[0],
                          tile_n=tile[1], tile_k=tile[2], out_is_f16=half, num_buffers=buffers, is_bsc=1)
    check(c.check(), a.values, b.values, "f16" if half else "bf16")


@HERE
@pytest.mark.parametrize("out", ["bf16", "f16", "f32"])
def test_scales_of_rows_and_columns(out):
    m, n, k, lda, ldc = 37, 96, 384, 416, 104
    a, b = Operand(m, k, "fp8", 11, lda, spread=0, middle=0), Operand(n, k, "fp8", 12, spread=0, middle=0)
    scale_a, scale_b = (torch.rand(s, generator=torch.Generator().manual_seed(s)) * 0.01 + 1e-3 for s in (m, n))
    c = Guarded(m, ldc, dtype=DTYPES[out])
    run = gemm.compile_ptpc_gemm(K=k, tile_m=32, tile_n=96, out_dtype=out)
    run(c.out, a.codes, b.shuffled, scale_a, scale_b, m, n, lda, ldc)
    result = c.check()
    assert result[:, n:].isnan().all()
    check(result[:, :n], a.values * scale_a[:, None].double(), b.values * scale_b[:, None].double(), out)


@HERE
@pytest.mark.parametrize(("options", "text"), [
    ({"K": 200}, "K = 200 must be a positive multiple"), ({"N": 192}, "N = 192 must be a positive multiple"),
    ({"cluster_m": 3, "cluster_n": 6}, "at most 16 workgroups, got 3 x 6"), ({"cluster_m": 0}, "cluster_m must be"),
    ({"cluster_n": 4}, "multiple of tile_n . cluster_n = 512"),
    ({"split_k": 3}, "multiple of tile_k . split_k = 384"), ({"split_k": 0}, "split_k must be positive"),
    ({"tile_k": 64}, "tile_k must be a positive multiple of 128"), ({"tile_m": 40}, "multiple of 32, got 40"),
    ({"num_buffers": 5}, "num_buffers must be 2, 3 or 4"), ({"out_dtype": "i8"}, "out_dtype must be one of"),
    ({"m_warp": 0}, "m_warp must be positive"), ({"data_format": "int8"}, "data_format must be one of"),
    ({"scale_mode": "ptpc", "data_format": "fp4"}, "for data_format 'fp8'"),
    ({"tile_m": 512, "tile_n": 512, "N": 512}, "does not fit the registers"),
    ({"tile_k": 1024, "K": 1024, "num_buffers": 4, "data_format": "fp8"}, "bytes of LDS"),
])
def test_refused(options, text):
    with pytest.raises(ValueError, match=text):
        gemm.compile_fp8fp4_gemm(**{"N": 256, "K": 512, **options})


@HERE
def test_refused_rows():
    a, c = torch.zeros(32, 512, dtype=torch.uint8), torch.zeros(32, 128)
    run = gemm.compile_fp8fp4_gemm(data_format="fp8", N=128, K=256)
    for lda, ldc, text in ((200, 0, "lda must be 0 or"), (270, 0, "multiple of 32"), (0, 64, "ldc must be 0 or")):
        with pytest.raises(ValueError, match=text):
            run(c, a, a, a, a, 32, 128, lda, ldc)


def test_order_of_scales():
    """Where the byte of a row and 32 k lies, from the definition; rows are padded."""
    scale = torch.from_numpy(np.random.default_rng(13).integers(0, 256, (70, 12), dtype=np.uint8))
    order = gemm.shuffle_scale_32x4(scale)
    assert order.shape == (3, 384)
    row, col = torch.meshgrid(torch.arange(70), torch.arange(12), indexing="ij")
    assert torch.equal(order.view(-1)[row // 32 * 384 + col // 4 * 128 + row % 32 * 4 + col % 4], scale)
    with pytest.raises(ValueError, match="multiple of 128"):
        gemm.shuffle_scale_32x4(scale[:, :6])
