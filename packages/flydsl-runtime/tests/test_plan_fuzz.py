"""Launch plans and artifacts from a stranger: whatever they say, the launcher raises or runs; the process lives.

FLYDSL_RUNTIME_PLAN_FUZZ=N runs N mutants (default 20000), FLYDSL_RUNTIME_PLAN_FUZZ_SEED others of them.
"""

from __future__ import annotations

import copy
import json
import os
import random
from typing import Any

import numpy as np
import pytest
from runtime_plans import HSACO, launch, launch_plan, plan, scalar, tensor
from test_artifact import header, sealed

from flydsl.runtime import Launcher
from flydsl.runtime.artifact import Artifact, ArtifactError

EDGES = (-(2**63), -(2**31), -1, 0, 1, 2, 7, 8, 16, 63, 64, 65, 2**20, 2**31 - 1, 2**32, 2**63 - 1, 2**63, 2**64, 2**80)
OTHERS: tuple[Any, ...] = (None, True, 1.5, float("nan"), "text", "", b"bytes", [], {}, [1], [[1, 2, 3]], "launch")


def seed_plan() -> dict[str, Any]:
    """A plan with every kind of argument and instruction."""
    code = [["shape", 1, 0, 0], ["stride", 2, 0, 1], ["arg", 3, 1], ["ptr", 4, 0], ["const", 5, 64],
            ["add", 6, 1, 3, 32], ["cmp", 7, "slt", 1, 5, 32], ["select", 8, 7, 1, 5], ["sext", 9, 3, 32],
            ["trunc", 10, 9, 8], ["cond_br", 7, 12, 13], ["mov", 11, 10], ["assert", 7, "too many rows"],
            launch("kernel", args=((4, 0, 8), (3, 8, 4)), size=16)]
    return launch_plan([tensor("A"), scalar("n")], *code)


def mutate(rng: random.Random, tree: Any) -> Any:
    """One value somewhere in the plan is another, an element comes twice or goes."""
    holder: Any = tree
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            return tree
        key = rng.choice(keys)
        if not isinstance(holder[key], (dict, list)) or rng.random() < 0.2:
            break
        holder = holder[key]
    kind = rng.randrange(4)
    if kind == 0:
        holder[key] = rng.choice(EDGES)
    elif kind == 1:
        holder[key] = copy.deepcopy(rng.choice(OTHERS))
    elif kind == 2 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[rng.randrange(len(holder))]))
    elif isinstance(holder[key], int):
        holder[key] += rng.choice((-1, 1))
    else:
        del holder[key]
    return tree


def goes_back(tree: Any) -> bool:
    """Whether the plan may loop: what never ends has a test of its own, and takes long."""
    code = tree.get("code") if isinstance(tree, dict) else None
    for n, row in enumerate(code if isinstance(code, list) else []):
        if isinstance(row, list) and row and row[0] in ("br", "cond_br"):
            if any(isinstance(target, int) and target <= n for target in row[-2 if row[0] == "cond_br" else -1 :]):
                return True
    return False


def test_mutated_plans(fake_hip):
    rng = random.Random(int(os.environ.get("FLYDSL_RUNTIME_PLAN_FUZZ_SEED", "20261122")))
    array, built = np.zeros((4, 8), np.float32), 0
    for _ in range(int(os.environ.get("FLYDSL_RUNTIME_PLAN_FUZZ", "20000"))):
        tree = seed_plan()
        for _ in range(rng.randrange(1, 4)):
            tree = mutate(rng, tree)
        if goes_back(tree):
            continue
        try:
            launcher = Launcher(tree, HSACO)
        except (ValueError, TypeError, KeyError, OverflowError):
            continue
        built += 1
        try:
            launcher(array, rng.choice((0, 1, 5, -1, 2**31 - 1)))
        except (ValueError, TypeError, OverflowError, RuntimeError, AssertionError, ZeroDivisionError):
            pass
    assert built > 100


def test_mutated_artifacts(fake_hip):
    """A file whose checksum is right and whose header is not: no artifact, or a ValueError of the launcher."""
    rng = random.Random(int(os.environ.get("FLYDSL_RUNTIME_PLAN_FUZZ_SEED", "20261124")))
    whole = {**header(), "plan": seed_plan(), "parameters": ["A", "n"], "positions": [0, 1]}
    read = built = 0
    for _ in range(int(os.environ.get("FLYDSL_RUNTIME_PLAN_FUZZ", "20000")) // 4):
        tree = copy.deepcopy(whole)
        for _ in range(rng.randrange(1, 4)):
            tree = mutate(rng, tree)
        try:
            artifact = Artifact.parse(sealed(json.loads(json.dumps(tree, default=repr))))
        except ArtifactError:
            continue
        read += 1
        try:
            artifact.launcher()
        except ValueError:
            continue
        built += 1
    assert read > built > 100


@pytest.mark.parametrize("offset", [2**63 - 1, 2**63 - 8, 9, -1])
def test_arguments_lie_in_the_segment(fake_hip, offset):
    """An offset so large that its end overflows is outside as well."""
    with pytest.raises(ValueError, match="kernel argument lies outside the kernarg segment"):
        Launcher(launch_plan([], launch(args=((0, offset, 8),), size=16)), HSACO)


def test_a_plan_that_goes_on_without_a_launch(fake_hip):
    """A backward branch that nothing ends is an error, in seconds."""
    with pytest.raises(Exception, match="branches without a launch"):
        Launcher(plan([], [["br", 0]]), HSACO)()
