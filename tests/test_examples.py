"""Every example is a script that must succeed on the device, and notice a wrong result."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "docs" / "examples"
SCRIPTS = sorted(p.name for p in EXAMPLES.glob("[0-9]*.py"))


def run(script, cache, *arguments, **env):
    return subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", str(EXAMPLES / script), *arguments],
        capture_output=True, text=True, env={**os.environ, "FLYDSL_RUNTIME_CACHE_DIR": str(cache), **env},
    )


def passed(result):
    """The output of a run that must have passed; a script that says its device lacks something is a skip."""
    assert result.returncode == 0, result.stdout + result.stderr
    if result.stdout.startswith("SKIP"):
        pytest.skip(result.stdout.strip())
    assert "PASS" in result.stdout
    assert "FAIL" not in result.stdout
    return result.stdout


@pytest.mark.one_arch  # the others are below, each in one process
@pytest.mark.parametrize("script", SCRIPTS)
def test_example_passes_cold_and_cached(script, tmp_path):
    for _ in range(2):
        output = passed(run(script, tmp_path))
    assert "gfx" in output  # says on which device it ran


ALL_IN_ONE = """
import runpy, sys
for script in sys.argv[1:]:
    print("==", script, flush=True)
    sys.argv = [script]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as stop:
        if stop.code:
            raise
