"""Launches: several kernels, nested jit functions, methods, streams, tensors of every kind, custom arguments."""

from __future__ import annotations

import ctypes
import warnings
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.tracing.diagnostics import DSLCompileError

pytestmark = pytest.mark.usefixtures("device")
X = np.arange(64, dtype=np.float32)

KERNELS = """
@flyc.kernel
def add(X: fx.Tensor, Y: fx.Tensor, v: fx.Float32):
    t = fx.block_idx.x * 64 + fx.thread_idx.x
    Y[t] = X[t] + v

@flyc.kernel
def double(Y: fx.Tensor):
    t = fx.block_idx.x * 64 + fx.thread_idx.x
    Y[t] = Y[t] * 2.0
"""


def test_several_kernels_in_order_and_host_control_flow(load: Any) -> None:
    module = load(
        KERNELS
        + """
@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32, twice: fx.Int32):
    add(X, Y, fx.Float32(1.0)).launch(grid=n // 64, block=64)
    for i in range(twice):
        double(Y).launch(grid=(n // 64, 1), block=(64, 1, 1))
    if twice > 2:
        add(Y, Y, fx.Float32(0.5)).launch(grid=n // 64, block=64)
"""
    )
    x = np.arange(128, dtype=np.float32)
    for twice in (0, 1, 3):
        y = np.zeros_like(x)
        module.run(x, y, 128, twice)
        np.testing.assert_array_equal(y, (x + 1) * 2**twice + (0.5 if twice > 2 else 0))


def test_a_helper_that_calls_itself(load: Any, device: None) -> None:
    """It ends on a static condition; a changed body is another function."""
    text = """
@flyc.jit
def power(v, n):
    if fx.const_expr(n == 0):
        return v * 0.0 + 1.0
    return FACTOR * power(v, n - 1)
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor):
    Y[fx.thread_idx.x] = power(X[fx.thread_idx.x], 3)
@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor):
    k(X, Y).launch(grid=1, block=64)
"""
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    for factor, exact in (("v", x**3), ("2.0", np.full(64, 8.0))):
        load(text.replace("FACTOR", factor)).run(x, y)
        np.testing.assert_array_equal(y, exact)


def test_nested_jit_functions_are_inlined(load: Any) -> None:
    module = load(
        KERNELS
        + """
@flyc.jit
def inner(Y: fx.Tensor):
    double(Y).launch(grid=1, block=64)

@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor):
    add(X, Y, fx.Float32(1.0)).launch(grid=1, block=64)
    inner(Y)
    inner(Y)
"""
    )
    y = np.zeros(64, np.float32)
    module.run(X, y)
    np.testing.assert_array_equal(y, (X + 1) * 4)


def test_methods_and_instance_values(load: Any) -> None:
    module = load("""
class Scaler:
    def __init__(self, factor):
        self.factor = factor

    @flyc.kernel
    def kernel(self, X: fx.Tensor, Y: fx.Tensor):
        t = fx.thread_idx.x
        Y[t] = self.scaled(X[t])

    @flyc.jit
    def scaled(self, v):
        return v * self.factor

    @flyc.jit
    def __call__(self, X: fx.Tensor, Y: fx.Tensor):
        self.kernel(X, Y).launch(grid=1, block=64)

    @staticmethod
    @flyc.jit
    def static(X: fx.Tensor, Y: fx.Tensor):
        Scaler(7.0).kernel(X, Y).launch(grid=1, block=64)
""")
    for factor in (2.0, 3.0):
        y = np.zeros(64, np.float32)
        module.Scaler(factor)(X, y)
        np.testing.assert_array_equal(y, X * factor)
    module.Scaler.static(X, y)
    np.testing.assert_array_equal(y, X * 7)


def test_variadic_parameters(load: Any) -> None:
    """The annotation is that of each argument; kernels get them one by one, as Python functions do."""
    module = load("""
@flyc.kernel
def k(Y: fx.Tensor, a: fx.Int32, *rest: fx.Int64, last: fx.Constexpr[int], **named: fx.Float32):
    for i in fx.range_constexpr(len(rest)):
        Y[i] = (a + rest[i]).to(fx.Float64)
    Y[last] = sum(named.values()).to(fx.Float64)

@flyc.jit
def run(Y: fx.Tensor, *rest: fx.Int64, **named: fx.Float32):
    k(Y, rest[0].to(fx.Int32), *rest, last=5, **named).launch(grid=1, block=1)
""")
    for rest in ((1, 2**40), (7, 8, -(2**35))):
        y = np.zeros(6)
        module.run(y, *rest, u=2, v=0.5)
        np.testing.assert_array_equal(y, [*(r + rest[0] for r in rest), *[0.0] * (5 - len(rest)), 2.5])
    with pytest.raises(TypeError, match=r"rest\[1\].*Int64 got the float"):
        module.run(y, 1, 2.5, u=0.0)


