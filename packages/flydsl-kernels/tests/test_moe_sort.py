"""Sorting by expert: exact integers against a loop over experts."""

import pytest
from kernel_helpers import Guarded, cases, torch

import flydsl.runtime as rt
from flydsl.kernels import moe, ops
from flydsl.kernels.moe.op import MOE_SORT
from flydsl.kernels.moe.sorting import capacity

pytestmark = pytest.mark.each_wave_size

# tokens, experts, k, block, masked share
CASES = cases(
    [(1, 256, 8, 32, 0), (5, 8, 2, 16, 0), (37, 257, 9, 32, 0.6), (128, 8, 2, 64, 0.3), (31, 385, 7, 32, 0),
     (3, 513, 9, 16, 0.5), (1, 1, 1, 1, 0), (700, 64, 6, 64, 0), (2000, 513, 9, 32, 0.5), (40, 16, 4, 24, 1),
     (33000, 7, 2, 16, 0)],
    [(16384, 513, 9, 32, 0.5), (16384, 8, 2, 128, 0), (4096, 1024, 8, 32, 0)],
)


def routed(tokens, experts, k, seed=0):
    generator = torch.Generator().manual_seed(seed + tokens)
    ids = torch.stack([torch.randperm(experts, generator=generator)[:k] for _ in range(tokens)]).int()
    return ids, torch.rand(tokens, k, generator=generator)


def mask_of(experts, share):
    return (torch.rand(experts, generator=torch.Generator().manual_seed(experts)) >= share).int() if share else None


