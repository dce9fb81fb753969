"""Function identity: what the code reads, wherever it lives."""

from __future__ import annotations

import dataclasses
import enum
import sys
import types
from typing import Any

import pytest

from flydsl.compiler.key import FunctionSnapshot, Identity, stable_digest


@dataclasses.dataclass(frozen=True)
class Config:
    tile: int


class Mode(enum.Enum):
    A = 1
    B = 2


def helper_module(text: str) -> Any:
    module = types.ModuleType("fly_key_helpers")
    exec(text, module.__dict__)
    sys.modules[module.__name__] = module
    return module


def identity(source: str, **names: Any) -> tuple[Identity, dict[str, Any]]:
    scope: dict[str, Any] = dict(names)
    exec(source, scope)
    return Identity(FunctionSnapshot.of(scope["f"])), scope


@pytest.mark.parametrize(
    ("first", "second"),
    [(1, 2), (1, True), ("a", "b"), ([1], [2]), ({"a": 1}, {"a": 2}), (Config(1), Config(2)), (Mode.A, Mode.B)],
)
def test_globals_enter_by_value(first: Any, second: Any) -> None:
    ident, scope = identity("def f():\n    return G\n", G=first)
    before = ident.digest()
    assert ident.digest() == before
    scope["G"] = second
    assert ident.digest() != before
    scope["G"] = first
    assert ident.digest() == before


def test_mutation_in_place() -> None:
    ident, scope = identity("def f():\n    return G[0]\n", G=[1])
    before = ident.digest()
    scope["G"][0] = 2
    assert ident.digest() != before


def test_attribute_names_are_not_reads() -> None:
    ident, scope = identity("def f(t):\n    return t.x\n", x=1)
    before = ident.digest()
    scope["x"] = 2
    assert ident.digest() == before


def test_helpers_behind_modules_and_closures() -> None:
    module = helper_module("def scale(x):\n    return x * K\nK = 2\n")
    ident, _ = identity("def f(x):\n    return helpers.scale(x)\n", helpers=module)
    before = ident.digest()
    module.K = 3
    assert ident.digest() != before
    box = [1]

    def f() -> Any:
        return box

    closure = Identity(FunctionSnapshot.of(f))
    before = closure.digest()
    box.append(2)
    assert closure.digest() != before


def test_recursion_ends() -> None:
    ident, _ = identity("def f(x):\n    return g(x)\ndef g(x):\n    return f(x)\n")
    assert len(ident.digest()) == 32


def test_opaque_objects_are_never_shared() -> None:
    a, b = object(), object()
    assert stable_digest(a) != stable_digest(b)


def test_instances_by_attributes() -> None:
    one, two = types.SimpleNamespace(a=1), types.SimpleNamespace(a=2)
    assert stable_digest(one) != stable_digest(two)
    assert stable_digest(one) == stable_digest(types.SimpleNamespace(a=1))
