#!/usr/bin/env python3
"""Runs damaged code objects on the simulator: whatever they are, the process must live.

    python object_fuzz.py [--kind objects|programs] [--count 100000] [--seed 1] [--jobs 2] [--keep FOLDER]

Each mutant, a damaged object (object_mutations.py) or a program that no compiler writes (wild_programs.py), is loaded
and its kernels are launched with arguments that are memory, wild pointers or noise; some launches run under checks,
are profiled or stop at breakpoints. Mutants run in child processes. One that ends its
child, takes longer than --patience seconds or more than --memory MiB is reported with its number and kept in a file;
the exit status is then 1. A mutant is a function of seed and number alone: `--only NUMBER` runs one in this process.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from hiplib import Sim, SimError, find_library  # noqa: E402
from object_mutations import edge, mutate  # noqa: E402
from object_seeds import ARCHS, build  # noqa: E402
from wild_programs import ARCHS as WILD_ARCHS  # noqa: E402
from wild_programs import Pieces, Wild  # noqa: E402

PROFILES = (0, 0, 0, 1, 3, 7)  # counters, timing, trace
LEVELS = ("", "v2", "v3")  # of the executor: what every host of these tests has
CHECKS = ("", "", "", "", "", "oob", "race", "uninit", "barrier,oob", "nan,buffer", "approx")


class Target:
    """The simulator, the images to start from and memory for the kernels."""

    def __init__(self, folder: str) -> None:
        library = find_library()
        if library is None:
            raise SystemExit("the simulator library is not built (set FLYDSL_SIM_LIB or PYTHONPATH)")
        self.sim = Sim(library)
        self.sim.lib.flysimProfileTake.restype = ctypes.c_char_p
        self.images = {arch: build(arch, folder) for arch in ARCHS}
        self.memory = ctypes.c_void_p()
        self.sim.check(self.sim.lib.hipMalloc(ctypes.byref(self.memory), ctypes.c_size_t(1 << 16)))

    def mutant(self, seed: int, number: int) -> tuple[str, bytes]:
        """The architecture and the bytes of a mutant."""
        rng = random.Random(seed << 40 | number)
        arch = ARCHS[number % len(ARCHS)]
        return arch, mutate(rng, self.images[arch], arch)

    def run(self, seed: int, number: int) -> str:
        """Loads and launches one mutant; what became of it."""
        arch, image = self.mutant(seed, number)
        rng = random.Random(seed << 40 | number << 1 | 1)
        os.environ["FLYDSL_SIM_CHECK"] = rng.choice(CHECKS)
        self.sim.lib.flysimProfile(rng.choice(PROFILES))
        self.sim.set_arch(arch)
        try:
            module = self.sim.load(image)
        except SimError:
            return "refused"
        result = "ran"
        try:
            for name in ("k", "other"):
                try:
                    self.launch(rng, self.sim.function(module, name))
                except SimError:
                    result = "fault"
        finally:
            self.sim.lib.hipModuleUnload(module)
            self.sim.lib.flysimProfileTake()
        return result

    def launch(self, rng: random.Random, function: ctypes.c_void_p) -> None:
        """One launch with arguments and sizes that may be wrong."""
        def pointer() -> int:
            return rng.choice((self.memory.value, self.memory.value, self.memory.value + 4 * rng.randrange(1 << 14),
                               edge(rng, 64), rng.getrandbits(47)))

        data = struct.pack("<QQI", pointer(), pointer(), edge(rng, 32)) + bytes(rng.choice((4, 4, 68, 300)))
        buffer = ctypes.create_string_buffer(data, len(data))
        size = ctypes.c_size_t(len(data))
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 3)
        block = rng.choice(((64, 1, 1), (64, 1, 1), (64, 1, 1), (32, 2, 1), (128, 1, 1), (edge(rng, 32), 1, 1)))
        grid = rng.choice(((1, 1, 1), (2, 1, 1), (3, 2, 1)))
        lds = rng.choice((0, 0, 64, edge(rng, 32)))
        self.sim.check(self.sim.lib.hipModuleLaunchKernel(function, *grid, *map(ctypes.c_uint, block),
                                                          ctypes.c_uint(lds), None, None, extra))


class Attribute(ctypes.Structure):
    """hipLaunchAttribute."""

    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class Config(ctypes.Structure):
    """HIP_LAUNCH_CONFIG."""

    _fields_ = [("sizes", ctypes.c_uint * 7), ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p),
                ("count", ctypes.c_uint)]


class Breakpoint(ctypes.Structure):
    """flysimBreakpoint."""

    _fields_ = [("address", ctypes.c_int64), ("source", ctypes.c_char_p), ("workgroup", ctypes.c_int64 * 3),
                ("wave", ctypes.c_int64)]


class Programs(Target):
    """Programs of wild_programs.py instead of damaged objects."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.pieces = {arch: Pieces(self.sim, arch, folder) for arch in WILD_ARCHS}
        self.answer = 0
        self.stop = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda _: self.answer)

    def wild(self, seed: int, number: int) -> tuple[str, Wild]:
        arch = WILD_ARCHS[number % len(WILD_ARCHS)]
        return arch, self.pieces[arch].program(random.Random(seed << 40 | number))

    def mutant(self, seed: int, number: int) -> tuple[str, bytes]:
        arch, wild = self.wild(seed, number)
        return arch, wild.image

    def run(self, seed: int, number: int) -> str:
        arch, wild = self.wild(seed, number)
        rng = random.Random(seed << 40 | number << 1 | 1)
        os.environ["FLYDSL_SIM_CHECK"] = rng.choice((*CHECKS, "all", "late,stale"))
        os.environ["FLYDSL_SIM_SCHED"] = rng.choice(("fixed", "fixed", "fixed", f"random:{number}"))
        os.environ["FLYDSL_SIM_CPU"] = rng.choice(LEVELS)
        self.answer = rng.choice((0, 1, 1, 2))
        point = Breakpoint(-1, None, (-1, -1, -1), -1)
        self.sim.lib.flysimSetBreakpoints(ctypes.byref(point), ctypes.c_size_t(rng.random() < 0.1), self.stop)
        self.sim.lib.flysimProfile(rng.choice(PROFILES))
        self.sim.set_arch(arch)
        filler = rng.choice((bytes(1 << 16), b"\xff" * (1 << 16), rng.randbytes(1 << 16)))
        self.sim.check(self.sim.lib.hipMemcpy(self.memory, filler, ctypes.c_size_t(len(filler)), 1))
        module = None
        try:
            module = self.sim.load(wild.image)
            self.start(wild, self.sim.function(module, "k"), self.memory.value + rng.choice((0, 0, 4096, 65532, 2)))
        except SimError as error:
            return f"fault: {error.text}" if module else f"refused: {error.text}"
        finally:
            if module:
                self.sim.lib.hipModuleUnload(module)
            self.sim.lib.flysimProfileTake()
        return "ran"

    def start(self, wild: Wild, function: ctypes.c_void_p, pointer: int) -> None:
        """The launch with its attributes."""
        data = struct.pack("<QQI", self.memory.value, pointer, 64) + bytes(68)
        buffer, size = ctypes.create_string_buffer(data, len(data)), ctypes.c_size_t(len(data))
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 3)
        attributes = (Attribute * 2)()
        attributes[0].id, attributes[0].value[0] = 2, wild.cooperative
        if wild.cluster:
            attributes[1].id, attributes[1].value[:3] = 4, wild.cluster
        config = Config((ctypes.c_uint * 7)(*wild.grid, *wild.block, wild.lds), None, ctypes.addressof(attributes), 2)
        self.sim.check(self.sim.lib.hipDrvLaunchKernelEx(ctypes.byref(config), function, None, extra))


