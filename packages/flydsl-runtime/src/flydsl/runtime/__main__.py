"""Devices, the simulator, and what it found out about programs, on the command line."""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
from collections.abc import Callable
from dataclasses import asdict
from typing import Any


def collect_info() -> dict[str, Any]:
    """What ``info`` prints, as data. Raises HipError if no HIP library can be used."""
    from . import __version__, _devices, _provider, device
    from .checking import unsupported

    kind = _provider.kind()
    library = _provider.library_info()
    return {
        "version": __version__,
        "kind": kind,
        "library": library["path"],
        "hip_version": library["hip_version"],
        "simulator_version": library["simulator_version"],
        "compile_arch": device.get_rocm_arch(),
        "unsupported": unsupported() if kind == "sim" else [],
        "devices": [asdict(_devices.device_info(i)) for i in range(_devices.device_count())],
    }


def format_info(info: dict[str, Any]) -> str:
    """The data of :func:`collect_info` for people."""
    lines = [
        f"flydsl.runtime {info['version']}",
        f"kind           {info['kind']}",
        f"library        {info['library']}",
        f"default arch   {info['compile_arch']}",
    ]
    for entry in info["devices"]:
        gib = entry["total_memory"] / 2**30
        lines += [
            f"device {entry['index']}       {entry['name']}",
            f"  arch         {entry['arch']}",
            f"  limits       {entry['compute_units']} compute units, wave {entry['warp_size']}, "
            f"{entry['max_threads_per_block']} work-items and {entry['lds_bytes']} bytes of LDS per work-group",
            f"  memory       {gib:.1f} GiB",
        ]
    if info["unsupported"]:
        lines += ["", f"{len(info['unsupported'])} HIP functions return hipErrorNotSupported:"]
        lines += textwrap.wrap(
            " ".join(info["unsupported"]), 118, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
        )
    return "\n".join(lines)


def _profile(options: argparse.Namespace) -> int:
    """Run a program under ``profile()``; the exit status is the program's."""
    import os
    from pathlib import Path

    from .profiling import profile
    from .profiling.collect import writable
    from .scripts import main_file, run_script

    program = Path(options.program)
    try:
        main_file(program)  # before anything is written
    except FileNotFoundError as error:
        raise ValueError(f"profile: {error}") from None
    os.environ.setdefault("FLYDSL_RUNTIME_KIND", "sim")
    output = writable("-o", options.output) if options.output else None
    trace = writable("--trace", options.trace) if options.trace else None
    with profile(timing=options.timing or output is not None, trace=trace is not None) as result:
        status = run_script(program, options.arguments)
    if output:
        result.save(output)
    if trace:
        result.write_trace(trace)
    print(json.dumps(result.as_dict(), indent=2) if options.json else result.table())
    return status


def _info(options: argparse.Namespace) -> int:
    facts = collect_info()
    print(json.dumps(facts, indent=2) if options.json else format_info(facts))
    return 0


def _sim_lib_dir(options: argparse.Namespace) -> int:
    from ._provider import simulator_directory

    print(simulator_directory())
    return 0


def _report(options: argparse.Namespace) -> int:
    from pathlib import Path

    from .profiling import Profile
    from .profiling.report import render

    runs = [*([options.compare] if options.compare else []), *options.profile]
    if len(runs) > 2:
        raise ValueError(f"report: one profile, or two to compare, and not {len(runs)}: {', '.join(runs)}")
    *earlier, launches = (Profile.load(run).launches for run in runs)
    Path(options.output).write_text(render(launches, *earlier), encoding="utf-8")
    print(options.output)
    return 0


def _stats(options: argparse.Namespace) -> int:
    from .profiling import Profile

    saved = Profile.load(options.profile)
    print(json.dumps(saved.as_dict(), indent=2) if options.json else saved.table())
    return 0


def _coverage(options: argparse.Namespace) -> int:
    from .coverage import ARCHITECTURES, coverage, fidelity_table

    archs = tuple(options.arch or ARCHITECTURES)
    if not options.missing and not options.json:
        print(fidelity_table(archs), end="")
        return 0
    listed = {arch: [i for i in coverage(arch) if i.compute and (i.fidelity == "missing" or not options.missing)]
              for arch in archs}
    if options.json:
        print(json.dumps({arch: [asdict(i) for i in found] for arch, found in listed.items()}, indent=2))
        return 0
    for arch, found in listed.items():
        print("\n".join(f"{arch} {i.mnemonic}: {i.example}" for i in found))
    return 0


def _disasm(options: argparse.Namespace) -> int:
    from .disassembly import disasm

    print(disasm(options.code_object))
    return 0


