"""A minimal ctypes view of the simulator library, for tests of it alone."""

from __future__ import annotations

import ctypes
import os
import subprocess
from functools import cache
from pathlib import Path

import numpy as np

LLVM = Path(os.environ.get("FLYDSL_LLVM_BIN", "/usr/lib/llvm-22/bin"))


def find_library() -> Path | None:
    """The simulator library: FLYDSL_SIM_LIB, else on the import path of flydsl.runtime."""
    explicit = os.environ.get("FLYDSL_SIM_LIB")
    if explicit:
        return Path(explicit)
    import sys

    for entry in sys.path:
        candidate = Path(entry) / "flydsl/runtime/_sim/libamdhip64.so.7"
        if candidate.exists():
            return candidate
    return None


def have_toolchain() -> bool:
    """True if LLVM's AMDGPU compiler, assembler and linker are installed."""
    return all((LLVM / tool).exists() for tool in ("llc", "opt", "llvm-mc", "ld.lld"))


def _run(command: list[str], text: str) -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}\n{text}")


@cache
def compile_ir(text: str, arch: str, tmp: str, opt: str = "3") -> bytes:
    """LLVM IR text to a linked code object."""
    base = Path(tmp) / f"{abs(hash((text, arch, opt))):x}"
    tuned = f"{base}.bc"
    _run([str(LLVM / "opt"), f"-O{opt}", f"-mcpu={arch}", "-mtriple=amdgcn-amd-amdhsa", "-o", tuned], text)
    _run([str(LLVM / "llc"), f"-O{opt}", f"-mcpu={arch}", "-filetype=obj", tuned, "-o", f"{base}.o"], "")
    _run([str(LLVM / "ld.lld"), "-shared", f"{base}.o", "-o", f"{base}.hsaco"], "")
    return Path(f"{base}.hsaco").read_bytes()


@cache
def assemble(text: str, arch: str, tmp: str, options: tuple[str, ...] = ()) -> bytes:
    """Assembly text (with .amdhsa directives) to a linked code object."""
    base = Path(tmp) / f"{abs(hash((text, arch, options))):x}"
    _run(
        [
            str(LLVM / "llvm-mc"),
            "-triple=amdgcn-amd-amdhsa",
            f"-mcpu={arch}",
            *options,
            "-filetype=obj",
            "-o",
            f"{base}.o",
        ],
        text,
    )
    _run([str(LLVM / "ld.lld"), "-shared", f"{base}.o", "-o", f"{base}.hsaco"], "")
    return Path(f"{base}.hsaco").read_bytes()


#: hipErrorStreamCapture...: what a stream that is being captured cannot do.
CAPTURING = range(900, 910)


class SimError(RuntimeError):
    """A HIP error code with the simulator's message."""

    def __init__(self, code: int, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.code = code
        self.text = text


class Sim:
    """Loads code objects and launches kernels on NumPy arrays."""

    def __init__(self, path: Path) -> None:
        self.lib = ctypes.CDLL(str(path))
        self.lib.flysimLastErrorMessage.restype = ctypes.c_char_p
        self.lib.flysimVersion.restype = ctypes.c_char_p
        self.lib.hipGetErrorName.restype = ctypes.c_char_p

    def check(self, code: int) -> None:
        """Raises SimError unless `code` is hipSuccess."""
        if code:
            text = self.lib.flysimLastErrorMessage().decode()
            raise SimError(code, self.lib.hipGetErrorName(code).decode(), text)

    def set_arch(self, arch: str) -> None:
        """Selects the simulated architecture."""
        self.check(self.lib.flysimSetArch(arch.encode()))

    def load(self, image: bytes) -> ctypes.c_void_p:
        """hipModuleLoadData."""
        module = ctypes.c_void_p()
        self.check(self.lib.flysimModuleLoadSized(ctypes.byref(module), image, ctypes.c_size_t(len(image))))
        return module

    def function(self, module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        """hipModuleGetFunction."""
        function = ctypes.c_void_p()
        self.check(self.lib.hipModuleGetFunction(ctypes.byref(function), module, name.encode()))
        return function

    def state_ranges(self, args) -> None:
        """Tells the next launch its host arrays: NumPy's, and whatever is mapped around other pointers."""
        bounds = [(a.ctypes.data, a.nbytes) for a in args if isinstance(a, np.ndarray)]
        bounds += [(a.value, ctypes.c_size_t(-1).value) for a in args
                   if isinstance(a, (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int64)) and a.value]
        if bounds:
            bases = (ctypes.c_void_p * len(bounds))(*[base & (2**64 - 1) for base, _ in bounds])
            sizes = (ctypes.c_size_t * len(bounds))(*[size for _, size in bounds])
            self.lib.flysimLaunchRanges(bases, sizes, len(bounds))

    def launch(self, function, grid, block, args, lds: int = 0, stream=None, cooperative: bool = False) -> None:
        """Launches with NumPy arrays (passed as pointers), ctypes values or ints (i32)."""
        values = []
        for a in args:
            if isinstance(a, np.ndarray):
                values.append(ctypes.c_void_p(a.ctypes.data))
            elif isinstance(a, int):
                values.append(ctypes.c_int32(a))
            elif isinstance(a, float):
                values.append(ctypes.c_float(a))
            else:
                values.append(a)
        self.state_ranges(args)
        pointers = (ctypes.c_void_p * max(1, len(values)))(*[ctypes.addressof(v) for v in values])
        grid, block = (tuple(grid) + (1, 1))[:3], (tuple(block) + (1, 1))[:3]
        if cooperative:
            self.check(self.lib.hipModuleLaunchCooperativeKernel(function, *grid, *block, lds, stream, pointers))
        else:
            self.check(self.lib.hipModuleLaunchKernel(function, *grid, *block, lds, stream, pointers, None))
        # Once a test has used what needs queues, long launches go on in the background: the arrays must outlive them.
        # Kernels of several devices may wait for each other.
        devices = ctypes.c_int()
        self.check(self.lib.hipGetDeviceCount(ctypes.byref(devices)))
        if stream is None and devices.value == 1:
            code = self.lib.hipDeviceSynchronize()
            if not CAPTURING.start <= code < CAPTURING.stop:
                self.check(code)

    def run(self, image: bytes, name: str, grid, block, args, lds: int = 0) -> None:
        """Loads, launches once, unloads."""
        module = self.load(image)
        try:
            self.launch(self.function(module, name), grid, block, args, lds)
        finally:
            self.lib.hipModuleUnload(module)
