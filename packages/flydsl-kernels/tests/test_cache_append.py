"""Keys and values of new tokens in paged caches of every order, against writes one by one."""

import pytest
from kernel_helpers import DTYPES, fp8_dtype, random, torch

import flydsl.runtime as rt
from flydsl.kernels import ops

pytestmark = pytest.mark.each_wave_size

TOKENS, BLOCKS, SIZE, HEADS = 9, 4, 16, 3


def caches(order, dim, value_dim, dtype):
    """Empty caches of an order, and the place of (slot) in each: functions to views [heads, features]."""
    x = 16 // dtype.itemsize
    flat = torch.zeros(BLOCKS, SIZE, HEADS, dim).to(dtype), torch.zeros(BLOCKS, SIZE, HEADS, value_dim).to(dtype)
    if order == "flash":
        return flat, lambda k, s: k[s // SIZE, s % SIZE], lambda v, s: v[s // SIZE, s % SIZE]
    if order == "heads first":
        strided = [c.transpose(1, 2).contiguous().transpose(1, 2) for c in flat]
        return strided, lambda k, s: k[s // SIZE, s % SIZE], lambda v, s: v[s // SIZE, s % SIZE]
    keys = torch.zeros(BLOCKS, HEADS, dim // x, SIZE, x).to(dtype)
    of_key = lambda k, s: k[s // SIZE, :, :, s % SIZE].reshape(HEADS, dim)  # noqa: E731
    if order == "packed":
        values = torch.zeros(BLOCKS, HEADS, value_dim, SIZE).to(dtype)
        return (keys, values), of_key, lambda v, s: v[s // SIZE, :, :, s % SIZE]
    values = torch.zeros(BLOCKS, HEADS, SIZE // x, value_dim, x).to(dtype)
    return (keys, values), of_key, lambda v, s: v[s // SIZE, :, s % SIZE // x, :, s % SIZE % x]


@pytest.mark.parametrize("order", ["flash", "heads first", "packed", "packed by positions"])
@pytest.mark.parametrize(("dtype", "index"), [("f16", torch.int32), ("bf16", torch.int64), ("f32", torch.int64)])
def test_slots_of_every_order(order, dtype, index):
    k, v = random(TOKENS, HEADS, 64, dtype=dtype), random(TOKENS, HEADS, 32, dtype=dtype, seed=1)
    both, of_key, of_value = caches(order, 64, 32, DTYPES[dtype])
    slots = torch.tensor([5, 63, -1, 0, 17, 16, 15, -7, 40], dtype=index)
    with rt.checked("oob,race,uninit") as report:
        assert ops.cache_append(k, v, *both, slots) is None
        rt.synchronize()
    assert not report.findings
    for s in range(BLOCKS * SIZE):
        token = (slots == s).nonzero().flatten().tolist()
        wanted = [x[token[0]] if token else torch.zeros_like(x[0]) for x in (k, v)]
        assert torch.equal(of_key(both[0], s), wanted[0]) and torch.equal(of_value(both[1], s), wanted[1])


@pytest.mark.parametrize("scaled", [False, True])
def test_fp8_caches(scaled):
    kind = fp8_dtype()
    k, v = random(TOKENS, HEADS, 64, dtype="bf16", scale=30), random(TOKENS, HEADS, 64, dtype="bf16", seed=1)
    k[0, 0, 0], v[1, 1, 1] = 1e4, -1e-9  # beyond the range, and below the smallest number
    both, of_key, of_value = caches("flash", 64, 64, kind)
    scales = {"k_scale": torch.tensor([2.0]), "v_scale": torch.tensor([0.25])} if scaled else {}
    slots = torch.arange(TOKENS) * 3
    ops.cache_append(k, v, *both, slots, **scales)
    most = torch.finfo(kind).max
    for t in range(TOKENS):
        for x, cache, place, scale in ((k, both[0], of_key, 2.0), (v, both[1], of_value, 0.25)):
            exact = (x[t].double() / (scale if scaled else 1.0)).clamp(-most, most)
            stored = place(cache, int(slots[t])).double()
            assert (stored - exact).abs().le(exact.abs() / 16 + 2.0**-9).all()


def test_views_of_one_latent_cache():
    cache = torch.zeros(BLOCKS, SIZE, 1, 576).half()
    latent, rotated = random(TOKENS, 1, 512, dtype="f16"), random(TOKENS, 1, 64, dtype="f16", seed=1)
    slots = torch.randperm(BLOCKS * SIZE)[:TOKENS]
    ops.cache_append(latent, rotated, cache[..., :512], cache[..., 512:], slots)
    assert torch.equal(cache.reshape(-1, 576)[slots], torch.cat([latent, rotated], -1)[:, 0])
    assert int((cache.reshape(-1, 576) != 0).any(-1).sum()) == TOKENS


def test_what_is_refused():
    k = random(TOKENS, HEADS, 64, dtype="f16")
    both, _, _ = caches("flash", 64, 64, torch.float16)
    slots = torch.arange(TOKENS)
    with pytest.raises(ValueError, match="k and v must be"):
        ops.cache_append(k[..., :32], k, *both, slots)
    with pytest.raises(TypeError, match="bfloat16"):
        ops.cache_append(k, k, *(c.bfloat16() for c in both), slots)
    with pytest.raises(ValueError, match="fp8 caches"):
        ops.cache_append(k, k, *both, slots, k_scale=torch.ones(1), v_scale=torch.ones(1))
    with pytest.raises(ValueError, match=r"slots must be"):
        ops.cache_append(k, k, *both, slots[:3])
    slots[3] = BLOCKS * SIZE
    with pytest.raises(RuntimeError):
        ops.cache_append(k, k, *both, slots)
        rt.synchronize()
