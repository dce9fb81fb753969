"""Runs the lit tests against the installed package: ``python tests/filecheck/run_lit.py [lit arguments]``.

FileCheck comes from the LLVM installation that ``llvm-config-22`` (or ``llvm-config``) names. In a
build tree use the target ``check-fly`` instead.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE_ROOT = Path(__file__).resolve().parents[2]
SITE_CONFIG = """\
config.fly_source_root = {source!r}
config.fly_build_root = {scratch!r}
config.fly_tools_dir = {tools!r}
config.llvm_tools_dir = {llvm!r}
config.python = {python!r}
lit_config.load_config(config, {config!r})
"""


def llvm_tools_dir() -> str:
    """The folder with FileCheck; exits with a message if there is none."""
    for name in ("llvm-config-22", "llvm-config"):
        if path := shutil.which(name):
            return subprocess.run([path, "--bindir"], check=True, capture_output=True, text=True).stdout.strip()
    sys.exit("run_lit: llvm-config-22 not found; install llvm-22-dev for FileCheck")


def main(arguments: list[str]) -> int:
    from flydsl import ir

    with tempfile.TemporaryDirectory() as scratch:
        test_dir = Path(scratch) / "test"
        test_dir.mkdir()
        (test_dir / "lit.site.cfg.py").write_text(
            SITE_CONFIG.format(
                source=str(SOURCE_ROOT),
                scratch=scratch,
                tools=str(ir.find_tool("fly-opt").parent),
                llvm=llvm_tools_dir(),
                python=sys.executable,
                config=str(SOURCE_ROOT / "tests" / "filecheck" / "lit.cfg.py"),
            )
        )
        environment = {**os.environ, "PYTHONSAFEPATH": "1"}
        command = [sys.executable, "-c", "from lit.main import main; main()", "-sv", *arguments, str(test_dir)]
        return subprocess.run(command, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
