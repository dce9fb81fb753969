"""The recording HIP library of these tests: how to build and to read it."""

from __future__ import annotations

import atexit
import ctypes
import os
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

SOURCE = Path(__file__).parent / "fake_hip" / "fake_hip.c"


@lru_cache(maxsize=1)
def _build_directory() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="fake-hip-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


@lru_cache
def build_fake_hip(*defines: str) -> Path:
    """Compile a variant of the fake HIP library (see the head of its source); returns its path."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise RuntimeError("a C compiler (cc, gcc or clang) is needed to build the fake HIP library")
    output = _build_directory() / "-".join(["fake", *defines]) / "libamdhip64.so.7"
    output.parent.mkdir(parents=True, exist_ok=True)
    flags = [f"-D{define}" for define in defines]
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", output, SOURCE, *flags, "-lpthread"], check=True)
    return output


class FakeHip:
    """Access to the log and the failure switch of a loaded fake library."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._library.fakehip_log.restype = ctypes.c_char_p

    def lines(self, first_word: str) -> list[str]:
        text = self._library.fakehip_log().decode()
        return [line for line in text.splitlines() if line.split()[0] == first_word]

    def launches(self) -> list[dict[str, str]]:
        result = []
        for line in self.lines("launch"):
            _, kernel, *fields = line.split()
            result.append({"kernel": kernel, **dict(field.split("=", 1) for field in fields)})
        return result

    def clear(self) -> None:
        self._library.fakehip_clear()

    def fail(self, call: str, code: int) -> None:
        self._library.fakehip_fail(call.encode(), code)
