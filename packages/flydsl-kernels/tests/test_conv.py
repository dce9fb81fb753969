"""Convolutions and their gradients against torch in f64."""

import math

import numpy as np
import pytest
from kernel_helpers import DTYPES, GENERAL_GEMM, Guarded, cases, close, fp8_dtype, needs, random, torch
from torch.nn import functional as F  # noqa: N812 - its usual name

import flydsl.runtime as rt
from flydsl.kernels import ops
from flydsl.kernels.conv import (
    build_conv_module,
    compile_conv3d_implicit,
    compile_conv3d_implicit_fp8,
    compile_transpose_ncdhw_ndhwc,
    compile_transpose_ncdhw_ndhwc_fp8,
    conv3d_implicit,
    conv3d_implicit_fp8,
)
from flydsl.kernels.conv.config import ConvConfig, choose_splits, make_config
from flydsl.kernels.target import target

pytestmark = [needs(*GENERAL_GEMM), pytest.mark.each_wave_size]
FORMS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
STEP = {"f16": 2.0**-11, "bf16": 2.0**-8}  # relative error of one rounding


def compare(x_shape, w_shape, dtype="bf16", bias=False, gradients=False, **options):
    x, w = random(*x_shape, dtype=dtype), random(*w_shape, dtype=dtype, seed=1)
    given = [x, w, *([random(w_shape[0], seed=2)] if bias else [])]
    exact = [t.double().requires_grad_() for t in given]
    given = [t.requires_grad_(gradients) for t in given]
    with rt.checked("oob,race,uninit") as report:
        y = ops.conv(*given, **options)
        reference = FORMS[len(w_shape) - 2](*exact, **options)
        assert y.dtype == x.dtype and y.is_contiguous()
        pairs = [(y, reference)]
        if gradients:
            seed = random(*y.shape, dtype=dtype, seed=3)
            y.backward(seed)
            reference.backward(seed.double())
            pairs += [(mine.grad, theirs.grad) for mine, theirs in zip(given, exact, strict=True)]
    assert not report.findings
    for mine, theirs in pairs:
        theirs = theirs.detach()
        close(mine.detach(), theirs, STEP[dtype] * float(theirs.abs().max()) + 1e-6)


@pytest.mark.parametrize(("x", "w", "options"), cases([
    ((1, 32, 3, 5, 6), (64, 32, 3, 3, 3), {"padding": 1}),
    ((2, 5, 5, 9, 7), (24, 5, 3, 3, 3), {"stride": 2, "padding": (1, 0, 2)}),
    ((1, 16, 5, 6, 7), (16, 16, 3, 1, 1), {"padding": (1, 0, 0)}),
    ((1, 1, 17, 17), (40, 1, 7, 7), {"stride": 2, "padding": 3}),
    ((2, 3, 9, 12), (5, 3, 5, 5), {"dilation": 2, "padding": "same"}),
    ((3, 20, 33), (70, 20, 3), {"stride": 3, "padding": "valid"}),
    ((1, 64, 50), (64, 64, 1), {}),
], [((1, 32, 8, 16, 16), (64, 32, 3, 3, 3), {"padding": 1}), ((1, 32, 9, 17, 17), (96, 32, 3, 3, 3), {"padding": 1}),
    ((2, 64, 6, 18, 18), (192, 64, 3, 3, 3), {"stride": 2}), ((1, 32, 10, 20, 20), (64, 32, 1, 3, 3), {}),
    ((8, 128, 28, 28), (256, 128, 3, 3), {"padding": 1})]))
def test_against_torch(x, w, options):
    compare(x, w, "bf16", bias=True, **options)


@pytest.mark.parametrize(("x", "w", "dtype", "options"), [
    ((2, 12, 7, 6), (8, 6, 3, 2), "bf16", {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2}),
    ((2, 9, 11), (9, 1, 4), "f16", {"groups": 9, "padding": 3}),
    ((1, 4, 3, 5, 6), (10, 4, 2, 3, 3), "bf16", {"stride": (1, 2, 3), "padding": (0, 1, 1)}),
    ((2, 4, 10), (3, 4, 2), "f16", {"stride": 3}),
])
def test_gradients(x, w, dtype, options):
    compare(x, w, dtype, bias=True, gradients=True, **options)


