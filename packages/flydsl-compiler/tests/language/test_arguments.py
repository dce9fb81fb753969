"""What may be passed where a tensor is expected: optional ones, containers, any view; and what is refused."""

from __future__ import annotations

import ctypes
import warnings
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
from flydsl.runtime import DeviceArray
from flydsl.tracing.diagnostics import DSLCompileError


class Managed(ctypes.Structure):
    """DLManagedTensor, to make DLPack capsules of any content."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
        ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    ]


CAPSULE_NAME = ctypes.c_char_p(b"dltensor")  # a capsule keeps a pointer to its name

COPY = """
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor):
    Y[fx.thread_idx.x] = X[fx.thread_idx.x]
@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor):
    k(X, Y).launch(grid=1, block=64)
"""


def poisoned(n: int = 64) -> np.ndarray:
    return np.full(n, -7, np.float32)


X = np.random.default_rng(1).random(64, np.float32)


def test_optional_tensors(load: Any, device: None) -> None:
    """None is known while tracing, and a kernel has no parameter for it."""
    module = load("""
@flyc.kernel
def k(X: fx.Tensor, bias, Y: fx.Tensor):
    v = X[fx.thread_idx.x]
    if fx.const_expr(bias is not None):
        v = v + bias[fx.thread_idx.x]
    Y[fx.thread_idx.x] = v
@flyc.jit
def run(X: fx.Tensor, bias: fx.Tensor, Y: fx.Tensor):
    k(X, bias, Y).launch(grid=1, block=64)
""")
    for bias, expected in ((None, X), (X, 2 * X), (None, X), (X, 2 * X)):
        y = poisoned()
        module.run(X, bias, y)
        np.testing.assert_array_equal(y, expected)
    y = poisoned()
    without, with_bias = flyc.compile(module.run, X, None, y), flyc.compile(module.run, X, X, y)
    without(X, None, y)
    np.testing.assert_array_equal(y, X)
    with pytest.raises(TypeError, match="'bias'.*expected None, got 'numpy.ndarray'.*compiled without this argument"):
        without(X, X, y)
    with pytest.raises(TypeError, match="'bias'.*expected a f32 tensor.*got 'NoneType'"):
        with_bias(X, None, y)


@pytest.mark.parametrize("use", ["Y[t] = X[t]", "Y[t] = X.shape[0]", "Y[t] = fx.rocdl.make_buffer_tensor(X)[t]",
                                 "Y[t] = 1 + X", "Y[t] = X(t)",
                                 "fx.copy(fx.make_copy_atom(fx.UniversalCopy32b(), 32), X, Y)"])
@pytest.mark.parametrize("branch", [False, True])
def test_an_argument_that_is_left_out_is_named(load: Any, device: None, use: str, branch: bool) -> None:
    module = load(f"""
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor):
    t = fx.thread_idx.x
    {"if t < 3: " if branch else ""}{use}
@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor):
    k(X, Y).launch(grid=1, block=64)
""")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DSLCompileError, match="the argument 'X' of k is None. Pass a value") as info:
            module.run(None, X)
    assert f"{module.__file__}" in str(info.value) and use in str(info.value)


def test_elements_that_are_one_in_memory_are_not_stored_to(load: Any, device: None) -> None:
    torch = pytest.importorskip("torch")
    module = load(COPY)
    whole = np.zeros(1, np.float32)
    for y in (np.lib.stride_tricks.as_strided(whole, (64,), (0,)), torch.zeros(1).expand(64)):
        with pytest.raises(ValueError, match="'Y'.*the 64 elements of dimension 0 are one in memory .*array.copy()"):
            module.run(torch.tensor(X) if isinstance(y, torch.Tensor) else X, y)
    y = np.zeros(64, np.float32)
    module.run(np.broadcast_to(np.float32(3), 64), y)  # read as ever
    assert (y == 3).all()


@pytest.mark.parametrize("bias", ["fx.Tensor | None = None", "Optional[fx.Tensor] = None", "*more: fx.Tensor",
                                  "more: list = ()", "more: tuple[fx.Tensor, ...] = ()"])
def test_annotations_of_what_may_be_left_out(load: Any, device: None, bias: str) -> None:
    """They say what the language takes, so they are no reason for a warning."""
    is_many = "more" in bias
    parameter = bias if is_many else f"bias: {bias}"
    module = load(f"""
