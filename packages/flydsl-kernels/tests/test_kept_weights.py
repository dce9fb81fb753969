"""Copies of weights in the order of their kernel are kept no longer than what they were made of."""

import numpy as np
import pytest
from kernel_helpers import random, torch

from flydsl.kernels.host import weights


def kept(*given):
    """What is kept of weights: here their values."""
    return weights.in_order_of(given, "a test's", lambda *w: torch.stack(w).clone())


@pytest.mark.parametrize("options", [{"fused": True}, {"foreach": True}, {"foreach": False}], ids=str)
def test_a_step_of_an_optimizer(options):
    """Fused ones change parameters and leave their counters; weights without gradients stay."""
    trained, frozen = torch.nn.Parameter(random(4, 4)), random(4, 4, seed=1)
    optimizer = torch.optim.AdamW([trained], lr=0.5, **options)
    before, still = kept(trained), kept(frozen)
    trained.grad = torch.ones(4, 4)
    optimizer.step()
    assert not torch.equal(before[0], trained) and torch.equal(kept(trained)[0], trained)
    assert kept(frozen) is still and kept(trained) is kept(trained)


def test_a_weight_that_is_gathered_anew():
    """Sharded training fills the same parameter again behind each step of others, its shards, without its counter."""
    gathered, shard = torch.nn.Parameter(random(4, 4)), torch.nn.Parameter(random(4, 4))
    kept(gathered)
    shard.grad = torch.ones(4, 4)
    torch.optim.SGD([shard]).step()
    with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(gathered):
        gathered.copy_(shard)
    assert torch.equal(kept(gathered)[0], shard)


def test_other_data_at_the_address_of_data_that_is_gone():
    memory = bytearray(64)
    weight = torch.nn.Parameter(torch.frombuffer(memory, dtype=torch.float32))
    address = weight.data_ptr()
    assert not kept(weight).any()
    weight.data = torch.zeros(1)
    memory[:] = np.full(16, 2.0, np.float32).tobytes()
    weight.data = torch.frombuffer(memory, dtype=torch.float32)
    assert weight.data_ptr() == address and bool((kept(weight) == 2).all())


def test_several_weights_live_as_long_as_the_first_to_go():
    weights.clear_preshuffle_cache()
    first, second = random(2, 2), random(2, 2, seed=1)
    both = kept(first, second)
    assert kept(first, second) is both and torch.equal(both, torch.stack((first, second)))
    with torch.no_grad():
        second.add_(1)
    assert torch.equal(kept(first, second)[1], second) and len(weights._shuffled) == 1
    del second
    assert not weights._shuffled


def test_what_makes_an_order_may_hold_the_weight():
    weights.clear_preshuffle_cache()
    weight = random(2, 2)

    def twice(w):
        return weights.in_order(w, "a test's", lambda _: w * 2)

    assert torch.equal(twice(weight), weight * 2) and len(weights._shuffled) == 1
    del weight
    assert not weights._shuffled