def _model(options: argparse.Namespace) -> int:
    from .coverage import ARCHITECTURES
    from .profiling.model_constants import constants

    tables = {arch: constants(arch) for arch in options.arch or ARCHITECTURES}
    if options.json:
        print(json.dumps({arch: [asdict(c) for c in table] for arch, table in tables.items()}, indent=2))
        return 0
    for arch, table in tables.items():
        print(f"{arch}: constants of the timing model (no measurement of this project)")
        for c in table:
            print(f"  {c.name:24} {c.value:<12g} {c.unit:28} {c.trust:5} {c.source}")
    return 0


def _calibrate(options: argparse.Namespace) -> int:
    """Compare a profile with what a machine measured; 1 if no kernel is in both."""
    from pathlib import Path

    from .profiling import Profile
    from .profiling.calibrate import compare, fit, format_comparison
    from .profiling.rocprofv3 import measurements

    deviations = compare(Profile.load(options.profile).launches, measurements(options.files, options.agent))
    if not deviations:
        print("error: no kernel of the profile is in the measurements (name and grid must agree)", file=sys.stderr)
        return 1
    constants = fit(deviations)
    if options.output:
        Path(options.output).write_text(json.dumps({"constants": constants}, indent=2) + "\n", encoding="utf-8")
    if options.json:
        print(json.dumps({"kernels": [asdict(d) for d in deviations], "constants": constants}, indent=2))
    else:
        print(format_comparison(deviations, constants))
    return 0


def _parser() -> argparse.ArgumentParser:
    """The commands with their options; ``run`` of what is parsed is the function of the command."""
    from .checker import command as checker

    parser = argparse.ArgumentParser(prog="python -m flydsl.runtime", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    def add(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text)
        command.set_defaults(run=run)
        return command

    info = add("info", _info, "print kind, library, devices and limits")
    info.add_argument("--json", action="store_true", help="print as JSON")
    add("sim-lib-dir", _sim_lib_dir, "print the folder of the simulator library, for LD_LIBRARY_PATH")
    report = add("report", _report, "HTML page from a profile that FLYDSL_SIM_STATS=FILE.json saved")
    report.add_argument("profile", nargs="+", help="JSON file of the profile; two (earlier, later) are compared")
    report.add_argument("-o", "--output", default="profile.html", help="page to write (default: profile.html)")
    report.add_argument("--compare", help="profile of an earlier run to put beside the one profile")
    stats = add("stats", _stats, "print a saved profile as text or as derived figures")
    stats.add_argument("profile", help="JSON file of the profile")
    stats.add_argument("--json", action="store_true", help="derived figures as JSON")
    record = add("profile", _profile, "run a Python program on the simulator and profile its kernels")
    record.add_argument("--timing", action="store_true", help="also estimate cycles")
    record.add_argument("--json", action="store_true", help="print derived figures as JSON instead of tables")
    record.add_argument("-o", "--output", help="also save everything for report and stats")
    record.add_argument("--trace", help="also write a Perfetto trace")
    record.add_argument("program", help="Python file, or a folder with a __main__.py")
    record.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    constants = add("model", _model,
                    "print the constants of the timing model, with source and trust; or fit them to a machine")
    constants.add_argument("--arch", action="append", help="architecture (default: all)")
    constants.add_argument("--json", action="store_true", help="print as JSON")
    measured = constants.add_subparsers(dest="action").add_parser(
        "calibrate", help="compare with measurements of a machine")
    measured.set_defaults(run=_calibrate)
    measured.add_argument("files", nargs="+", help="kernel traces and counters of rocprofv3 (CSV or JSON)")
    measured.add_argument("--profile", required=True, metavar="FILE.json",
                          help="profile of the same launches (FLYDSL_SIM_STATS=FILE.json)")
    measured.add_argument("--agent", help="the GPU as the files name it, if they have several")
    measured.add_argument("-o", "--output", help="write the constants that fit, for FLYDSL_SIM_MODEL")
    measured.add_argument("--json", action="store_true", help="print as JSON")
    disassemble = add("disasm", _disasm, "print a code object with its source lines")
    disassemble.add_argument("code_object", help="HSACO file")
    cover = add("coverage", _coverage, "list the instructions that the simulator executes")
    cover.add_argument("--arch", action="append", help="architecture (default: all)")
    cover.add_argument("--missing", action="store_true", help="print only what is missing, with an example each")
    cover.add_argument("--json", action="store_true", help="every instruction with fidelity and example, as JSON")
    checker.add_parser(commands).set_defaults(run=checker.run)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    options = _parser().parse_args(argv)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader (`head`) has seen enough; what is left must not fail again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (RuntimeError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
