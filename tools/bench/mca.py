#!/usr/bin/env python3
"""Hot loops of the examples and kernels in two models: the simulator's timing model and LLVM's (llvm-mca).

    python tools/bench/mca.py [--arch gfx942] [--markdown] [--only NAME]

Both see one wave alone whose memory accesses always hit the nearest cache. The ratio is the simulator's clocks over
LLVM's; docs/concepts/profiling.md explains those that differ by more than 15 %. Neither is a measurement of a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import hotloop
from figures import ROOT, Figure

EXAMPLES = ("01_vector_add", "02_tiled_copy", "03_tiled_mma", "04_preshuffle_gemm", "05_gather_scatter",
            "06_block_reduction", "07_ir_add_relu")
#: Issue slots in which LLVM counts: four clocks on gfx9, one on gfx12.
SLOT = {"gfx9": 4, "gfx1": 1}


@dataclass(frozen=True)
class Comparison:
    """A hot loop: clocks of one iteration by each model."""

    name: str
    instructions: int
    matrix: int
    simulator: float
    llvm: float
    stall: dict[str, float]

    @property
    def ratio(self) -> float:
        """The simulator's clocks over LLVM's."""
        return self.simulator / self.llvm


def compare(name: str, hsaco: bytes, arch: str) -> list[Comparison]:
    """The hot loop of each kernel of a code object; those without a loop are left out."""
    import flydsl.ir
    import flydsl.runtime as rt

    found = []
    for symbol, code in hotloop.parse(flydsl.ir.disassemble(hsaco)).items():
        try:
            body = hotloop.hot_loop(code)
        except ValueError:
            continue
        # A loop of a few scalar instructions (a search, a spin) is no hot loop.
        if not any(i.mnemonic.startswith(("v_", "ds_", "global_", "buffer_")) for i in body):
            continue
        report = hotloop.analyse(body, arch, iterations=200)
        mine = rt.loop_estimate(hsaco, body[0].address, body[-1].address, 200)
        found.append(Comparison(f"{name} ({symbol})", len(body), report.matrix_instructions, mine.clocks,
                                report.cycles * SLOT[arch[:4]], mine.stall))
    return found


def example_images(arch: str) -> list[tuple[str, bytes]]:
    """(name, code object) of everything that the examples compile when they run."""
    import flydsl.compiler.launch.compiled as compiled
    from flydsl.runtime import _plans

    images: list[tuple[str, bytes]] = []
    sys.path.insert(0, str(ROOT / "docs" / "examples"))
    for name in EXAMPLES:
        seen: list[bytes] = []
        compiled.remember = lambda plan, hsaco, seen=seen: seen.append(hsaco)
        argv, sys.argv = sys.argv, [name]
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                module = importlib.import_module(name)
                if hasattr(module, "main"):
                    module.main()
        except (SystemExit, NotImplementedError, ValueError) as error:
            print(f"{name}: not on {arch} ({error})", file=sys.stderr)
        finally:
            sys.argv = argv
            compiled.remember = _plans.remember
        images += [(name, hsaco) for hsaco in dict.fromkeys(seen)]
    return images


def kernel_images() -> list[tuple[str, bytes]]:
    """(name, code object) of the kernels that the package's own benchmark lists for this architecture."""
    sys.path.insert(0, str(ROOT / "packages" / "flydsl-kernels" / "bench"))
    listed: Any = importlib.import_module("cases")
    import flydsl.compiler as flyc
    from flydsl.kernels.target import target

    images = []
    for case in listed.cases(target(), 64):
        launcher, arguments = case.make()
        images.append((f"{case.name} {case.dtype}", flyc.compile(launcher, *arguments).artifact.hsaco))
    return images


def collect(arch: str, only: str = "") -> list[Comparison]:
    """Every hot loop whose name contains ``only``."""
    images = [(name, hsaco) for name, hsaco in [*example_images(arch), *kernel_images()] if only in name]
    return [loop for name, hsaco in images for loop in compare(name, hsaco, arch)]


def _stalls(loop: Comparison) -> str:
    """The two largest causes of stalls in the simulator's model."""
    largest = sorted(loop.stall.items(), key=lambda kv: -kv[1])[:2]
    return ", ".join(f"{cause} {clocks:.0f}" for cause, clocks in largest if clocks >= 1)


def measure() -> list[Figure]:
    """How many hot loops of gfx942 agree within 15 %, and the median ratio."""
    command = [sys.executable, __file__, "--arch", "gfx942", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    ratios = sorted(entry["ratio"] for entry in json.loads(done.stdout))
    near = sum(abs(r - 1) <= 0.15 for r in ratios)
    note = f"{len(ratios)} loops of examples and kernels, gfx942; explained in docs/concepts/profiling.md"
    return [
        Figure("timing model over llvm-mca, median", ratios[len(ratios) // 2], "x", note=note),
        Figure("hot loops within 15 % of llvm-mca", 100 * near / len(ratios), "%", note=note),
    ]


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--only", default="", help="names that contain this")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    os.environ.update(FLYDSL_RUNTIME_KIND="sim", FLYDSL_SIM_ARCH=args.arch, ARCH=args.arch)
    loops = collect(args.arch, args.only)
    if args.json:
        print(json.dumps([{**asdict(loop), "ratio": loop.ratio} for loop in loops], indent=2))
        return 0
    if args.markdown:
        print("| loop | instructions | matrix | simulator clk | llvm-mca clk | ratio | most stalls |")
        print("|---|---|---|---|---|---|---|")
    for loop in loops:
        cells = (loop.name, str(loop.instructions), str(loop.matrix), f"{loop.simulator:.0f}", f"{loop.llvm:.0f}",
                 f"{loop.ratio:.2f}", _stalls(loop))
        if args.markdown:
            print("| " + " | ".join(cells) + " |")
        else:
            print("{:64} {:>4} instr {:>4} matrix {:>7} clk, llvm-mca {:>7} clk, ratio {}  {}".format(*cells))
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main())
