"""One process compiles one source for several architectures; the target is an input, never frozen at import."""

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.ir
import flydsl.runtime as rt
from flydsl.runtime.device import get_rocm_arch
from flydsl.utils import env

EXAMPLES = Path(__file__).resolve().parent.parent / "docs" / "examples"
WAVE = {"gfx942": 64, "gfx950": 64, "gfx1100": 32, "gfx1201": 32, "gfx1250": 32}


@flyc.kernel
def lanes_kernel(Out: fx.Tensor, arch_class: fx.Constexpr[str]):
    lanes = fx.num_warp_threads()
    t = fx.thread_idx.x
    total = t
    step = lanes // 2
    while step > 0:
        total = total + fx.shuffle_xor(total, step, lanes)
        step //= 2
    Out[t] = total


@flyc.jit
def lanes(Out: fx.Tensor, arch_class: fx.Constexpr[str], stream: fx.Stream = fx.Stream(None)):
    lanes_kernel(Out, arch_class).launch(grid=1, block=128, stream=stream)


def compile_for(arch, function, *arguments):
    """The artifact for an architecture, compiled without touching the device."""
    with env.override(arch=arch):
        return flyc.compile(function, *arguments).artifact


def test_code_of_each_architecture_in_one_process():
    out = np.zeros(128, np.int32)
    artifacts = {arch: compile_for(arch, lanes, out, "x") for arch in [*WAVE, *reversed(WAVE)]}
    for arch, artifact in artifacts.items():
        assert artifact.arch.split(":")[0] == arch
        assert flydsl.ir.disassemble(artifact.hsaco).startswith(f"; {arch}")
    assert len({a.hsaco for a in artifacts.values()}) == len(WAVE)


def test_wave_size_follows_the_target():
    out = np.zeros(128, np.int32)
    for arch, wave in WAVE.items():
        text = flydsl.ir.disassemble(compile_for(arch, lanes, out, "w").hsaco)
        exchanges = re.findall(r"\b(ds_bpermute|ds_swizzle|v_permlane|row_|dpp8|quad_perm|_dpp)", text)
        # A butterfly over 64 lanes has six steps, over 32 lanes five.
        assert len(exchanges) >= (6 if wave == 64 else 5), f"{arch}: {exchanges}"


def test_the_device_still_runs_after_compiling_for_others():
    out = np.full(128, -1, np.int32)
    for arch in WAVE:
        compile_for(arch, lanes, out, "r")
    lanes(out, "r")
    rt.synchronize()
    wave = WAVE[get_rocm_arch().split(":")[0]]
    expected = np.arange(128).reshape(-1, wave).sum(1, keepdims=True).repeat(wave, 1).ravel()
    np.testing.assert_array_equal(out, expected)


def test_matrix_instruction_follows_the_target():
    sys.path.insert(0, str(EXAMPLES))
    try:
        matmul = importlib.import_module("03_tiled_mma").matmul
    finally:
        sys.path.remove(str(EXAMPLES))
    a, c = np.zeros((64, 32), np.float16), np.zeros((64, 64), np.float32)
    for arch, instruction in {
        "gfx942": "v_mfma_f32_16x16x16_f16", "gfx950": "v_mfma_f32_16x16x16_f16",
        "gfx1201": "v_wmma_f32_16x16x16_f16", "gfx1250": "v_wmma_f32_16x16x32_f16",
    }.items():
        artifact = compile_for(arch, matmul, a, a, c, 64, 64, 32, arch, fx.Stream(None))
        assert instruction in flydsl.ir.disassemble(artifact.hsaco), arch


