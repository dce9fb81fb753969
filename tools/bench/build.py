"""Cold and one-file build of flydsl-ir, without the compiler cache: time, slowest files, size. Takes minutes.

``python tools/bench/build.py FOLDER`` prints the same of a build folder that exists, from its log.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import ROOT, Figure

SOURCE = ROOT / "packages" / "flydsl-ir"


def _timed(*command: str) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "CCACHE_DISABLE": "1"})
    return time.perf_counter() - start


def describe(folder: Path) -> list[Figure]:
    """The five files that took longest (wall time, others compile beside them), and the size of the library."""
    seconds: dict[str, float] = {}
    for line in (folder / ".ninja_log").read_text().splitlines():
        fields = line.split("\t")
        if len(fields) == 5 and fields[3].endswith(".o"):
            # The longest entry of a file is the one that the compiler cache did not answer.
            seconds[fields[3]] = max(seconds.get(fields[3], 0), (int(fields[1]) - int(fields[0])) / 1e3)
    slowest = sorted(seconds, key=lambda name: -seconds[name])[:5]
    figures = [Figure(f"compile {name.partition('.dir/')[2].removesuffix('.o')}", seconds[name], "s")
               for name in slowest]
    library = next((folder / "python_packages").rglob("libFlyPythonCAPI.so"))
    sections = subprocess.run(["size", str(library)], check=True, capture_output=True, text=True).stdout.split()
    code = int(sections[6])  # .text of the only file
    figures.append(Figure("code of libFlyPythonCAPI.so", code / 2**20, "MiB", note="with LLVM, MLIR and lld"))
    core = subprocess.run(["size", "-t", str(folder / "libFlyCore.a")], check=True, capture_output=True, text=True)
    figures.append(Figure("code of flydsl-ir itself", int(core.stdout.splitlines()[-1].split()[0]) / 2**20, "MiB"))
    return figures


def measure() -> list[Figure]:
    """Seconds to configure and build, and to rebuild after touching one file."""
    with tempfile.TemporaryDirectory() as folder:
        cold = _timed("cmake", "-GNinja", "-S", str(SOURCE), "-B", folder, "-DCMAKE_BUILD_TYPE=Release")
        cold += _timed("cmake", "--build", folder)
        details = describe(Path(folder))
        one = next((SOURCE / "lib" / "fly").rglob("*.cpp"))
        one.touch()
        incremental = _timed("cmake", "--build", folder)
    return [
        Figure("cold build of flydsl-ir", cold, "s", 360),
        Figure(f"rebuild after a change of {one.name}", incremental, "s", 15),
        *details,
    ]


if __name__ == "__main__":
    for figure in describe(Path(sys.argv[1])):
        print(figure.what, figure.formatted(), figure.note)
