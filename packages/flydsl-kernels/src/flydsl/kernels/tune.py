"""The search for tiles: ``python -m flydsl.kernels tune``.

Operations declare what can be chosen (:class:`~flydsl.kernels.host.tuned.Tuning`). Each candidate is compiled, its
result compared with the operation's reference, and timed by :func:`flydsl.autotune.do_bench`: on a GPU measured, on the
simulator estimated by its timing model. Candidates run on any ``concurrent.futures`` executor.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import os
from collections.abc import Callable
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass
from typing import Any

from .host.tuned import Entry, Problem, forced
from .op import Op, declarations
from .target import Target, target

__all__ = ["Problem", "Trial", "candidates", "search", "try_choice", "tunable"]


@dataclass(frozen=True)
class Trial:
    """A candidate with its time, or why it has none; `choice` None is the operation's own rule."""

    choice: dict[str, Any] | None
    ms: float | None
    problem: str = ""


def tunable() -> dict[str, Op]:
    """The operations that a search can choose something for."""
    return {op.name: op for op in declarations() if isinstance(op, Op) and op.tuning is not None}


def candidates(found: Target, problem: Problem) -> list[dict[str, Any]]:
    """All choices for a problem.

    Raises:
        ValueError: the operation, its kind or the architecture is not one that is searched.
    """
    known = tunable()
    tuning = known[problem.operation].tuning if problem.operation in known else None
    if tuning is None or problem.kind not in tuning.kinds:
        kinds = "; ".join(f"{op.name}: {', '.join(op.tuning.kinds)}" for op in known.values() if op.tuning)
        raise ValueError(f"tune: no search of {problem.operation} {problem.kind!r}; there is {kinds}")
    try:
        return [dict(choice) for choice in dict.fromkeys(map(_frozen, tuning.choices(found, problem)))]
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

    from .testing import Draw

    op, found = tunable()[problem.operation], target()
    assert op.tuning is not None
    if found.name != arch:
        return Trial(choice, None, f"the device is {found.name}, not {arch}")
    arguments = op.tuning.sample(op, Draw(found), problem)
    try:
        with forced(choice):
            out = op.run(*arguments)
            rt.synchronize()
            ms = do_bench(lambda: op.run(*arguments))
    except (ValueError, RuntimeError) as refusal:
        return Trial(choice, None, f"{type(refusal).__name__}: {refusal}".splitlines()[0])
    results = out if isinstance(out, tuple) else (out,)
    off = [float((one.double() - exact).abs().max() / exact.abs().max())
           for one, exact in zip(results, op.reference(*arguments), strict=True)]
    wrong = [x for x in off if not x <= op.tuning.tolerances.get(problem.kind, op.tolerance)]
    return Trial(choice, None if wrong else ms, f"wrong by {wrong[0]:.2g} of the largest" if wrong else "")


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