def test_an_instruction_of_another_target_is_refused_by_name():
    @flyc.kernel
    def kernel(A: fx.Tensor):
        fx.make_mma_atom(fx.rocdl.WMMA(16, 16, 16, fx.Float16))

    @flyc.jit
    def launch(A: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
        kernel(A).launch(grid=1, block=64, stream=stream)

    with pytest.raises(Exception, match="(?i)wmma.*gfx942|gfx942.*wmma"):
        compile_for("gfx942", launch, np.zeros(64, np.float32), fx.Stream(None))


def test_code_for_another_device_is_not_launched(monkeypatch):
    here = get_rocm_arch().split(":")[0]
    monkeypatch.setenv("FLYDSL_SIM_ARCH", here)  # the user has said which device is simulated
    other = next(a for a in WAVE if WAVE[a] != WAVE[here])
    out = np.zeros(128, np.int32)
    with env.override(arch=other):
        compiled = flyc.compile(lanes, out, "o", fx.Stream(None))
    with pytest.raises(Exception, match=other):
        compiled(out, "o", fx.Stream(None))
        rt.synchronize()
    np.testing.assert_array_equal(out, 0)


# ------------------------------------------------------------------------------------------- kernels of the library


def _matrix(m, n, dtype=np.float16):
    return np.zeros((m, n), dtype)


def _dense():
    from flydsl.kernels.gemm import build_gemm_module

    run = build_gemm_module(64, 64, "f16", block_m=64, block_n=64, block_k=32)
    return run, (_matrix(64, 64), _matrix(64, 64), _matrix(64, 64), _matrix(1, 64), _matrix(1, 64), 64)


def _rows(build, *names):
    def make():
        run = build()
        return run, (*(_matrix(4, 4096, name) for name in names), 4)

    return make


def _rmsnorm():
    from flydsl.kernels.norm import build_rmsnorm_module

    return build_rmsnorm_module(4096, "f16")


def _softmax():
    from flydsl.kernels.softmax import build_softmax_module

    return build_softmax_module(None, 4096, "f16")


def _quant():
    from flydsl.kernels.quant import build_quant_module

    return build_quant_module(4096, "f16", "fp8")[0]


KERNELS = {
    "dense": _dense,
    "rmsnorm": _rows(_rmsnorm, np.float16, np.float16, np.float16),
    "softmax": _rows(_softmax, np.float16, np.float16),
    "quant": _rows(_quant, np.float16, np.int8, np.float32),
}
MATRIX = {"gfx942": "v_mfma_f32_16x16x16_f16", "gfx950": "v_mfma_f32_16x16x32_f16",
          "gfx1100": "v_wmma_f32_16x16x16_f16", "gfx1201": "v_wmma_f32_16x16x16_f16",
          "gfx1250": "v_wmma_f32_16x16x32_f16"}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_built_for_each_architecture_in_any_order(name):
    """One process, the same arguments: each architecture gets its own configuration, whichever was built first."""
    found = {}
    archs = [arch for arch in WAVE if name != "quant" or arch != "gfx1100"]  # which has no fp8
    for arch in [*archs, *reversed(archs)]:
        with env.override(arch=arch):
            run, arguments = KERNELS[name]()
            artifact = flyc.compile(run, *arguments).artifact
        assert artifact.arch.split(":")[0] == arch
        assert found.setdefault(arch, artifact.hsaco) == artifact.hsaco
        if name == "dense":
            assert MATRIX[arch] in flydsl.ir.disassemble(artifact.hsaco)
    assert len(set(found.values())) == len(archs)


def test_a_builder_refuses_an_architecture_also_after_another():
    from flydsl.kernels.gemm import compile_preshuffle_gemm

    sizes = dict(N=128, K=128, tile_m=64, tile_n=64, tile_k=64, in_dtype="bf16")
    built = {}
    for arch in ("gfx942", "gfx950"):
        with env.override(arch=arch):
            built[arch] = compile_preshuffle_gemm(**sizes)
            assert compile_preshuffle_gemm(**sizes) is built[arch]
    assert built["gfx942"] is not built["gfx950"]
    for arch in ("gfx1201", "gfx1250"):
        with env.override(arch=arch), pytest.raises(ValueError, match=f"not available on {arch}.*gfx942 or gfx950"):
            compile_preshuffle_gemm(**sizes)


@pytest.mark.parametrize("name", KERNELS)
def test_a_launcher_of_one_architecture_is_not_compiled_for_another(name):
    with env.override(arch="gfx950"):
        run, arguments = KERNELS[name]()
    with pytest.raises(ValueError, match="built for gfx950 and cannot be compiled for gfx1201"):
        compile_for("gfx1201", run, *arguments)


def test_the_simulated_device_follows_the_code(monkeypatch):
    if rt.kind() != "sim":
        pytest.skip("a GPU is what it is")
    monkeypatch.delenv("FLYDSL_SIM_ARCH", raising=False)
    for arch in [*WAVE, *reversed(WAVE)]:
        out = np.zeros(128, np.int32)
        with env.override(arch=arch):
            lanes(out, "f")
        # A butterfly of sums over the lanes of a wave.
        expected = np.arange(128).reshape(-1, WAVE[arch]).sum(axis=1).repeat(WAVE[arch])
        np.testing.assert_array_equal(out, expected, err_msg=arch)
