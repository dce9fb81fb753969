# RUN: %python %s | FileCheck %s
"""Every kernel of the lowering tests also becomes machine code, in which llvm-objdump shows what it is for.

In front of a kernel stands a comment with its architectures and regular expressions of the instructions expected:

    // CODEGEN gfx942,gfx950: v_mfma_f32_16x16x16_f16, flat_store

or why there is none (``// CODEGEN none: ...``). A kernel without such a comment is an error; so is one whose comment
names no architecture that exists. Files that test errors are left out.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from flydsl import ir as flyir
from flydsl._mlir import ir, passmanager

ROOT = Path(__file__).resolve().parents[1]
PIPELINE = (
    "builtin.module(fly-rewrite-func-signature,fly-canonicalize,fly-rocdl-expand-ops,fly-layout-lowering,"
    "fly-int-swizzle-simplify,canonicalize,fly-convert-atom-call-to-ssa-form,fly-promote-regmem-to-vectorssa,"
    "convert-fly-to-rocdl,canonicalize,gpu.module(convert-scf-to-cf,cse,convert-rocdl-fastmath-ops,"
    "fly-expand-math{{chipset={arch}}},"
    "convert-gpu-to-rocdl{{chipset={arch} index-bitwidth=0 runtime=HIP use-bare-ptr-memref-call-conv=true}},"
    "fly-rocdl-cluster-attr),convert-cf-to-llvm,convert-vector-to-llvm,convert-arith-to-llvm,"
    "reconcile-unrealized-casts)"
)
KERNEL = re.compile(r"gpu\.func @(\w+)\(.*\bkernel\b")
COMMENT = re.compile(r"// CODEGEN ([\w,]+): (.*)")


def annotations(text: str, where: str) -> dict[str, list[tuple[list[str], list[str]]]]:
    """By kernel: architectures and expected instructions of each comment in front of it."""
    result: dict[str, list[tuple[list[str], list[str]]]] = {}
    pending = []
    for line in text.splitlines():
        if match := COMMENT.search(line):
            archs, expected = match[1].split(","), [part.strip() for part in match[2].split(", ")]
            pending.append(([], []) if archs == ["none"] else (archs, expected))
        elif match := KERNEL.search(line):
            if not pending:
                sys.exit(f"{where}: kernel {match[1]} has no CODEGEN comment")
            result[match[1]] = pending
            pending = []
    return result


def machine_code(text: str, arch: str, kernels: set[str]) -> dict[str, str]:
    """What llvm-objdump prints for each of the kernels, compiled for ``arch`` without the others."""
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(text)
        for gpu_module in list(module.body.operations):
            if gpu_module.operation.name != "gpu.module":
                gpu_module.operation.erase()
                continue
            for op in list(gpu_module.regions[0].blocks[0].operations):
                if op.operation.name == "gpu.func" and ir.StringAttr(op.attributes["sym_name"]).value not in kernels:
                    op.operation.erase()
        passmanager.PassManager.parse(PIPELINE.format(arch=arch)).run(module.operation)
        hsaco = flyir.compile_hsaco(module, arch)
    with tempfile.NamedTemporaryFile(suffix=".hsaco") as file:
        file.write(hsaco)
        file.flush()
        listing = subprocess.run(
            ["llvm-objdump", "-d", f"--mcpu={arch}", file.name], check=True, capture_output=True, text=True
        ).stdout
    parts = re.split(r"^[0-9a-f]+ <(\w+)>:$", listing, flags=re.MULTILINE)
    # What follows the end of a kernel is padding.
    return {
        name: code.rpartition("s_endpgm")[0] + "s_endpgm" for name, code in zip(parts[1::2], parts[2::2], strict=True)
    }


def check(chunk: str, where: str) -> int:
    """Compile the kernels of one input; the number of pairs of kernel and architecture."""
    kernels = annotations(chunk, where)
    archs = {arch for comments in kernels.values() for names, _ in comments for arch in names}
    failures: list[str] = []
    for arch in sorted(archs):
        expected = {
            name: [pattern for names, patterns in comments if arch in names for pattern in patterns]
            for name, comments in kernels.items()
            if any(arch in names for names, _ in comments)
        }
        code = machine_code(chunk, arch, set(expected))
        for name, patterns in expected.items():
            for pattern in patterns:
                if not re.search(pattern, code[name]):
                    failures.append(f"{where}: {name} on {arch}: no {pattern} in\n{code[name]}")
    if failures:
        sys.exit("\n".join(failures))
    return sum(len(names) for comments in kernels.values() for names, _ in comments)


def main() -> None:
    """Check every file."""
    count = files = 0
    for path in sorted(ROOT.rglob("*.mlir")):
        text = path.read_text()
        if not KERNEL.search(text) or "-verify-diagnostics" in text:
            continue
        files += 1
        for number, chunk in enumerate(re.split(r"^// -----\s*$", text, flags=re.MULTILINE)):
            count += check(chunk, f"{path.relative_to(ROOT)}, part {number}")
    # CHECK: {{[1-9][0-9]+}} kernels of {{[1-9][0-9]}} files have their instructions
    print(f"{count} kernels of {files} files have their instructions")


if __name__ == "__main__":
    main()
