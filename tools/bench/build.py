"""Cold build of both native packages and one-file rebuilds, without the compiler cache. Takes minutes.

``python tools/bench/build.py FOLDER`` prints the slowest files and the sizes of a build folder of flydsl-ir that
exists, from its log.
"""

import concurrent.futures
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import ROOT, Figure

PACKAGES = ("flydsl-ir", "flydsl-runtime")
EDITED = {"flydsl-ir": "lib/fly/Algebra/Divide.cpp", "flydsl-runtime": "sim/src/exec/Lds.cpp"}
ENVIRONMENT = {**os.environ, "CCACHE_DISABLE": "1"}


def _build(package: str, folder: Path) -> None:
    configure = ["cmake", "-GNinja", "-S", str(ROOT / "packages" / package), "-B", str(folder / package),
                 "-DCMAKE_BUILD_TYPE=Release", f"-DPython_EXECUTABLE={sys.executable}",
                 f"-DPython3_EXECUTABLE={sys.executable}"]
    for command in (configure, ["cmake", "--build", str(folder / package)]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)


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
    """Seconds to configure and build both packages at once, and to rebuild after touching one file of each."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(lambda package: _build(package, folder), PACKAGES))
        figures = [Figure("cold build of flydsl-ir and flydsl-runtime", time.perf_counter() - start, "s", 200)]
        for package, file in EDITED.items():
            (ROOT / "packages" / package / file).touch()
            start = time.perf_counter()
            _build(package, folder)
            figures.append(Figure(f"rebuild of {package} after a change of {Path(file).name}",
                                  time.perf_counter() - start, "s", 15))
        return figures + describe(folder / "flydsl-ir")


if __name__ == "__main__":
    for figure in describe(Path(sys.argv[1])):
        print(figure.what, figure.formatted(), figure.note)
