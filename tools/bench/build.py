"""Cold and one-file build of flydsl-ir, without the compiler cache. Takes minutes."""

import os
import subprocess
import tempfile
import time

from figures import ROOT, Figure

SOURCE = ROOT / "packages" / "flydsl-ir"


def _timed(*command: str) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "CCACHE_DISABLE": "1"})
    return time.perf_counter() - start


def measure() -> list[Figure]:
    """Seconds to configure and build, and to rebuild after touching one file."""
    with tempfile.TemporaryDirectory() as folder:
        cold = _timed("cmake", "-GNinja", "-S", str(SOURCE), "-B", folder, "-DCMAKE_BUILD_TYPE=Release")
        cold += _timed("cmake", "--build", folder)
        one = next((SOURCE / "lib" / "fly").rglob("*.cpp"))
        one.touch()
        incremental = _timed("cmake", "--build", folder)
    return [
        Figure("cold build of flydsl-ir", cold, "s", 360),
        Figure(f"rebuild after a change of {one.name}", incremental, "s", 15),
    ]
