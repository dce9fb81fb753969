"""A short run of the fuzzers; FLYDSL_IR_FUZZ multiplies its length (100 gives the long run of the changelog)."""

import os

import mutation_fuzz
import operation_fuzz

FACTOR = int(os.environ.get("FLYDSL_IR_FUZZ", "1"))


def test_mutated_text_never_ends_the_process():
    report = mutation_fuzz.run(2000 * FACTOR, seed=20261121)
    assert report.failures == []
    assert report.parsed > 0


def test_random_operations_never_end_the_process():
    outcomes, failures = operation_fuzz.run(1000 * FACTOR, seed=20261121)
    assert failures == [], "python tests/operation_fuzz.py --show " + " ".join(map(str, failures))
    assert outcomes["l"] > 100, "random operations no longer get through the passes"