"""


@pytest.mark.one_arch
@pytest.mark.parametrize("arch", ["gfx942", "gfx1201", "gfx1250"])
def test_examples_pass_in_one_process_on_other_architectures(arch, tmp_path):
    scripts = [str(EXAMPLES / script) for script in SCRIPTS]
    env = {**os.environ, "FLYDSL_RUNTIME_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(
        [str(EXAMPLES), os.environ.get("PYTHONPATH", "")]), "FLYDSL_RUNTIME_KIND": "sim",
        "ARCH": arch, "FLYDSL_SIM_ARCH": arch}
    result = subprocess.run([sys.executable, "-c", ALL_IN_ONE, *scripts], capture_output=True, text=True, env=env)
    assert result.returncode == 0, result.stdout + result.stderr
    parts = result.stdout.split("== ")[1:]
    assert len(parts) == len(SCRIPTS)
    for part in parts:
        done = f"simulated {arch}" in part and "PASS" in part and "FAIL" not in part
        assert done or "\nSKIP" in part, part


COMPILE_GEMM = """
import sys
sys.path.insert(0, sys.argv[1])
import importlib
import flydsl.compiler as flyc
flyc.compile(*importlib.import_module("04_preshuffle_gemm").example_call())
print(*sorted(sys.modules))
"""


def test_compiling_imports_no_builders_of_rocdl_and_no_profiler(tmp_path):
    """The generated builders of a dialect take as long to import as a pass over the kernel."""
    architecture = dict.fromkeys(("ARCH", "FLYDSL_SIM_ARCH"), "gfx942")
    environment = {**os.environ, **architecture, "FLYDSL_RUNTIME_CACHE_DIR": str(tmp_path)}
    result = subprocess.run([sys.executable, "-c", COMPILE_GEMM, str(EXAMPLES)], env=environment, capture_output=True,
                            text=True)
    assert result.returncode == 0, result.stderr
    modules = result.stdout.split()
    assert "flydsl._mlir.dialects._fly_ops_gen" in modules
    assert not {"flydsl._mlir.dialects._rocdl_ops_gen", "flydsl.runtime.profiling"} & set(modules)


def test_vector_add_with_ragged_edges(tmp_path):
    result = run("01_vector_add.py", tmp_path, "--sizes", "1x4", "5x132", "100x1000")
    assert result.returncode == 0, result.stdout + result.stderr
    assert len(re.findall(r"^\d+x\d+: maximum error 0 +PASS", result.stdout, re.M)) == 3


@pytest.mark.parametrize("sizes", [("1x4",), ("9x516", "8x128"), ("200x12",)])
def test_gather_and_scatter_with_ragged_edges(sizes, tmp_path):
    output = passed(run("05_gather_scatter.py", tmp_path, "--sizes", *sizes))
    assert output.count("PASS") == 3 * len(sizes)


@pytest.mark.parametrize("sizes", [("1x4", "2x1020", "1x1024", "7x1028", "2x20000")])
def test_reduction_of_short_and_long_rows(sizes, tmp_path):
    output = passed(run("06_block_reduction.py", tmp_path, "--sizes", *sizes))
    assert output.count("PASS") == 2 * len(sizes)


def test_tiled_mma_of_several_shapes(tmp_path):
    output = passed(run("03_tiled_mma.py", tmp_path, "--sizes", "64x64x32", "192x128x160", "100x50x37"))
    assert output.count("PASS") == 3


def test_preshuffle_gemm_of_several_shapes(tmp_path):
    output = passed(run("04_preshuffle_gemm.py", tmp_path, "--sizes", "128x128x128", "256x128x384", "200x300x256"))
    assert output.count("PASS") == 3


@pytest.mark.one_arch
@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_flash_attention_of_ragged_lengths(arch, tmp_path):
    """Against float64; lengths below, at and beyond the tiles, more rows than keys, under all checks."""
    sizes = ("1x1x1x64", "2x64x64x64", "1x130x7x128", "1x5x129x64", "1x150x200x128")
    env = {"FLYDSL_RUNTIME_KIND": "sim", "ARCH": arch, "FLYDSL_SIM_ARCH": arch, "FLYDSL_SIM_CHECK": "oob,race,uninit"}
    output = passed(run("09_flash_attention.py", tmp_path, "--sizes", *sizes, **env))
    assert output.count("PASS") == 2 * len(sizes) and f"simulated {arch}" in output


@pytest.mark.one_arch
def test_clusters_share_what_their_masks_say(tmp_path):
    """Several clusters, one and many tiles along K, under all checks: `barrier` knows the requests of a multicast."""
    env = {"FLYDSL_RUNTIME_KIND": "sim", "ARCH": "gfx1250", "FLYDSL_SIM_ARCH": "gfx1250",
           "FLYDSL_SIM_CHECK": "oob,race,uninit,barrier"}
    assert passed(run("12_cluster_gemm.py", tmp_path, "--sizes", "256x384x160", "128x128x32", **env)).count("PASS") == 2


@pytest.mark.one_arch
def test_examples_fail_loudly(tmp_path):
    code = (
        f"import sys; sys.path.insert(0, {str(EXAMPLES)!r}); import _common, numpy as np;"
        "_common.check('x', np.array([1.0, np.nan]), np.array([1.0, 2.0]))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    assert "FAIL" in result.stdout


@pytest.mark.one_arch
def test_a_wrong_kernel_is_noticed(tmp_path):
    """The example's own check finds a kernel that leaves one element out."""
    source = (EXAMPLES / "01_vector_add.py").read_text()
    wrong = source.replace("fx.elem_less(at[i], (rows, cols))", "fx.elem_less(at[i], (rows - 1, cols))")
    assert wrong != source
    for name in ("_common.py", "_hip.py"):
        (tmp_path / name).write_text((EXAMPLES / name).read_text())
    (tmp_path / "wrong.py").write_text(wrong)
    env = {**os.environ, "FLYDSL_RUNTIME_CACHE_DIR": str(tmp_path / "cache")}
    result = subprocess.run([sys.executable, str(tmp_path / "wrong.py")], capture_output=True, text=True, env=env)
    assert result.returncode == 1
    assert "FAIL" in result.stdout


@pytest.mark.one_arch
def test_ranks_that_share_a_model_give_the_tokens_of_one():
    pytest.importorskip("torch")
    script = str(EXAMPLES / "10_language_model.py")
    spread = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script]
    tokens = []
    for command in ([sys.executable, script], spread):
        result = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert result.returncode == 0, result.stdout + result.stderr
        tokens.append([line for line in result.stdout.splitlines() if line.startswith("'")])
    assert len(tokens[0]) == 4 and tokens[0] == tokens[1]
