"""Which instructions no test runs: a tool for developers.

    FLYDSL_SIM_OPCODES=/tmp/opcodes pytest tests/sim --ignore tests/sim/test_images.py
    python tests/sim/opcode_report.py /tmp/opcodes [ARCH ...]

lists, per architecture, the mnemonics of the compute instructions that appear in no program that a test launched,
most of them by family (the part of the name before the type). Random images count instructions that no test means.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict

from hiplib import find_library

from flydsl.runtime.coverage import ARCHITECTURES, coverage

#: Parts of LLVM's opcode names that say how an instruction is encoded, not what it does.
ENCODING = re.compile(
    r"_(TFE|VBUFFER|OFFEN|OFFSET|IDXEN|BOTHEN|LDS|SVS|ST|SVE|SV|SS|SADDR|IMM|SGPR|exact|format|RTN|gfx\d+a?|vi|ec|alt"
    r"|e32|e64|dpp8?|sdwa|fake16|t16|w32|w64|agpr)(?=_|$)"
)


def never_run(log: str, arch: str) -> tuple[int, int, dict[str, list[str]]]:
    """Compute mnemonics of `arch`, how many of them are in the log, and the others by family."""
    with open(log, encoding="utf-8") as lines:
        opcodes = {ENCODING.sub("", line.split()[1]) for line in lines if line.startswith(f"{arch} ")}
    known = [i for i in coverage(arch, str(find_library())) if i.compute]
    run = {i.mnemonic for i in known if ENCODING.sub("", i.opcode) in opcodes}
    families: dict[str, list[str]] = defaultdict(list)
    for name in sorted({i.mnemonic for i in known} - run):
        families[re.sub(r"_?(pk\d*_)?([iubf]+p?\d+|x\d+).*$", "", name)].append(name)
    return len({i.mnemonic for i in known}), len(run), families


def main() -> None:
    """Prints the report."""
    log, *archs = sys.argv[1:]
    for arch in archs or ARCHITECTURES:
        total, run, families = never_run(log, arch)
        print(f"{arch}: {run} of {total} mnemonics run")
        for family, names in sorted(families.items(), key=lambda f: -len(f[1])):
            print(f"  {family}: {' '.join(names)}")


if __name__ == "__main__":
    main()