def test_numpy_arrays_of_any_strides():
    x, w, bias = (t.numpy() for t in (random(9, 2, 7, 12, dtype="f16"), random(3, 2, 10, 6, dtype="f16", seed=1),
                                      random(20, seed=2)))
    x, w = x.transpose(1, 3, 2, 0)[:, :, ::-1], w.transpose(2, 3, 0, 1)[..., ::-1]
    exact = F.conv2d(*(torch.from_numpy(a.astype("float64")) for a in (x, w, bias[::2])), padding=(1, 0), groups=2)
    before = w.copy()
    for _ in range(2):
        y = ops.conv(x, w, bias[::2], padding=(1, 0), groups=2)
        assert isinstance(y, np.ndarray) and y.dtype == np.float16
        close(torch.from_numpy(y), exact, STEP["f16"] * float(exact.abs().max()))
        w *= 2  # nothing tells that an array was changed: no order is kept
        exact = exact * 2 - torch.from_numpy(bias[::2].astype("float64"))[:, None, None]
    assert np.array_equal(w, before * 4)
    with pytest.raises(TypeError, match="all torch tensors or all NumPy arrays"):
        ops.conv(x, w, torch.from_numpy(bias[:10]), groups=2)


def test_an_image_without_a_batch_and_other_strides():
    x, w = random(6, 9, 8, dtype="bf16"), random(4, 6, 3, 3, dtype="bf16", seed=1)
    y = ops.conv(x, w)
    assert torch.equal(y, ops.conv(x[None], w)[0])
    last = x[None].to(memory_format=torch.channels_last)
    assert torch.equal(ops.conv(last, w)[0], y) and torch.equal(ops.conv(last, w.transpose(2, 3).transpose(2, 3))[0], y)
    before = w.clone()
    with torch.no_grad():
        w.mul_(2)  # the kept order of the filter is made again
    assert torch.equal(ops.conv(x, w), ops.conv(x, before * 2))


@pytest.mark.parametrize("block", [(64, 64), (128, 64), (128, 128)])
def test_every_tile_between_guards(block):
    """One launch of each tile, with ragged rows and columns, and rows of zeros behind the filter's k."""
    n, c, w, k, taps = 2, 8, 75, block[1] + 3, 3
    x, f = random(n, c, w, dtype="bf16"), random(k, c, taps, dtype="bf16", seed=1)
    config = ConvConfig("bf16", *block, taps=(1, 1, taps), channels=c, target=target())
    given = torch.cat((x.permute(0, 2, 1).reshape(-1), torch.zeros(8, dtype=torch.bfloat16)))
    rows = F.pad(f.permute(0, 2, 1).reshape(k, -1), (0, 64 - taps * c)).contiguous()
    out, wo = Guarded(n, k, w - taps + 1, dtype=torch.bfloat16), w - taps + 1
    build_conv_module(config)(given, rows, out.out, given, n * wo, k, 1, 1, w, 1, 1, wo, 1, 1, 1, taps, c, 1, n * w * c,
                              n * w * c)
    reference = F.conv1d(x.double(), f.double())
    close(out.check(), reference, STEP["bf16"] * float(reference.abs().max()))


def test_builder_refuses_operands_that_do_not_fit():
    n, c, w, k, taps = 2, 32, 20, 4, 3
    wo = w - taps + 1
    x, rows = (torch.zeros(count, dtype=torch.bfloat16) for count in (n * w * c + 8, k * 128))
    bias, y = torch.zeros(k), torch.zeros(n, k, wo, dtype=torch.bfloat16)
    what = dict(dtype="bf16", block_m=64, block_n=64, bias=True, target=target())
    sizes = (n * wo, k, 1, 1, w, 1, 1, wo, 2, 1, 1, taps, c, 1, n * w * c, n * w * c)
    shared = torch.zeros(2 * y.numel())
    for config, parts in ((ConvConfig(**what), x), (ConvConfig(**what, taps=(1, 1, taps), channels=c), x),
                          (ConvConfig(**what, splits=2), shared)):
        run = build_conv_module(config)
        run(x, rows, bias, y, parts, *sizes)
        for at, wrong in ((0, x[1:]), (1, rows[1:]), (2, bias[1:]), (3, y[1:]), (4, shared[1:])):
            if at == 4 and parts is x:
                continue
            given = [x, rows, bias, y, parts]
            given[at] = wrong
            with pytest.raises(ValueError, match="holds fewer elements"):
                run(*given, *sizes)
        with pytest.raises(TypeError, match="built for Float32, but an argument holds BFloat16"):
            run(x, rows, bias.bfloat16(), y, parts, *sizes)
        with pytest.raises(ValueError, match="y must be dense"):
            run(x, rows, bias, y.transpose(0, 1), parts, *sizes)
    with pytest.raises(ValueError, match="tiles of 64 must cover"):
        build_conv_module(ConvConfig(**what))(x, rows, bias, y, x, *sizes[:11], 5, *sizes[12:])
    with pytest.raises(ValueError, match="too few tiles of 64 for the splits"):
        build_conv_module(ConvConfig(**what, splits=3))(x, rows, bias, y, torch.zeros(3 * y.numel()), *sizes)