KINDS = {"objects": Target, "programs": Programs}


def worker(args: argparse.Namespace, folder: str) -> None:
    """Runs mutants from `first` on; a shared file says how far it is."""
    target = KINDS[args.kind](folder)
    with open(args.progress, "r+b") as file:
        shared = mmap.mmap(file.fileno(), 24)
    for number in range(args.first, args.first + args.count * args.stride, args.stride):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        shared[:16] = struct.pack("<qd", number, time.monotonic())
        target.run(args.seed, number)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
        if grown > args.memory:
            shared[16:24] = struct.pack("<q", grown)
            os._exit(77)
    shared[:16] = struct.pack("<qd", -1, time.monotonic())


class Job:
    """A child process that runs every `stride`-th mutant."""

    def __init__(self, args: argparse.Namespace, index: int, folder: str) -> None:
        self.args, self.index, self.folder = args, index, folder
        self.progress = Path(folder) / f"progress{index}"
        self.next, self.left = args.first + index, len(range(index, args.count, args.jobs))
        self.child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.progress.write_bytes(struct.pack("<qdq", self.next, time.monotonic() + 60, 0))
        settings = {"FLYDSL_SIM_MAX_INSTRUCTIONS": "3000", "FLYDSL_SIM_THREADS": str(1 + self.index % 2)}
        self.child = subprocess.Popen(
            [sys.executable, __file__, "--worker", "--kind", self.args.kind, "--progress", str(self.progress),
             "--seed", str(self.args.seed), "--first", str(self.next), "--count", str(self.left),
             "--stride", str(self.args.jobs), "--memory", str(self.args.memory)],
            stdout=subprocess.DEVNULL, stderr=(Path(self.folder) / f"errors{self.index}").open("wb"),
            env={**os.environ, **settings})

    def poll(self) -> str | None:
        """What a mutant has done to the child, if anything; None while all is well."""
        assert self.child
        number, since, grown = struct.unpack("<qdq", self.progress.read_bytes())
        status = self.child.poll()
        if status is None and time.monotonic() - since < self.args.patience:
            return None
        if status is None:
            self.child.kill()
            self.child.wait()
            what = f"ran for more than {self.args.patience} s"
        elif number < 0:
            self.left = 0
            return None
        elif status == 77 and grown:
            what = f"took {grown} MiB"
        else:
            what = f"ended the process ({signal.Signals(-status).name if status < 0 else f'status {status}'})"
        self.left -= (number - self.next) // self.args.jobs + 1
        self.next = number + self.args.jobs
        return f"mutant {number} {what}"


