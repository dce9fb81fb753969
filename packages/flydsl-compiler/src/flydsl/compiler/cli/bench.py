"""``flydsl bench``: the time of a jit function on the device."""

from __future__ import annotations

import argparse
from typing import Any

from .output import CliError, Output
from .target import add_arguments, load_function, split_target, variables

__all__ = ["register"]


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("bench", help="time of a jit function: measured on a GPU, estimated on the simulator")
    add_arguments(parser)
    parser.add_argument("--warmup", type=int, default=5, help="calls before the measurement")
    parser.add_argument("--rep", type=int, default=25, help="measured calls")
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Measure one call."""
    from flydsl.autotune import do_bench
    from flydsl.runtime import HipError, device_info
    from flydsl.runtime.timing import default_timer

    path, name = split_target(options.target)
    if not name:
        raise CliError("bench needs a target FILE.py:FUNCTION", 2)
    kind = "sim" if options.arch else ""
    with variables({"ARCH": options.arch, "FLYDSL_SIM_ARCH": options.arch, "FLYDSL_RUNTIME_KIND": kind}):
        function, args, kwargs = load_function(path, name, options.arg)
        try:
            times = do_bench(lambda: function(*args, **kwargs), options.warmup, options.rep, [0.0, 0.5, 1.0])
            timer, device = default_timer(), device_info()
        except (TypeError, ValueError, RuntimeError, HipError) as error:
            raise CliError(f"{name}: {type(error).__name__}: {error}") from None
    found = {"function": name, "device": device.name, "arch": device.arch, "milliseconds": times[1], "least": times[0],
             "most": times[2], "estimate": timer.estimate, "timer": timer.label}
    output.data(found)
    spread = "" if timer.estimate else f" ({times[0]:.4g} to {times[2]:.4g})"
    output.line(f"{name} on {device.name} ({device.arch}): {times[1]:.4g} ms{spread}, {timer.label}")
    return 0
