"""Code generation by another LLVM/MLIR installation: ``FLYDSL_COMPILE_LLVM_DIR=<prefix>``.

Everything up to the LLVM dialect runs in process; ``<prefix>/bin/mlir-opt`` turns the ``gpu.module`` into a
code object.
"""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path
from typing import Any

from flydsl.tracing.ir_walk import children

__all__ = ["ExternalLLVMError", "external_fingerprint", "generate_externally", "mlir_opt"]

TIMEOUT = 600.0  # seconds


class ExternalLLVMError(RuntimeError):
    """The external tool is missing, failed, took too long, or gave something unexpected."""


def mlir_opt(prefix: str) -> Path:
    """The tool of an installation. ExternalLLVMError if it is not there or cannot be executed."""
    tool = Path(prefix).expanduser() / "bin" / "mlir-opt"
    if not tool.is_file():
        raise ExternalLLVMError(f"FLYDSL_COMPILE_LLVM_DIR={prefix}: there is no {tool}")
    if not os.access(tool, os.X_OK):
        raise ExternalLLVMError(f"FLYDSL_COMPILE_LLVM_DIR={prefix}: {tool} is not executable")
    return tool


@functools.lru_cache(maxsize=4)
def _digest(tool: str, size: int, time: int) -> str:
    return hashlib.sha256(Path(tool).read_bytes()).hexdigest()


def external_fingerprint(prefix: str) -> str:
    """Identity of the external code generator for cache keys; empty without one."""
    if not prefix:
        return ""
    tool = mlir_opt(prefix).resolve()
    status = tool.stat()
    digest = _digest(str(tool), status.st_size, status.st_mtime_ns)
    return f"external-binary:{tool.parent.parent}:{digest}"


def _option(name: str, value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"--{name}={text}"


def generate_externally(
    prefix: str, gpu_module: Any, fragment: str, options: dict[str, Any], directory: Path | None, stage: str
) -> bytes:
    """The code object of a lowered ``gpu.module`` with a target attached.

    Args:
        fragment: the pass pipeline for the tool. options: LLVM options. directory: where the files of this stage
            stay; None for a temporary one.

    Raises:
        ExternalLLVMError: names the command, with what the tool printed.
    """
    import tempfile  # not needed where the code generator in process does it

    tool = mlir_opt(prefix)
    with tempfile.TemporaryDirectory() as scratch:
        folder = directory or Path(scratch)
        source, result = folder / f"{stage}_input.mlir", folder / f"{stage}_external_output.mlir"
        text = gpu_module.get_asm(print_generic_op_form=True)
        whole = f'"builtin.module"() ({{\n{text}\n}}) {{gpu.container_module}} : () -> ()\n'
        source.write_text(whole, encoding="utf-8")
        command = [str(tool), str(source), f"--pass-pipeline=builtin.module({fragment})", "-o", str(result),
                   *(_option(k, v) for k, v in options.items())]
        _run(command, Path(prefix).expanduser())
        if not result.is_file():
            raise ExternalLLVMError(f"the external tool wrote no output: {' '.join(command)}")
        return _code_object(result.read_text(encoding="utf-8"), gpu_module.attributes["sym_name"].value)


def _run(command: list[str], prefix: Path) -> None:
    import subprocess

    environment = dict(os.environ)
    for variable, folder in (("LD_LIBRARY_PATH", "lib"), ("PATH", "bin")):
        environment[variable] = os.pathsep.join(filter(None, [str(prefix / folder), environment.get(variable, "")]))
    shown = " ".join(command)
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise ExternalLLVMError(f"the external tool took longer than {TIMEOUT:.0f} s: {shown}") from None
    except OSError as error:
        raise ExternalLLVMError(f"the external tool cannot be started: {error}: {shown}") from None
    if done.returncode:
        raise ExternalLLVMError(
            f"the external tool failed with status {done.returncode}\ncommand: {shown}\nstdout: {done.stdout}\n"
            f"stderr: {done.stderr}"
        )


def _code_object(text: str, symbol: str) -> bytes:
    """The object in the only ``gpu.binary`` of the tool's output."""
    from flydsl._mlir import ir
    from flydsl._mlir.dialects import gpu

    try:
        module = ir.Module.parse(text)
    except ir.MLIRError as error:
        raise ExternalLLVMError(f"the external tool's output is no MLIR that this version reads: {error}") from None
    binaries = [op for op in children(module) if op.name == "gpu.binary"]
    names = [op.attributes["sym_name"].value for op in binaries]
    if names != [symbol]:
        raise ExternalLLVMError(f"the external tool gave binaries {names}, expected [{symbol!r}]")
    (target,) = ir.ArrayAttr(binaries[0].attributes["objects"])
    return bytes(gpu.ObjectAttr(target).object)
