"""Fixtures of the language tests: kernels written as text, run on the device of this machine (the simulator)."""

from __future__ import annotations

import importlib.util
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

HEADER = "import flydsl.compiler as flyc\nimport flydsl.expr as fx\n"
PARAMETERS = "X: fx.Tensor, Y: fx.Tensor, n: fx.Int32"


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], Any]:
    """Import source text (after the usual imports, which take lines 1 and 2) as a module from a file."""
    count = [0]

    def make(source: str) -> Any:
        count[0] += 1
        path = tmp_path / f"sample_{count[0]}.py"
        path.write_text(HEADER + textwrap.dedent(source))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return make


def kernel_source(body: str, prelude: str = "", block: int = 64) -> str:
    """A kernel ``k(X, Y, n)`` whose body starts with ``t = fx.thread_idx.x``, and its launcher ``run``."""
    text = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    return (
        f"{textwrap.dedent(prelude)}\n@flyc.kernel\ndef k({PARAMETERS}):\n    t = fx.thread_idx.x\n{text}\n\n"
        f"@flyc.jit\ndef run({PARAMETERS}):\n    k(X, Y, n).launch(grid=1, block={block})\n"
    )


@pytest.fixture
def kernel_text() -> Callable[..., str]:
    """`kernel_source`."""
    return kernel_source


@pytest.fixture
def device() -> None:
    """Skip where no device (GPU or simulator) can be opened."""
    import flydsl.runtime

    try:
        flydsl.runtime.device_count()
    except flydsl.runtime.HipError as error:
        pytest.skip(str(error))


@pytest.fixture
def run(load: Callable[[str], Any], device: None) -> Callable[..., np.ndarray]:
    """Run a kernel body over ``X`` (default arange, float32) and return ``Y`` (poisoned beforehand)."""

    def execute(body: str, x: Any = None, y: Any = None, n: int = 40, prelude: str = "", block: int = 64) -> np.ndarray:
        x = np.arange(block, dtype=np.float32) if x is None else x
        y = np.full(block, -77, x.dtype) if y is None else y
        load(kernel_source(body, prelude, block)).run(x, y, n)
        return y

    return execute