@pytest.mark.parametrize("cls", ["Int4", "Int128", "Float8E5M2"])
def test_a_scalar_without_a_host_form_is_no_launch_argument(cls: str, load: Any) -> None:
    module = load(f"""
@flyc.kernel
def k(Y: fx.Tensor, v: fx.{cls}):
    Y[0] = v.to(fx.Float64)

@flyc.jit
def run(Y: fx.Tensor, v: fx.{cls}):
    k(Y, v).launch(grid=1, block=1)
""")
    with pytest.raises(TypeError, match="'v'.*C-ABI"):
        module.run(np.zeros(1), 1)


@pytest.mark.parametrize("axes", ["x", "y", "z", "xy", "xz", "yz", "xyz"])
def test_each_coordinate_alone(load: Any, axes: str) -> None:
    """A kernel that reads some coordinates finds them whatever the work-group and the grid have of the others."""
    block, grid = {"x": 5, "y": 3, "z": 4}, {"x": 2, "y": 3, "z": 2}
    index, stride = "0", 1
    for of, sizes in (("thread_idx", block), ("block_idx", grid)):
        for axis in axes:
            index, stride = f"{index} + fx.{of}.{axis} * {stride}", stride * sizes[axis]
    module = load(f"""
@flyc.kernel
def k(Y: fx.Tensor):
    Y[{index}] = 1.0

@flyc.jit
def run(Y: fx.Tensor):
    k(Y).launch(grid={tuple(grid.values())}, block={tuple(block.values())})
""")
    y = np.zeros(60 * 12, np.float32)
    module.run(y)
    np.testing.assert_array_equal(y, np.arange(y.size) < stride)


def test_keywords_defaults_and_keyword_only_parameters(load: Any) -> None:
    module = load("""
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor, a: fx.Float32, *, b: fx.Constexpr[float] = 1.0):
    t = fx.thread_idx.x
    Y[t] = X[t] * a + b

@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor, a: fx.Float32 = 2.0, *, b: fx.Constexpr[float] = 0.5):
    k(X, Y, a=a, b=b).launch(grid=1, block=64)
""")
    y = np.zeros(64, np.float32)
    module.run(X, y)
    np.testing.assert_array_equal(y, X * 2 + 0.5)
    module.run(X, Y=y, b=4.0, a=3.0)
    np.testing.assert_array_equal(y, X * 3 + 4)


def test_streams(load: Any) -> None:
    from flydsl import runtime

    module = load(
        KERNELS
        + """
@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor, Z: fx.Tensor, a: fx.Stream, b: fx.Stream):
    add(X, Y, fx.Float32(1.0)).launch(grid=1, block=64, stream=a)
    add(X, Z, fx.Float32(2.0)).launch(grid=1, block=64, stream=b.value)

@flyc.jit
def one(X: fx.Tensor, Y: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    add(X, Y, fx.Float32(1.0)).launch(grid=1, block=64, stream=stream)
"""
    )
    first, second = runtime.Stream(), runtime.Stream()
    y, z = np.zeros(64, np.float32), np.zeros(64, np.float32)
    module.run(X, y, z, first, second)
    first.synchronize()
    second.synchronize()
    np.testing.assert_array_equal(y, X + 1)
    np.testing.assert_array_equal(z, X + 2)

    class External:
        cuda_stream = first.cuda_stream

    for stream in (None, 0, External(), fx.Stream(first)):
        y[:] = 0
        module.one(X, y, stream)
        runtime.synchronize()
        np.testing.assert_array_equal(y, X + 1)


