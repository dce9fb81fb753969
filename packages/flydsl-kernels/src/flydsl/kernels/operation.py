"""What an operation is: its declaration, and the functional form and the torch operator that it gives.

See :mod:`flydsl.kernels.op`, from where families take these.
"""

from __future__ import annotations

import importlib
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from .host.arrays import allocate, array_dtype, as_numpy, as_torch, contiguous, copy_into, is_torch, launch
from .host.models import Model
from .host.tuned import Tuning
from .target import Target, target

__all__ = [
    "Form", "Gradient", "Op", "Plan", "Result", "hidden_rows", "like", "no_model_calls", "operators", "scratch_of",
    "signature_of", "statistic",
]

_REGISTRATION = f"{__package__}.torch_ops"  # where torch operators are registered


@dataclass(frozen=True)
class Result:
    """An array that an operation returns. `dtype` is a name (``"bf16"``, ``"fp8"``, ...) or an operand's own dtype."""

    shape: tuple[Any, ...]
    dtype: Any


def like(array: Any, dtype: Any = None) -> Result:
    """A result of an operand's shape, and of its dtype or the given one."""
    return Result(tuple(array.shape), array.dtype if dtype is None else dtype)


def statistic(array: Any, wanted: bool = True) -> Result:
    """An f32 value a row; with nothing in it if it is not wanted, as an operator cannot return None."""
    return Result(tuple(array.shape[:-1]) if wanted else (0,), "f32")


@dataclass(frozen=True)
class Plan:
    """What is launched for some operands, all of whose errors have been raised.

    Attributes:
        launcher: gives the launcher, by a memoised builder; None where there is nothing to launch.
        operands: its arguments, of the results and the scratch.
        zero: results that the kernel adds to.
        finish: called with the results after the launch.
        by_rows: the kernel takes rows, whatever the rank: `operands` is called with the results as matrices, so that
            arrays of every rank launch what is compiled once.
        scratch: arrays that the launch takes beyond its results.
    """

    launcher: Callable[[], Any] | None
    operands: Callable[..., tuple[Any, ...]]
    zero: tuple[int, ...] = ()
    finish: Callable[..., None] | None = None
    by_rows: bool = False
    scratch: tuple[Result, ...] = ()

    def operands_of(self, found: Target, like: Any, outs: tuple[Any, ...]) -> tuple[Any, ...]:
        """The launcher's arguments for these results, with scratch of the kind of the array `like`."""
        if self.by_rows:
            outs = tuple(out.reshape(-1, out.shape[-1]) if len(out.shape) > 2 else out for out in outs)
        return self.operands(*outs, *(allocate(found, like, one.shape, one.dtype) for one in self.scratch))


@dataclass(frozen=True)
class Gradient:
    """``backward(ctx, *gradients)`` and ``save(ctx, inputs, output)`` of ``torch.library.register_autograd``.

    Attributes:
        of: names of the operands that have gradients, all by default. Another one that requires a gradient is refused,
            as its gradient would silently be missing.
    """

    backward: Callable[..., Any]
    save: Callable[[Any, Any, Any], None] = lambda ctx, inputs, output: None
    of: tuple[str, ...] | None = None


_ARGUMENT = re.compile(r"(?P<type>\S+) (?P<name>\w+)(=(?P<default>.+))?")
_LITERALS = {"True": True, "False": False, "None": None}


def _literal(text: str) -> Any:
    if text in _LITERALS:
        return _LITERALS[text]
    if text[0] in "\"'":
        return text[1:-1]
    return float(text) if any(c in text for c in ".e") else int(text)


def _arguments_of(schema: str) -> Iterable[re.Match[str]]:
    """Type, name and default of each argument."""
    inside = schema[1 : schema.index(") ->")]
    for text in filter(None, (part.strip() for part in inside.split(","))):
        found = _ARGUMENT.fullmatch(text)
        if found is None:
            raise ValueError(f"cannot read the argument {text!r} of the schema {schema!r}")
        yield found


