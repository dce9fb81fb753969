"""Set-up of the workspace: one list of steps that tools/quickstart and tools/test share.

Each step has a fingerprint of its inputs; a step whose fingerprint was recorded by an earlier successful run is
skipped, so a second run with nothing changed only checks. Needs the standard library alone: it runs before anything
is installed.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMPS = VENV / ".flydsl-stamps"
LOGS = ROOT / "build" / "logs"
WHEELS = ROOT / "build" / "wheels"
MIN_FREE_GIB = 6

# The toolchain of flydsl-ir and flydsl-runtime; everything else comes as dependencies of these.
APT_PACKAGES = (
    "g++ cmake ninja-build ccache git ca-certificates python3-dev python3-venv "
    "llvm-22-dev libmlir-22-dev mlir-22-tools liblld-22-dev lld-22 llvm-22-tools clang-22"
).split()
# What only the tests need: the browser in which the documentation site is checked.
BROWSER_PACKAGES = ["chromium", "chromium-driver"]
PURE = ("flydsl-layout", "flydsl-compiler", "flydsl-kernels")
NATIVE = ("flydsl-ir", "flydsl-runtime")


class SetupError(Exception):
    """A step cannot go on; the message says why and what to do."""


def fingerprint(*inputs: Path | str) -> str:
    """Hash of texts and of the files below folders (names and contents; build products and caches left out)."""
    digest = hashlib.sha256(sys.version.encode())
    for item in inputs:
        if isinstance(item, str):
            digest.update(item.encode())
            continue
        for path in sorted(_files(item)):
            digest.update(str(path.relative_to(ROOT)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _files(folder: Path) -> Iterable[Path]:
    if folder.is_file():
        return [folder]
    skip = {"__pycache__", "build", "dist", "tests", "test", ".tox", ".pytest_cache", ".hypothesis"}
    return [p for p in folder.rglob("*") if p.is_file() and not skip & set(p.relative_to(folder).parts)]


@dataclass(frozen=True)
class Step:
    """One unit of set-up: what it is called, what it depends on, how it is done.

    Neighbours with ``beside`` set run at the same time.
    """

    title: str
    key: Callable[[], str]
    run: Callable[[], None]
    beside: bool = False

    def perform(self, label: str) -> None:
        """Run, unless the fingerprint of the last successful run still holds; prints a line at both ends."""
        stamp = STAMPS / self.title.replace(" ", "-").replace("/", "-")
        key = self.key()
        if key and stamp.exists() and stamp.read_text() == key:
            print(f"{label}: up to date", flush=True)
            return
        print(f"{label} ...", flush=True)
        start = time.monotonic()
        self.run()
        STAMPS.mkdir(parents=True, exist_ok=True)
        stamp.write_text(self.key())
        print(f"{label}: done in {time.monotonic() - start:.0f} s", flush=True)


def run_logged(name: str, command: list[str], hint: str, env: dict[str, str] | None = None) -> None:
    """Run ``command`` with its output in build/logs/NAME.log and a line of progress every few seconds."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{name}.log"
    start = time.monotonic()
    tty = sys.stdout.isatty()
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env
        )
        shown = 0.0
        while process.poll() is None:
            time.sleep(0.1)
            passed = time.monotonic() - start
            if passed - shown >= (1 if tty else 20):
                shown = passed
                text = f"      {passed:4.0f} s  {name}: {_last_line(log)}"
                print(f"\r{text:<110}" if tty else text, end="" if tty else "\n", flush=True)
    if tty and shown:
        print("\r" + " " * 110 + "\r", end="")
    if process.returncode:
        tail = "\n".join("      | " + line for line in log.read_text(errors="replace").splitlines()[-25:])
        raise SetupError(f"'{' '.join(command[:4])} ...' failed (exit {process.returncode}).\n{tail}\n"
                         f"      full log: {log.relative_to(ROOT)}\n      {hint}")


def _last_line(log: Path) -> str:
    with log.open("rb") as handle:
        handle.seek(0, os.SEEK_END)
        handle.seek(max(0, handle.tell() - 400))
        lines = handle.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")[:95]


def check_system() -> None:
    """Refuse early, and say why, where the set-up cannot work."""
    if sys.platform != "linux" or not shutil.which("apt-get"):
        raise SetupError("this script prepares Debian 12 (or a relative with apt). Elsewhere, install "
                         "LLVM/MLIR/LLD 22.1 and a C++17 compiler and `pip install` the packages/ folders in order.")
    if sys.version_info < (3, 10):  # noqa: UP036 (the script may be started by any python3)
        raise SetupError(f"Python 3.10 or newer is needed, this is {sys.version.split()[0]}")
    free = shutil.disk_usage(ROOT).free / 2**30
    needed = MIN_FREE_GIB if not VENV.exists() else 1
    if free < needed:
        raise SetupError(f"{free:.1f} GiB free on the disk of {ROOT}, {needed} GiB needed for toolchain and build")


def missing_apt_packages(wanted: Sequence[str] = APT_PACKAGES) -> list[str]:
    """The packages (of the toolchain, unless told otherwise) that dpkg does not list as installed."""
    query = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *wanted]
    listed = subprocess.run(query, capture_output=True, text=True).stdout.split("\n")
    installed = {line.split()[0] for line in listed if line.endswith(" installed")}
    return [p for p in wanted if p not in installed]


