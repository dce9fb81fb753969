"""``torch.ops.flydsl.*``: the declared operations as torch custom operators, with fake rules and gradients.

Every operator returns fresh tensors and launches on the current stream; one that changes an operand says so in its
schema. Importing this module registers them.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor
from torch.library import Library, custom_op

from ..declared import declarations
from ..host.arrays import array_dtype
from ..operation import Form, Gradient, Op
from ..target import target

__all__ = ["NAMES"]

NAMES: list[str] = []


def _fake(op: Op) -> Any:
    """The rule that gives an operator's results without values.

    torch also calls it where one operand is a meta tensor and the others are not; that is refused here.
    """

    def rule(*given: Any, **named: Any) -> Any:
        arguments = op.arguments(*given, **named)
        tensors = [a for a in arguments if isinstance(a, Tensor)]
        devices = {t.device for t in tensors}
        if len(devices) > 1:
            raise ValueError(f"{op.name}: operands must be on one device, got {', '.join(map(str, devices))}")
        outs = tuple(tensors[0].new_empty(r.shape, dtype=array_dtype(target(), tensors[0], r.dtype))
                     for r in op.results(*arguments))
        return outs[0] if len(outs) == 1 else outs or None

    return rule


def _save(op: Op, gradient: Gradient) -> Any:
    """What is kept for the backward; refuses operands without a gradient that ask for one."""

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        for name, needed in zip(op.signature.parameters, ctx.needs_input_grad, strict=False):
            if needed and gradient.of is not None and name not in gradient.of:
                raise ValueError(f"{op.name}: {name} has no gradient here, only {', '.join(gradient.of)}: "
                                 f"pass {name}.detach()")
        gradient.save(ctx, inputs, output)

    return save


def _refused(op: Op) -> Any:
    """The backward of an operation without a gradient; a gradient is one of these."""

    def backward(ctx: Any, *gradients: Any) -> Any:
        second = ": second derivatives are not supported" * op.name.endswith("_bwd")
        raise NotImplementedError(f"{op.name} has no gradient{second}")

    return backward


def _kernel(op: Op) -> Any:
    """The operation for the dispatcher, hidden from torch's compiler where that is loaded.

    The kernel that `custom_op` makes loads it in its first call, which takes a process that compiles nothing seconds.
    """
    hidden: list[Any] = []

    def kernel(*given: Any) -> Any:
        if "torch._dynamo" not in sys.modules:
            return op.run(*given)
        if not hidden:
            hidden.append(torch.compiler.disable(op.run))
        return hidden[0](*given)

    return kernel


def _register(op: Op) -> None:
    operator = custom_op(f"flydsl::{op.name}", op.run, mutates_args=op.changed, schema=op.schema)
    for device in ("CPU", "CUDA"):
        _LIBRARY.impl(op.name, _kernel(op), device)
    operator.register_fake(_fake(op))
    if op.gradient is not None:
        operator.register_autograd(op.gradient.backward, setup_context=_save(op, op.gradient))
    elif not op.changed:
        operator.register_autograd(_refused(op))
    NAMES.append(op.name)


def _define(library: Library, form: Form) -> None:
    if form.composite is None:
        return
    name, schema, function = form.composite
    library.define(name + schema)
    library.impl(name, function, "CompositeImplicitAutograd")
    NAMES.append(name)


_LIBRARY = Library("flydsl", "FRAGMENT")
for _declared in declarations():
    if isinstance(_declared, Form):
        _define(_LIBRARY, _declared)
    else:
        _register(_declared)