from typing import Optional
@flyc.kernel
def k(X: fx.Tensor, others, Y: fx.Tensor):
    v = X[fx.thread_idx.x]
    for other in others:
        v = v + other[fx.thread_idx.x]
    Y[fx.thread_idx.x] = v
@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor, {parameter}):
    others = {"more" if is_many else "() if bias is None else (bias,)"}
    k(X, others, Y).launch(grid=1, block=64)
""")
    for count in (0, 1, 2)[: 3 if is_many else 2]:
        y, others = poisoned(), [X] * count
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            module.run(X, y, *(others if parameter[0] == "*" or not is_many else [others]))
        np.testing.assert_allclose(y, (1 + count) * X, rtol=1e-6)


def test_numpy_integers_are_sizes_of_a_launch(load: Any, device: None) -> None:
    sizes = COPY.replace("grid=1, block=64", "grid=np.int32(1), block=(np.int64(64), 1, 1)")
    module = load("import numpy as np\n" + sizes)
    y = poisoned()
    module.run(X, y)
    np.testing.assert_array_equal(y, X)


def test_a_number_that_is_left_out_is_named(load: Any, device: None) -> None:
    module = load("""
@flyc.kernel
def k(Y: fx.Tensor, n: fx.Int32):
    Y[fx.thread_idx.x] = n
@flyc.jit
def run(Y: fx.Tensor, n: fx.Int32):
    k(Y, n).launch(grid=1, block=64)
""")
    with pytest.raises(TypeError, match="run: argument 'n': expected a Int32, got None"):
        module.run(X.copy(), None)


def test_tuples_and_dictionaries_of_tensors(load: Any, device: None) -> None:
    module = load("""
@flyc.kernel
def k(inputs, out):
    t = fx.thread_idx.x
    total = fx.Float32(0.0)
    for x in inputs:
        total = total + x[t]
    out["sum"][t] = total * out["scale"]
@flyc.jit
def run(inputs, out):
    k(inputs, out).launch(grid=1, block=64)
""")
    for count in (1, 3, 1):
        y = poisoned()
        module.run(tuple(X + i for i in range(count)), {"sum": y, "scale": 2.0})
        expected = sum((X + np.float32(i) for i in range(count)), np.zeros(64, np.float32)) * 2
        np.testing.assert_allclose(y, expected, rtol=1e-6)
    y = poisoned()
    module.run([X, X], {"sum": y, "scale": 0.5})
    np.testing.assert_array_equal(y, X)
    compiled = flyc.compile(module.run, (X, X), {"sum": y, "scale": 1.0, "left_out": None})
    compiled((X, X), {"sum": y, "scale": 1.0, "left_out": None})
    np.testing.assert_array_equal(y, 2 * X)
    for inputs, out, message in (
        ((X, X, X), {"sum": y, "scale": 1.0, "left_out": None}, "expected a tuple with 2 entries"),
        ([X, X], {"sum": y, "scale": 1.0, "left_out": None}, "expected a tuple with 2 entries"),
        ((X, X), {"sum": y, "scale": 1.0}, r"expected a dict with the keys \['sum', 'scale', 'left_out'\]"),
        ((X, X), {"sum": y, "scale": 1.0, "left_out": X}, "expected None"),
    ):
        with pytest.raises(TypeError, match=message):
            compiled(inputs, out)
    with pytest.raises(TypeError, match=r"inputs\[0\]'.* of type str"):
        module.run(("x",), {"sum": y, "scale": 0.5})


@pytest.mark.parametrize("numbers", [[1.0, 2.0], (1, 2), [np.float32(1)]])
def test_numbers_are_no_tensor(load: Any, device: None, numbers: Any) -> None:
    module = load("""
@flyc.kernel
def k(X: fx.Tensor):
    X[fx.thread_idx.x] = fx.Float32(1)
@flyc.jit
def run(X: fx.Tensor):
    k(X).launch(grid=1, block=1)
