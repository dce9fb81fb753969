"""The order of reads and products of attention, without a kernel."""

import pytest

from flydsl.kernels.attention import weave as module

COUNT, AHEAD = 16, 4


class Product:
    """As many instructions as reads, each of which needs one more."""

    def __init__(self, log, name):
        self.log, self.name, self.begun = log, name, 0

    def read(self, count):
        assert count >= 0  # as the end of a slice it would mean all but some
        self.log += [self.name] * (count - self.begun)
        self.begun = max(self.begun, min(count, COUNT))

    def products(self, b):
        return [(i + 1, lambda: self.log.append("product")) for i in range(COUNT)]


@pytest.mark.parametrize("blocks", [1, 2])
def test_what_follows_is_read_among_the_last_products(monkeypatch, blocks):
    monkeypatch.setattr(module, "count_of", lambda fragment, mode: blocks)
    monkeypatch.setattr(module.fx.rocdl, "sched_barrier", lambda mask: None)
    log = []
    first, following = (Product(log, name) for name in ("read", "follows"))
    module.weave(first, None, following=following, ahead=AHEAD)
    ahead = module.reads_ahead(None, AHEAD)
    assert following.begun == ahead
    assert log[: log.index("follows")].count("product") == COUNT - ahead * blocks


def test_a_barrier_without_halves_is_passed_behind_the_last_reads(monkeypatch):
    """Some products before the end; what follows is read behind it."""
    monkeypatch.setattr(module, "count_of", lambda fragment, mode: 1)
    monkeypatch.setattr(module.fx.rocdl, "sched_barrier", lambda mask: None)
    log = []

    class Turn:
        def advance(self):
            assert first.begun == COUNT
            log.append("turn")

    first, following = (Product(log, name) for name in ("read", "follows"))
    module.weave(first, None, following=following, ahead=AHEAD, turn=Turn(), split=False)
    assert following.begun == AHEAD and log.count("turn") == 1
    before, behind = log[: log.index("turn")], log[log.index("turn"):]
    assert "follows" not in before and behind.count("product") == module.UNSPLIT