def test_inputs_beyond_2_gib():
    """Positions whose byte offsets have 32 bits and more; only those that are read are ever touched."""
    c, k, step, outs = 8, 16, 50_000_000, 4
    width = step * (outs - 1) + 3
    x = torch.empty(width * c + 8, dtype=torch.bfloat16)
    assert x.nbytes > 2**31
    places = torch.arange(outs)[:, None] * step + torch.arange(3)
    values = random(outs * 3, c, dtype="bf16")
    x[:-8].view(width, c)[places.reshape(-1)] = values
    x[-8:] = 0
    f = random(k, 3, c, dtype="bf16", seed=1)
    config = make_config("test", target(), "bf16", outs, k, stride=(1, 1, step), taps=(1, 1, 3), channels=c)
    y = Guarded(1, k, outs, dtype=torch.bfloat16)
    rows = F.pad(f.reshape(k, -1), (0, 64 - 3 * c)).contiguous()
    build_conv_module(config)(x, rows, y.out, x, outs, k, 1, 1, width, 1, 1, outs, 1, 1, 1, 3, c, 1, width * c,
                              width * c)
    reference = values.double().reshape(outs, -1) @ f.double().reshape(k, -1).T
    close(y.check()[0], reference.T, STEP["bf16"] * float(reference.abs().max()))


def test_outputs_beyond_2_gib():
    """The first positions of an image whose channels lie so far apart; nothing else is ever touched."""
    c, k, outs, volume = 8, 4, 5, 400_000_000
    x, f = random(outs, c, dtype="bf16"), random(k, c, dtype="bf16", seed=1)
    y = torch.empty(k * volume, dtype=torch.bfloat16)
    assert (k - 1) * volume * y.itemsize > 2**31
    given = torch.cat((x.reshape(-1), torch.zeros(8, dtype=torch.bfloat16)))
    config = make_config("test", target(), "bf16", outs, k, taps=(1, 1, 1), channels=c)
    build_conv_module(config)(given, F.pad(f, (0, 64 - c)), y, given, outs, k, 1, 1, volume, 1, 1, volume, 1, 1, 1, 1,
                              c, 1, outs * c, outs * c)
    rt.synchronize()
    reference = f.double() @ x.double().T
    close(y.view(k, volume)[:, :outs], reference, STEP["bf16"] * float(reference.abs().max()))