""")
    with pytest.raises(TypeError, match=r"'X' is declared Tensor, got a (list|tuple) of numbers; pass an array"):
        module.run(numbers)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda run, x: run(x, Yuot=x), r"run\(\): got an unexpected keyword argument 'Yuot'; did you mean 'Yout'\?"),
        (lambda run, x: run(x, other=x), r"unexpected keyword argument 'other'; the parameters are X, Yout, n"),
        (lambda run, x: run(x), r"run\(\): missing a required argument: 'Yout'"),
        (lambda run, x: run(x, x, 1, 2), r"too many positional arguments: got 4, the parameters are X, Yout, n"),
        (lambda run, x: run(x, X=x), r"multiple values for argument 'X'"),
    ],
)
def test_arguments_that_do_not_fit(load: Any, call: Any, message: str) -> None:
    module = load("""
@flyc.jit
def run(X: fx.Tensor, Yout: fx.Tensor, n: fx.Constexpr[int] = 3):
    pass
""")
    with pytest.raises(TypeError, match=message):
        call(module.run, np.zeros(1, np.float32))


@pytest.mark.parametrize("view", [lambda a: a[:, 1], lambda a: a[::2, 3], lambda a: a[::-1, 0]])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_views_without_a_unit_stride(load: Any, device: None, view: Any, library: str) -> None:
    data = np.random.default_rng(2).random((128, 4), np.float32)
    x = view(data)
    y = poisoned()
    if library == "torch":
        torch = pytest.importorskip("torch")
        if x.strides[0] < 0:
            pytest.skip("torch has no negative strides")
        load(COPY).run(view(torch.from_numpy(data)), torch.from_numpy(y))
    else:
        load(COPY).run(x, y)
    np.testing.assert_array_equal(y, x[:64])


def test_empty_arrays(load: Any, device: None) -> None:
    module = load("""
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor):
    t = fx.thread_idx.x
    if t < X.shape[0]:
        Y[t] = X[t]
@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor):
    k(X, Y).launch(grid=1, block=64)
""")
    y = poisoned()
    module.run(np.zeros(0, np.float32), y)
    assert (y == -7).all()
    module.run(X, y)
    np.testing.assert_array_equal(y, X)


@pytest.mark.parametrize("static", [False, True])
def test_extents_are_numbers(load: Any, device: None, static: bool) -> None:
    module = load("""
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor):
    t, n, m = fx.thread_idx.x, X.shape[0], X.shape[1]
    total = fx.Float32(0.0)
    for i in range(n):
        total = total + X.shape[1]
    for i in range(0, m, 1):
        total = total + 1.0
    for i, state in range(0, n, 1, init=[total]):
        total = yield [fx.Float32(state[0]) + 0.5]
    layout = fx.make_layout((n, m))
    assert str(layout.type).startswith("!fly.layout<")
    if t < n * m:
        Y[t] = X[t // m, t % m]
    if t == n:
        Y[t] = (fx.Float32(total) + (-n) + (n % 3) * 2 + fx.ceildiv(m, 3) + fx.max(n, 5) + (1 << n) + n.to(fx.Float32)
                + fx.Float32(n) + fx.Int32(m).to(fx.Float32) + fx.size(layout).unpack())
@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor):
    k(X, Y).launch(grid=X.shape[0] // 8, block=(X.shape[0] * X.shape[1], 1, 1))
""")
    x, y = X.reshape(8, 8), poisoned()
    module.run(flyc.from_dlpack(x) if static else x, y)
    expected = X.copy()
    expected[8] = 64 + 8 + 4 - 8 + 2 * 2 + 3 + 8 + 256 + 8 + 8 + 8 + 64
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("static", [False, True])
def test_an_extent_is_the_number_that_a_kernel_declares(load: Any, device: None, static: bool) -> None:
    module = load("""
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32, m: fx.Int64):
    t = fx.thread_idx.x
    assert type(n) is fx.Int32 and type(m) is fx.Int64
    if t < n:
        Y[t] = X[t, 0] + m.to(fx.Float32)
@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor):
    k(X, Y, X.shape[0], X.shape[1]).launch(grid=1, block=64)
