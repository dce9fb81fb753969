"""Weights in the order of their kernel, made once for each content of a tensor while it lives."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .arrays import is_recorded, is_torch

if TYPE_CHECKING:
    import torch

__all__ = ["clear_preshuffle_cache", "in_order", "in_order_of", "preshuffled"]

_shuffled: dict[tuple[Any, ...], tuple[Any, list[Any], Any]] = {}


@functools.cache
def _forget_what_is_trained() -> None:
    """Have the orders of weights that require gradients forgotten behind every step of an optimizer: fused ones change
    parameters without moving their counters, and so does the gathering of sharded ones."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def forget(*_: Any) -> None:
        for key, entry in list(_shuffled.items()):
            if any((w := reference()) is None or w.requires_grad for reference in entry[0]):
                _shuffled.pop(key, None)

    register_optimizer_step_post_hook(forget)


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
    # A storage is kept as a weak reference: another one may get the address of one that is gone.
    state = [(w._version, weakref.ref(w.untyped_storage()), w.data_ptr(), tuple(w.shape), w.stride(), w.dtype)
             for w in weights]
    found = _shuffled.get(key)
    if found is not None and found[1] == state and all(r() is w for r, w in zip(found[0], weights, strict=True)):
        return found[2]
    if is_recorded():
        raise RuntimeError("a weight is put in the order of its kernel at the first call, which cannot be recorded: "
                           "call the function once before it is captured")
    _forget_what_is_trained()
    made = make(*(w.detach().contiguous() for w in weights))
    _shuffled[key] = ([weakref.ref(w, lambda _: _shuffled.pop(key, None)) for w in weights], state, made)
    return made


def preshuffled(weight: torch.Tensor) -> torch.Tensor:
    """The shuffled form of a weight, kept by :func:`in_order`; a shuffled weight as it is."""
    from .layouts import B_16X16, layout_of, shuffle_weight  # which need torch

    return weight if layout_of(weight) is not None else in_order(weight, B_16X16, shuffle_weight)


def clear_preshuffle_cache() -> None:
    """Forget all shuffled weights."""
    _shuffled.clear()
