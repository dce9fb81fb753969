"""The search for the tiles of the GEMMs: ``python -m flydsl.kernels tune``.

Each candidate of a problem is compiled, its result compared with the operation's reference, and timed by
:func:`flydsl.autotune.do_bench`: on a GPU measured, on the simulator estimated by its timing model. Candidates run on
any ``concurrent.futures`` executor.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from ..host.tuned import Entry, forced
from ..target import Target, target
from . import tuned

__all__ = ["TUNABLE", "Problem", "Trial", "candidates", "search", "try_choice"]

SLICES = (1, 2, 4, 8, 16)
GROUPS = (0, 4)


@dataclass(frozen=True)
class Problem:
    """An operation (one of ``TUNABLE``), the kind of its operands, and a size."""

    operation: str
    kind: str
    m: int
    n: int
    k: int


@dataclass(frozen=True)
class Trial:
    """A candidate with its time, or why it has none; `choice` None is the operation's own rule."""

    choice: dict[str, Any] | None
    ms: float | None
    problem: str = ""


def _dense(found: Target, problem: Problem) -> Iterable[dict[str, Any]]:
    layout = problem.kind.split()[-1]
    for tile in tuned.DENSE[found.arch]:
        for split in SLICES if layout in tile.layouts else ():
            if split == 1 or problem.k >= split * tuned.LEAST_TILES * tile.k:
                yield tile.knobs(split)


def _tiles(table: Callable[[Target, str], tuple[tuned.Tile, ...]], found: Target,
           problem: Problem) -> Iterable[dict[str, Any]]:
    for tile in dict.fromkeys(replace(t, group=0, direct=False) for t in table(found, problem.kind)):
        if problem.n % tile.n == 0 and problem.k % tile.k == 0:
            yield from (asdict(replace(tile, group=group)) for group in GROUPS)


#: By operation: the kinds of its operands, and ``candidates(target, problem)``.
TUNABLE: dict[str, tuple[tuple[str, ...], Callable[[Target, Problem], Iterable[dict[str, Any]]]]] = {
    "gemm": (tuple(f"bf16 {layout}" for layout in ("nt", "nn", "tn", "tt")), _dense),
    "preshuffle_gemm": (("i8",), partial(_tiles, lambda found, _: tuned.PRESHUFFLE[found.arch][1])),
    "blockscale_gemm": (("fp8",), partial(_tiles, lambda found, _: tuned.BLOCK_SCALE[found.arch])),
    "mx_gemm": (("fp4 fp4",), partial(_tiles, lambda _, kind: tuned.MX[kind.split()[0], kind.split()[1]])),
}


def candidates(found: Target, problem: Problem) -> list[dict[str, Any]]:
    """All choices for a problem.

    Raises:
        ValueError: the operation, its kind or the architecture is not one that is searched.
    """
    known = TUNABLE.get(problem.operation)
    if known is None or problem.kind not in known[0]:
        kinds = "; ".join(f"{name}: {', '.join(kinds)}" for name, (kinds, _) in TUNABLE.items())
        raise ValueError(f"tune: no search of {problem.operation} {problem.kind!r}; there is {kinds}")
    try:
        return [dict(choice) for choice in dict.fromkeys(map(_frozen, known[1](found, problem)))]
    except KeyError:
        raise ValueError(f"tune: {problem.operation} has no tiles on {found.name}") from None


def _frozen(choice: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(choice.items()))


def try_choice(arch: str, problem: Problem, choice: dict[str, Any] | None) -> Trial:
    """Run a candidate in this process, whose device is of `arch` (the simulator's is made so if nothing was launched
    before)."""
    os.environ.setdefault("FLYDSL_SIM_ARCH", arch)
    os.environ.setdefault("ARCH", arch)
    import flydsl.runtime as rt
    from flydsl.autotune import do_bench

    from ..op import operations
    from ..testing import Draw

    op, options = getattr(operations(), problem.operation), {}
    if problem.operation == "gemm":
        options["layout"] = problem.kind.split()[-1]
    found = target()
    if found.name != arch:
        return Trial(choice, None, f"the device is {found.name}, not {arch}")
    arguments = op.sample(Draw(found), problem.m, problem.k, columns=problem.n, **options)
    try:
        with forced(choice):
            out = op.run(*arguments)
            rt.synchronize()
            ms = do_bench(lambda: op.run(*arguments))
    except (ValueError, RuntimeError) as refusal:
        return Trial(choice, None, f"{type(refusal).__name__}: {refusal}".splitlines()[0])
    (exact,) = op.reference(*arguments)
    off = (out.double() - exact).abs().max() / exact.abs().max()
    wrong = not off <= op.tolerance
    return Trial(choice, None if wrong else ms, f"wrong by {off:.2g} of the largest" if wrong else "")


def _provenance(arch: str) -> dict[str, str]:
    from flydsl.runtime.timing import default_timer

    versions = {name: importlib.metadata.version(name) for name in ("flydsl-kernels", "flydsl-compiler")}
    how = "estimated by the simulator's timing model" if default_timer().estimate else "measured"
    return {"time": how, "arch": arch, "date": datetime.date.today().isoformat(), **versions}


def search(problem: Problem, arch: str, executor: Executor, report: Callable[[int, int, Trial], None]) -> Entry | None:
    """The best choice, or None where the operation's own rule is.

    Args:
        executor: where candidates run.
        report: ``report(number, of, trial)`` after each.

    Raises:
        ValueError: nothing is searched for the operation, or its own rule does not run.
    """
    choices = [None, *candidates(target(arch), problem)]
    running = [executor.submit(try_choice, arch, problem, choice) for choice in choices]
    trials = []
    for number, future in enumerate(as_completed(running), 1):
        trials.append(future.result())
        report(number, len(choices), trials[-1])
    usual = next(trial for trial in trials if trial.choice is None)
    if usual.ms is None:
        raise ValueError(f"tune: {problem.operation} does not run for {problem.m} x {problem.n} x {problem.k}: "
                         f"{usual.problem}")
    best = min((trial for trial in trials if trial.ms is not None), key=lambda trial: trial.ms or 0.0)
    if best.choice is None or best.ms is None or best.ms >= usual.ms:
        return None
    return Entry(problem.kind, problem.m, problem.n, problem.k, problem.m // 2 + 1, best.choice, best.ms, usual.ms,
                 _provenance(arch))
