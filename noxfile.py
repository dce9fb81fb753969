"""Test sessions of the workspace. `nox -l` lists them; `./tools/test` prepares `.venv` and runs them all.

Sessions use the environment that nox itself runs in (tools/workspace.py installs the built wheels there), so that
the five packages are tested together, as the exact set that is pinned. `wheels` makes clean environments of its own.
To test one package with nothing but its own requirements, run `tox` in its folder.
"""

import importlib.util
import os
import sys
from pathlib import Path

import nox

ROOT = Path(__file__).parent
ARCHS = ["gfx942", "gfx950", "gfx1201", "gfx1250"]
PACKAGES = ["flydsl-layout", "flydsl-ir", "flydsl-runtime", "flydsl-compiler", "flydsl-kernels"]

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "typecheck", "layout", "ir", "filecheck", "runtime", "compiler"]


def run_pytest(session: nox.Session, *paths: str, arch: str | None = None) -> None:
    """pytest on ``paths`` in two processes; arguments after ``--`` are passed on."""
    env = {"ARCH": arch, "FLYDSL_SIM_ARCH": arch} if arch else {}
    session.run("python", "-m", "pytest", "-q", "-n", "2", *paths, *session.posargs, env=env)


@nox.session
def lint(session: nox.Session) -> None:
    """ruff on everything, and the pins between the packages."""
    session.run("python", "tools/versions.py", "check")
    session.run("ruff", "check", ".")
    strays = [str(p) for p in (ROOT / "packages").glob("*/**/flydsl/__init__.py") if "build" not in p.parts]
    if strays:
        session.error(f"flydsl is a namespace package, remove: {', '.join(strays)}")


@nox.session
def typecheck(session: nox.Session) -> None:
    """mypy on the public packages."""
    for package in ("flydsl-layout", "flydsl-runtime", "flydsl-compiler", "flydsl-kernels"):
        session.run("mypy", "--explicit-package-bases", f"packages/{package}/src",
                    env={"MYPYPATH": f"packages/{package}/src"})


@nox.session
def layout(session: nox.Session) -> None:
    """flydsl-layout: property tests of the layout algebra."""
    run_pytest(session, "packages/flydsl-layout/tests")


@nox.session
def ir(session: nox.Session) -> None:
    """flydsl-ir: Python bindings and code generation."""
    run_pytest(session, "packages/flydsl-ir/tests")


@nox.session
def filecheck(session: nox.Session) -> None:
    """flydsl-ir: lit + FileCheck tests of dialects and passes, in the build folder of the wheel."""
    session.run("lit", "-v", "build/flydsl-ir/test", *session.posargs,
                env={"PATH": f"/usr/lib/llvm-22/bin:{os.environ['PATH']}"})


@nox.session
def runtime(session: nox.Session) -> None:
    """flydsl-runtime: launch path, device detection and the simulator."""
    run_pytest(session, "packages/flydsl-runtime/tests")


