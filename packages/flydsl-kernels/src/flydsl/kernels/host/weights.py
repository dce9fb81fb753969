"""Weights in the order of their kernel, made once for each content of a tensor while it lives."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .arrays import is_recorded, is_torch

if TYPE_CHECKING:
    import torch

__all__ = ["clear_preshuffle_cache", "in_order", "in_order_of", "preshuffled", "used"]


@dataclass
class _Kept:
    """What was made of weights, and of what state of theirs.

    Attributes:
        weights: weak references.
        steps: of optimizers, before it was made.
    """

    weights: list[Any]
    state: list[Any]
    steps: int
    made: Any

    def made_of(self, weights: tuple[Any, ...]) -> bool:
        """Whether it was made of just what these hold."""
        return (self.state == _state(weights) and all(r() is w for r, w in zip(self.weights, weights, strict=True))
                and (self.steps == _steps.count or not any(w.requires_grad for w in weights)))

    def renew(self, make: Callable[..., Any]) -> None:
        """Make it again at its place, if its weights have changed. RuntimeError if that is not possible."""
        weights = tuple(reference() for reference in self.weights)
        if any(w is None for w in weights) or self.made_of(weights):
            return
        state, made = _state(weights), _made(make, weights)
        for new, old in zip(*(x if isinstance(x, tuple) else (x,) for x in (made, self.made)), strict=True):
            if is_torch(new) and new.shape == old.shape and new.dtype == old.dtype:
                old.copy_(new)
            elif is_torch(new) or new != old:
                raise RuntimeError("a weight or mask has changed in a way that a graph cannot follow: capture again")
        self.state, self.steps = state, _steps.count


class _Steps:
    """Counts the steps of optimizers: fused ones change parameters without moving their counters, and behind others
    sharded weights are gathered anew, without moving theirs."""

    count = 0

    @functools.cache  # noqa: B019 - there is one counter
    def begin(self) -> None:
        """Have them counted from now on."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        def step(*_: Any) -> None:
            self.count += 1

        register_optimizer_step_post_hook(step)


_shuffled: dict[tuple[Any, ...], _Kept] = {}
_steps = _Steps()
_used: ContextVar[dict[int, Callable[[], None]] | None] = ContextVar("used", default=None)


def _state(weights: tuple[Any, ...]) -> list[Any]:
    # A storage is kept as a weak reference: another one may get the address of one that is gone.
    return [(w._version, weakref.ref(w.untyped_storage()), w.data_ptr(), tuple(w.shape), w.stride(), w.dtype)
            for w in weights]


def _made(make: Callable[..., Any], weights: tuple[Any, ...]) -> Any:
    return make(*(w.detach().contiguous() for w in weights))


@contextmanager
def used() -> Iterator[dict[int, Callable[[], None]]]:
    """For a graph: of all that is used within it of this module, in that order, what makes it again at its place where
    weights have changed. Nothing else keeps what a graph has the addresses of."""
    found: dict[int, Callable[[], None]] = {}
    token = _used.set(found)
    try:
        yield found
    finally:
        _used.reset(token)


def in_order(weight: torch.Tensor, order: str, make: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """``make(weight)``, made once for each content of the tensor and each name of an order.

    It is made again when the tensor was changed in place (its version counter moved), its storage was replaced or, if
    it requires gradients, an optimizer has made a step, and dropped when the tensor is gone. A change through
    ``weight.data``, or of the shards that a weight is gathered from, does not move the counter: call
    :func:`clear_preshuffle_cache` after one. NumPy arrays have no such counter: theirs is made at every call.
    """
    return in_order_of((weight,), order, make)


def in_order_of(weights: tuple[torch.Tensor, ...], order: str, make: Callable[..., Any]) -> Any:
    """``make(*weights)`` of several tensors that belong together, as :func:`in_order`."""
    if not all(is_torch(w) and not w.is_inference() for w in weights):  # no version counter to trust
        return make(*(w.detach() if is_torch(w) else w for w in weights))
    key = (*map(id, weights), order)
    found = _shuffled.get(key)
    if found is None or not found.made_of(weights):
        if is_recorded() or weights[0].is_cuda and _is_capturing():
            raise RuntimeError("a weight is put in the order of its kernel at the first call, which cannot be "
                               "recorded: call the function once before it is captured")
        references = [weakref.ref(w, lambda _: _shuffled.pop(key, None)) for w in weights]
        _steps.begin()
        found = _shuffled[key] = _Kept(references, _state(weights), _steps.count, _made(make, weights))
    recorded = _used.get()
    if recorded is not None:  # only there `make` is kept, which may hold weights
        recorded[id(found)] = functools.partial(found.renew, make)
    return found.made


def _is_capturing() -> bool:
    import torch

    return torch.cuda.is_current_stream_capturing()


def preshuffled(weight: torch.Tensor) -> torch.Tensor:
    """The shuffled form of a weight, kept by :func:`in_order`; a shuffled weight as it is."""
    from .layouts import B_16X16, layout_of, shuffle_weight  # which need torch

    return weight if layout_of(weight) is not None else in_order(weight, B_16X16, shuffle_weight)


def clear_preshuffle_cache() -> None:
    """Forget all shuffled weights."""
    _shuffled.clear()
