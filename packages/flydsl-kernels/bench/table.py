#!/usr/bin/env python3
"""Facts about the kernels' code, and a simulated run of each, as a table.

    python packages/flydsl-kernels/bench/table.py --arch gfx942 [--markdown] [--plot utilisation.svg] [--only gemm]

Static: registers, LDS and spills from the code object; for GEMMs the share of the hot loop's cycles in which the matrix
unit is busy, from LLVM's machine model (llvm-mca; one wave, caches that always hit). Simulated: seconds of one launch
on the simulator, which say nothing about a GPU. Nothing here was measured on a GPU.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools" / "bench"))


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    size: str
    vgpr: int
    agpr: int
    lds: int
    spills: int
    waves: int
    utilisation: float | None
    minimum_bytes: int
    flops: int
    compile_seconds: float
    simulated_seconds: float


def occupancy(vgpr: int, agpr: int, lds: int, threads: int, target: Any) -> int:
    """Waves of one SIMD: limited by registers (512 on CDNA, 1536 on RDNA4) and by LDS."""
    total = 512 if target.wave == 64 else 1536
    limit = 8 if target.wave == 64 else 16
    by_registers = total // max(-(-(vgpr + agpr) // 8) * 8, 1)
    groups = target.lds_bytes // lds if lds else 64
    return max(min(by_registers, limit, groups * (threads // target.wave) // 4 or 1), 1)


def facts(launcher: Any, arguments: list[Any], threads: int, target: Any, arch: str) -> dict[str, Any]:
    """Static facts of the kernel with the most registers, and times of the first call and of a launch."""
    import hotloop

    import flydsl.compiler as flyc
    import flydsl.ir
    import flydsl.runtime as rt

    start = time.perf_counter()
    compiled = flyc.compile(launcher, *arguments)
    rt.synchronize()
    first = time.perf_counter() - start
    start = time.perf_counter()
    compiled(*arguments, *([None] if len(arguments) < compiled._count else []))
    rt.synchronize()
    launch = time.perf_counter() - start
    hsaco = compiled.artifact.hsaco
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.hsaco"
        path.write_bytes(hsaco)
        kernels = hotloop.metadata(path)
    name, data = max(kernels.items(), key=lambda item: item[1]["vgpr_count"])
    utilisation = None
    code = hotloop.parse(flydsl.ir.disassemble(hsaco))
    if any(hotloop.is_matrix(i) for i in code[name]):
        try:
            # LLVM has no model of the matrix unit for every chip: no figure then
            utilisation = hotloop.analyse(hotloop.hot_loop(code[name]), arch).utilisation or None
        except (ValueError, FileNotFoundError, RuntimeError):
            utilisation = None
    vgpr, agpr, lds = data["vgpr_count"], data.get("agpr_count", 0), data["group_segment_fixed_size"]
    vgpr -= agpr  # the notes count both files together
    return dict(vgpr=vgpr, agpr=agpr, lds=lds, spills=data["vgpr_spill_count"],
                waves=occupancy(vgpr, agpr, lds, threads, target), utilisation=utilisation,
                compile_seconds=first - launch, simulated_seconds=launch)  # fmt: skip


def row_kernels(target: Any) -> list[tuple[str, str, Any, list[Any], int, int, int]]:
    """(name, size, launcher, arguments, threads, minimum bytes, flops) of norms, softmax, quantisation, gating."""
    import torch

    from flydsl.kernels import moe, norm, quant, softmax

    m, n = 64, 8192
    x = torch.randn(m, n).bfloat16()
    w, y, stat = torch.randn(n).bfloat16(), torch.empty_like(x), torch.empty(m)
    q, size = torch.empty(m, n, dtype=torch.int8), f"{m}x{n} bf16"
    matrix = m * n * 2
    table = [
        ("softmax", softmax.build_softmax_module(m, n, "bf16"), [x, y, m], 2 * matrix),
        ("softmax_bwd", softmax.build_softmax_bwd_module(n, "bf16"), [x, x, y, m], 3 * matrix),
        ("rmsnorm", norm.build_rmsnorm_module(n, "bf16"), [x, w, y, m], 2 * matrix + n * 2),
        ("layernorm", norm.build_layernorm_module(n, "bf16"), [x, w, w, y, m], 2 * matrix + n * 4),
        ("fused_add_rmsnorm", norm.build_fused_add_rmsnorm_module(n, "bf16"), [x, x, w, y, torch.empty_like(x), m],
         4 * matrix + n * 2),
        ("rmsnorm_smoothquant i8", norm.build_rmsnorm_smoothquant_module(n, "bf16"), [x, w, w, q, stat, m],
         matrix * 3 // 2 + n * 4 + m * 4),
        ("rmsnorm_bwd", norm.build_rmsnorm_bwd_module(n, "bf16"), [x, w, x, stat, y, torch.zeros(n), m],
         3 * matrix + n * 6 + m * 4),
        ("layernorm_bwd", norm.build_layernorm_bwd_module(n, "bf16"),
         [x, w, x, stat, stat, y, torch.zeros(n), torch.zeros(n), m], 3 * matrix + n * 10 + m * 8),
        ("quant per token i8", quant.build_quant_module(n, "bf16", "i8")[0], [x, q, stat, m], matrix * 3 // 2 + m * 4),
    ]  # fmt: skip
    rows = [(name, size, launcher, arguments, 256, minimum, 0) for name, launcher, arguments, minimum in table]
    tokens, experts, k = 256, 256, 8
    out = [torch.empty(tokens, k) for _ in range(3)]
    gating = moe.build_topk_gating_softmax_module(experts, k, "bf16")
    rows.append(("topk_gating_softmax", f"{tokens}x{experts} top {k}", gating,
                 [torch.randn(tokens, experts).bfloat16(), *out, tokens], 4 * target.wave,
                 tokens * experts * 2 + tokens * k * 12, 0))  # fmt: skip
    return rows


def gemm_kernels(target: Any) -> list[tuple[str, str, Any, list[Any], int, int, int]]:
    """The same of GEMMs, at a size the simulator runs in about a second."""
    import torch

    from flydsl.kernels import gemm

    rows = []
    k = 2048

    def add(name: str, launcher: Any, m: int, n: int, arguments: list[Any], threads: int, size: int) -> None:
        rows.append((name, f"{m}x{n}x{k}", launcher, arguments, threads, (m + n) * k * size + m * n * 2,
                     2 * m * n * k))  # fmt: skip

    if target.matrix == "mfma":
        for dtype, tile in (("fp8", (64, 256, 128)), ("fp8", (128, 128, 128)), ("int8", (128, 256, 128)),
                            ("bf16", (128, 128, 64)), ("bf16", (64, 256, 64))):  # fmt: skip
            m, n = tile[0], tile[1]
            size = 2 if dtype == "bf16" else 1
            kind = torch.bfloat16 if size == 2 else torch.int8
            a, b = (torch.randint(-40, 40, (r * k,)).to(kind) for r in (m, n))
            launcher = gemm.compile_preshuffle_gemm(N=n, K=k, tile_m=tile[0], tile_n=tile[1], tile_k=tile[2],
                                                    in_dtype=dtype)  # fmt: skip
            c = torch.empty(m * n, dtype=torch.bfloat16)
            add(f"preshuffle {dtype} {'x'.join(map(str, tile))}", launcher, m, n,
                [c, a, b, torch.ones(m), torch.ones(n), torch.zeros(n), m, n], 256, size)  # fmt: skip
        launcher = gemm.compile_blockscale_preshuffle_gemm(N=128, K=k, tile_m=64, tile_n=128, tile_k=128)
        a, b = (torch.randint(-40, 40, (r * k,), dtype=torch.int8) for r in (64, 128))
        add("blockscale fp8 64x128x128", launcher, 64, 128,
            [torch.empty(64 * 128, dtype=torch.bfloat16), a, b, torch.ones(k // 128, 64), torch.ones(1, k // 128), 64,
             128], 256, 1)  # fmt: skip
    knobs = dict(block_m=128, block_n=128, block_k=64 if target.matrix == "mfma" else 32)
    for layout in ("nt", "nn"):
        launcher = gemm.build_gemm_module(128, k, "bf16", layout=layout, **knobs)
        a, b = (torch.randn(128 * k).bfloat16() for _ in range(2))
        c = torch.empty(128 * 128).bfloat16()
        add(f"gemm bf16 {layout} 128x128x{knobs['block_k']}", launcher, 128, 128, [c, a, b, c, c, 128],
            4 * target.wave, 2)  # fmt: skip
    return rows


def measure(only: str) -> list[Row]:
    """All rows whose name contains `only`."""
    from flydsl.kernels.common.arch import current_arch, target

    found, rows = target(), []
    for name, size, launcher, arguments, threads, minimum, flops in [*row_kernels(found), *gemm_kernels(found)]:
        if only in name:
            data = facts(launcher, arguments, threads, found, current_arch())
            rows.append(Row(name, size, minimum_bytes=minimum, flops=flops, **data))
    return rows


def print_table(rows: list[Row], arch: str, markdown: bool) -> None:
    head = ("kernel", "size", "VGPR", "AGPR", "LDS B", "spills", "waves/SIMD", "matrix busy %", "min kB", "compile s",
            "simulated s")  # fmt: skip
    body = [(r.name, r.size, str(r.vgpr), str(r.agpr), str(r.lds), str(r.spills), str(r.waves),
             "" if r.utilisation is None else f"{100 * r.utilisation:.0f}", str(r.minimum_bytes // 1000),
             f"{r.compile_seconds:.2f}", f"{r.simulated_seconds:.2f}") for r in rows]  # fmt: skip
    print(f"{arch}: static facts of the code and runs on the simulator; no GPU was involved\n")
    if markdown:
        print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
        print("\n".join("| " + " | ".join(line) + " |" for line in body))
        return
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    for line in [head, *body]:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))


def plot(rows: list[Row], arch: str, path: Path) -> None:
    """A bar for each GEMM: estimated share of the hot loop in which the matrix unit is busy."""
    bars = [r for r in rows if r.utilisation is not None]
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="640" height="{40 + 24 * len(bars)}" '
             'font-family="sans-serif" font-size="12">',
             f'<text x="8" y="20">{arch}: matrix unit busy in the hot loop, % (llvm-mca estimate)</text>']  # fmt: skip
    for i, r in enumerate(bars):
        y, width = 34 + 24 * i, 300 * r.utilisation
        parts.append(f'<text x="8" y="{y + 13}">{r.name}</text><rect x="260" y="{y}" width="{width:.0f}" height="16" '
                     f'fill="#4a7ebb"/><text x="{266 + width:.0f}" y="{y + 13}">{100 * r.utilisation:.0f}</text>')
    path.write_text("\n".join([*parts, "</svg>"]))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--plot", type=Path, help="write an SVG of the matrix utilisation")
    args = parser.parse_args()
    os.environ.update(FLYDSL_RUNTIME_KIND="sim", FLYDSL_GPU_ARCH=args.arch)
    rows = measure(args.only)
    print_table(rows, args.arch, args.markdown)
    if args.plot:
        plot(rows, args.arch, args.plot)


if __name__ == "__main__":
    main()
