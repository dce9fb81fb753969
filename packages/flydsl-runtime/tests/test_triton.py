"""Triton kernels on the simulator: the driver, and Triton's tutorials on four architectures."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_simulator import SIMULATOR

TESTS = Path(__file__).parent


def has_triton() -> bool:
    """Whether there are torch and a Triton of the versions that the extra `test-triton` names: torch for NVIDIA GPUs
    brings an older one."""
    if importlib.util.find_spec("triton") is None or importlib.util.find_spec("torch") is None:
        return False
    return tuple(map(int, importlib.metadata.version("triton").split(".")[:2])) >= (3, 9)


pytestmark = [
    pytest.mark.l2_device,
    pytest.mark.skipif(SIMULATOR is None, reason="this build has no simulator library"),
    pytest.mark.skipif(not has_triton(), reason="Triton (3.9 or later) and torch are not installed"),
]

TUTORIALS = ("vector_add", "softmax", "matmul", "dropout", "layer_norm", "fused_attention", "grouped_gemm")


def run(*command: str | Path, cache: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name not in ("ARCH", "FLYDSL_SIM_ARCH")}
    env.update(TRITON_CACHE_DIR=str(cache), TRITON_DEFAULT_FP_FUSION="1", **variables)
    return subprocess.run([sys.executable, *map(str, command)], env=env, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_tutorials(arch: str, tmp_path: Path):
    """Each equals torch, and the checks find nothing."""
    done = run(TESTS / "triton_tutorials.py", arch, cache=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == [f"{name}: no findings" for name in TUTORIALS]


HEAD = """
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
import flydsl.runtime as rt

@triton.jit
def scale(x, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)
"""

SEVERAL = HEAD + """
from flydsl.runtime.triton import activate
for arch in ("gfx942", "gfx1201", "gfx942"):   # Triton keeps compiled code by device number
    activate(arch)
    x = torch.ones(1000)
    with rt.profile() as profile:
        scale[(4,)](x, 1000, 3.0, BLOCK=256)
    assert (x == 3).all() and profile[0].arch == arch, (profile[0].arch, arch)
for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int8):
    x = torch.ones(100).to(dtype)
    scale[(1,)](x, 100, 3 if "int" in str(dtype) else 2.5, BLOCK=128)
    assert (x == (3 if "int" in str(dtype) else 2.5)).all()
with pytest.raises(ValueError, match="unknown architecture 'gfx1'"):
    activate("gfx1")
"""

ERRORS = HEAD + """
from flydsl.runtime.triton import activate
activate("gfx950")

@triton.jit
def overrun(x, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, i)

with pytest.raises(rt.SimulatorError, match=r"x \\(float32\\[1000\\]\\) \\+ 1000 elements.*past the end") as caught:
    overrun[(1,)](torch.zeros(1000), BLOCK=1024)
assert caught.value.source[0] == __file__
with pytest.raises(ValueError, match="argument 'x' is on meta: kernels on the simulator take CPU tensors"):
    overrun[(1,)](torch.zeros(1000, device="meta"), BLOCK=1024)
scale[(0,)](torch.zeros(8), 8, 2.0, BLOCK=16)  # an empty grid launches nothing
with pytest.raises(TypeError, match=r"the extents of a grid are integers, not \\(0\\.5, 1, 1\\): triton.cdiv"):
    scale[(8 / 16,)](torch.zeros(8), 8, 2.0, BLOCK=16)
for grid in ((-1,), (1, 1 << 32)):
    with pytest.raises(ValueError, match=r"extents from 0 to 2\\*\\*32 - 1, not \\((-1, 1|1, 4294967296), 1\\)"):
        scale[grid](torch.zeros(8), 8, 2.0, BLOCK=16)
"""

TIMES = HEAD + """
from flydsl.runtime.triton import activate
activate("gfx950")
x = torch.ones(4096)
bench = triton.runtime.driver.active.get_benchmarker()
once = bench(lambda: scale[(16,)](x, 4096, 1.0, BLOCK=256), quantiles=(0.5, 0.2, 0.8))
assert len(once) == 3 and 1e-4 < once[0] < 1, once
assert bench(lambda: scale[(16,)](x, 4096, 1.0, BLOCK=256)) == pytest.approx(once[0])
"""

# Tensor moves by descriptors of the host: ragged edges, a tuple of descriptors, padded rows.
DESCRIPTORS = HEAD + """
from flydsl.runtime.triton import activate
from triton.tools.tensor_descriptor import TensorDescriptor as Descriptor
activate("gfx1250")