def signature_of(schema: str) -> inspect.Signature:
    """The Python signature of ``(Tensor x, float eps=1e-5) -> Tensor``."""
    parameters = []
    for found in _arguments_of(schema):
        default = inspect.Parameter.empty if found["default"] is None else _literal(found["default"])
        parameters.append(inspect.Parameter(found["name"], inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
    return inspect.Signature(parameters)


def _first_array(arguments: tuple[Any, ...]) -> Any:
    return next((a for a in arguments if hasattr(a, "shape")), None)


def _no_workspace(target: Target, *operands: Any) -> int:
    return 0


def scratch_of(plan: Callable[..., Plan | None], target: Target, *operands: Any) -> int:
    """For :attr:`Op.workspace`: bytes of the scratch of a plan."""
    planned, first = plan(target, *operands), _first_array(operands)
    scratch = () if planned is None else planned.scratch
    return sum(math.prod(one.shape) * array_dtype(target, first, one.dtype).itemsize for one in scratch)


def _no_cases(target: Target, rows: int) -> Iterable[tuple[str, tuple[int, ...], dict[str, Any]]]:
    return ()


def no_model_calls(op: Op, draw: Any, model: Model) -> Iterable[tuple[Any, ...]]:
    """For :attr:`Op.prebuilt`: nothing."""
    return ()


def hidden_rows(op: Op, draw: Any, model: Model) -> Iterable[tuple[Any, ...]]:
    """For :attr:`Op.prebuilt`: a row of a model's tokens, with the options of the benchmark's cases, f16 and bf16."""
    for _, _, options in op.bench(draw.target, 1):
        for dtype in ("bf16", "f16") if "dtype" in options else (None,):
            yield op.sample(draw, 1, model.hidden, **{**options, **({"dtype": dtype} if dtype else {})})


@dataclass(frozen=True, eq=False)
class Op:
    """An operation on arrays: fresh arrays out, and the operands that the schema marks are changed in place.

    Attributes:
        name: of the functional form and of the torch operator.
        schema: torch's, ``"(Tensor x, float eps=1e-5) -> Tensor"``: argument names and defaults are those of all forms.
        doc: what it computes, with shapes and dtypes; the first line is the row of the documentation.
        results: ``results(*arguments)``: the results, also of symbolic sizes (the fake rule).
        plan: ``plan(target, *arguments)``: checks everything and says what to launch. None: nothing, and results are
            zero (of no rows, a sum over them).
        sample: ``sample(draw, m, n)``: arguments for m rows, torch tensors made with ``draw`` (``testing.Draw``).
        reference: ``reference(*arguments)``: the results by the definition in float64.
        widths: sizes n of the sample, the usual one first, then odd ones.
        tolerance: largest difference of a result from the reference, relative to the reference's largest magnitude.
        decode: ``decode(arguments, results)``: what is compared with the reference, for encoded results.
        gradient: in torch, if it has one.
        workspace: ``workspace(target, *arguments)``: bytes that it takes beyond its results. None: only values tell.
        bench: ``bench(target, rows)``: cases as (name, (m, n) of the sample, options of the sample).
        tuning: what a search can choose for it.
        prebuilt: ``prebuilt(op, draw, model)``: arguments of the calls that a model makes, to be compiled beforehand.
        flops: ``flops(*arguments)`` of matrix products.
        archs: prefixes of the architectures that have it; `fp8`: also those must have fp8.
        form: the functional form, if it is not the schema's: called with the operation first.
        public: whether :mod:`flydsl.kernels.ops` has it.
        numpy: whether its plan takes NumPy arrays; otherwise they are seen as torch tensors (and torch is needed).
        stable: whether launches give the same bits (no atomic sums of floats).
    """

    name: str
    schema: str
    doc: str
    results: Callable[..., tuple[Result, ...]]
    plan: Callable[..., Plan | None]
    sample: Callable[..., tuple[Any, ...]]
    reference: Callable[..., tuple[Any, ...]]
    widths: tuple[int, ...] = (96,)
    tolerance: float = 1e-6
    decode: Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]] | None = None
    gradient: Gradient | None = None
    workspace: Callable[..., int] | None = _no_workspace
    bench: Callable[[Target, int], Iterable[tuple[str, tuple[int, ...], dict[str, Any]]]] = _no_cases
    tuning: Tuning | None = None
    prebuilt: Callable[[Op, Any, Model], Iterable[tuple[Any, ...]]] = no_model_calls
    flops: Callable[..., int] = _no_workspace
    archs: tuple[str, ...] = ("gfx",)
    fp8: bool = False
    form: Callable[..., Any] | None = None
    public: bool = True
    numpy: bool = True
    stable: bool = True
    signature: inspect.Signature = field(init=False)
    _arrays: tuple[tuple[int, str, bool], ...] = field(init=False)  # tensors: (place, name, it may be None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "signature", signature_of(self.schema))
        object.__setattr__(self, "_arrays", tuple(
            (i, found["name"], found["type"].endswith("?")) for i, found in enumerate(_arguments_of(self.schema))
            if found["type"].startswith("Tensor") and "[]" not in found["type"]))

    @property
    def changed(self) -> tuple[str, ...]:
        """Names of the operands that it changes in place, which the schema marks: ``Tensor(a!) cache``."""
        return tuple(re.findall(r"\(\w+!\) (\w+)", self.schema))

    def _require_arrays(self, arguments: tuple[Any, ...]) -> None:
        """TypeError unless the operands that the schema calls tensors are arrays of one kind, or None where it may."""
        first: Any = None
        for i, name, optional in self._arrays:
            value = arguments[i]
            kind = type(value)
            if kind is first or value is None and optional:
                continue
            if not hasattr(kind, "dtype") or not hasattr(kind, "shape"):
                raise TypeError(f"{self.name}: {name} must be a torch tensor or a NumPy array{' or None' * optional}, "
                                f"got {kind.__name__}")
            if first is not None and hasattr(kind, "new_empty") != hasattr(first, "new_empty"):
                raise TypeError(f"{self.name}: operands must be all torch tensors or all NumPy arrays; "
                                f"{name} is {kind.__name__}, and {first.__name__} came before")
            first = kind

    def available(self, found: Target) -> bool:
        """Whether an architecture has it."""
        return found.name.startswith(self.archs) and (not self.fp8 or found.fp8_name is not None)

    def arguments(self, *given: Any, **named: Any) -> tuple[Any, ...]:
        """All arguments in the schema's order."""
        if not named and len(given) == len(self.signature.parameters):
            return given
        bound = self.signature.bind(*given, **named)
        bound.apply_defaults()
        return bound.args

    def run(self, *given: Any, stream: Any = None, into: tuple[Any, ...] = (), **named: Any) -> Any:
        """Compute, without torch's dispatcher: a result, a tuple of them, or None where operands are changed instead.

        Args:
            into: dense arrays that become the results; for those that are None or missing new ones are made.

        Raises:
            TypeError: a dtype is not supported, or the arrays are of several kinds.
            ValueError: a shape, an option or the architecture is not supported.
        """
        arguments, found = self.arguments(*given, **named), target()
        self._require_arrays(arguments)
        first = _first_array(arguments)
        if not self.numpy and not is_torch(first):
            if any(x is not None for x in into):
                raise TypeError(f"{self.name}: results are written to torch tensors only")
            results = self.run(*(as_torch(a, self.name) for a in arguments), stream=stream)
            return tuple(map(as_numpy, results)) if isinstance(results, tuple) else as_numpy(results)
        plan = self.plan(found, *arguments)
        outs = self._outs(found, first, arguments, plan, into)
        if plan is not None:
            if plan.launcher is not None:
                launch(plan.launcher(), first, *plan.operands_of(found, first, outs), stream=stream)
            if plan.finish is not None:
                plan.finish(*outs)
        return outs[0] if len(outs) == 1 else outs or None

    def _outs(self, found: Target, first: Any, arguments: tuple[Any, ...], plan: Plan | None,
              into: tuple[Any, ...] = ()) -> tuple[Any, ...]:
        outs = []
        for i, result in enumerate(self.results(*arguments)):
            given, zero = into[i] if i < len(into) else None, plan is None or i in plan.zero
            if given is None:
                outs.append(allocate(found, first, result.shape, result.dtype, zero))
                continue
            dtype = array_dtype(found, first, result.dtype)
            if given.dtype != dtype:
                raise TypeError(f"{self.name}: a result of dtype {dtype} cannot be written to one of {given.dtype}")
            if tuple(given.shape) != tuple(result.shape) or contiguous(given) is not given:
                raise ValueError(f"{self.name}: a result of shape {tuple(result.shape)} needs a dense array of that "
                                 f"shape, got {tuple(given.shape)}")
            if zero:
                copy_into(given, 0)
            outs.append(given)
        return tuple(outs)

    def prepare(self, *given: Any, **named: Any) -> tuple[Any, list[Any], tuple[Any, ...]]:
        """What :meth:`run` launches, without launching it: the launcher, its arguments, and the results.

        Raises:
            ValueError: nothing is launched for these arguments.
        """
        arguments, found = self.arguments(*given, **named), target()
        if not self.numpy and not is_torch(_first_array(arguments)):
            arguments = tuple(as_torch(a, self.name) for a in arguments)
        plan = self.plan(found, *arguments)
        if plan is None or plan.launcher is None:
            raise ValueError(f"{self.name}: nothing is launched for these arguments")
        first = _first_array(arguments)
        outs = self._outs(found, first, arguments, plan)
        return plan.launcher(), list(plan.operands_of(found, first, outs)), outs

    def __call__(self, *given: Any, **named: Any) -> Any:
        """The torch operator for torch tensors, :meth:`run` for NumPy arrays.

        Raises:
            NotImplementedError: an operand carries a tangent of forward differentiation, or is differentiated within
                ``torch.func``.
        """
        if is_torch(given[0] if given else next(iter(named.values()), None)):
            _require_no_transform(self.name, given, named)
            return getattr(operators(), self.name)(*given, **named)
        return self.run(*given, **named)

    @property
    def function(self) -> Callable[..., Any]:
        """The functional form."""
        form = self.form
        if form is None:
            return _named(lambda *given, **named: self(*given, **named), self.name, self.doc, self.signature)
        signature = inspect.signature(form)
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
        return _named(lambda *given, **named: form(self, *given, **named), self.name, form.__doc__ or self.doc,
                      signature)