def outputs(tokens, experts, k, block):
    rows = capacity(tokens, k, experts, block)
    return (Guarded(rows, dtype=torch.int32), Guarded(rows), Guarded(-(-rows // block), dtype=torch.int32),
            Guarded(2, dtype=torch.int32))


def assert_sorted(guarded, expected):
    for mine, exact in zip(guarded, expected, strict=True):
        assert torch.equal(mine.check().double(), exact)


@pytest.mark.parametrize(("tokens", "experts", "k", "block", "masked"), CASES)
def test_sorting(tokens, experts, k, block, masked):
    ids, weights = routed(tokens, experts, k)
    mask = mask_of(experts, masked)
    made, expected = outputs(tokens, experts, k, block), MOE_SORT.reference(ids, weights, experts, block, mask)
    buffer = torch.full((64, 4), 7.0)
    with rt.checked("oob,race,uninit") as report:
        moe.moe_sorting_flydsl(ids, weights, *(g.out for g in made), buffer[8:40], experts, block, mask)
        rt.synchronize()
    assert not report.findings, "\n".join(map(str, report.findings))
    assert_sorted(made, expected)
    assert bool((buffer[8:40] == 0).all() and (buffer[:8] == 7).all() and (buffer[40:] == 7).all())


@pytest.mark.parametrize("tokens", [3, 700])
def test_entries_without_an_expert_get_no_row(tokens):
    ids, weights = routed(tokens, 8, 2)
    ids[1], ids[2, 0] = -1, 8
    result = ops.moe_sort(ids, weights, 8, 16)
    for mine, exact in zip(result, MOE_SORT.reference(ids, weights, 8, 16, None), strict=True):
        assert torch.equal(mine.double(), exact)


def test_routing_as_torch_has_it():
    ids, weights = routed(5, 8, 2)
    ids[1], weights = -1, weights.bfloat16()
    wide = ids.long()
    wide[1] = torch.tensor([2**32 + 3, -(2**32) + 3])  # which no int32 names
    for mine, exact in zip(ops.moe_sort(wide, weights, 8, 16), ops.moe_sort(ids, weights.float(), 8, 16), strict=True):
        assert torch.equal(mine, exact)


def test_all_tokens_to_one_expert():
    ids, weights = torch.full((600, 1), 5, dtype=torch.int32), torch.rand(600, 1)
    rows, factors, experts, valid = ops.moe_sort(ids, weights, 9, 32)
    assert rows[:600].tolist() == list(range(600)) and torch.equal(factors[:600], weights[:, 0])
    assert experts[:19].tolist() == [5] * 19 and valid.tolist() == [608, 600]


def test_no_tokens():
    rows, factors, experts, valid = ops.moe_sort(torch.zeros(0, 2, dtype=torch.int32), torch.zeros(0, 2), 4, 8)
    assert bool((rows == 2 << 24).all() and (factors == 0).all() and (experts == -1).all())
    assert valid.tolist() == [0, 0]


@pytest.mark.parametrize("tokens", [6, 300])
def test_rows_need_no_more_than_the_alignment_of_a_word(tokens):
    (ids, weights), rows = routed(tokens, 16, 3), capacity(tokens, 3, 16, 8)
    made = (torch.zeros(rows + 1, dtype=torch.int32)[1:], torch.zeros(rows + 1)[1:],
            torch.zeros(-(-rows // 8), dtype=torch.int32), torch.zeros(2, dtype=torch.int32))
    moe.moe_sorting_flydsl(ids, weights, *made, None, 16, 8)
    rt.synchronize()
    for mine, exact in zip(made, MOE_SORT.reference(ids, weights, 16, 8, None), strict=True):
        assert torch.equal(mine.double(), exact)


def test_one_workgroup_sorts_any_number():
    (ids, weights), made = routed(300, 8, 2), outputs(300, 8, 2, 16)
    run = moe.build_moe_sorting_module(8, 2, 16, True)
    run(ids, weights, *(g.out for g in made), None, None, None, None, 300, 1, 3, 0, 0)
    rt.synchronize()
    assert_sorted(made, MOE_SORT.reference(ids, weights, 8, 16, None))


@pytest.mark.parametrize("shares", [3, 10])
def test_any_number_of_workgroups_sorts(shares):
    (ids, weights), made = routed(300, 8, 2), outputs(300, 8, 2, 16)
    run, counts = moe.build_moe_sorting_module(8, 2, 16, False), torch.full((16 * 8,), -1, dtype=torch.int32)
    run(ids, weights, *(g.out for g in made), None, None, counts, None, 300, shares, 1, 0, 0)
    rt.synchronize()
    assert_sorted(made, MOE_SORT.reference(ids, weights, 8, 16, None))


@pytest.mark.parametrize(("tokens", "local"), [(20, 7), (900, 500), (20, 0)])
def test_a_number_of_tokens_in_memory(tokens, local):
    ids, weights = routed(tokens, 16, 3)
    made = outputs(tokens, 16, 3, 16)
    moe.moe_sorting_flydsl(ids, weights, *(g.out for g in made), None, 16, 16, None, torch.tensor([local]).int())
    kept = ids.clone()
    kept[local:] = -1
    expected = MOE_SORT.reference(kept, weights, 16, 16, None)
    assert_sorted(made, (*expected[:3], torch.tensor([float(expected[3][0]), local])))


@pytest.mark.parametrize(("tokens", "experts", "k", "masked"), [(1, 64, 4, 0), (7, 64, 4, 0.4), (300, 64, 4, 0),
                                                               (5, 257, 9, 0)])
def test_gating_and_sorting(tokens, experts, k, masked):
    logits = torch.randn(tokens, experts, generator=torch.Generator().manual_seed(3))
    mask, made = mask_of(experts, masked), outputs(tokens, experts, k, 32)
    moe.moe_softmax_sort_flydsl(logits, *(g.out for g in made), None, experts, k, "f32", 32, mask)
    weights, ids, _ = ops.topk_gating_softmax(logits, k)
    assert_sorted(made, MOE_SORT.reference(ids, weights, experts, 32, mask))


def test_launchers_of_older_callers():
    assert len(moe.compile_moe_sorting(num_experts=8, topk=2)) == 3
    assert moe.moe_sorting_get_workspace_size(16, 256, 8) == 0
    assert moe.moe_sorting_get_workspace_size(4096, 256, 8) > 0


def test_unsupported_arguments():
    ids, weights = routed(4, 8, 2)
    with pytest.raises(ValueError, match="1 to 1024 experts"):
        ops.moe_sort(ids, weights, 4096, 16)
    with pytest.raises(TypeError, match="ids: dtype int16 is not supported: expected one of i32, i64"):
        ops.moe_sort(ids.short(), weights, 8, 16)
    with pytest.raises(TypeError, match="weights: dtype float64"):
        ops.moe_sort(ids, weights.double(), 8, 16)
    with pytest.raises(ValueError, match="expert_mask must be i32 of shape"):
        ops.moe_sort(ids, weights, 8, 16, torch.ones(4, dtype=torch.int32))
    with pytest.raises(ValueError, match="multiple of 16 bytes"):
        moe.moe_sorting_flydsl(ids, weights, ids, ids, ids, ids, torch.zeros(3), 8)
