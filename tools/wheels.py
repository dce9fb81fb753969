#!/usr/bin/env python3
"""Build the whole set of wheels and source distributions, and try the set where nothing else is installed.

    tools/wheels.py build [--python PYTHON ...]   sdists of all packages, wheels of every Python found -> dist/
                          [--prebuilt [ARCH ...]] with artifacts of the operators in flydsl-kernels, made first
                          [--op NAME ...] of these only, which is no set to ship
    tools/wheels.py check                         sizes, tags and needed libraries; install and run the set
    tools/wheels.py pythons                       the Pythons that the other commands take

Pythons are found as `python3.X` on PATH, below ~/.pyenv/versions and below `uv python dir`. The pure-Python wheels are
built from the source distributions, and so are the native ones of every Python but the workspace's own, whose wheels
`tools/quickstart` built: that a source distribution builds is part of what is tried.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import workspace

ROOT = workspace.ROOT
DIST = ROOT / "dist"
BUILD = ROOT / "build" / "wheels-of"
PACKAGES = ("flydsl-layout", "flydsl-ir", "flydsl-runtime", "flydsl-compiler", "flydsl-kernels")
OLDEST, NEWEST = (3, 10), (3, 14)
#: Packed size in MB that a wheel must not exceed.
SIZE_LIMITS = {"flydsl-ir": 30.0, "flydsl-runtime": 4.0, "flydsl-layout": 1.0, "flydsl-compiler": 2.0,
               "flydsl-kernels": 20.0}
#: What every Linux of the tag has. Anything else would be a library that the wheel needs and does not declare.
SYSTEM_LIBRARIES = re.compile(r"(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)\.so\.\d+|ld-linux-.*")
TRIAL = '''
import numpy as np
from flydsl.kernels import ops
x = np.random.default_rng(0).standard_normal((33, 1000)).astype(np.float32)
e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
error = abs(np.asarray(ops.softmax(x)) - e / e.sum(1, keepdims=True)).max()
assert error < 1e-6, error
print("softmax of flydsl-kernels: largest error", error)
'''


# Without the compiler: what is prebuilt runs.
PREBUILT_TRIAL = '''
import numpy as np
from flydsl.kernels import ops
x = np.random.default_rng(0).standard_normal((33, 4096)).astype(np.float16)
error = abs(np.asarray(ops.softmax(x)).astype(np.float64).sum(1) - 1).max()
assert error < 5e-3, error
print("without flydsl-ir: prebuilt softmax of flydsl-kernels, sums of rows differ from 1 by", error)
'''
PREBUILT = ROOT / "packages" / "flydsl-kernels" / "src" / "flydsl" / "prebuilt"


class WheelError(workspace.SetupError):
    """A wheel that cannot be built or must not be shipped."""


def run(*command: object, env: dict[str, str] | None = None, cwd: Path = ROOT) -> str:
    """The output of a command; its end of output in the error if it fails."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=env, cwd=cwd)
    if done.returncode:
        raise WheelError(f"{' '.join(map(str, command))[:300]} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


# --------------------------------------------------------------------------------------------------------------------
# Pythons


def version_of(python: Path) -> tuple[int, int] | None:
    """(major, minor) of an interpreter that can run and make environments, else None."""
    code = "import sys, venv, ensurepip; print(*sys.version_info[:2], sys.implementation.name)"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = done.stdout.split()
    return (int(words[0]), int(words[1])) if len(words) == 3 and words[2] == "cpython" else None


def candidates() -> Iterator[Path]:
    """Where interpreters may be, the workspace's own first."""
    yield workspace.VENV / "bin" / "python"
    yield Path(sys.executable)
    for minor in range(OLDEST[1], NEWEST[1] + 1):
        if found := shutil.which(f"python3.{minor}"):
            yield Path(found)
    folders = [Path.home() / ".pyenv" / "versions"]
    if uv := shutil.which("uv"):
        folders.append(Path(run(uv, "python", "dir").strip()))
    for folder in folders:
        yield from sorted(folder.glob("*/bin/python3"), reverse=True)


def pythons() -> dict[tuple[int, int], Path]:
    """One interpreter of every supported version that can be had here."""
    found: dict[tuple[int, int], Path] = {}
    for path in candidates():
        version = version_of(path) if path.exists() else None
        if version and OLDEST <= version <= NEWEST:
            found.setdefault(version, path)
    return dict(sorted(found.items()))


def environment_of(folder: Path, python: Path, *requirements: str) -> Path:
    """The interpreter of a virtual environment made anew or found, with ``requirements`` installed."""
    inside = folder / "bin" / "python"
    if not inside.exists():
        run(python, "-m", "venv", folder)
    if requirements:
        run(inside, "-m", "pip", "install", "-q", "--disable-pip-version-check", *requirements)
    return inside


# --------------------------------------------------------------------------------------------------------------------
# Building


def build_requirements(package: str) -> list[str]:
    """What pyproject.toml names as build requirements."""
    text = (ROOT / "packages" / package / "pyproject.toml").read_text()
    found = re.search(r"^requires = (\[.*?\])", text, re.MULTILINE | re.DOTALL)
    assert found, package
    return json.loads(re.sub(r",\s*\]", "]", found[1]))


def make_sdist(package: str) -> Path:
    """The source distribution of a package in dist/."""
    python = workspace.VENV / "bin" / "python"
    run(python, "-m", "build", "--sdist", "--no-isolation", "--outdir", DIST, ROOT / "packages" / package)
    return next(DIST.glob(f"{package.replace('-', '_')}-*.tar.gz"))


def unpacked(sdist: Path) -> Path:
    """The source distribution unpacked at a place that stays, so that a second build is incremental."""
    folder = BUILD / "sources"
    target = folder / sdist.name.removesuffix(".tar.gz")
    shutil.rmtree(target, ignore_errors=True)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return target


def reconfigured(folder: Path) -> Path:
    """A build folder that all Pythons share, which has forgotten for which it was configured.

    Nine tenths of the objects know nothing of Python and are compiled once. What remembers the last Python are CMake's
    cache and the note by which scikit-build-core would throw away everything for another environment.
    """
    for name in ("CMakeCache.txt", ".skbuild-info.json"):
        (folder / name).unlink(missing_ok=True)
    return folder


def make_wheel(package: str, source: Path, version: tuple[int, int], python: Path) -> Path:
    """The wheel of a native package for one Python, tagged for the oldest Linux that can load it."""
    tag = f"cp{version[0]}{version[1]}"
    out = BUILD / tag / "out" / package
    shutil.rmtree(out, ignore_errors=True)
    ready = sorted((workspace.WHEELS / package).glob(f"*-{tag}-*.whl"))
    if ready:
        wheel = ready[-1]
    else:
        inside = environment_of(BUILD / tag / "env", python, "-U", "pip", *build_requirements(package))
        env = {**os.environ, "PATH": f"{inside.parent}:{workspace.VENV / 'bin'}:{os.environ['PATH']}"}
        run(inside, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", out,
            "--config-settings", f"build-dir={reconfigured(BUILD / package)}", source, env=env)
        wheel = next(out.glob("*.whl"))
    run(workspace.VENV / "bin" / "auditwheel", "repair", "--only-plat", "-z", "9", "-w", DIST, wheel,
        env=workspace.environment())
    return max(DIST.glob(f"{package.replace('-', '_')}-*-{tag}-*.whl"), key=lambda p: p.stat().st_mtime)


def prebuild(archs: Iterable[str] | None, operators: Iterable[str] = ()) -> None:
    """Make the prebuilt artifacts of flydsl-kernels for some architectures (none given: all); None: have none.

    Args:
        operators: names; none: all that have some.
    """
    shutil.rmtree(PREBUILT, ignore_errors=True)
    if archs is None:
        return
    options = [word for option, names in (("--arch", archs), ("--op", operators)) for name in names
               for word in (option, name)]
    print(run(workspace.VENV / "bin" / "python", "-m", "flydsl.kernels", "prebuilt", "build", "--root", PREBUILT,
              *options, env=workspace.environment()), end="", flush=True)


def build(chosen: dict[tuple[int, int], Path], prebuilt: Iterable[str] | None = None,
          operators: Iterable[str] = ()) -> None:
    """All source distributions, the pure wheels, and the native wheels of the chosen Pythons."""
    prebuild(prebuilt, operators)
    try:
        _build(chosen)
    finally:
        prebuild(None)  # the tree itself has none: they would be stale with the next change


def _build(chosen: dict[tuple[int, int], Path]) -> None:
    DIST.mkdir(exist_ok=True)
    for old in (*DIST.glob("*.whl"), *DIST.glob("*.tar.gz")):
        old.unlink()
    for package in PACKAGES:
        sdist = make_sdist(package)
        print(sdist.relative_to(ROOT), flush=True)
        if package in workspace.PURE:
            run(workspace.VENV / "bin" / "python", "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q",
                "-w", DIST, sdist)
            continue
        source = unpacked(sdist)
        for version, python in chosen.items():
            print(make_wheel(package, source, version, python).relative_to(ROOT), flush=True)


# --------------------------------------------------------------------------------------------------------------------
# Checking


def package_of(wheel: Path) -> str:
    return wheel.name.split("-")[0].replace("_", "-")


def needed_libraries(wheel: Path) -> dict[str, set[str]]:
    """For every shared object in a wheel the libraries it needs that are not in the wheel."""
    found: dict[str, set[str]] = {}
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        files = [n for n in archive.namelist() if not n.endswith("/")]
        names = [n for n in files if ".so" in Path(n).name or "/_bin/" in n]
        own = {Path(n).name for n in names}
        for name in names:
            text = run("readelf", "-d", archive.extract(name, folder))
            found[name] = set(re.findall(r"\(NEEDED\).*\[(.*)\]", text)) - own
    return found


def faults(wheels: Iterable[Path]) -> Iterator[str]:
    """What keeps a wheel from being shipped."""
    for wheel in wheels:
        size, limit = wheel.stat().st_size / 1e6, SIZE_LIMITS[package_of(wheel)]
        if size > limit:
            yield f"{wheel.name}: {size:.1f} MB packed, at most {limit:g} allowed"
        if "linux_" in wheel.name and "manylinux" not in wheel.name:
            yield f"{wheel.name}: no manylinux tag; was it repaired?"
        for name, libraries in needed_libraries(wheel).items():
            for library in sorted(libraries):
                if not SYSTEM_LIBRARIES.fullmatch(library):
                    yield f"{wheel.name}: {name} needs {library}, which is neither in the wheel nor in every Linux"


def try_set(version: tuple[int, int], python: Path) -> None:
    """Install the set in a clean environment of one Python and run what users run first."""
    tag = f"cp{version[0]}{version[1]}"
    wheels = [w for w in DIST.glob("*.whl") if "py3-none-any" in w.name or f"-{tag}-" in w.name]
    if len(wheels) != len(PACKAGES):
        print(f"Python {version[0]}.{version[1]}: no native wheels in dist/, left out")
        return
    with tempfile.TemporaryDirectory(prefix=f"flydsl-{tag}-") as folder:
        home = Path(folder)
        # Neither the workspace nor an installed LLVM may be needed: run from elsewhere, with a bare environment.
        bare = {"HOME": folder, "FLYDSL_RUNTIME_CACHE_DIR": f"{folder}/cache", "PATH": "/usr/bin:/bin",
                "FLYDSL_RUNTIME_KIND": "sim"}
        alone = environment_of(home / "layout", python, *[str(w) for w in wheels if "layout" in w.name])
        run(alone, "-I", "-c", "from flydsl import layout as fl; assert str(fl.parse('(4,(2,8)):(2,(1,8))'))", env=bare)
        inside = environment_of(home / "all", python, "numpy", *map(str, wheels))
        run(inside, "-m", "pip", "check", env=bare)
        run(inside, ROOT / "docs" / "examples" / "01_vector_add.py", "--sizes", "100x1000", env=bare, cwd=home)
        run(inside.parent / "fly-opt", "--version", env=bare, cwd=home)
        said = run(inside, "-c", TRIAL, env=bare, cwd=home).strip()
        print(f"Python {version[0]}.{version[1]}: installed, vector add and {said}", flush=True)
        if any("/prebuilt/" in n for w in wheels for n in zipfile.ZipFile(w).namelist()):
            run(inside, "-m", "pip", "uninstall", "-y", "-q", "flydsl-ir")
            bare["FLYDSL_RUNTIME_CACHE_DIR"] = f"{folder}/other-cache"
            print(run(inside, "-c", PREBUILT_TRIAL, env=bare, cwd=home), end="", flush=True)


def check(chosen: dict[tuple[int, int], Path]) -> int:
    """Refuse wheels that must not be shipped, then try the set; the exit status."""
    wheels = sorted(DIST.glob("*.whl"))
    if not wheels:
        raise WheelError("dist/ has no wheels: `tools/wheels.py build` first")
    for wheel in wheels:
        print(f"{wheel.stat().st_size / 1e6:6.2f} MB  {wheel.name}")
    found = list(faults(wheels))
    for fault in found:
        print(f"error: {fault}", file=sys.stderr)
    if not found:
        for version, python in chosen.items():
            try_set(version, python)
    return 1 if found else 0


def main() -> int:
    """Entry point of the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("build", "check", "pythons"))
    parser.add_argument("--python", action="append", help="only these versions (3.12) of the Pythons found")
    parser.add_argument("--prebuilt", nargs="*", metavar="ARCH",
                        help="with prebuilt artifacts of the operators for these architectures (no name: all)")
    parser.add_argument("--op", action="append", default=[], metavar="NAME",
                        help="of these operators only: to try the build, no set to ship")
    args = parser.parse_args()
    if args.op and args.prebuilt is None:
        parser.error("--op chooses among prebuilt operators: --prebuilt is needed, too")
    chosen = {v: p for v, p in pythons().items() if not args.python or f"{v[0]}.{v[1]}" in args.python}
    if not chosen:
        raise WheelError(f"none of the Pythons {', '.join(args.python or ['3.10 to 3.14'])} is installed here")
    if args.command == "pythons":
        for version, python in chosen.items():
            print(f"{version[0]}.{version[1]}  {python}")
        return 0
    if args.command == "check":
        return check(chosen)
    build(chosen, args.prebuilt, args.op)
    return 0


if __name__ == "__main__":
    sys.exit(workspace.guarded(main))
