"""What holds for every operation, from its declaration alone: a new one is tested by being declared."""

import contextlib
import inspect
import sys
from pathlib import Path

import numpy as np
import pytest
from kernel_helpers import needs, torch
from torch.utils._python_dispatch import TorchDispatchMode

import flydsl.kernels as kernels
from flydsl.compiler.jit_function import JitFunction
from flydsl.compiler.kernel_function import KernelFunction
from flydsl.compiler.specialization.key import Reach, Walker
from flydsl.kernels import ops
from flydsl.kernels.op import Op, declarations, table
from flydsl.kernels.target import target
from flydsl.kernels.testing import Draw
from flydsl.kernels.workspace import workspace

kernels.register_torch_ops()
flydsl = torch.ops.flydsl
DECLARED = [d for d in declarations() if isinstance(d, Op)]
HERE = [d for d in DECLARED if d.available(target())]
WITH_GRADIENT = [d for d in HERE if d.gradient]
DOCS = Path(__file__).resolve().parents[3] / "docs" / "kernels" / "torch.md"


def each(operations):
    return pytest.mark.parametrize("op", operations, ids=lambda op: op.name)


def where_it_is(op, *others):
    """A case of a test, with the architectures that have the operation, among which cases can take turns."""
    return pytest.param(op, *others, marks=needs(*op.archs))


def sample(op, m=6, n=None, seed=0):
    return op.sample(Draw(target(), seed), m, n or op.widths[0])


def as_tuple(results):
    return () if results is None else results if isinstance(results, tuple) else (results,)


def call(op, arguments):
    return as_tuple(getattr(flydsl, op.name)(*arguments))


def same(op, a, b):
    """Equal bits, or where sums come in any order, close."""

    def equal(x, y):
        if op.stable:
            return torch.equal(x.contiguous().view(torch.uint8), y.contiguous().view(torch.uint8))
        return torch.allclose(x.float(), y.float(), 1e-5, 1e-5)

    return all(x.dtype == y.dtype and x.shape == y.shape and (x.numel() == 0 or equal(x, y))
               for x, y in zip(a, b, strict=True))


def tensors(arguments):
    return [a for a in arguments if isinstance(a, torch.Tensor)]


def differentiable(op, arguments):
    """The tensors of a sample that have gradients."""
    if op.gradient is None:
        return []
    names = op.gradient.of or tuple(op.signature.parameters)
    return tensors(a for name, a in zip(op.signature.parameters, arguments, strict=True) if name in names)


# ------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(("op", "n"), [where_it_is(op, n) for op in HERE for n in op.widths],
                         ids=lambda v: getattr(v, "name", str(v)))
@pytest.mark.parametrize("m", [pytest.param(1, marks=pytest.mark.spread), 19])
def test_result_is_that_of_the_definition(op, n, m):
    arguments = sample(op, m, n)
    expected = op.reference(*arguments)
    results = call(op, arguments)
    if op.decode is not None:
        results = op.decode(arguments, results)
    assert len(results) == len(expected)
    for result, exact in zip(results, expected, strict=True):
        assert result.shape == exact.shape
        tolerance = op.tolerance
        if result.dtype in (torch.float16, torch.bfloat16):
            tolerance = max(tolerance, torch.finfo(result.dtype).eps)
        bound = tolerance * float(exact.abs().max()) + 1e-30
        assert float((result.double() - exact.double()).abs().max()) <= bound


def as_arrays(a):
    if isinstance(a, list):
        return [as_arrays(v) for v in a]
    return a.numpy() if isinstance(a, torch.Tensor) else a


@pytest.mark.one_arch
@each(HERE)
def test_other_processes_find_what_was_compiled(op):
    """Its key has nothing that is known in this process only; artifacts that are shipped are found in each Python."""
    launcher = op.plan(target(), *op.arguments(*sample(op))).launcher()
    if not hasattr(launcher, "_original"):
        pytest.skip("it launches what others are made of")
    reached = Reach(launcher._original, Walker())
    assert len(reached.portable(("flydsl.kernels",))) == 32 and " at 0x" not in reached._text


@pytest.mark.one_arch
@each(HERE)
def test_numpy_and_torch_alike(op):
    half = {"dtype": "f16"} if "dtype" in inspect.signature(op.sample).parameters else {}
    arguments = op.sample(Draw(target(), 0), 6, op.widths[0], **half)
    try:
        arrays = [as_arrays(a) for a in arguments]
        expected = [r.numpy() for r in call(op, arguments)]
    except TypeError:
        pytest.skip("NumPy has not its dtypes")
    for result, reference in zip(as_tuple(op.run(*arrays)), expected, strict=True):
        assert isinstance(result, np.ndarray) and result.dtype == reference.dtype
        np.testing.assert_allclose(result, reference, rtol=0 if op.stable else 1e-5, atol=0 if op.stable else 1e-5)