@nox.session
def sanitize(session: nox.Session) -> None:
    """The simulator built with ASan and UBSan (build/sanitize) under its tests; arguments go to pytest.

    Slower than the usual build by an order of magnitude. A finding of either sanitizer ends the test process. Calls
    that lie about the sizes of their arguments are left out: reading what a caller promised is a finding there.
    """
    build, tests = ROOT / "build/sanitize", ROOT / "packages/flydsl-runtime"
    session.run("cmake", "-S", str(tests / "sim"), "-B", str(build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -g1", "-DFLYSIM_EXEC_OPT=-O1", "-DFLYSIM_SANITIZE=ON", external=True)
    session.run("cmake", "--build", str(build), external=True)
    compiler_runtimes = [session.run("c++", f"-print-file-name={name}", external=True, silent=True).strip()
                         for name in ("libasan.so", "libubsan.so")]
    env = {"PYTHONPATH": os.pathsep.join(filter(None, [str(build / "python"), os.environ.get("PYTHONPATH")])),
           "LD_PRELOAD": ":".join(compiler_runtimes),  # before Python's own allocations
           "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",  # Python never frees everything
           "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"}
    chosen = session.posargs or [str(tests / "tests/sim"), "-k", "not meaningless_arguments"]
    session.run("python", "-m", "pytest", "-q", "-n0", *chosen, env=env)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Damaged code objects and wild programs on the simulator (arguments go to the fuzzer: `-- --count 10000`)."""
    fuzzer = "packages/flydsl-runtime/tests/sim/object_fuzz.py"
    for kind, count in (("objects", "1000000"), ("programs", "600000")):
        session.run("python", fuzzer, "--kind", kind, *(session.posargs or ["--count", count]))


@nox.session
def compiler(session: nox.Session) -> None:
    """flydsl-compiler: tracing, expressions, pipeline, cache."""
    run_pytest(session, "packages/flydsl-compiler/tests")


@nox.session
@nox.parametrize("arch", ARCHS)
def kernels(session: nox.Session, arch: str) -> None:
    """flydsl-kernels on the simulated architecture."""
    run_pytest(session, "packages/flydsl-kernels/tests", arch=arch)


#: What the full matrix of sizes consists of: pieces of tests that take less than 80 minutes each on two cores. What is
#: in no other piece is in "rest", so that a new file of tests is in one.
FULL_PIECES = {
    "gemm": ["test_gemm_dense.py", "test_gemm_fp8_rowscale.py", "test_gemm_gfx1250.py", "test_gemm_gfx1250_scaled.py",
             "test_gemm_mx.py"],
    "preshuffle": ["test_gemm_preshuffle.py", "test_gemm_cshuffle.py", "test_gemm_tuned.py", "test_gemm_scaled.py"],
    "norm": ["test_norm.py", "test_norm_backward.py", "test_softmax.py", "test_gating.py"],
    "quant": ["test_quant.py", "test_quant_formats.py"],
    "rest": [],
    "loops": [],
}
FULL_SECONDS = 80 * 60


@nox.session
@nox.parametrize("arch", ARCHS)
@nox.parametrize("piece", list(FULL_PIECES))
def kernels_full(session: nox.Session, arch: str, piece: str) -> None:
    """flydsl-kernels at all sizes (FLYDSL_KERNELS_FULL), in pieces; a piece that takes over 80 minutes fails.

    `nox -s "kernels_full(piece='gemm', arch='gfx950')"` runs one. Piece "loops" looks at the hot loop of every tuned
    tile.
    """
    tests = ROOT / "packages/flydsl-kernels/tests"
    files = [str(tests / name) for name in FULL_PIECES[piece]]
    if piece == "rest":
        named = {name for names in FULL_PIECES.values() for name in names}
        files = [str(path) for path in sorted(tests.glob("test_*.py")) if path.name not in named]
    elif piece == "loops":
        files = [str(ROOT / "tests/test_hot_loops.py")]
    env = {"ARCH": arch, "FLYDSL_SIM_ARCH": arch, "FLYDSL_KERNELS_FULL": "1"}
    session.run("timeout", "--signal=INT", str(FULL_SECONDS), "python", "-m", "pytest", "-q", "-n", "2", *files,
                *session.posargs, env=env, external=True)


@nox.session
@nox.parametrize("arch", ARCHS)
def integration(session: nox.Session, arch: str) -> None:
    """The packages together (tests/) and the examples, on the simulated architecture."""
    run_pytest(session, "tests", arch=arch)


@nox.session
def wheels(session: nox.Session) -> None:
    """Build sdists and wheels, check sizes and needed libraries, install the set in clean environments and run it.

    By default for the workspace's Python only; `-- --python 3.12 --python 3.13` takes others that are installed.
    """
    chosen = session.posargs or ["--python", f"{sys.version_info[0]}.{sys.version_info[1]}"]
    # Shapes of operators' samples are torch's. A release has all operators and architectures; this one is tried.
    prebuilt = ["--prebuilt", "gfx942", "--op", "softmax"] if importlib.util.find_spec("torch") else []
    session.run("python", "tools/wheels.py", "build", *chosen, *prebuilt)
    session.run("python", "tools/wheels.py", "check", *chosen)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation site (docs/_site) and check it: links, docstrings, and every page in a browser.

    Its reference has modules that need torch.
    """
    if not importlib.util.find_spec("torch"):
        session.skip("needs torch: ./tools/test --with-torch")
    session.run("python", "tools/public_names.py", "check")
    session.run("python", "tools/build_docs.py", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """The measurements of tools/bench as a table (add `-- --json` for machines)."""
    session.run("python", "tools/bench/run.py", *session.posargs)