def test_more_positions_than_rows_have_numbers_are_refused():
    """The last tile has rows behind the last position, whose numbers must have 32 bits too. Nothing has the memory."""
    w = torch.zeros(1, 1, 1, dtype=torch.bfloat16)
    x = torch.zeros(1, 1, 1, dtype=torch.bfloat16).expand(1, 1, 2**31 - 127)
    with pytest.raises(ValueError, match="there are 2147483521 output positions, at most 2147483520 are supported"):
        ops.conv(x, w)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_workgroups_share_a_long_reduction(dtype, groups):
    kind = fp8_dtype() if dtype == "fp8" else torch.bfloat16
    x, w = random(2, 400 * groups, 6, 5).to(kind), random(70 * groups, 400, 3, 3, seed=1).to(kind)
    m, tiles = 2 * 6 * 5, -(-400 * 9 // (128 if dtype == "fp8" else 64))
    splits = choose_splits(target(), m, 70, groups, tiles)
    assert splits > 1
    for parts in (1, 2, 7, 40):  # each part has tiles
        found = choose_splits(target(), m, 70, groups, parts * 8)
        assert (found - 1) * -(-parts * 8 // found) < parts * 8
    bias = random(70 * groups, seed=2)
    exact = F.conv2d(x.double(), w.double(), bias.double(), padding=1, groups=groups)
    with rt.checked("oob,race,uninit") as report:
        y = ops.conv(x, w, bias, padding=1, groups=groups)
    assert not report.findings and torch.equal(y, ops.conv(x, w, bias, padding=1, groups=groups))
    close(y, exact, STEP["bf16"] * float(exact.abs().max()))


def test_the_older_name():
    x, w = random(1, 5, 6, 7, dtype="bf16"), random(3, 5, 3, 3, dtype="bf16", seed=1)
    assert torch.equal(conv3d_implicit(x, w, None, 1, 1, splitk=2, tile=(64, 64, 2, 2)), ops.conv(x, w, padding=1))


@pytest.mark.parametrize("switch", ["argument", "environment"])
def test_the_older_name_searches_for_a_tile(switch, monkeypatch, tmp_path):
    from flydsl.kernels.conv import older
    from flydsl.kernels.conv.config import TILES

    monkeypatch.setenv("FLYDSL_AUTOTUNE_CACHE_DIR", str(tmp_path))
    older._searched.cache_clear()
    x, w, bias = random(1, 5, 6, 7, dtype="bf16"), random(3, 5, 3, 3, dtype="bf16", seed=1), random(3)
    exact = F.conv2d(x.double(), w.double(), bias.double(), padding=1)
    taken, run = [], older.forced
    monkeypatch.setattr(older, "forced", lambda tile: taken.append(tuple(tile.values())) or run(tile))
    monkeypatch.setenv("FLYDSL_CONV3D_AUTOTUNE", "1" if switch == "environment" else "0")
    option = {} if switch == "environment" else {"autotune": True}
    with pytest.raises(ValueError, match="do not fit x"):
        conv3d_implicit(x, w[:, :4], **option)
    assert not taken and not list(tmp_path.iterdir())
    close(conv3d_implicit(x, w, bias, 1, 1, **option), exact, STEP["bf16"] * float(exact.abs().max()))
    assert set(taken) == set(TILES) and list(tmp_path.iterdir())
    best = taken[-1]
    taken.clear()
    older._searched.cache_clear()  # as another process has it
    close(conv3d_implicit(x, w, bias, 1, 1, **option), exact, STEP["bf16"] * float(exact.abs().max()))
    assert taken == [best]
    conv3d_implicit(x, w, bias, 1, 1, autotune=False)
    assert taken == [best]


@pytest.mark.parametrize(("x", "w", "options"), [
    ((1, 32, 3, 5, 6), (70, 32, 3, 3, 3), {"padding": 1}),
    ((2, 5, 9, 12), (24, 5, 5, 5), {"stride": 2, "padding": 2}),
    ((2, 24, 17), (16, 12, 3), {"groups": 2, "dilation": 2}),
    ((1, 300, 8, 9), (64, 300, 1, 1), {}),
])
def test_fp8(x, w, options):
    kind = fp8_dtype()
    given, bias = [random(*shape, seed=i).to(kind) for i, shape in enumerate((x, w))], random(w[0], seed=2)
    with rt.checked("oob,race,uninit") as report:
        y = ops.conv(*given, bias, **options)
    assert not report.findings and y.dtype == torch.bfloat16
    exact = FORMS[len(w) - 2](*(t.double() for t in given), bias.double(), **options)
    close(y, exact, STEP["bf16"] * float(exact.abs().max()) + 1e-6)
    if not options.keys() - {"stride", "padding"}:
        assert torch.equal(conv3d_implicit_fp8(*given, bias, **options), y)


def test_what_is_refused():
    with pytest.raises(ValueError, match="x must be fp8, got torch.bfloat16"):
        conv3d_implicit_fp8(random(1, 4, 6, 6, dtype="bf16"), random(8, 4, 3, 3, dtype="bf16"))
    x, w = random(1, 4, 6, 6, dtype="bf16"), random(8, 4, 3, 3, dtype="bf16")
    with pytest.raises(ValueError, match=r"2 groups do not fit x \(1, 4, 6, 6\) and weight \(8, 4, 3, 3\)"):
        ops.conv(x, w, groups=2)
    with pytest.raises(ValueError, match=r"with dilation \[3, 3\] does not fit the padded input \[6, 6\]"):
        ops.conv(x, w, dilation=3)
    for none in (w[:0], w[:, :0]):
        with pytest.raises(ValueError, match="a weight of one or more channels and taps is needed"):
            ops.conv(x[:, : none.shape[1]], none)
    with pytest.raises(TypeError, match="conv: dtype float32 is not supported: expected one of f16, bf16"):
        ops.conv(x.float(), w.float())
    with pytest.raises(ValueError, match="stride must be 2 numbers of at least 1, got \\[0, 1\\]"):
        ops.conv(x, w, stride=(0, 1))
    with pytest.raises(ValueError, match="padding 'same' of the filter \\[4\\]"):
        ops.conv(random(1, 4, 6, dtype="bf16"), random(8, 4, 4, dtype="bf16"), padding="same")
    assert ops.conv(torch.zeros(0, 4, 6, 6, dtype=DTYPES["bf16"]), w).shape == (0, 8, 4, 4)


def test_older_builders_take_channels_last():
    x, w, bias = random(2, 5, 4, 6, 7, dtype="bf16"), random(8, 5, 3, 3, 2, dtype="bf16"), random(8)
    launch = compile_conv3d_implicit(2, 5, 4, 6, 7, 8, 3, 3, 2, 1, 2, 1, 1, 0, 1, has_bias=True, tile=(64, 64, 2, 2))
    expected = ops.conv(x, w, bias, (1, 2, 1), (1, 0, 1))
    y = torch.full_like(expected, torch.nan)
    launch(y, x.movedim(1, -1).contiguous(), w.movedim(1, -1).contiguous(), bias)
    assert torch.equal(y, expected)
    with pytest.raises(ValueError, match=r"w_ktrsc must have shape \(8, 3, 3, 2, 5\) or be flat, got \(8, 5, 3\)"):
        launch(y, x.movedim(1, -1), w[..., 0, 0], bias)
    with pytest.raises(ValueError, match=r"x_ndhwc must have shape \(2, 4, 6, 7, 5\) or be flat, got \(2, 5"):
        launch(y, x, w, bias)  # as many elements in another order
    flat = torch.full((y.numel(),), torch.nan, dtype=y.dtype)
    launch(flat, x.movedim(1, -1).reshape(-1), w.movedim(1, -1).reshape(-1), bias)
    assert torch.equal(flat.view(y.shape), expected)
    with pytest.raises(ValueError, match="it was built with a bias, and got none"):
        launch(y, x.movedim(1, -1), w.movedim(1, -1))


def test_older_builder_writes_where_it_is_told():
    """In the stream and into the array that are given; a bias that is not there may be an empty one."""
    x, w = random(1, 8, 3, 5, 6, dtype="bf16"), random(8, 8, 3, 3, 3, dtype="bf16", seed=1)
    launch = compile_conv3d_implicit(1, 8, 3, 5, 6, 8, 3, 3, 3, 1, 1, 1, 1, 1, 1)
    y, stream = torch.full((1, 8, 3, 5, 6), torch.nan, dtype=torch.bfloat16), rt.Stream()
    launch(y, x.movedim(1, -1).contiguous(), w.movedim(1, -1).contiguous(), torch.empty(0), stream)
    stream.synchronize()
    assert torch.equal(y, ops.conv(x, w, None, 1, 1))
    with pytest.raises(ValueError, match="needs a dense array of that shape"):
        launch(torch.empty(1, 3, 5, 6, 8, dtype=torch.bfloat16).movedim(-1, 1), x.movedim(1, -1), w.movedim(1, -1))
    with pytest.raises(ValueError, match="does not fit the padded input"):
        compile_conv3d_implicit(1, 8, 1, 5, 6, 8, 3, 3, 3, 1, 1, 1, 0, 1, 1)
    with pytest.raises(ValueError, match="stride must be 3 numbers of at least 1"):
        compile_conv3d_implicit(1, 8, 3, 5, 6, 8, 3, 3, 3, 1, 0, 1, 1, 1, 1)


@pytest.mark.parametrize("channels", [8, 256])  # of these, workgroups share the k
def test_older_builder_of_sums(channels):
    """With `splitk`, callers add the bias, round and put channels first; y may be finished, too."""
    x, w = random(2, channels, 2, 5, 6, dtype="bf16"), random(8, channels, 3, 3, 3, dtype="bf16", seed=1)
    launch = compile_conv3d_implicit(2, channels, 2, 5, 6, 8, 3, 3, 3, 1, 1, 1, 1, 1, 1, has_bias=True, splitk=4)
    y, given = Guarded(2 * 2 * 5 * 6, 8), (x.movedim(1, -1).contiguous(), w.movedim(1, -1).contiguous(), random(8))
    launch(y.out, *given)
    exact = torch.nn.functional.conv3d(x.double(), w.double(), padding=1)
    close(y.check(), exact.movedim(1, -1).reshape(-1, 8), 1e-5 * float(exact.abs().max()))
    whole = torch.full(exact.shape, torch.nan, dtype=torch.bfloat16)
    launch(whole, *given)
    assert torch.equal(whole, ops.conv(x, w, given[2], 1, 1))
    with pytest.raises(ValueError, match=r"y must have shape \(120, 8\) or be flat"):
        launch(torch.zeros(exact.shape), *given)
    with pytest.raises(ValueError, match="y must be dense"):
        launch(torch.zeros(8, 120).T, *given)


@needs("gfx94", "gfx95", "gfx12")
@pytest.mark.parametrize(("channels", "filled"), [(16, 256), (32, 384)])
def test_older_builder_of_fp8(channels, filled):
    """Also of weights whose rows the caller filled up to whole tiles of 128, and two at least."""
    x = random(1, channels, 1, 6, 6).to(fp8_dtype())
    w = random(8, channels, 1, 3, 3, seed=1).to(fp8_dtype())
    launch = compile_conv3d_implicit_fp8(1, channels, 1, 6, 6, 8, 1, 3, 3, 1, 1, 1, 0, 1, 1, wgm=4)
    expected = ops.conv(x, w, None, 1, (0, 1, 1))
    last = w.movedim(1, -1).contiguous()
    rows = torch.zeros(8, filled, dtype=torch.uint8)
    rows[:, : 9 * channels] = last.view(torch.uint8).view(8, -1)
    for weight in (last, rows.view(fp8_dtype()), rows.view(fp8_dtype()).view(-1)):
        launch(y := torch.full_like(expected, torch.nan), x.movedim(1, -1).contiguous(), weight)
        assert torch.equal(y, expected)
    for wrong in (rows[:, :-1], rows.view(filled, 8)):
        with pytest.raises(ValueError, match="w_ktrsc must have shape"):
            launch(y, x.movedim(1, -1).contiguous(), wrong)


@pytest.mark.parametrize("shape", [(1, 64, 4, 4, 4), (2, 48, 2, 5, 10), (1, 144, 1, 1, 37), (3, 16, 1, 1, 1)])
@pytest.mark.parametrize(("build", "dtype"), [(compile_transpose_ncdhw_ndhwc, torch.bfloat16),
                                              (compile_transpose_ncdhw_ndhwc, torch.float16),
                                              (compile_transpose_ncdhw_ndhwc_fp8, torch.float8_e4m3fn)])
def test_channels_last(build, dtype, shape):
    """Whole tiles, and tiles that end inside of the channels and of the positions."""
    n, c, *size = shape
    x = random(*shape).to(dtype)
    bits = torch.uint8 if dtype.itemsize == 1 else torch.int16
    y = Guarded(n * math.prod(size), c, dtype=dtype)
    with rt.checked("oob,race,uninit") as report:
        build(n, c, math.prod(size))(y.out, x)
    assert not report.findings
    assert torch.equal(y.check().view(bits), x.view(bits).permute(0, 2, 3, 4, 1).reshape(-1, c))


def test_channels_last_refuses():
    x = random(2, 8, 6, dtype="bf16")
    for build, n, c, chunk in ((compile_transpose_ncdhw_ndhwc, 1, 12, 8), (compile_transpose_ncdhw_ndhwc, 0, 8, 8),
                               (compile_transpose_ncdhw_ndhwc_fp8, 1, 24, 16)):
        with pytest.raises(ValueError, match=f"c is a multiple of {chunk}, got {n}, {c}, 64"):
            build(n, c, 64)
    with pytest.raises(ValueError, match=r"x must have 2 \* 8 \* 7 elements of 16 bits, got \(2, 8, 6\)"):
        compile_transpose_ncdhw_ndhwc(2, 8, 7)(random(112, dtype="bf16"), x)
    with pytest.raises(ValueError, match="y must have .* elements of 8 bits, got .* torch.bfloat16"):
        compile_transpose_ncdhw_ndhwc_fp8(2, 16, 6)(random(2, 16, 6, dtype="bf16"), x)


@pytest.mark.one_arch
@pytest.mark.parametrize("flat", ["dy", "weight", "x"])
def test_gradients_of_operands_without_dimensions_are_refused(flat):
    from flydsl.kernels.op import operations

    found, given = operations(), {"dy": random(2, 4, 5, dtype="f16"), "weight": random(4, 4, 3, dtype="f16")}
    given |= {"x": given["dy"]}
    given[flat] = given[flat].flatten()
    with pytest.raises(ValueError, match=f"{flat} must have images, channels and 1 to 3 dimensions more"):
        if flat == "weight":
            found.conv_input_grad(given["dy"], given["weight"], [5], [1], [1], [1], 1)
        else:
            found.conv_weight_grad(given["dy"], given["x"], [3], [1], [1], [1], 1)