@pytest.mark.spread
@each([where_it_is(op) for op in HERE])
def test_results_are_fresh_and_contiguous(op):
    arguments = sample(op)
    before = [t.clone() for t in tensors(arguments)]
    results, again = call(op, arguments), call(op, arguments)
    assert same(op, results, again) and all(r.is_contiguous() for r in results)
    seen = {t.untyped_storage().data_ptr() for t in (*tensors(arguments), *again) if t.numel()}
    assert not any(r.untyped_storage().data_ptr() in seen for r in results if r.numel())
    names = [name for name, a in zip(op.signature.parameters, arguments, strict=True) if isinstance(a, torch.Tensor)]
    for name, t, kept in zip(names, tensors(arguments), before, strict=True):
        assert name in op.changed or torch.equal(t.view(torch.uint8), kept.view(torch.uint8))


# ------------------------------------------------------------------------------------------- operands


def spread(t):
    """The same values with gaps between them."""
    if not isinstance(t, torch.Tensor) or t.numel() < 2:
        return t
    gaps = torch.empty((*t.shape[:-1], 2 * t.shape[-1]), dtype=t.dtype)
    gaps.view(torch.uint8).fill_(0xFF)
    gaps[..., ::2] = t
    return gaps[..., ::2]


def turned(t):
    """The same values, stored with the last dimension first."""
    return t.movedim(-1, 0).contiguous().movedim(0, -1) if isinstance(t, torch.Tensor) and t.dim() > 1 else t


@pytest.mark.one_arch
@each(HERE)
@pytest.mark.parametrize("change", [spread, turned])
def test_operands_of_any_stride(op, change):
    arguments = sample(op)
    strided = [change(a) for a in arguments]
    if "layout" in op.signature.parameters and op.name != "gemm":
        strided[1] = arguments[1]  # shuffled storage is dense by definition
    assert any(not t.is_contiguous() for t in tensors(strided))
    assert same(op, call(op, strided), call(op, arguments))


LONG = ("activate", "activate_and_mul_bwd", "attention_fwd", "attention_bwd", "paged_attention", "cache_append", "moe",
        "linear_inference", "scaled_gemm", "preshuffle_gemm", "blockscale_gemm", "mx_gemm")


@pytest.mark.one_arch
@each([op for op in HERE if op.name in LONG])
def test_memory_of_more_elements_than_a_dimension_may_have(op, monkeypatch):
    """It is a matrix then, whose rows may overlap; here that is so from 45 elements on."""
    arguments = sample(op)
    copies = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
    expected = call(op, arguments)
    monkeypatch.setattr("flydsl.kernels.host.arrays.MOST_EXTENT", 45)
    assert same(op, call(op, copies), expected) and same(op, tensors(copies), tensors(arguments))


@each(HERE)
def test_no_rows(op):
    results, reference = call(op, sample(op, 0)), call(op, sample(op))
    assert all(r.dtype == s.dtype and r.dim() == s.dim() for r, s in zip(results, reference, strict=True))
    for result, whole in zip(results, reference, strict=True):
        if result.numel() and result.shape == whole.shape and op.name.endswith("_bwd"):
            assert bool((result == 0).all())  # a sum over no rows


@pytest.mark.one_arch
@each([d for d in HERE if len(tensors(sample(d))) > 1])
def test_operands_on_several_devices(op):
    arguments = list(sample(op))
    last = max(i for i, a in enumerate(arguments) if isinstance(a, torch.Tensor))
    arguments[last] = arguments[last].to("meta")
    with pytest.raises((ValueError, RuntimeError), match="device"):
        call(op, arguments)


@pytest.mark.one_arch
@each(HERE)
def test_a_wrong_dtype_is_refused(op):
    arguments = [a.to(torch.complex64) if i == 0 else a for i, a in enumerate(sample(op))]
    with pytest.raises((TypeError, ValueError), match="(?i)dtype|must be|computes with|are needed"):
        call(op, arguments)


@pytest.mark.one_arch
@each(HERE)
def test_what_is_no_array_is_refused(op):
    arguments = sample(op)
    for i, (name, a) in enumerate(zip(op.signature.parameters, arguments, strict=True)):
        if isinstance(a, torch.Tensor):
            mixed = [np.zeros(3, np.float32)] if len(tensors(arguments)) > 1 else []
            for wrong in ([1.0, 2.0], 1.0, "x", *([] if f"Tensor? {name}" in op.schema else [None]), *mixed):
                with pytest.raises(TypeError, match=f"{name} (must be a torch tensor or|is )|all torch tensors"):
                    op.run(*arguments[:i], wrong, *arguments[i + 1 :])


@pytest.mark.one_arch
@each(HERE)
def test_an_operand_without_dimensions_is_taken_or_refused(op):
    arguments = sample(op)
    for i, a in enumerate(arguments):
        if isinstance(a, torch.Tensor):
            with contextlib.suppress(TypeError, ValueError):
                call(op, (*arguments[:i], a.new_zeros(()), *arguments[i + 1 :]))


@each([d for d in DECLARED if not d.available(target())])
def test_an_architecture_without_it_is_refused(op):
    if op.fp8 and target().fp8_name is None:
        pytest.skip("a sample needs fp8")
    with pytest.raises(ValueError, match="not available on|needs"):
        call(op, sample(op))


