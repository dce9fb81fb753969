"""Blocks that sequences take and give back, and where their tokens lie."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_helpers import torch

from flydsl.kernels import ops
from flydsl.kernels.decode import BlockPool, paged_batch


@given(st.data())
def test_blocks_belong_to_one_sequence(data):
    pool, owned = BlockPool(12, 4), []
    for _ in range(data.draw(st.integers(1, 12))):
        if owned and data.draw(st.booleans()):
            pool.give(owned.pop(data.draw(st.integers(0, len(owned) - 1))))
        tokens = data.draw(st.integers(1, 24))
        before, blocks = len(pool), pool.take(tokens)
        if blocks is None:
            assert -(-tokens // 4) > before == len(pool)
        else:
            assert len(blocks) == -(-tokens // 4)
            owned.append(blocks)
        everything = [block for blocks in owned for block in blocks]
        assert len(set(everything)) == len(everything) == 12 - len(pool) and set(everything) <= set(range(12))


def test_blocks_are_given_once():
    pool = BlockPool(4, 16)
    mine = pool.take(20)
    for wrong in ([3], [*mine, mine[0]], [*mine, 9]):
        with pytest.raises(ValueError, match="in use and given once"):
            pool.give(wrong)
    assert len(pool) == 2
    pool.give(mine)
    assert len(pool) == 4
    with pytest.raises(ValueError, match="must be positive, got 0 and 16"):
        BlockPool(0, 16)


@given(st.data())
def test_tokens_lie_where_their_sequence_says(data):
    size = data.draw(st.sampled_from([1, 3, 16]))
    lengths = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=5))
    new = [data.draw(st.integers(1, n)) for n in lengths]
    free = data.draw(st.permutations(range(sum(-(-n // size) for n in lengths))))
    blocks = []
    for n in lengths:
        count = -(-n // size)
        blocks.append(free[:count])
        free = free[count:]
    batch = paged_batch(blocks, lengths, new, size)
    expected = [(p, owned[p // size] * size + p % size)
                for owned, n, last in zip(blocks, lengths, new, strict=True) for p in range(n - last, n)]
    assert list(zip(batch.positions.tolist(), batch.slots.tolist(), strict=True)) == expected
    assert batch.starts.tolist() == [sum(new[:i]) for i in range(len(new) + 1)]
    assert batch.longest == max(new) and batch.whole == (new == lengths)
    assert batch.lengths.tolist() == lengths and batch.table.dtype == batch.lengths.dtype == torch.int32
    for row, owned in zip(batch.table.tolist(), blocks, strict=True):
        assert row[:len(owned)] == owned and set(row[len(owned):]) <= {owned[0]}


def test_a_decode_step_over_blocks_of_a_pool():
    """Keys and values that a batch wrote are those that its table reads."""
    pool, generator = BlockPool(9, 16), torch.Generator().manual_seed(0)
    lengths = [40, 3, 17]
    blocks = [pool.take(n) for n in lengths]
    k, v = (torch.randn(sum(lengths), 2, 64, generator=generator).half() for _ in range(2))
    caches = [torch.full((9, 16, 2, 64), float("nan"), dtype=torch.float16) for _ in range(2)]
    prompts = paged_batch(blocks, lengths, lengths, 16)
    ops.cache_append(k, v, *caches, prompts.slots)
    q = torch.randn(3, 1, 4, 64, generator=generator).half()
    batch = paged_batch(blocks, lengths, [1, 1, 1], 16)
    out = ops.paged_attention(q, *caches, batch.table, batch.lengths)
    for i, (keys, values) in enumerate(zip(k.split(lengths), v.split(lengths), strict=True)):
        exact = torch.nn.functional.scaled_dot_product_attention(
            q[i].double().transpose(0, 1), *(t.double().transpose(0, 1) for t in (keys, values)), enable_gqa=True)
        assert float((out[i].double() - exact.transpose(0, 1)).abs().max()) < 2e-3


@pytest.mark.parametrize(("arguments", "text"), [
    (([[0]], [3], []), "of the same sequences, got 1, 1, 0"), (([], [], []), "of the same sequences"),
    (([[0], [1]], [3, 4], [3, 0]), "sequence 1 has 4 tokens, of which 0 cannot be new"),
    (([[0]], [3], [4]), "sequence 0 has 3 tokens, of which 4 cannot be new"),
    (([[0]], [17], [1]), "sequence 0 has 17 tokens, but 1 blocks of 16"),
])
def test_what_is_refused(arguments, text):
    with pytest.raises(ValueError, match="paged_batch: .*" + text):
        paged_batch(*arguments, 16)
