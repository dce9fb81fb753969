"""Time of a launch, Python to HIP API: `python bench/launch_overhead.py [--json]`.

Runs on a HIP library that executes nothing (built with the C compiler), so that only this package is timed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import timeit
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from runtime_fake_hip import build_fake_hip  # noqa: E402
from runtime_plans import HSACO, launch, plan, scalar, tensor  # noqa: E402


def make_launcher(tensors: int, scalars: int) -> Any:
    """A launcher like that of an elementwise kernel: layouts of 2-D tensors, scalars, a stream."""
    from flydsl.runtime import Launcher

    arguments = [tensor(f"t{i}", align=16) for i in range(tensors)] + [scalar(f"s{i}") for i in range(scalars)]
    arguments.append({"kind": "stream", "name": "stream"})
    code: list[list[Any]] = [["const", 0, 1], ["const", 1, 256], ["const", 2, 4096]]
    kernel_args: list[tuple[int, int, int]] = []
    offset = 0

    def pass_value(instruction: list[Any], size: int) -> None:
        nonlocal offset
        code.append(instruction)
        kernel_args.append((instruction[1], offset, size))
        offset += size

    for i in range(tensors):
        pass_value(["ptr", 10 + 4 * i, i], 8)
        pass_value(["shape", 11 + 4 * i, i, 0], 4)
        pass_value(["shape", 12 + 4 * i, i, 1], 4)
        pass_value(["stride", 13 + 4 * i, i, 0], 8)
    for i in range(scalars):
        pass_value(["arg", 50 + i, tensors + i], 4)
    code += [["stream", 3, tensors + scalars], ["ceildivs", 4, 2, 1, 32]]
    code += [launch("kernel", (4, 0, 0), (1, 0, 0), -1, 3, tuple(kernel_args), offset), ["ret"]]
    return Launcher(plan(arguments, code, regs=64), HSACO, arch="gfx942")


def measure(make_tensor: Any, tensors: int, scalars: int, number: int = 100_000) -> float:
    """Microseconds of one call, best of five."""
    launcher = make_launcher(tensors, scalars)
    arguments = (*(make_tensor() for _ in range(tensors)), *range(scalars), None)
    launcher(*arguments)
    return min(timeit.repeat(lambda: launcher(*arguments), number=number, repeat=5)) / number * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ.pop("FLYDSL_RUNTIME_KIND", None)
    os.environ["FLYDSL_HIP_LIBRARY"] = str(build_fake_hip("FAKE_HIP_NULL", "FAKE_HIP_SIMULATOR"))

    import numpy

    kinds = {"numpy": lambda: numpy.zeros((128, 128), numpy.float32)}
    if find_spec("torch"):
        import torch

        kinds["torch"] = lambda: torch.zeros(128, 128)
    results = {
        f"{kind}, {tensors} tensors, {scalars} scalars": measure(make, tensors, scalars)
        for kind, make in kinds.items()
        for tensors, scalars in ((0, 0), (3, 4), (8, 0))
    }
    if options.json:
        print(json.dumps({"unit": "us", **results}, indent=2))
    else:
        for name, microseconds in results.items():
            print(f"{name:30} {microseconds:6.2f} us")


if __name__ == "__main__":
    main()
