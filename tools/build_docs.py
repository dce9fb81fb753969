#!/usr/bin/env python3
"""Generate the reference pages of the dialects and check the links of every page in docs/ and the READMEs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "docs" / "reference" / "dialects"
CODE = re.compile(r"^( *)```.*?^\1```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\((?!https?:|mailto:|#)([^)#\s]+)")
DIALECTS = {"fly": "fly/IR/FlyOps.td", "fly_rocdl": "fly_rocdl/IR/FlyROCDLOps.td"}


def generate() -> None:
    """Run mlir-tblgen -gen-dialect-doc for each dialect."""
    prefix = Path("/usr/lib/llvm-22")
    tblgen = shutil.which("mlir-tblgen-22") or shutil.which("mlir-tblgen") or str(prefix / "bin" / "mlir-tblgen")
    OUT.mkdir(parents=True, exist_ok=True)
    include = ROOT / "packages" / "flydsl-ir" / "include"
    for dialect, source in DIALECTS.items():
        command = [tblgen, "-gen-dialect-doc", f"-dialect={dialect}", f"-I{prefix / 'include'}", f"-I{include}",
                   str(include / source)]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            raise SystemExit(f"mlir-tblgen failed for {dialect}:\n{result.stderr}")
        (OUT / f"{dialect}.md").write_text(result.stdout)
        print(f"docs/reference/dialects/{dialect}.md: {result.stdout.count(chr(10))} lines")


def broken_links() -> list[str]:
    """Every relative link whose target does not exist, as ``file:line: target``."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "packages").glob("*/README.md")]
    found = []
    for page in pages:
        if OUT in page.parents:
            continue
        # Code is no prose: brackets in it are no links. Its lines stay, so that numbers are right.
        text = CODE.sub(lambda code: "\n" * code[0].count("\n"), page.read_text())
        for number, line in enumerate(text.splitlines(), 1):
            for target in LINK.findall(line):
                if not (page.parent / target).exists():
                    found.append(f"{page.relative_to(ROOT)}:{number}: {target} does not exist")
    return found


def main() -> int:
    """Generate, then check."""
    generate()
    problems = broken_links()
    print("\n".join(problems) or "all links resolve")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
