"""Programs of a source tree import `kernels`."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = """
import importlib, sys
from kernels.softmax_kernel import build_softmax_module
import kernels, kernels.gemm, kernels.moe.config as config
from kernels.common import ceildiv
import flydsl.kernels as home
assert kernels is home and config is importlib.import_module("flydsl.kernels.moe.config")
for name in ("softmax_kernel", "gemm", "moe", "common"):
    mine, theirs = sys.modules[f"kernels.{name}"], importlib.import_module(f"flydsl.kernels.{name}")
    assert mine is theirs and theirs.__spec__.name.startswith("flydsl.kernels."), name
assert build_softmax_module is importlib.import_module("flydsl.kernels.softmax").build_softmax_module
try:
    import kernels.nothing_of_the_kind
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.mark.one_arch
def test_modules_are_those_of_the_package():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "flydsl.kernels.nothing_of_the_kind" in done.stdout