@pytest.mark.parametrize("kind", ["static", "layout", "shape", "stride", "raw"])
def test_static_and_dynamic_layouts(load: Any, kind: str) -> None:
    module = load("""
@flyc.kernel
def k(A: fx.Tensor, B: fx.Tensor, seen: fx.Constexpr[tuple]):
    t = fx.thread_idx.x
    for i in fx.range_constexpr(3):
        B[t % 4, t // 4, i] = A[t % 4, t // 4, i] * 2.0

TYPES = []

@flyc.jit
def run(A: fx.Tensor, B: fx.Tensor):
    TYPES.append(str(A.type))
    k(A, B, ()).launch(grid=1, block=64)
""")
    for columns in (16, 20):
        a = np.random.default_rng(1).standard_normal((4, columns, 3)).astype(np.float32)
        b = np.zeros_like(a)
        arguments = [a, b]
        if kind != "raw":
            arguments = [flyc.from_dlpack(v) for v in arguments]
        for v in arguments:
            if kind == "layout":
                v.mark_layout_dynamic()
            elif kind == "shape":
                v.mark_shape_dynamic([1], 4)
            elif kind == "stride":
                v.mark_stride_dynamic([0], divisibility=4)
        module.run(*arguments)
        np.testing.assert_array_equal(b[:, :16], a[:, :16] * 2)
    texts = module.TYPES
    assert {"static": "(4,16,3):(48,3,1)" in texts[0] and len(set(texts)) == 2,
            "layout": "(?,?,?):(?{i64},?{i64},1)" in texts[0] and len(set(texts)) == 1,
            "shape": "(4,?{div=4},3):(48,3,1)" in texts[0] and len(set(texts)) == 2,
            "stride": "(4,16,3):(?{i64 div=4},3,1)" in texts[0] and len(set(texts)) == 2,
            "raw": "(?,?,?):(?{i64},?{i64},1)" in texts[0] and len(set(texts)) == 1}[kind], texts


def test_tensors_of_other_libraries(load: Any) -> None:
    module = load(
        KERNELS
        + """
@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor):
    add(X, Y, fx.Float32(1.0)).launch(grid=1, block=64)
"""
    )

    class Producer:
        """What JAX and others offer: DLPack, without keyword arguments."""

        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self) -> Any:
            return self.array.__dlpack__()

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    y = np.zeros(64, np.float32)
    module.run(Producer(X), Producer(y))
    np.testing.assert_array_equal(y, X + 1)
    torch = pytest.importorskip("torch")
    out = torch.zeros(64)
    module.run(torch.nn.Parameter(torch.arange(64.0)), out)
    np.testing.assert_array_equal(out.numpy(), X + 1)
    strided = torch.zeros(64, 2)
    module.run(torch.arange(64.0), strided[:, 0])
    np.testing.assert_array_equal(strided.numpy(), np.stack([X + 1, 0 * X], 1))


