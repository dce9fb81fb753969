"""The comparison with foreign code objects: a corpus of two entries, whose script answers without a launch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
COMMAND = Path(__file__).resolve().parent.parent / "packages" / "flydsl-kernels" / "bench" / "published.py"
ENTRIES = ("layernorm_bf16_64x256", "mxfp4_preshuffle_64x256x512_32x128x256", "sort_i32_64")
PEAK, SUSTAINED, LEAST = 12.5, 16.0, 10.0

pytestmark = pytest.mark.skipif(os.environ.get("ARCH", "gfx942") != "gfx942", reason="once is enough")


@pytest.fixture
def corpus(tmp_path):
    """Entries of gfx950; the script reports the times, or fails if it was told to refuse."""
    index = {"entries": [{"name": name, "arch": "gfx950", "grid": [4, 2, 1], "minimum_bytes": int(LEAST * 8e6)}
                         for name in ENTRIES]}
    (tmp_path / "index.json").write_text(json.dumps(index))
    (tmp_path / "replay.py").write_text(
        "import os, sys\n"
        "from pathlib import Path\n"
        "HERE = Path(__file__).parent\n"
        "def launch(library, entry, quick=False):\n"
        "    assert os.path.exists(library)\n"
        "    if os.environ.get('REFUSE') == entry['name']: sys.exit('no such kernel')\n"
        "    part = 0.5 if quick else 1\n"
        f"    return {{'timing': {{'microseconds': {PEAK} * part}},\n"
        f"            'sustained': {{'microseconds': {SUSTAINED} * part}},\n"
        "            'machine': {'memory_bytes_per_second': 8e12}, 'grid': [2 if quick else 4, 2, 1]}\n")
    return tmp_path


def run(corpus, *arguments, **environment):
    return subprocess.run([sys.executable, COMMAND, corpus, *arguments], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **environment})


@pytest.mark.parametrize("quick", [[], ["--quick"]])
def test_each_entry_has_the_operation_that_was_run(corpus, quick):
    done = run(corpus, "--json", *quick)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    rows = {row["entry"]: row for row in report["entries"]}
    assert report["arch"] == "gfx950" and list(rows) == list(ENTRIES)
    assert rows[ENTRIES[0]]["ours"] == "layernorm_fwd bf16"
    assert rows[ENTRIES[1]]["ours"].startswith("mx_gemm fp4 x fp4 ")
    for name in ENTRIES[:2]:
        row = rows[name]
        assert row["their_us"] == {"sustained": SUSTAINED, "peak": PEAK} and row["least_us"] == LEAST
        for reading, theirs in row["their_us"].items():
            assert row["our_us"][reading] > 0
            assert row["ratio"][reading] == pytest.approx(theirs / row["our_us"][reading])
    assert rows[ENTRIES[2]]["ratio"] is None and "no operation" in rows[ENTRIES[2]]["ours"]


def test_the_table_and_what_went_wrong(corpus):
    done = run(corpus, ENTRIES[0])
    assert done.returncode == 0 and "layernorm_fwd" in done.stdout and "no GPU was involved" in done.stdout
    assert f"{100 * LEAST / PEAK:.1f} %" in done.stdout
    assert "not in" in run(corpus, "other").stderr
    done = run(corpus, *ENTRIES[:2], REFUSE=ENTRIES[1])
    assert done.returncode != 0 and "no such kernel" in done.stderr
    assert "layernorm_fwd" in done.stdout  # a row is there as soon as it was measured