""")
    x, y = X.reshape(8, 8), poisoned()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module.run(flyc.from_dlpack(x) if static else x, y)
    expected = poisoned()
    expected[:8] = x[:, 0] + 8
    np.testing.assert_array_equal(y, expected)


def test_default_strides_of_layouts(load: Any, device: None) -> None:
    module = load(COPY.replace("    k(X, Y)", """    nested = fx.make_layout((4, (2, 8)))
    assert str(nested.type) == "!fly.layout<(4,(2,8)):(1,(4,8))>"
    assert str(fx.make_layout(64).type) == "!fly.layout<64:1>"
    k(X, Y)"""))
    module.run(X, poisoned())


def test_memory_that_does_not_hold_the_values(load: Any, device: None) -> None:
    module = load(COPY)
    with pytest.raises(TypeError, match="masked array.*filled"):
        module.run(np.ma.masked_array(X, mask=X > 0.5), poisoned())
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="lazy view.*resolve_neg"):
        module.run(torch._neg_view(torch.from_numpy(X)), torch.zeros(64))
    with pytest.raises(TypeError, match="lazy view.*resolve_conj"):
        flyc.from_torch_tensor(torch.zeros(4, dtype=torch.complex64).conj())


def refused() -> dict[str, tuple[Any, Any, str]]:
    """(X, Y, message) of calls of COPY that no path may answer."""
    frozen = poisoned()
    frozen.flags.writeable = False
    cases: dict[str, tuple[Any, Any, str]] = {
        "masked": (np.ma.masked_array(X, mask=X > 0.5), poisoned(), "masked array"),
        "read-only": (X, frozen, "read-only"),
        "bytes": (X, np.frombuffer(bytes(256), np.float32), "read-only"),
        "read-only, wrapped": (X, flyc.from_dlpack(frozen), "read-only"),
    }
    try:
        import torch
    except ImportError:
        return cases
    x, y = torch.from_numpy(X), torch.zeros(64)
    meta, leaf = torch.zeros(64, device="meta"), torch.zeros(64, requires_grad=True)
    return cases | {
        "negative": (torch._neg_view(x), y, "lazy view.*resolve_neg"),
        "part of a conjugate": (torch.complex(x, x).conj().imag, y, "lazy view.*resolve_neg"),
        "negative output": (x, torch._neg_view(y), "lazy view.*resolve_neg"),
        "leaf": (x, leaf, "leaf that requires grad"),
        "leaf, wrapped": (x, flyc.from_torch_tensor(leaf), "leaf that requires grad"),
        "parameter": (x, torch.nn.Parameter(y.clone()), "leaf that requires grad"),
        "meta": (meta, y, "meta"),
        "sparse": (x.to_sparse(), y, "storage"),
    }


@pytest.mark.parametrize("case", refused())
@pytest.mark.parametrize("path", ["first call", "later call", "compiled"])
def test_every_path_refuses_alike(load: Any, device: None, path: str, case: str) -> None:
    """What the first call of a function refuses, later calls and a compiled function refuse too."""
    module = load(COPY)
    x, y, message = refused()[case]
    run = module.run
    if path != "first call":
        torch = pytest.importorskip("torch")
        for a, b in ((X, poisoned()), (torch.from_numpy(X), torch.zeros(64))):
            wrapped = flyc.from_dlpack(b) if isinstance(b, np.ndarray) else flyc.from_torch_tensor(b)
            for out in (b, wrapped):
                run(a, out)
    if path == "compiled":
        run = flyc.compile(module.run, X, poisoned())
    with pytest.raises((TypeError, ValueError), match=message) as info:
        run(x, y)
    assert "argument '" in str(info.value)


def test_device_arrays(load: Any, device: None) -> None:
    module = load(COPY)
    for _ in range(2):
        y = DeviceArray.from_numpy(poisoned())
        module.run(DeviceArray.from_numpy(X), y)
        np.testing.assert_array_equal(y.numpy(), X)


def test_gradients_see_what_a_kernel_overwrote(load: Any, device: None) -> None:
    torch = pytest.importorskip("torch")
    module = load(COPY)
    for run in (module.run, module.run, flyc.compile(module.run, torch.zeros(64), torch.zeros(64))):
        weights, data = torch.ones(64, requires_grad=True), torch.ones(64)
        total = (weights * data).sum()
        run(torch.zeros(64), data)  # the backward pass needs the ones
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            total.backward()
        run(weights, data)  # reading needs no gradient
        np.testing.assert_array_equal(data, np.ones(64))
        with torch.no_grad():
            run(torch.full((64,), 3.0), weights)
        assert weights._version == 1 and bool((weights == 3).all())


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_signs_of_arrays_decide_the_specialisation(load: Any, device: None, bits: int) -> None:
    """A function compiled for signed numbers refuses unsigned ones, whose quotients are others; a call specialises."""
    module = load("""
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor):
    Y[fx.thread_idx.x] = (X[fx.thread_idx.x] // 3).to(fx.Float32)
@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor):
    k(X, Y).launch(grid=1, block=64)