def test_custom_argument_types(load: Any) -> None:
    class Half2:
        """A host object that becomes one 32-bit word."""

        def __init__(self, low: float, high: float) -> None:
            self.word = int(np.array([low, high], np.float16).view(np.uint32)[0])

    @flyc.JitArgumentRegistry.register(Half2, dsl_type=fx.Uint32)
    class Half2Argument:
        def __init__(self, value: Half2) -> None:
            self.value = value

        def __get_ir_types__(self) -> list[Any]:
            return [fx.Uint32.ir_type]

        def __cache_signature__(self) -> Any:
            return ("Half2",)

        def __c_abi_spec__(self) -> list[Any]:
            def fill(argument: Any, slot: Any) -> None:
                slot.value = (argument.value if isinstance(argument, Half2Argument) else argument).word

            return [(ctypes.c_uint32, fill)]

    module = load("""
@flyc.kernel
def k(Y: fx.Tensor, pair: fx.Uint32):
    v = fx.Vector.from_elements([pair]).bitcast(fx.Float16).to(fx.Float32)
    Y[0] = v[0]
    Y[1] = v[1]

@flyc.jit
def run(Y: fx.Tensor, pair):
    k(Y, pair).launch(grid=1, block=1)
""")
    y = np.zeros(2, np.float32)
    for low, high in ((1.5, -2.0), (3.0, 0.25)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module.run(y, Half2(low, high))
        np.testing.assert_array_equal(y, [low, high])


def test_dynamic_shared_memory(load: Any) -> None:
    module = load("""
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor):
    t = fx.thread_idx.x
    s = fx.make_view(fx.get_dyn_shared(fx.Float32), fx.make_layout(64, 1))
    s[t] = X[t]
    fx.barrier()
    Y[t] = s[63 - t]

@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor, bytes_: fx.Int32):
    k(X, Y).launch(grid=1, block=64, smem=bytes_)
""")
    y = np.zeros(64, np.float32)
    module.run(X, y, 256)
    np.testing.assert_array_equal(y, X[::-1])


def test_event_tracing_does_nothing_when_off(run: Any) -> None:
    body = """
    token = fx.ktrace.range_start("all", t)
    with fx.ktrace.range("load"):
        fx.ktrace.mark("here", X[t])
        Y[t] = X[t]
    for i in range(n):
        fx.ktrace.range_push("step")
        fx.ktrace.range_pop()
    fx.ktrace.range_stop(token)
    """
    np.testing.assert_array_equal(run(body), X)
    assert not fx.ktrace.tracing_enabled() and fx.ktrace.summary()["records"] == 0


LAUNCH_ERRORS = {
    "k(X, Y, 5)": (TypeError, "argument 'n' is the bare Python value 5"),
    "k(X, Y)": (TypeError, "missing a required argument: 'n'"),
    "k(X, Y, n, n)": (TypeError, "argument 'c' is known only at run time but the parameter is fx.Constexpr"),
    "k(X, Y, n, value_attrs={'a': object()})": (TypeError, "no attribute for object"),
}
GEOMETRY_ERRORS = {
    "grid=1, block=2048": (RuntimeError, "2048 threads exceeds the limit of 1024"),
    "grid=(1, 1, 1, 1), block=64": (RuntimeError, "takes 1 to 3 dimensions, got 4"),
    "grid=-1, block=64": (RuntimeError, "grid.x must be positive"),
    "grid=1.5, block=64": (TypeError, "grid.x must be an integer, got float"),
    "grid=1, block=64, stream=5": (TypeError, "must be a parameter of the jit function"),
    "grid=1, block=(64, 0)": (RuntimeError, "block.y must be positive"),
}


@pytest.mark.parametrize("call", [*LAUNCH_ERRORS, *GEOMETRY_ERRORS])
def test_errors_show_the_launch(load: Any, call: str) -> None:
    kind, text = {**LAUNCH_ERRORS, **GEOMETRY_ERRORS}[call]
    launch = f"{call}.launch(grid=1, block=64)" if call in LAUNCH_ERRORS else f"k(X, Y, n).launch({call})"
    module = load(f"""
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32, c: fx.Constexpr[int] = 3):
    Y[0] = X[0]

@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    {launch}
""")
    with pytest.raises(kind, match=text.replace("(", r"\(")) as info:
        module.run(X, X.copy(), 3)
    frame = info.value.diagnostics[0].chain[0]  # type: ignore[attr-defined]
    assert frame.line == 10 and launch in str(info.value) and "^" in str(info.value)


def test_a_run_time_value_of_the_launcher_in_a_kernel(load: Any) -> None:
    module = load("""
@flyc.jit
def run(Y: fx.Tensor, n: fx.Int32):
    @flyc.kernel
    def k(Y: fx.Tensor):
        Y[0] = fx.Float32(n)

    k(Y).launch(grid=1, block=1)
""")
    with pytest.raises(RuntimeError, match="pass it as a kernel argument") as info:
        module.run(np.zeros(1, np.float32), 3)
    assert "Y[0] = fx.Float32(n)" in str(info.value)


def test_cluster_launch_of_gfx1250(load: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name, value in {"ARCH": "gfx1250", "COMPILE_ONLY": "1", "FLYDSL_DUMP_IR": "1",
                        "FLYDSL_DUMP_DIR": str(tmp_path / "dump")}.items():
        monkeypatch.setenv(name, value)
    module = load("""
from flydsl.expr.rocdl import cluster

@flyc.kernel
def k(Y: fx.Tensor):
    x, y = cluster.compute_cluster_position()
    cluster.cluster_barrier()
    Y[fx.block_idx.x] = fx.Int32(x) + fx.Int32(y)

@flyc.jit
def run(Y: fx.Tensor):
    k(Y, value_attrs={"rocdl.cluster_dims": "2,2,1"}).launch(grid=(4, 2, 1), block=32, cluster=(2, 2, 1))
""")
    module.run(np.zeros(8, np.int32))
    folder = tmp_path / "dump" / "k_0"
    assert "clusters in" in (folder / "00_origin.mlir").read_text()
    (assembly,) = folder.glob("*_final_isa.s")
    text = assembly.read_text()
    assert "s_barrier_signal -3" in text and "s_barrier_wait" in text
    (llvm,) = folder.glob("*_llvm_ir.ll")
    assert '"amdgpu-cluster-dims"="2,2,1"' in llvm.read_text()


def test_the_launch_takes_the_cluster_of_the_kernel(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCH", "gfx1250")
    monkeypatch.setenv("COMPILE_ONLY", "1")
    module = load("""
@flyc.kernel
def k(Y: fx.Tensor):
    Y[fx.block_idx.x] = 1

@flyc.jit
def run(Y: fx.Tensor):
    k(Y, value_attrs={"rocdl.cluster_dims": "4,1,1"}).launch(grid=8, block=32, cluster=(2, 1, 1))
""")
    with pytest.raises(DSLCompileError, match=r"k: cluster.x = 2 of .* differs from rocdl.cluster_dims = '4,1,1'"):
        module.run(np.zeros(8, np.int32))


def test_pointers_structs_functions_and_scalars_of_every_type(load: Any) -> None:
    module = load("""
@fx.struct
class Scale:
    factor: fx.Float32
    shift: fx.Int32
    extra: fx.Constexpr[int]

@flyc.kernel
def first(p: fx.Pointer, Y: fx.Tensor, c: Scale, f: fx.Constexpr):
    t = fx.thread_idx.x
    Y[t] = f(p[t]) * c.factor + fx.Float32(c.shift) + c.extra

@flyc.kernel
def second(Y: fx.Tensor, flag: fx.Boolean, h: fx.Float16, u: fx.Uint8, d: fx.Float64, b: fx.BFloat16, w: fx.Int64):
    t = fx.thread_idx.x
    if flag:
        Y[t] = Y[t] + h.to(fx.Float32) + u.to(fx.Float32) + d.to(fx.Float32) + b.to(fx.Float32) + w.to(fx.Float32)

@flyc.jit
def run(p: fx.Pointer, Y: fx.Tensor, c: Scale, f: fx.Constexpr, flag: fx.Boolean, h: fx.Float16, u: fx.Uint8,
        d: fx.Float64, b: fx.BFloat16, w: fx.Int64):
    first(p, Y, c, f).launch(grid=1, block=64)
    second(Y, flag, h, u, d, b, w).launch(grid=1, block=64)
""")
    for flag in (True, False):
        y = np.zeros(64, np.float32)
        pointer = flyc.from_c_void_p(fx.Float32, X.ctypes.data)
        module.run(pointer, y, module.Scale(2.0, 3, extra=4), lambda v: v + 1.0, flag, 1.5, 200, 0.25, 2.0, -(2**40))
        extra = np.float32(1.5 + 200 + 0.25 + 2.0) + np.float32(-(2**40)) if flag else 0
        np.testing.assert_allclose(y, (X + 1) * 2 + 7 + extra, rtol=1e-6)


def test_a_failing_pass_shows_the_users_line_once(run: Any) -> None:
    call = (
        "fx.copy_atom_call(a, fx.make_view(fx.get_iter(X), fx.make_layout(2, 1)), fx.make_rmem_tensor(2, fx.Float32))"
    )
    with pytest.raises(RuntimeError, match="128 bits") as info:
        run(f"a = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)\n{call}")
    text = str(info.value)
    assert text.count(call) == 1 and "failed to legalize" not in text


def test_streams_are_no_kernel_arguments(load: Any) -> None:
    source = """
@flyc.kernel
def one(O: fx.Tensor, s: fx.Stream):
    O[1] = 1.0

@flyc.jit
def run(O: fx.Tensor, s: fx.Stream):
    one(O, s).launch(grid=1, block=1, stream=s)
"""
    with pytest.raises(TypeError, match="'s' is or holds a Stream.*stream="):
        load(source).run(np.zeros(4, np.float32), None)


def test_a_value_of_another_type_than_annotated_wins_with_a_warning(load: Any) -> None:
    source = """
@flyc.kernel
def store(O: fx.Tensor, n: fx.Int32):
    O[0] = fx.Float64(n)

@flyc.jit
def run(O: fx.Tensor, n: fx.Int32):
    store(O, n).launch(grid=1, block=1)
"""
    import flydsl.runtime as rt

    module, out = load(source), np.zeros(1)
    with pytest.warns(UserWarning, match="parameter 'n' is annotated Int32 but got Int64") as caught:
        module.run(out, fx.Int64(2**40))
    rt.synchronize()
    assert out[0] == 2**40
    places = {(str(w.message).split(":")[0], w.filename.rpartition("/")[2]) for w in caught}
    assert places == {("run", "test_launching.py"), ("store", "sample_1.py")}, "at the user's lines"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module.run(out, fx.Int32(3))


def test_numpy_scalars(load: Any) -> None:
    source = """
@flyc.kernel
def store(O: fx.Tensor, a, b, c):
    O[0] = fx.Float64(a)
    O[1] = fx.Float64(b)
    O[2] = fx.Float64(c)

@flyc.jit
def run(O: fx.Tensor, a, b, c: fx.Int64):
    store(O, a, b, c).launch(grid=1, block=1)
"""
    import flydsl.runtime as rt

    module, out = load(source), np.zeros(3)
    for a, b, c in ((np.float32(1.5), np.int32(4), np.int64(2**40)), (np.float32(2.5), np.int32(5), np.uint8(6))):
        module.run(out, a, b, c)
        rt.synchronize()
        assert out.tolist() == [a, b, c]
