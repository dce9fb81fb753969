"""Graphs of torch programs: ``capture(function)`` records what a call computes, ``replay()`` computes it of new data.

On a GPU this is torch's own graph. On the simulator tensors are the host's, so that torch computes at once what it
computes, and only launches are in a stream. There an operator of torch is recorded as a call of the host, between the
launches before and after it: the graph has all that the function computes, patched or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

import flydsl.runtime as rt

from .declared import operations
from .host.arrays import device_type, on_stream
from .host.config import require
from .host.weights import used

__all__ = ["CapturedGraph", "capture"]

_ALLOCATE = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
_READ = (torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.__repr__,
         torch.Tensor.__format__)  # by no operator
_UNKNOWN = (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException)


class CapturedGraph:
    """What :func:`capture` gives.

    Attributes:
        result: what the function returned; each replay writes its tensors anew.
    """

    def __init__(self, result: Any, replay: Callable[[], None],
                 renewals: Iterable[Callable[[], None]] = ()) -> None:
        self.result, self._replay, self._renewals = result, replay, tuple(renewals)

    def replay(self) -> Any:
        """Compute again, of what is in the function's tensors now; the result.

        Raises:
            RuntimeError: a weight has another shape or type than when it was recorded, or a mask of experts another
                number of them.
            SimulatorError: a kernel was stopped; on a GPU errors come at the next synchronisation, as all do.
        """
        with torch.no_grad():
            for renew in self._renewals:
                renew()
        self._replay()
        return self.result


def capture(function: Callable[[], Any], warmup: int = 1) -> CapturedGraph:
    """Record a function of no arguments, such as a decode step of a patched model; without gradients.

    While it is recorded nothing is computed. New data are written to the tensors that it reads
    (``tokens.copy_(...)``); what Python computes (shapes, counters, branches) stays as it was when it was recorded.
    A graph's memory is its own as long as it lives.

    Args:
        function: what is recorded.
        warmup: calls before, which compile and load its kernels (a GPU cannot while it records) and order weights. 0
            for one that was called already and may not be called in vain, as it moves on a cache.

    Raises:
        RuntimeError: the function asks for values while it is recorded (``tensor.item()``, ``tolist()``, a shape that
            depends on them), the message names the operator; it was not called before and orders weights; or it calls
            an operation with NumPy arrays.
        ValueError: `warmup` is negative.
        flydsl.runtime.HipError: it launches a kernel of its own in no stream or waits for the device, or captures.
    """
    require("capture", warmup >= 0, f"warmup must be 0 or positive, got {warmup}")
    with torch.no_grad():
        for _ in range(warmup):
            function()
        with used() as renewals:
            captured = _captured_by_torch if device_type() == "cuda" else _captured_on_the_host
            return CapturedGraph(*captured(function), renewals.values())


def _captured_by_torch(function: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
    """(result, replay) of a function."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function()
    return result, graph.replay


def _captured_on_the_host(function: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
    rt.synchronize()
    recorder = _Recorder(rt.Graph())
    with recorder.graph, on_stream(recorder.graph.stream), recorder, _ValuesRefused():
        result = function()
    return result, recorder.replay


def _no_values_of(function: Any) -> RuntimeError:
    return RuntimeError(f"capture: {function} is left out of a graph: what it gives depends on values, which are known "
                        "at a replay only")


class _ValuesRefused(TorchFunctionMode):
    """Refuses methods that read memory, in which nothing is yet, without calling an operator."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in _READ:
            raise _no_values_of(f"Tensor.{function.__name__}")
        return function(*args, **(kwargs or {}))


class _Recorder(TorchDispatchMode):
    """Records every operator that is called: views are made at once, as they are no work; our operators record their
    launches; others become calls of the host that write to memory which is allocated now."""

    def __init__(self, graph: rt.Graph) -> None:
        super().__init__()
        self.graph = graph
        self._shapes = FakeTensorMode()
        self._memory: list[Any] = []  # launches have only addresses

    def replay(self) -> None:
        self.graph.launch()
        self.graph.synchronize()  # what reads the results is not in the stream

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with self:
            out = function.decompose(*args, **kwargs)  # what may be a view or a copy (`contiguous`) becomes one of them
        if out is not NotImplemented:
            return out
        if function.namespace == "flydsl":
            out = self._launch(function, args, kwargs)
        elif function.is_view or function.overloadpacket.__name__ in _ALLOCATE:
            out = function(*args, **kwargs)
        else:
            out = self._record(function, args, kwargs)
        self._memory.append((args, kwargs, out))
        return out

    def _launch(self, function: Any, args: Any, kwargs: Any) -> Any:
        """What one of our operators does, with the operators of torch that it calls itself (copies, zeros) recorded."""
        op = getattr(operations(), function.overloadpacket.__name__, None)
        if op is None:
            raise RuntimeError(f"capture: {function} is a collective of a compiled program: call that of "
                               "flydsl.kernels.ops in the function")
        with self:
            return op.run(*args, **kwargs)

    def _record(self, function: Any, args: Any, kwargs: Any) -> Any:
        outs, made = self._results(function, args, kwargs)
        if not made and not function._schema.is_mutable:
            return outs  # of shapes and dtypes alone

        def call() -> None:
            with torch.inference_mode():
                given = function(*args, **kwargs)
                for kept, new in zip(tree_leaves(outs), tree_leaves(given), strict=True):
                    if id(kept) in made:
                        kept.copy_(new)

        self.graph.call(call)
        return outs

    def _results(self, function: Any, args: Any, kwargs: Any) -> tuple[Any, set[int]]:
        """(what a call returns, the ids of its new tensors): operands that it changes, and memory for the others."""
        operands: dict[int, torch.Tensor] = {}

        def shape_of(x: torch.Tensor) -> torch.Tensor:
            fake = self._shapes.from_tensor(x)
            operands[id(fake)] = x
            return fake

        fakes = tree_map_only(torch.Tensor, shape_of, (args, kwargs))
        try:
            with self._shapes:
                found = function(*fakes[0], **fakes[1])
        except _UNKNOWN as error:
            raise _no_values_of(function) from error
        made = set()

        def memory_of(fake: torch.Tensor) -> torch.Tensor:
            if id(fake) in operands:
                return operands[id(fake)]
            out = torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=fake.device)
            made.add(id(out))
            return out.zero_()

        outs = tree_map_only(torch.Tensor, memory_of, found)
        for fake in filter(lambda x: id(x) in operands, tree_leaves(fakes)):
            if fake.shape != operands[id(fake)].shape:
                raise RuntimeError(f"capture: {function} changes the shape of an operand, which a replay would not "
                                   "undo")
        return outs, made
