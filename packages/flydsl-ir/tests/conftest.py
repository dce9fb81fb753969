"""Fixtures: a context and an insertion point in an empty module."""

import pytest

from flydsl._mlir import ir


@pytest.fixture
def ctx():
    """A current context with a current unknown location."""
    with ir.Context() as context, ir.Location.unknown():
        yield context


@pytest.fixture
def module(ctx):
    """An empty module whose body is the current insertion point."""
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        yield module
