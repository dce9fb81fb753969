"""An instruction that only the code generator finds missing is reported at the user's line."""

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.tracing.diagnostics import DSLCompileError
from flydsl.utils import env


def compile_for(arch, body):
    @flyc.kernel
    def kernel(A: fx.Tensor):
        body(A)

    @flyc.jit
    def launch(A: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
        kernel(A).launch(grid=1, block=64, stream=stream)

    with env.override(arch=arch):
        return flyc.compile(launch, np.zeros(64, np.float32), fx.Stream(None))


def test_raw_matrix_builder_of_another_target():
    def body(A):
        zero = fx.Vector.filled(4, 0.0, fx.Float32)
        half = fx.Vector.filled(4, 0.0, fx.Float16)
        result = fx.rocdl.mfma_f32_16x16x16f16(fx.T.f32x4, [half, half, zero, 0, 0, 0])  # here
        A[fx.thread_idx.x] = fx.Vector(result)[0]

    with pytest.raises(DSLCompileError, match="gfx1201 has no instruction for .*mfma") as caught:
        compile_for("gfx1201", body)
    assert "# here" in str(caught.value)
    assert "test_unselectable.py" in str(caught.value)
    assert len(str(caught.value).splitlines()) < 12  # no graph of the code generator


def test_buffer_maximum_of_floats():
    def body(A):
        r = fx.make_rmem_tensor(1, fx.Float32)
        r[0] = fx.Float32(1.0)
        atom = fx.make_copy_atom(fx.rocdl.BufferAtomicMax(fx.Float32), fx.Float32)
        where = fx.logical_divide(fx.rocdl.make_buffer_tensor(A), fx.make_layout(1, 1))[None, 0]
        fx.copy_atom_call(atom, r, where)  # here

    with pytest.raises(DSLCompileError, match="gfx942 has no instruction for .*fmax") as caught:
        compile_for("gfx942", body)
    assert "# here" in str(caught.value)
    assert len(str(caught.value).splitlines()) < 12


def test_other_failures_keep_their_text():
    from flydsl.compiler.passes.unselectable import unselectable

    assert unselectable("ld.lld: error: undefined symbol: f", None) is None


def _wait_for_others(A):
    fx.rocdl.s_barrier_signal(17)  # here


def _scaled_conversion(A):
    half = fx.Vector.filled(2, 1.0, fx.Float16)
    old = fx.Vector.filled(2, 0, fx.Int16)
    packed = fx.rocdl.cvt_scalef32_pk_fp8_f16(fx.T.i16x2, old, half, fx.Float32(1.0).ir_value(), False)  # here
    A[fx.thread_idx.x] = fx.Float32(fx.Vector(packed)[0])


@pytest.mark.parametrize("arch, body, name", [
    ("gfx942", _wait_for_others, "s.barrier.signal"), ("gfx950", _wait_for_others, "s.barrier.signal"),
    ("gfx1100", _wait_for_others, "s.barrier.signal"), ("gfx942", _scaled_conversion, "cvt.scalef32.pk.fp8.f16"),
    ("gfx1250", _scaled_conversion, "cvt.scalef32.pk.fp8.f16"),
])
def test_instruction_that_selection_takes_for_one_of_the_target(arch, body, name):
    with pytest.raises(DSLCompileError, match=f"{arch} has no instruction for llvm.amdgcn.{name}") as caught:
        compile_for(arch, body)
    assert "# here" in str(caught.value)


def test_the_same_instructions_on_their_targets():
    compile_for("gfx1201", _wait_for_others)
    compile_for("gfx950", _scaled_conversion)