@triton.jit
def product(a, b, c, K, M: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    m, n = tl.program_id(0) * M, tl.program_id(1) * N
    total = tl.zeros((M, N), tl.float32)
    for k in range(0, K, STEP):
        total = tl.dot(a.load([m, k]), b.load([n, k]).T, total)
    c.store([m, n], total.to(tl.float16))

@triton.jit
def copy(pair):
    pair[1].store([0, tl.program_id(0), 0, 1, 0], pair[0].load([0, tl.program_id(0), 0, 1, 0]))

a, b, c = torch.randn(40, 48).half(), torch.randn(72, 48).half(), torch.full((41, 72), float("nan")).half()
x, y = torch.randn(2, 3, 2, 6, 48)[..., :32], torch.zeros(2, 3, 2, 6, 32)
with rt.checked("race", "oob", "uninit") as report:
    product[(2, 2)](Descriptor.from_tensor(a, [32, 32]), Descriptor.from_tensor(b, [64, 32]),
                    Descriptor.from_tensor(c[:40], [32, 64]), 48, 32, 64, 32)
    copy[(3,)](tuple(Descriptor.from_tensor(t, [2, 1, 1, 4, 16]) for t in (x, y)))
torch.testing.assert_close(c[:40], (a.double() @ b.double().T).half(), rtol=1e-3, atol=1e-3)
assert c[40].isnan().all() and not report
assert torch.equal(y[:, :, :1, 1:5, :16], x[:, :, :1, 1:5, :16]) and (y != 0).sum() <= 2 * 3 * 4 * 16
with pytest.raises(ValueError, match="281474976710656 does not fit into 48 bits of a tensor descriptor"):
    far = Descriptor(x, x.shape, [1 << 48, 576, 288, 48, 1], [2, 1, 1, 4, 16])
    copy[(3,)]((far, Descriptor.from_tensor(y, [2, 1, 1, 4, 16])))
"""

ENVIRONMENT = HEAD + """
assert type(triton.runtime.driver.active).__module__ == "flydsl.runtime.triton.driver"
assert triton.runtime.driver.active.get_current_target().arch == "gfx950"
x = torch.ones(1000)
scale[(4,)](x, 1000, 3.0, BLOCK=256)
assert (x == 3).all()
"""

# Tensor moves arrive at barrier objects in LDS, on which the workgroup waits: sums of 7 rows.
GLUON = """
import torch
import triton.experimental.gluon.language as gl
from flydsl.runtime.triton import activate
from triton.experimental import gluon
from triton.experimental.gluon.language.amd.cdna5 import mbarrier, tdm

@gluon.jit
def sums(x, out, ROWS: gl.constexpr, N: gl.constexpr, SHARED: gl.constexpr, OWNED: gl.constexpr):
    stages = gl.allocate_shared_memory(gl.float32, [2, 1, N], SHARED)
    arrived = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(2):
        mbarrier.init(arrived.index(stage), count=4)  # one arrival of each wave
    gl.barrier()
    rows = tdm.make_tensor_descriptor(x, [ROWS, N], [N, 1], [1, N], SHARED)
    total = gl.zeros([1, N], gl.float32, OWNED)
    tdm.async_load(rows, [0, 0], stages.index(0), mbarrier=arrived.index(0))
    for row in range(ROWS):
        if row + 1 < ROWS:
            tdm.async_load(rows, [row + 1, 0], stages.index((row + 1) % 2), mbarrier=arrived.index((row + 1) % 2))
        mbarrier.wait(arrived.index(row % 2), row // 2 % 2)
        total += stages.index(row % 2).load(OWNED)
        gl.barrier()
    gl.store(out + gl.arange(0, N, gl.SliceLayout(0, OWNED))[None, :], total)

activate("gfx1250")
x, out = torch.randint(-9, 9, (7, 512)).float(), torch.zeros(1, 512)
shared, owned = gl.SwizzledSharedLayout(1, 1, 1, [1, 0]), gl.BlockedLayout([1, 4], [1, 32], [1, 4], [1, 0])
sums[(1,)](x, out, 7, 512, shared, owned, num_warps=4)
assert torch.equal(out, x.sum(0, keepdim=True))
"""


@pytest.mark.parametrize("program", [SEVERAL, ERRORS, TIMES, DESCRIPTORS],
                         ids=["architectures", "errors", "benchmark", "descriptors"])
def test_driver(program: str, tmp_path: Path):
    file = tmp_path / "program.py"
    file.write_text(program)
    done = run(file, cache=tmp_path / "cache", FLYDSL_RUNTIME_KIND="sim")
    assert done.returncode == 0, done.stderr[-3000:]


def test_gluon(tmp_path: Path):
    """Triton's lower language, whose waits the race check understands."""
    file = tmp_path / "program.py"
    file.write_text(GLUON)
    done = run(file, cache=tmp_path / "cache", FLYDSL_RUNTIME_KIND="sim", FLYDSL_SIM_CHECK="race,oob,uninit")
    assert done.returncode == 0, done.stderr[-3000:]


def test_environment_variable(tmp_path: Path):
    """An installed package is found by Triton, and does nothing unless it is asked for by name."""
    metadata = tmp_path / "site" / "flydsl_runtime-9.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: flydsl-runtime\nVersion: 9\n")
    (metadata / "entry_points.txt").write_text("[triton.backends]\nflydsl = flydsl.runtime.triton\n")
    file = tmp_path / "program.py"
    file.write_text(ENVIRONMENT)
    path = os.pathsep.join([str(metadata.parent), os.environ.get("PYTHONPATH", "")])
    variables = {"PYTHONPATH": path, "FLYDSL_SIM_ARCH": "gfx950"}
    done = run(file, cache=tmp_path / "cache", TRITON_DEFAULT_BACKEND="flydsl", **variables)
    assert done.returncode == 0, done.stderr[-3000:]
    done = run(file, cache=tmp_path / "cache", **variables)
    assert done.returncode != 0 and "0 active drivers" in done.stderr