""")
    x = np.random.default_rng(3).integers(0, 2**bits, 64, f"uint{bits}")
    signed = x.view(f"int{bits}")
    for data in (signed, x, signed, x):
        y = poisoned()
        module.run(data, y)
        np.testing.assert_array_equal(y, (data // 3).astype(np.float32))
    compiled = flyc.compile(module.run, signed, poisoned())
    compiled(signed, y)
    with pytest.raises(TypeError, match=f"expected a tensor of dtype i{bits}, got dtype u{bits}.*signed"):
        compiled(x, y)
    with pytest.raises(TypeError, match=f"expected a tensor of dtype u{bits}, got dtype i{bits}"):
        flyc.compile(module.run, x, poisoned())(signed, y)


@pytest.mark.parametrize("lie", [{"ndim": 1000}, {"ndim": -3}, {"ndim": 2**31 - 1}, {"shape": 0}])
def test_producers_that_lie(load: Any, device: None, lie: dict[str, int]) -> None:
    """What `__dlpack__` says is checked before it is believed, in the first call and after it."""
    module = load(COPY)
    y = poisoned()

    class Producer:
        def __init__(self, **fields: int) -> None:
            self.shape = (ctypes.c_int64 * 1)(64)
            self.managed = Managed(X.ctypes.data, 1, 0, 1, 2, 32, 1, ctypes.addressof(self.shape), None, 0, None, None)
            for name, value in fields.items():
                setattr(self.managed, name, value)

        def __dlpack__(self, **_: Any) -> Any:
            new = ctypes.pythonapi.PyCapsule_New
            new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
            return new(ctypes.addressof(self.managed), CAPSULE_NAME, None)

    for _ in range(2):
        with pytest.raises(ValueError, match="argument 'X'.*rank"):
            module.run(Producer(**lie), y)
        module.run(Producer(), y)
        np.testing.assert_array_equal(y, X)


def test_a_wrapper_asks_its_producer_once(load: Any, device: None) -> None:
    """A wrapper keeps the capsule for all launches; a bare producer is asked by each, once."""
    module = load(COPY)
    y = poisoned()

    class Producer:
        asked = 0

        def __dlpack__(self, *, stream: int, max_version: Any) -> Any:
            self.asked += 1
            return X.__dlpack__(max_version=max_version)

    wrapped, bare = Producer(), Producer()
    x = flyc.from_dlpack(wrapped)
    compiled = flyc.compile(module.run, x, y)
    for _ in range(2):
        module.run(x, y)
        compiled(x, y)
    np.testing.assert_array_equal(y, X)
    assert wrapped.asked == 1 and compiled(bare, y) is None and bare.asked == 1
    with pytest.raises(TypeError, match="did not return a capsule"):
        flyc.from_dlpack(type("Liar", (), {"__dlpack__": lambda self, **_: 5})())


def test_views_of_one_array(load: Any, device: None) -> None:
    """A kernel that is passed an array and a view of it may write all of the array."""
    module = load(COPY.replace("Y[fx.thread_idx.x]", "Y[fx.thread_idx.x + 128]"))
    y = poisoned(256)
    y[8:72] = X
    module.run(y[8:72], y)
    np.testing.assert_array_equal(y[128:192], X)