@pytest.mark.one_arch
def test_an_operation_that_is_not_there():
    with pytest.raises(AttributeError, match=r"no attribute 'sofmax': did you mean softmax"):
        getattr(ops, "sofmax")  # noqa: B009 - an expression without effect is refused
    with pytest.raises(AttributeError, match=r"no attribute 'zzz': it has add, .*topk"):
        getattr(ops, "zzz")  # noqa: B009


@pytest.mark.one_arch
def test_every_function_can_be_rewritten():
    """They are when they are first traced, so that importing them rejects nothing."""
    functions = [value for name, module in list(sys.modules.items()) if name.startswith("flydsl.kernels.")
                 for value in list(vars(module).values()) if isinstance(value, (JitFunction, KernelFunction))]
    assert len(functions) > 100
    for function in functions:
        assert callable(function.func)


# ------------------------------------------------------------------------------------------- torch


@pytest.mark.one_arch
@each(HERE)
def test_opcheck(op):
    arguments = sample(op)
    for t in differentiable(op, arguments):
        t.requires_grad_()
    checks = ["test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"]
    if any(t.dtype.itemsize == 1 and t.dtype.is_floating_point for t in tensors(arguments)):
        checks.remove("test_schema")  # torch cannot compare fp8 tensors there
    result = torch.library.opcheck(getattr(flydsl, op.name).default, arguments, test_utils=checks)
    assert set(result.values()) == {"SUCCESS"}


@pytest.mark.one_arch
@each(HERE)
def test_compiles_without_graph_break(op):
    arguments = sample(op)
    torch._dynamo.reset()
    compiled = torch.compile(lambda *given: call(op, given), fullgraph=True, backend="aot_eager")
    assert same(op, compiled(*arguments), call(op, arguments))
    more = sample(op, 11)
    assert same(op, compiled(*more), call(op, more))  # another number of rows: traced with a symbolic size


@each(WITH_GRADIENT)
def test_gradients_against_those_of_the_definition_in_f64(op):
    arguments = sample(op, 8)
    ours = [a.requires_grad_() for a in differentiable(op, arguments)]
    wide = {id(t): t.detach().double().requires_grad_() for t in ours}
    exact = list(wide.values())
    outputs = call(op, arguments)
    expected = op.reference(*(wide.get(id(a), a) for a in arguments))
    pairs = [(o, e) for o, e in zip(outputs, expected, strict=True) if o.requires_grad]
    draw = Draw(target(), 9)
    seeds = [draw.normal(*o.shape).to(o.dtype) for o, _ in pairs]
    torch.autograd.backward([o for o, _ in pairs], seeds)
    torch.autograd.backward([e for _, e in pairs], [s.double() for s in seeds])
    for mine, theirs in zip(ours, exact, strict=True):
        tolerance = (1e-5 if mine.dtype == torch.float32 else 1e-2) * theirs.grad.abs().max()
        assert (mine.grad.double() - theirs.grad).abs().max() <= tolerance


# ------------------------------------------------------------------------------------------- memory


class Allocations(TorchDispatchMode):
    """Bytes of every storage that is made in the block, by address; nothing made in it is released."""

    def __enter__(self):
        self.storages = {}
        self._keep = []
        return super().__enter__()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        given = {a.untyped_storage().data_ptr() for a in args if isinstance(a, torch.Tensor)}
        for t in as_tuple(result) if not isinstance(result, list) else result:
            if isinstance(t, torch.Tensor) and t.untyped_storage().data_ptr() not in given:
                self._keep.append(t)
                self.storages[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return result


def beyond_results(run):
    """Bytes that the call allocated and did not return."""
    with Allocations() as made:
        results = as_tuple(run())
    returned = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in results if t is not None}
    return sum(made.storages.values()) - sum(returned.values())


@each([d for d in HERE if d.workspace is not None])
@pytest.mark.parametrize("m", [6, pytest.param(600, marks=pytest.mark.one_arch)])
def test_workspace_is_what_is_stated(op, m):
    arguments = sample(op, m)
    op.run(*arguments)  # weights are put in the order of their kernel
    assert beyond_results(lambda: op.run(*arguments)) == workspace(op.name, *arguments)


# ------------------------------------------------------------------------------------------- what derives


@each(DECLARED)
def test_a_declaration_is_whole(op):
    assert op.doc and op.widths and callable(op.reference)
    if op.public:
        function = getattr(ops, op.name)
        assert function.__doc__ and function.__name__ == op.name
        assert list(inspect.signature(function).parameters)[0] == list(op.signature.parameters)[0]


def test_every_form_is_public_and_documented():
    for declared in declarations():
        assert not declared.public or declared.name in ops.__all__
    for name in ops.__all__:
        assert getattr(ops, name).__doc__, name


def test_the_documentation_has_the_table():
    assert table() in DOCS.read_text(), "docs/kernels/torch.md: put in what `python -m flydsl.kernels table` prints"


def test_benchmark_cases_are_launches():
    names = []
    for op in HERE:
        for name, (_, n), options in op.bench(target(), 64):
            launcher, arguments, results = op.prepare(*op.sample(Draw(target()), 4, n, **options))
            assert callable(launcher) and arguments and results
            names.append((name, n))
    assert len(names) == len(set(names)) > 10
