"""Rotary embedding and its fused cache write against their definitions."""

import numpy as np
import pytest
from kernel_helpers import DTYPES, Guarded, close, fp8_dtype, random, torch

import flydsl.runtime as rt
from flydsl.kernels import ops
from flydsl.kernels.rope import build_fused_rope_cache_module
from flydsl.kernels.rope.op import _reference_rope
from flydsl.runtime import SimulatorError

pytestmark = pytest.mark.each_wave_size

TOLERANCE = {"f32": 1e-6, "f16": 2e-3, "bf16": 2e-2}


def tables(rows, half, seed=0):
    """A YaRN-like table: cosines and sines of angles, times an attention factor."""
    angles = torch.arange(rows)[:, None] * 10000.0 ** -(torch.arange(half) / half)
    return angles.cos() * 1.1, angles.sin() * 1.1


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("dim", "rotary", "dtype"), [
    (64, None, "bf16"), (64, 32, "f16"), (80, 20, "f32"), (7, 4, "bf16"), (2, None, "f32"), (96, 94, "f16"),
    (576, 64, "bf16"),
])
def test_rope_of_any_head_size(dim, rotary, dtype, interleaved):
    x = random(2, 5, 3, dim, dtype=dtype)
    cos, sin = tables(9, (rotary or dim) // 2)
    for positions in (None, torch.tensor([8, 0, 3, 3, 1], dtype=torch.int32)):
        with rt.checked("oob,race,uninit") as report:
            out = ops.rope(x, cos, sin, positions=positions, interleaved=interleaved, rotary_dim=rotary)
        assert not report.findings
        close(out, _reference_rope(x, cos, sin, positions, interleaved, rotary, False)[0], TOLERANCE[dtype])


@pytest.mark.parametrize("table", list(DTYPES))
@pytest.mark.parametrize("dtype", list(DTYPES))
def test_tables_of_every_dtype(dtype, table):
    """Both are widened: neither is read by the bits of the other (a head of 6 moves single elements)."""
    x, (cos, sin) = random(1, 5, 2, 6, dtype=dtype), (t.to(DTYPES[table]) for t in tables(5, 3))
    close(ops.rope(x, cos, sin), _reference_rope(x, cos, sin, None, False, None, False)[0], TOLERANCE[dtype])


def test_tables_with_a_column_for_each_feature():
    x, (cos, sin) = random(2, 5, 3, 16).requires_grad_(), tables(5, 12)
    seed = random(2, 5, 3, 16, seed=1)
    out = ops.rope(x, cos, sin, rotary_dim=12)
    out.backward(seed)
    exact = x.detach().double().requires_grad_()
    reference = _reference_rope(exact, cos, sin, None, False, 12, False)[0]
    reference.backward(seed.double())
    close(out.detach(), reference.detach(), 1e-6)
    close(x.grad, exact.grad, 1e-6)
    with pytest.raises(ValueError, match=r"half of the 12 rotated features, got shape \(5, 12\)"):
        ops.rope(x, cos, sin, rotary_dim=12, interleaved=True)


@pytest.mark.parametrize("dim", [16, 12, 6])
def test_builders_turn_neighbours_by_a_column_for_each_feature(dim):
    """As GPT-J has it: the pair (2 i, 2 i + 1) is turned by the columns 2 i and 2 i + 1."""
    tokens, heads, dtype = 3, 2, torch.bfloat16
    q, k, v = (random(tokens, heads, dim, dtype="bf16", seed=n) for n in range(3))
    cos, sin = (t.repeat_interleave(2, -1).to(dtype) for t in tables(9, dim // 2))
    positions, slots = torch.tensor([8, 0, 3], dtype=torch.int32), torch.tensor([1, -1, 0], dtype=torch.int32)
    caches = [torch.zeros(1, 4, heads, dim, dtype=dtype) for _ in range(2)]
    outs, scale = [torch.full_like(q, float("nan")) for _ in range(2)], torch.ones(1)
    launch = build_fused_rope_cache_module(dim, num_q_heads=heads, num_kv_heads=heads, block_size=4, is_neox=False,
                                           reuse_freqs_front_part=False)
    launch(q, k, v, positions, cos, sin, slots, *caches, *outs, tokens, scale, scale)
    for x, out in zip((q, k), outs, strict=True):
        exact = _reference_rope(x[None], cos[:, ::2], sin[:, ::2], positions[None], True, None, False)[0][0]
        close(out, exact, TOLERANCE["bf16"])
    assert torch.equal(caches[0][0, [1, 0]], outs[1][[0, 2]])


def test_the_gradient_is_that_of_autograd_and_tables_have_none():
    x, (cos, sin) = random(1, 4, 2, 12).requires_grad_(), tables(4, 3)
    seed = random(1, 4, 2, 12, seed=1)
    ops.rope(x, cos, sin, rotary_dim=6).backward(seed)
    exact = x.detach().double().requires_grad_()
    _reference_rope(exact, cos, sin, None, False, 6, False)[0].backward(seed.double())
    close(x.grad, exact.grad, 1e-6)
    with pytest.raises(ValueError, match="cos has no gradient here, only x: pass cos.detach"):
        ops.rope(x, cos.requires_grad_(), sin, rotary_dim=6)


def test_what_is_refused():
    x, (cos, sin) = random(1, 4, 2, 12), tables(4, 6)
    with pytest.raises(ValueError, match=r"cos must be \(positions, 4\), half of the 8 rotated features"):
        ops.rope(x, cos, sin, rotary_dim=8)
    with pytest.raises(ValueError, match="even number from 2 to the head size 12, got 14"):
        ops.rope(x, *tables(4, 7), rotary_dim=14)
    with pytest.raises(ValueError, match="tables have 3 positions, the sequence 4"):
        ops.rope(x, cos[:3], sin[:3])
    with pytest.raises(TypeError, match="positions: dtype float32 is not supported: expected one of i32, i64"):
        ops.rope(x, cos, sin, positions=torch.zeros(4))


@pytest.mark.parametrize("bad", [-1, 4, 2**32])
def test_a_position_outside_the_tables_stops_the_launch(bad):
    with pytest.raises(SimulatorError, match="trap"):
        ops.rope(random(1, 4, 2, 12), *tables(4, 6), positions=torch.tensor([0, 1, bad, 2]))
        rt.synchronize()


# ------------------------------------------------------------------------------------------- caches

X = 8


def empty_caches(order, blocks, size, heads, dim, value_dim, dtype):
    """Keys and values, each with its view as (blocks, size, heads, features)."""
    if order == "flash":
        k, v = (torch.full((blocks, size, heads, d), 7.0).to(dtype) for d in (dim, value_dim))
        return k, v, k, v
    if order == "strided":  # keys and values of a block together, as vLLM keeps them
        both = torch.full((blocks, 2, size, heads, dim), 7.0).to(dtype)
        return both[:, 0], both[:, 1], both[:, 0], both[:, 1]
    k = torch.full((blocks, heads, dim // X, size, X), 7.0).to(dtype)
    seen_k = k.permute(0, 3, 1, 2, 4)
    if order == "packed":
        v = torch.full((blocks, heads, value_dim, size), 7.0).to(dtype)
        return k, v, seen_k, v.permute(0, 3, 1, 2)
    v = torch.full((blocks, heads, size // X, value_dim, X), 7.0).to(dtype)
    return k, v, seen_k, v.permute(0, 2, 4, 1, 3)


def as_positions(seen, features):
    """(slots, 2 heads, features) of a view of a cache."""
    return seen.to(torch.float64).reshape(-1, 2, features)


SLOTS = torch.tensor([17, -1, 3, 44, 0, -7])


@pytest.mark.parametrize(("order", "dim", "value_dim", "dtype", "interleaved"), [
    ("flash", 64, 64, "bf16", False), ("flash", 24, 10, "f16", True), ("strided", 32, 32, "f32", False),
    ("packed", 64, 64, "bf16", True), ("positions", 16, 40, "f16", False),
])
def test_the_cache_write_in_every_order(order, dim, value_dim, dtype, interleaved):
    tokens, heads, size = len(SLOTS), 2, 16
    q, k = random(tokens, 5, dim, dtype=dtype), random(tokens, heads, dim, dtype=dtype, seed=1)
    v, positions = random(tokens, heads, value_dim, dtype=dtype, seed=2), torch.tensor([0, 3, 8, 8, 1, 2])
    cos, sin = tables(9, dim // 2)
    kc, vc, seen_k, seen_v = empty_caches(order, 3, size, heads, dim, value_dim, DTYPES[dtype])
    with rt.checked("oob,race,uninit") as report:
        q_out, k_out = ops.rope_cache(q, k, v, cos, sin, positions, kc, vc, SLOTS, interleaved=interleaved)
    assert not report.findings
    for out, x in ((q_out, q), (k_out, k)):
        close(out, _reference_rope(x[None], cos, sin, positions[None], interleaved, None, False)[0][0],
              TOLERANCE[dtype])
    for seen, new, features in ((seen_k, k_out, dim), (seen_v, v, value_dim)):
        expected = torch.full((3 * size, heads, features), 7.0, dtype=torch.float64)
        expected[SLOTS[SLOTS >= 0]] = new[SLOTS >= 0].double()
        assert torch.equal(as_positions(seen, features), expected)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("dim", "rotary", "offset", "dtype"), [
    (128, 64, None, "bf16"), (128, None, 0.0, "bf16"), (96, 32, 1.0, "f16"), (10, 4, 0.0, "f32"),
    (256, None, 1.0, "bf16"), (300, 100, 1.0, "bf16"), (1040, None, 0.0, "f16"), (270, None, None, "bf16"),
])
def test_some_features_and_norms_of_heads(dim, rotary, offset, dtype, interleaved):
    tokens, (cos, sin) = 5, tables(9, (rotary or dim) // 2)
    q, k, v = (random(tokens, h, dim, dtype=dtype, seed=h, scale=3.0) for h in (6, 2, 2))
    caches = [torch.full((3, 4, 2, dim), torch.nan, dtype=q.dtype) for _ in "kv"]
    positions, slots = torch.tensor([8, 0, 3, 3, 1]), torch.tensor([11, 0, -1, 5, 6])
    options = {"rotary_dim": rotary, "interleaved": interleaved}
    if offset is not None:
        options |= {"q_weight": random(dim, seed=8).to(q.dtype), "k_weight": random(dim, seed=9), "eps": 1e-3,
                    "weight_offset": offset}
    with rt.checked("oob,race,uninit") as report:
        outs = ops.rope_cache(q, k, v, cos, sin, positions, *caches, slots, **options)
    assert not report.findings
    for out, x, name in zip(outs, (q, k), ("q_weight", "k_weight"), strict=True):
        expected = x.double()
        if offset is not None:
            expected = torch.nn.functional.rms_norm(expected, (dim,), options[name].double() + offset, 1e-3)
        expected = _reference_rope(expected[None], cos, sin, positions[None], interleaved, rotary, False)[0][0]
        close(out, expected, TOLERANCE[dtype] * 3)
    for i, slot in enumerate(slots.tolist()):
        if slot >= 0:
            assert torch.equal(caches[0].view(-1, 2, dim)[slot], outs[1][i])
            assert torch.equal(caches[1].view(-1, 2, dim)[slot], v[i])
    assert int(caches[0].isnan().any(-1).any(-1).sum()) == 12 - 4
    for wrong, text in (({"q_weight": random(dim)}, "both or neither"),
                        ({"weight_offset": 1.0}, "weight_offset 1.0 is added to q_weight and k_weight")):
        with pytest.raises(ValueError, match=text):
            ops.rope_cache(q, k, v, cos, sin, positions, *caches, slots, rotary_dim=rotary, interleaved=interleaved,
                           **wrong)


def test_fp8_caches_with_scales():
    fp8, tokens, heads, dim = fp8_dtype(), len(SLOTS), 2, 32
    q, k, v = (random(tokens, heads, dim, dtype="bf16", seed=i) for i in range(3))
    v[0, 0, :8] = torch.tensor([-1e-6, 1e-6, -0.0, 3000, -3000, 2.0**-10, -(2.0**-10), -(2.0**-11)])
    cos, sin = tables(9, dim // 2)
    kc, vc = (torch.zeros(3, 16, heads, dim).to(fp8) for _ in range(2))
    scales = torch.tensor([0.5]), torch.tensor(2.0)
    _, k_out = ops.rope_cache(q, k, v, cos, sin, torch.arange(tokens), kc, vc, SLOTS, k_scale=scales[0],
                              v_scale=scales[1])
    kept, limit = SLOTS[SLOTS >= 0], torch.finfo(fp8).max
    for cache, x, scale in ((kc, k_out, 0.5), (vc, v, 2.0)):
        stored = cache.float().reshape(48, heads, dim)[kept]
        expected = (x.float()[SLOTS >= 0] / scale).clamp(-limit, limit).to(fp8).float()
        assert torch.equal(stored, expected)
    numbers = kc.clone().zero_(), vc.clone().zero_()
    ops.rope_cache(q, k, v, cos, sin, torch.arange(tokens), *numbers, SLOTS, k_scale=float(scales[0]),
                   v_scale=float(scales[1]))
    assert all(torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in zip(numbers, (kc, vc), strict=True))
    plain = torch.zeros(3, 16, heads, dim).to(fp8)
    ops.rope_cache(q, k, v, cos, sin, torch.arange(tokens), plain, vc, SLOTS)
    assert torch.equal(plain.float().reshape(48, heads, dim)[kept], k_out[SLOTS >= 0].to(fp8).float())


@pytest.mark.parametrize("kind", ["bf16", "fp8"])
def test_the_cache_of_latent_attention(kind):
    """One row of a cache holds a latent vector and the rotated key of all heads: two views of it."""
    tokens, latent, rope = len(SLOTS), 512, 64
    dtype = torch.bfloat16 if kind == "bf16" else fp8_dtype()
    q, k = random(tokens, 4, rope, dtype="bf16"), random(tokens, rope, dtype="bf16", seed=1)
    c, (cos, sin) = random(tokens, latent, dtype="bf16", seed=2), tables(9, rope // 2)
    cache, positions = torch.zeros(48, 1, 1, latent + rope).to(dtype), torch.tensor([0, 3, 8, 8, 1, 2])
    _, k_out = ops.rope_cache(q, k[:, None], c[:, None], cos, sin, positions, cache[..., latent:], cache[..., :latent],
                              SLOTS, interleaved=True)
    expected = torch.zeros(48, latent + rope).to(dtype)
    expected[SLOTS[SLOTS >= 0]] = torch.cat((c, k_out[:, 0]), -1)[SLOTS >= 0].to(dtype)
    assert torch.equal(cache.float().view(48, -1), expected.float())


def test_what_caches_are_refused():
    q, k = random(3, 4, 16), random(3, 2, 16)
    cos, sin = tables(9, 8)
    cache, slots = torch.zeros(3, 4, 2, 16), torch.tensor([0, 1, 2])

    def run(kc=cache, vc=cache, slots=slots, **more):
        ops.rope_cache(q, k, k, cos, sin, slots, kc, vc, slots, **more)
        rt.synchronize()

    with pytest.raises(ValueError, match=r"caches must be \[blocks, size, heads, D\] both, or"):
        run(kc=cache[0])
    with pytest.raises(ValueError, match="caches differ in blocks, positions"):
        run(vc=cache[:2])
    with pytest.raises(ValueError, match="scales are of fp8 caches, and these are f32"):
        run(k_scale=torch.ones(1), v_scale=torch.ones(1))
    with pytest.raises(ValueError, match="k_cache is written, and elements of it are in one place"):
        run(kc=cache[:1].expand(cache.shape))
    with pytest.raises(TypeError, match="dtype float16 is not supported: expected one of f32, fp8"):
        run(kc=cache.half(), vc=cache.half())
    with pytest.raises(SimulatorError, match="trap"):
        run(slots=torch.tensor([0, 12, 1]))


@pytest.mark.parametrize(("heads", "dim", "flash", "index", "front", "neox"), [
    ((8, 1), 64, True, torch.int32, True, True), ((4, 2), 128, False, torch.int64, False, True),
    ((3, 3), 32, True, torch.int64, True, False),
])
def test_the_older_builder(heads, dim, flash, index, front, neox):
    tokens, size = 6, 16
    # Heads of one tensor, and some that lie by heads first.
    q, k, v = random(tokens, heads[0] + 2 * heads[1], dim, dtype="bf16").split((*heads, heads[1]), 1)
    k = k.transpose(0, 1).contiguous().transpose(0, 1)
    cos, sin = (t.bfloat16() for t in tables(9, dim // 2))
    wide = torch.cat([t if front else torch.cat((t, t), -1) for t in (cos, sin)], -1).chunk(2, -1)
    shape = (3, size, heads[1], dim) if flash else (3, heads[1], dim // 16, size, 16)
    both = torch.zeros(3, 2, *shape[1:], dtype=torch.bfloat16)  # blocks of keys and values in turn
    kc, vc = both[:, 0], both[:, 1] if flash else both[:, 1].view(3, heads[1], dim, size)
    outs = [Guarded(tokens, h, dim, dtype=torch.bfloat16) for h in heads]
    positions = torch.tensor([0, 3, 8, 8, 1, 2], dtype=index)
    launch = build_fused_rope_cache_module(dim, -1, *heads, size, neox, flash, "bf16", False, front,
                                           "i32" if index == torch.int32 else "i64")
    one, apart = torch.ones(1), torch.full((tokens, heads[0], dim + 8), 77.0).bfloat16()
    launch(q, k, v, positions, *wide, SLOTS.to(index), kc, vc, *(o.out for o in outs), tokens, one, one)
    launch(q, k, v, positions, *wide, SLOTS.to(index), kc, vc, apart[..., :dim], outs[1].out, tokens, one, one)
    assert torch.equal(apart[..., :dim], outs[0].out) and bool((apart[..., dim:] == 77.0).all())
    for out, x in zip(outs, (q, k), strict=True):
        close(out.check(), _reference_rope(x[None], cos, sin, positions[None], not neox, None, False)[0][0], 2e-2)
    seen = (kc, vc) if flash else (kc.permute(0, 3, 1, 2, 4), vc.permute(0, 3, 1, 2))
    kept = SLOTS[SLOTS >= 0]
    for cache, new in zip(seen, (outs[1].out, v), strict=True):
        stored = cache.reshape(3 * size, heads[1], dim)
        assert torch.equal(stored[kept], new[SLOTS >= 0])
        assert int((stored != 0).any(-1).any(-1).sum()) == len(kept)


def test_the_older_builder_refuses_operands_that_do_not_fit():
    """Heads whose features lie apart, caches and tables with gaps within, positions of another width."""
    tokens, shape = 4, (3, 8, 2, 16)
    position, gaps = torch.arange(tokens).int(), torch.zeros(3, 8, 2, 32).bfloat16()[..., :16]
    table, one = random(5, 8), torch.ones(1)
    dense = [random(tokens, 2, 16, dtype="bf16", seed=i) for i in range(3)]
    given = [*dense, position, table, table, position, torch.zeros(shape).bfloat16(), torch.zeros(shape).bfloat16(),
             torch.empty_like(dense[0]), torch.empty_like(dense[1]), tokens, one, one]
    launch = build_fused_rope_cache_module(16, -1, 2, 2, 8)
    launch(*given)
    blocks = torch.zeros(3 * 256).bfloat16().as_strided(shape, (128, 32, 16, 1))  # each half in the one before
    for at, wrong in ((3, position.repeat_interleave(2)[::2]), (7, gaps), (8, gaps), (7, blocks),
                      (4, random(5, 16)[:, ::2]), (5, random(8, 8).T[:5])):
        with pytest.raises(ValueError, match="must be dense"):
            launch(*given[:at], wrong, *given[at + 1 :])
    with pytest.raises(ValueError, match="cos: rows must begin at multiples of 8 elements"):
        launch(*given[:4], random(5, 12)[:, :8], *given[5:])
    with pytest.raises(ValueError, match="sin holds fewer elements"):
        launch(*given[:5], random(5, 16)[:4, :8], *given[6:])
    for at in (0, 1, 2, 9, 10):
        turned = random(tokens, 2, 32, dtype="bf16")[..., ::2]
        apart = random(tokens, 2, 20, dtype="bf16")[..., :16]
        for wrong, text in ((turned, "must follow each other"), (apart, "multiples of 8"),
                            (dense[0][:3], "holds fewer elements")):
            with pytest.raises(ValueError, match=text):
                launch(*given[:at], wrong, *given[at + 1 :])
    for at, wrong in ((3, position[:3]), (6, position[:3]), (7, torch.zeros(6, 4, 2, 16).bfloat16()),
                      (8, torch.zeros(shape).bfloat16()[:2])):
        with pytest.raises(ValueError, match="holds fewer elements"):
            launch(*given[:at], wrong, *given[at + 1 :])
    arrays = [x.float().numpy().astype(np.float16) if x.dtype == torch.bfloat16 else x.numpy() for x in given[:11]]
    turned = arrays[0][:, ::-1]
    backwards = build_fused_rope_cache_module(16, -1, 2, 2, 8, dtype_str="f16")
    for at in (0, 1, 2, 9, 10):
        with pytest.raises(ValueError, match="ascending order"):
            backwards(*arrays[:at], turned, *arrays[at + 1 :], tokens, np.ones(1, np.float32), np.ones(1, np.float32))
    for at in (3, 6):
        with pytest.raises(TypeError, match="built for Int32, but an argument holds Int64"):
            launch(*given[:at], given[at].long(), *given[at + 1 :])


def test_the_older_builder_refuses():
    with pytest.raises(ValueError, match="pos_dtype must be 'i32' or 'i64', got 'i16'"):
        build_fused_rope_cache_module(pos_dtype="i16")
    with pytest.raises(ValueError, match="even number from 2 to the head size 64, got 65"):
        build_fused_rope_cache_module(rotary_dim=65)