def fuzz(args: argparse.Namespace, folder: str) -> int:
    """Runs all jobs; the number of findings."""
    jobs = [Job(args, n, folder) for n in range(args.jobs)]
    findings = 0
    target: Target | None = None
    start = time.monotonic()
    for job in jobs:
        job.start()
    while any(job.left > 0 for job in jobs):
        time.sleep(0.05)
        for job in jobs:
            if job.left <= 0:
                continue
            if (found := job.poll()) is None:
                continue
            findings += 1
            print(found, flush=True)
            errors = (Path(folder) / f"errors{job.index}").read_text(errors="replace")
            print("\n".join("    " + line for line in errors.splitlines()[-args.lines :]), flush=True)
            if args.keep:
                number = int(found.split()[1])
                Path(args.keep).mkdir(parents=True, exist_ok=True)
                target = target or KINDS[args.kind](folder)
                arch, image = target.mutant(args.seed, number)
                (Path(args.keep) / f"{args.seed}-{number}-{arch}.hsaco").write_bytes(image)
            if job.left > 0:
                job.start()
    print(f"{args.count} mutants in {time.monotonic() - start:.0f} s, {findings} findings")
    return findings


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=KINDS, default="objects", help="damaged objects or wild programs")
    parser.add_argument("--count", type=int, default=100000, help="mutants to run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--patience", type=float, default=20, help="seconds that one mutant may take")
    parser.add_argument("--memory", type=int, default=512, help="MiB by which one mutant may grow the process")
    parser.add_argument("--keep", help="folder for the mutants that did harm")
    parser.add_argument("--lines", type=int, default=12, help="lines of a child's errors to show")
    parser.add_argument("--only", type=int, help="run this mutant in this process, say what became of it")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--progress", help=argparse.SUPPRESS)
    parser.add_argument("--stride", type=int, default=1, help=argparse.SUPPRESS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if args.worker:
            worker(args, folder)
            return 0
        if args.only is not None:
            os.environ.setdefault("FLYDSL_SIM_MAX_INSTRUCTIONS", "3000")
            print(KINDS[args.kind](folder).run(args.seed, args.only))
            return 0
        return 1 if fuzz(args, folder) else 0


if __name__ == "__main__":
    sys.exit(main())