@dataclass(frozen=True, eq=False)
class Form:
    """A functional form that is made of operations.

    Attributes:
        function: with its signature and documentation.
        composite: ``(name, schema, function)`` of a torch operator that torch sees through, if there is one.
    """

    name: str
    function: Callable[..., Any]
    composite: tuple[str, str, Callable[..., Any]] | None = None
    public: bool = True


def _require_no_transform(name: str, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    """torch drops the tangents of operands of custom operators in silence, as if they were zero, and does not know how
    to differentiate them within ``torch.func``."""
    forward, torch = sys.modules["torch.autograd.forward_ad"], sys.modules["torch"]
    forwards, functional = forward._current_level >= 0, torch._C._are_functorch_transforms_active()
    if not forwards and not functional:
        return
    for value in (*given, *named.values()):
        for x in value if isinstance(value, list | tuple) else (value,):
            if not is_torch(x) or not hasattr(x, "shape"):
                continue
            if forwards and forward.unpack_dual(x).tangent is not None:
                raise NotImplementedError(f"{name}: forward differentiation (jvp) is not supported, only backward")
            if functional and x.requires_grad and torch.is_grad_enabled():
                raise NotImplementedError(f"{name}: torch.func.grad, vjp and jacrev do not take custom operators: use "
                                          "torch.autograd.grad")


def _named(function: Any, name: str, doc: str, signature: inspect.Signature) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__module__, function.__doc__, function.__signature__ = "flydsl.kernels.ops", doc, signature
    return function


def operators() -> Any:
    """The namespace ``torch.ops.flydsl``, registered."""
    import torch

    if _REGISTRATION not in sys.modules:  # torch.compile looks through this, and at no import
        importlib.import_module(_REGISTRATION)  # by name: it is made of the declarations, and they of this
    return torch.ops.flydsl