def install_apt(wanted: Sequence[str] = APT_PACKAGES) -> None:
    """Install what is missing of ``wanted``, as root or through sudo."""
    missing = missing_apt_packages(wanted)
    if not missing:
        return
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if prefix and not shutil.which("sudo"):
        raise SetupError(f"not root and no sudo. As root: apt-get install --no-install-recommends {' '.join(missing)}")
    hint = "No network, or no repository with LLVM 22? Check `apt-get update` and /etc/apt/sources.list*."
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run_logged("apt-update", [*prefix, "apt-get", "update"], hint, env)
    run_logged("apt-install", [*prefix, "apt-get", "install", "-y", "--no-install-recommends", *missing], hint, env)


def pip(name: str, *arguments: str) -> None:
    """Run the venv's pip."""
    hint = "No network, or the package index is out of reach? Check `pip download six`."
    env = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    run_logged(name, [str(VENV / "bin" / "python"), "-m", "pip", *arguments], hint, env)


def make_venv() -> None:
    """A virtual environment with the pinned build and development tools."""
    if not (VENV / "bin" / "python").exists():
        run_logged("venv", [sys.executable, "-m", "venv", str(VENV)], "Is python3-venv installed?")
    pip("pip-dev", "install", "-r", "tools/requirements-dev.txt")


def install_native(package: str) -> None:
    """Build the wheel of a C++ package in a build folder that is kept, and install that wheel."""
    out = WHEELS / package
    shutil.rmtree(out, ignore_errors=True)
    # The tools of the venv (cmake's ninja, nanobind) must be found first; ccache makes a later rebuild cheap.
    # Debian 12's pip (23.0) has no -C for --config-settings.
    pip(f"wheel-{package}", "wheel", "--no-deps", "--no-build-isolation", "-w", str(out),
        "--config-settings", f"build-dir={ROOT / 'build' / package}", f"packages/{package}")
    wheel = next(out.glob("*.whl"))
    pip(f"install-{package}", "install", "--no-deps", "--force-reinstall", str(wheel))


def install_pure() -> None:
    """The three pure-Python packages, editable."""
    editable = [a for package in PURE for a in ("-e", f"packages/{package}")]
    pip("install-pure", "install", "--no-deps", "--no-build-isolation", *editable)


# An unpinned torch may pull gigabytes of GPU libraries; torch is optional for everything but the torch ops.
TORCH = "torch==2.13.0"
# Its models are patched in tests of flydsl-kernels.
TRANSFORMERS = "transformers==5.23.0"


def steps(with_torch: bool = False, with_browser: bool = False) -> list[Step]:
    """The set-up in order."""
    native = [
        Step(f"build and install {p}", lambda p=p: fingerprint(ROOT / "packages" / p),
             lambda p=p: install_native(p), beside=True)
        for p in NATIVE
    ]
    browser = [Step("headless browser", lambda: "" if missing_apt_packages(BROWSER_PACKAGES) else "installed",
                    lambda: install_apt(BROWSER_PACKAGES))]
    torch = [Step("install torch and transformers", lambda: f"{TORCH} {TRANSFORMERS}",
                  lambda: pip("install-torch", "install", TORCH, TRANSFORMERS))]
    return [
        Step("apt toolchain", lambda: "" if missing_apt_packages() else fingerprint(" ".join(APT_PACKAGES)),
             install_apt),
        Step("Python environment .venv", lambda: fingerprint(ROOT / "tools" / "requirements-dev.txt"), make_venv),
        *native,
        Step("install the pure-Python packages",
             lambda: fingerprint(*(ROOT / "packages" / p / "pyproject.toml" for p in PURE)), install_pure),
        *(torch if with_torch else []),
        *(browser if with_browser else []),
    ]


def prepare(with_torch: bool = False, with_browser: bool = False) -> None:
    """Bring the workspace up to date; prints one line a step. Raises SetupError."""
    check_system()
    todo = steps(with_torch, with_browser)
    labelled = [(step, f"[{number}/{len(todo)}] {step.title}") for number, step in enumerate(todo, 1)]
    for beside, group in itertools.groupby(labelled, key=lambda entry: entry[0].beside):
        if beside:  # one compiles while the other is configured, linked or packed
            with concurrent.futures.ThreadPoolExecutor() as pool:
                for done in [pool.submit(step.perform, label) for step, label in group]:
                    done.result()
        else:
            for step, label in group:
                step.perform(label)


def environment() -> dict[str, str]:
    """Environment for child processes: the venv's tools first, and no module of the caller's on the import path.

    Byte code is kept, whatever the caller says: the packages are editable, so that nothing else has compiled them, and
    the tests start hundreds of processes that import them.
    """
    path = f"{VENV / 'bin'}:{os.environ.get('PATH', '')}"
    dropped = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE")
    kept = {k: v for k, v in os.environ.items() if k not in dropped}
    return {**kept, "VIRTUAL_ENV": str(VENV), "PATH": path}


def guarded(main: Callable[[], int]) -> int:
    """Run ``main``; a SetupError or an interrupt becomes a message and an exit status."""
    try:
        return main()
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; run the same command again to go on where it stopped", file=sys.stderr)
        return 130
