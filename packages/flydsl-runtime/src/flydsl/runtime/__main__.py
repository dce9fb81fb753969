"""``python -m flydsl.runtime``: facts of the devices and the simulator."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
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


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m flydsl.runtime", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    info = commands.add_parser("info", help="print kind, library, devices and limits")
    info.add_argument("--json", action="store_true", help="print as JSON")
    commands.add_parser("sim-lib-dir", help="print the folder of the simulator library, for LD_LIBRARY_PATH")
    report = commands.add_parser("report", help="HTML page from a profile that FLYDSL_SIM_STATS=FILE.json saved")
    report.add_argument("profile", help="JSON file of the profile")
    report.add_argument("-o", "--output", default="profile.html", help="page to write (default: profile.html)")
    report.add_argument("--compare", help="profile of an earlier run to compare with")
    disassemble = commands.add_parser("disasm", help="print a code object with its source lines")
    disassemble.add_argument("code_object", help="HSACO file")
    cover = commands.add_parser("coverage", help="list the instructions that the simulator executes")
    cover.add_argument("--arch", action="append", help="architecture (default: all)")
    cover.add_argument("--missing", action="store_true", help="print only what is missing, with an example each")
    options = parser.parse_args(argv)
    try:
        if options.command == "sim-lib-dir":
            from ._provider import simulator_directory

            print(simulator_directory())
        elif options.command == "report":
            from pathlib import Path

            from .profiling import Profile
            from .profiling.report import render

            earlier = Profile.load(options.compare).launches if options.compare else None
            Path(options.output).write_text(render(Profile.load(options.profile).launches, earlier))
            print(options.output)
        elif options.command == "coverage":
            from .coverage import ARCHITECTURES, coverage, fidelity_table

            archs = tuple(options.arch or ARCHITECTURES)
            if options.missing:
                for arch in archs:
                    missing = (i for i in coverage(arch) if i.compute and i.fidelity == "missing")
                    print("\n".join(f"{arch} {i.mnemonic}: {i.example}" for i in missing))
            else:
                print(fidelity_table(archs), end="")
        elif options.command == "disasm":
            from .disassembly import disasm

            print(disasm(options.code_object))
        else:
            facts = collect_info()
            print(json.dumps(facts, indent=2) if options.json else format_info(facts))
    except (RuntimeError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
