"""The code of pipelines: matrix instructions stay between the barriers where they were written, waits have counts."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.one_arch

ROOT = Path(__file__).resolve().parent.parent
TILES = 5


def assembly(kind, arch, folder):
    """Final assembly of the worked example of a kind, for five tiles, which are not looped over."""
    code = (f"import sys; sys.path.insert(0, {str(ROOT / 'docs' / 'language')!r})\n"
            f"import pipeline_examples; pipeline_examples.run({kind!r}, k={TILES * 64})")
    env = {**os.environ, "FLYDSL_RUNTIME_KIND": "sim", "ARCH": arch, "FLYDSL_SIM_ARCH": arch, "FLYDSL_DUMP_IR": "1",
           "FLYDSL_DUMP_DIR": str(folder), "FLYDSL_RUNTIME_CACHE_DIR": str(folder / "cache")}
    subprocess.run([sys.executable, "-c", code], check=True, env=env, capture_output=True)
    (path,) = folder.glob("*/*_final_isa.s")
    return path.read_text()


@pytest.mark.parametrize("kind, arch", [("staged", "gfx942"), ("staged", "gfx1201"), ("direct", "gfx942"),
                                        ("direct", "gfx950"), ("tensor", "gfx1250"), ("turns", "gfx950")])
def test_products_stay_in_their_step(kind, arch, tmp_path):
    text = assembly(kind, arch, tmp_path)
    parts = re.split(r"^\s*(?:s_barrier|s_barrier_wait -1)\s*$", text, flags=re.M)
    products = [len(re.findall(r"^\s*v_(?:mfma|wmma)", part, re.M)) for part in parts]
    steps = [n for n in products if n]
    assert len(steps) == TILES and len(set(steps)) == 1, products


@pytest.mark.parametrize("arch, copies, count", [("gfx942", 16, 16), ("gfx950", 4, 4)])
def test_a_wait_leaves_the_copies_of_later_tiles(arch, copies, count, tmp_path):
    """Two operands of 64 x 64 values, 256 lanes of 4 or 16 bytes; three stages, so one later tile is in flight."""
    text = assembly("direct", arch, tmp_path)
    waits = [int(n) for n in re.findall(r"vmcnt\((\d+)\)[^\n]*\n(?:\s*;[^\n]*\n)*\s*s_barrier", text)]
    assert waits == [count] * (TILES - 1) + [0]
    assert len(re.findall(r"buffer_load_dword\S* .* lds", text)) == copies * TILES
