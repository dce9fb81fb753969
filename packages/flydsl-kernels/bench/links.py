#!/usr/bin/env python3
"""Exchanges and steps of the mixture of experts between GPUs, by the model of links: the tables of
docs/kernels/collectives.md.

    python packages/flydsl-kernels/bench/links.py [--check]

Every number is an estimate of `flydsl.kernels.comm.links`; no GPU was involved, and links are not simulated. `--check`
says which lines the page does not have, and whether the bounds hold that are asked for (exit 1).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from flydsl.kernels.comm.links import estimate, mega_moe_step
from flydsl.kernels.target import target

PAGE = Path(__file__).resolve().parents[3] / "docs" / "kernels" / "collectives.md"
RANKS = 8
KINDS = ("all_reduce", "all_reduce_two_stage", "all_reduce_write", "all_reduce_in_place")
SIZES = {"4 KiB": 4 << 10, "128 KiB": 128 << 10, "1 MiB": 1 << 20, "64 MiB": 64 << 20}
ARCHS = ("gfx942", "gfx950")
LARGE, SMALL = SIZES["64 MiB"], SIZES["128 KiB"]
NETWORKS = {"r1_v3": (7168, 2048, 256, 8), "v4_flash": (4096, 2048, 256, 6), "v4_pro": (7168, 3072, 384, 6)}
TOKENS, QUANTISED_FROM, TFLOPS = (128, 2048, 8192), 2048, 2000.0


def _us(seconds: float) -> str:
    value = seconds * 1e6
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def all_reduces(arch: str) -> list[str]:
    """Lines of a table: an all-reduce of 8 ranks by size and kind."""
    lines = []
    for name, size in SIZES.items():
        seen = [estimate(kind, size, RANKS, target(arch)) for kind in KINDS]
        links = seen[1]
        alone = "" if size < SMALL else f" {_us(links.sustained)} ({_us(links.link)}) µs"
        lines.append(f"| {arch}, {name} | {' | '.join(_us(e.seconds) + ' µs' for e in seen)} |{alone} |")
    return lines


def bounds(arch: str) -> list[tuple[str, float, bool]]:
    """(what, ratio, whether it is as good as asked for): of large ones to the links, of small ones to the latency."""
    found = []
    for kind in KINDS[1:]:
        large, small = (estimate(kind, size, RANKS, target(arch)) for size in (LARGE, SMALL))
        share, latency = large.sustained / large.seconds, small.seconds / small.latency
        found += [(f"{arch}, {kind}, 64 MiB, of what links sustain", share, share >= 0.85),
                  (f"{arch}, {kind}, 128 KiB, over its latencies", latency, latency <= 1.5)]
    return found


def steps() -> list[tuple[str, float, int]]:
    """(line of a table, time over the longer of transport and products, tokens): steps of the mixture on gfx950."""
    lines = []
    for name, (model, inter, experts, topk) in NETWORKS.items():
        for tokens in TOKENS:
            step = mega_moe_step(tokens, model=model, inter=inter, experts=experts, topk=topk, ranks=RANKS,
                                 target=target("gfx950"), tflops=TFLOPS, quantised=tokens >= QUANTISED_FROM)
            ratio = step.seconds / max(step.transport, step.compute)
            transport, compute, seconds = (f"{value * 1e6:.0f} µs" for value in
                                           (step.transport, step.compute, step.seconds))
            lines.append((f"| {name}, {tokens} | {transport} | {compute} | {seconds} ({ratio:.2f} of the longer) |",
                          ratio, tokens))
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check, page = parser.parse_args().check, PAGE.read_text()
    good = True
    for line in [*(line for arch in ARCHS for line in all_reduces(arch)), *(line for line, *_ in steps())]:
        missing = check and line not in page
        good = good and not missing
        print(line + "   <- not on the page" * missing)
    for what, ratio, enough in [b for arch in ARCHS for b in bounds(arch)]:
        good = good and enough
        print(f"{what}: {ratio:.2f}" + "   <- not enough" * (not enough))
    for line, ratio, _ in steps():
        good = good and ratio <= 1.15
        print(f"step of{line.split('|')[1].rstrip()} tokens, over the longer of transport and products: {ratio:.2f}")
    return int(check and not good)


if __name__ == "__main__":
    raise SystemExit(main())
