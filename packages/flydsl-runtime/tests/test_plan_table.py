"""The table of the launch plan: Python's and the native parser's are one, and refuse the same plans."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from runtime_plans import HSACO, launch, launch_plan, plan, scalar, tensor
from test_plan_fuzz import mutate, seed_plan

from flydsl.runtime import Launcher, _native
from flydsl.runtime import plan as table

#: An operand of each kind that an instruction of the plan below may have.
EXAMPLES: dict[str, list[Any]] = {
    "result": [2], "register": [1], "optional_register": [-1, 0, None], "registers": [[0, 0, 0]],
    "optional_registers": [None, [0, 0, 0]], "width": [1, 32, 64], "immediate": [-5, 2**64 - 1], "text": ["x"],
    "kernel": ["k"], "scalar_argument": [1], "memory_argument": [0, 2], "tensor_argument": [0], "stream_argument": [3],
    "dimension": [0, 1], "predicate": list(table.PREDICATES), "float_binary": list(table.FLOAT_BINARY),
    "float_unary": list(table.FLOAT_UNARY), "float_predicate": list(table.FLOAT_PREDICATES),
    "float_type": list(table.FLOAT_TYPES), "number_type": list(table.NUMBER_TYPES), "source_type": ["f32"],
    "target_type": list(table.NUMBER_TYPES), "target": [0, 1, 2], "kernel_arguments": [[[0, 0, 8]], []], "bytes": [8],
}
ARGUMENTS = [tensor("A"), scalar("n"), {"kind": "pointer", "name": "p"}, {"kind": "stream", "name": "s"}]


def accepted(build: Any, tree: Any) -> str:
    """What a reader of plans says: "" or the message."""
    try:
        build(tree)
    except (ValueError, TypeError) as error:
        return str(error) or type(error).__name__
    return ""


def native(tree: Any) -> Any:
    return Launcher(tree, HSACO)


def test_native_table_is_the_same():
    assert _native.plan_instructions() == {row.name: row.operands for row in table.INSTRUCTIONS.values()}
    assert _native.plan_argument_flags() == table.ARGUMENT_FLAGS
    assert _native.PLAN_VERSION == table.VERSION
    used = {kind for row in table.INSTRUCTIONS.values() for kind in row.operands}
    assert used == set(table.OPERANDS) == set(EXAMPLES)


def test_what_an_instruction_does_beside_its_result():
    for row in table.INSTRUCTIONS.values():
        assert (row.operands[:1] == ("result",)) == (row.effect == ""), row.name


@pytest.mark.parametrize("name", table.INSTRUCTIONS)
def test_every_instruction_with_every_operand(fake_hip, name):
    """Both readers take each operand that the table allows, and neither one with an operand too few or too many."""
    kinds = table.INSTRUCTIONS[name].operands
    usual = [EXAMPLES[kind][0] for kind in kinds]
    for position, kind in enumerate(kinds):
        for value in EXAMPLES[kind]:
            tree = plan(ARGUMENTS, [[name, *usual[:position], value, *usual[position + 1 :]], ["ret"]])
            assert accepted(table.check, tree) == accepted(native, tree) == "", (position, value)
    for operands in (usual[:-1] if usual else [1], [*usual, 1]):
        tree = plan(ARGUMENTS, [[name, *operands]])
        assert accepted(table.check, tree) == accepted(native, tree) != ""


def test_every_type(fake_hip):
    for entry in [*(tensor(dtype=d) for d in table.DTYPES), *(scalar(type=t) for t in table.SCALAR_TYPES)]:
        assert accepted(table.check, plan([entry], [])) == accepted(native, plan([entry], [])) == ""
    for entry in (tensor(dtype="f31"), scalar(type="f31"), {"kind": "else", "name": "x"}, tensor(index_width=288),
                  *(tensor(**{flag: 1}) for flag in table.ARGUMENT_FLAGS)):
        assert accepted(table.check, plan([entry], [])) == accepted(native, plan([entry], [])) != ""


def test_both_readers_refuse_the_same_plans(fake_hip):
    """Random plans: both take one, or both refuse it (in another order perhaps, so messages may differ)."""
    rng = random.Random(23)
    seeds = [seed_plan(), launch_plan(ARGUMENTS, *([name, *(rng.choice(EXAMPLES[k]) for k in row.operands)]
                                                   for name, row in table.INSTRUCTIONS.items()), launch())]
    counts = {True: 0, False: 0}
    for n in range(6000):
        tree = copy.deepcopy(seeds[n % 2])
        for _ in range(rng.randrange(1, 4)):
            tree = mutate(rng, tree)
        ours, theirs = accepted(table.check, tree), accepted(native, tree)
        assert bool(ours) == bool(theirs), (tree, ours, theirs)
        counts[bool(ours)] += 1
    assert min(counts.values()) > 300


def test_tensor_arguments_describe_themselves():
    entry = tensor(shape=[None, 8], strides=[None, 1], align=16, shape_div=[4, 1], index_width=[32, 64])
    found = table.TensorArgument.of(entry)
    assert (found.dynamic_extents, found.dynamic_strides, found.layout_bytes) == ([0], [0], 8)
    assert table.TensorArgument.of(found.entry()) == table.TensorArgument(
        "A", "f32", (None, 8), (None, 1), 16, [4, 1], [1, 1], 32)
    with pytest.raises(table.PlanError, match="different widths"):
        table.TensorArgument.of(tensor(index_width=[32, 64]))
