"""Random mutations of the lit suite, parsed, verified and run through passes: nothing may end the process.

``python tests/mutation_fuzz.py --count 100000`` is the long run; ``test_mutation_fuzz.py`` makes a short one. Inputs
run in forked children, so that a crash or an endless loop costs one child and names the input that caused it.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import select
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

TEST_ROOT = Path(__file__).resolve().parent / "filecheck"
TOKEN = re.compile(r'"[^"]*"|[A-Za-z_$][\w$.]*|-?\d+|[%@#!^][\w$.:#]+|->|\s+|.', re.S)
INTERESTING = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "31",
    "32",
    "33",
    "63",
    "64",
    "127",
    "1000000007",
    "2147483647",
    "-2147483648",
    "4294967296",
    "99999999999999999999",
    "*",
    "?",
    "?{i64}",
    "?{div=0}",
    "?{i64 div=-4}",
    "1E0",
    "2E1E0",
    "0E9",
    "()",
    "(1)",
    "((2,3),4)",
    "[]",
    "[*]",
    "[4|*]",
    "[[2|3]|5]",
    "S<3,3,3>",
    "S<31,31,31>",
    "S<-1,0,2>",
    "CS<1,0,[0],0,[1]>",
    "CS<2,1,[],0,[9]>",
    "align<0>",
    "align<3>",
    "f16",
    "f4E2M1FN",
    "f6E2M3FN",
    "index",
    "i1",
    "vector<4xf32>",
    "vector<0xf32>",
    "global",
    "shared",
    "register",
    "#fly_rocdl.buffer_desc",
    "!fly.ptr<f32, global>",
    "!fly.int_tuple<(1,(2,?))>",
    "<",
    ">",
    ":",
    ",",
    "o",
]
PIPELINES = [
    "builtin.module(fly-canonicalize,fly-layout-lowering,fly-int-swizzle-simplify,canonicalize,"
    "fly-convert-atom-call-to-ssa-form,fly-promote-regmem-to-vectorssa,convert-fly-to-rocdl,canonicalize)",
    "builtin.module(fly-rewrite-func-signature,fly-canonicalize,fly-layout-lowering,canonicalize)",
    "builtin.module(convert-fly-to-rocdl)",
    "builtin.module(fly-layout-lowering)",
    "builtin.module(fly-convert-atom-call-to-ssa-form,fly-promote-regmem-to-vectorssa)",
    "builtin.module(cse)",
]
#: Seconds after which one input counts as an endless loop.
TIMEOUT = 6.0


@dataclass
class Report:
    """What a run did; ``failures`` holds (kind, input text)."""

    inputs: int = 0
    parsed: int = 0
    lowered: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)


def corpus() -> list[tuple[list[str], list[str]]]:
    """(tokens, pipelines) of every piece of every lit file."""
    pieces = []
    for path in sorted(TEST_ROOT.rglob("*.mlir")):
        text = path.read_text()
        passes = [
            flag
            for line in re.findall(r"RUN:(.*)", text)
            for flag in re.findall(r"\s--?([a-z][\w-]*)(?=\s|$)", line)
            if flag.startswith(("fly-", "convert-"))
        ]
        pipelines = [*PIPELINES, *([f"builtin.module({','.join(dict.fromkeys(passes))})"] if passes else [])]
        for piece in re.split(r"// -----\n", text):
            code = re.sub(r"//.*", "", piece).strip()
            if code:
                pieces.append((TOKEN.findall(code + "\n"), pipelines))
    return pieces


def mutate(tokens: list[str], other: list[str], rng: random.Random) -> str:
    """One to six random edits of ``tokens``; ``other`` is where foreign pieces come from."""
    tokens = list(tokens)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        at = rng.randrange(len(tokens))
        kind = rng.randrange(8)
        if kind == 0:
            del tokens[at : at + rng.choice((1, 1, 2, 5))]
        elif kind == 1:
            tokens[at:at] = tokens[at : at + rng.choice((1, 2, 6))]
        elif kind == 2:
            tokens[at] = rng.choice(other)
        elif kind == 3:
            start = rng.randrange(len(other))
            tokens[at:at] = other[start : start + rng.choice((1, 3, 8))]
        elif kind == 4:
            swap = rng.randrange(len(tokens))
            tokens[at], tokens[swap] = tokens[swap], tokens[at]
        else:
            numbers = [i for i, token in enumerate(tokens) if token.lstrip("-").isdigit() or token in "?*"]
            tokens[rng.choice(numbers) if numbers else at] = rng.choice(INTERESTING)
        if not tokens:
            tokens = [" "]
    return "".join(tokens)


def inputs(seed: int) -> Iterator[tuple[str, str]]:
    """An endless sequence of (text, pipeline); the same for the same seed."""
    rng = random.Random(seed)
    pieces = corpus()
    while True:
        tokens, pipelines = rng.choice(pieces)
        yield mutate(tokens, rng.choice(pieces)[0], rng), rng.choice(pipelines)


def _child(batch: list[tuple[str, str]], out: int) -> None:
    """Writes "s" before an input and "r", "p" or "l" after it: rejected, parsed, lowered."""
    from flydsl._mlir import ir
    from flydsl._mlir.passmanager import PassManager

    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 2)
    os.dup2(devnull, 1)
    context = ir.Context()
    for number, (text, pipeline) in enumerate(batch):
        os.write(out, b"s")
        if number % 50 == 49:
            context = ir.Context()
        state = b"r"
        with context:
            try:
                module = ir.Module.parse(text)
                str(module)
                state = b"p"
                PassManager.parse(pipeline).run(module.operation)
                str(module)
                state = b"l"
            except (ir.MLIRError, ValueError):
                pass
        os.write(out, state)


def _run_batch(batch: list[tuple[str, str]], report: Report) -> None:
    while batch:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            code = 1
            try:
                _child(batch, write)
                code = 0
            finally:
                os._exit(code)
        os.close(write)
        progress, hang = b"", False
        while True:
            ready, _, _ = select.select([read], [], [], TIMEOUT)
            if not ready:
                hang = True
                os.kill(pid, signal.SIGKILL)
                break
            data = os.read(read, 65536)
            if not data:
                break
            progress += data
        os.close(read)
        _, status = os.waitpid(pid, 0)
        done = progress[1::2]
        report.inputs += len(done)
        report.parsed += sum(state in b"pl" for state in done)
        report.lowered += done.count(b"l")
        if status == 0 and not hang:
            return
        text, pipeline = batch[len(done)]
        kind = "endless loop" if hang else f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "exception"
        report.failures.append((kind, f"// {pipeline}\n{text}"))
        report.inputs += 1
        batch = batch[len(done) + 1 :]


def run(count: int, seed: int, batch_size: int = 400, stop_after: int = 50) -> Report:
    """Run ``count`` inputs; gives up after ``stop_after`` failures."""
    import flydsl._mlir.dialects.fly  # noqa: F401  load the library once, before the children

    report = Report()
    source = inputs(seed)
    while report.inputs < count and len(report.failures) < stop_after:
        _run_batch([next(source) for _ in range(min(batch_size, count - report.inputs))], report)
    return report


def main() -> int:
    """Command line; writes failing inputs to the folder ``--out``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    start = time.time()
    report = run(options.count, options.seed)
    print(
        f"{report.inputs} inputs, {report.parsed} parsed, {report.lowered} lowered, {len(report.failures)} failures, "
        f"{time.time() - start:.0f} s"
    )
    for number, (kind, text) in enumerate(report.failures):
        print(f"--- {kind}")
        if options.out:
            options.out.mkdir(parents=True, exist_ok=True)
            (options.out / f"{number:03}.mlir").write_text(text)
        else:
            print(text)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
