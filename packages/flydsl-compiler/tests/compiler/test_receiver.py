"""What a jit method's key has of the instance that it is bound to."""

from __future__ import annotations

import gc
import types
import weakref
from typing import Any

import numpy as np
import pytest

from flydsl.compiler.specialization.key import FunctionSnapshot, Identity, stable_digest

METHODS = """
import flydsl.compiler as flyc
import flydsl.expr as fx

class Scale:
    def __init__(self, factor):
        self.factor = factor
    def __eq__(self, other):
        return isinstance(other, Scale)
    def __hash__(self):
        return 1
    @flyc.kernel
    def kernel(self, X: fx.Tensor):
        X[fx.thread_idx.x] = X[fx.thread_idx.x] * fx.Float32(self.factor)
    @flyc.jit
    def __call__(self, X: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
        self.kernel(X).launch(grid=(1,), block=64, stream=stream)
"""


def test_instances_of_methods_by_identity_and_not_kept_alive(load: Any) -> None:
    """Equal instances with other attributes get other code; the fast path serves each; none is kept alive."""
    pytest.importorskip("flydsl._mlir.dialects.fly")
    import flydsl.runtime as rt

    module = load(METHODS)
    two, three = module.Scale(2.0), module.Scale(3.0)
    x = np.ones(64, np.float32)
    for scale in (two, three, two, three):
        scale(x)
        rt.synchronize()
    assert (x == 36).all()
    function = module.Scale.__dict__["__call__"]
    assert len(function._mem_cache) == 2 and len(function._instances) == 2
    assert all(bound.fast.dispatcher.current() for bound in function._instances.values())
    two.factor = 5.0
    two(x)
    rt.synchronize()
    assert (x == 180).all() and len(function._mem_cache) == 3
    gone = weakref.ref(two)
    del two, scale
    gc.collect()
    assert gone() is None and len(function._instances) == 1


RECEIVERS = """
import functools

class Base:
    def inherited(self):
        return self.a

class Layer(Base):
    calls = 0
    width = 1

    def __init__(self):
        self.a, self.b, self.count = 1, [2], 0
        self.child = None

    def attribute(self): return self.a
    def item(self): return self.b[0]
    def of_class(self): return self.width
    def through_a_method(self): return self.attribute()
    def through_a_base(self): return self.inherited()
    def through_a_property(self): return self.made
    def through_a_cached_property(self): return self.kept
    def through_a_setter(self): self.made = 1
    def in_a_closure(self): return (lambda: [self.a for _ in (1,)])()
    def added_to(self): self.a += 1
    def added_by_a_setter(self): self.total += 1
    def through_another(self): return self.child.parent.count
    def as_an_argument(self): return repr(self)
    def under_another_name(self):
        other = self
        return other.count
    def by_getattr(self): return getattr(self, "co" + "unt")
    def by_dict(self): return self.__dict__["count"]
    def by_locals(self): return locals()["self"].count
    def chosen(self, c): return (self if c else c).count
    def by_super(self): return super().inherited()

    made = property(lambda self: self.a, lambda self, value: setattr(self, "x", value) if self.a else None)
    total = property(lambda self: self.width, lambda self, value: self.inherited())
    kept = functools.cached_property(lambda self: self.a)
    kept.attrname = "kept"
"""
READS = {"attribute": "a", "item": "b", "of_class": "width", "through_a_method": "a", "through_a_base": "a",
         "through_a_property": "a", "through_a_cached_property": "a", "in_a_closure": "a", "added_to": "a",
         "added_by_a_setter": "a"}
READS_ALL = ("through_a_setter", "through_another", "as_an_argument", "under_another_name", "by_getattr", "by_dict",
             "by_locals", "chosen", "by_super")


@pytest.mark.parametrize("name", [*READS, *READS_ALL])
def test_methods_have_what_they_read_of_their_instance_in_the_key(load: Any, name: str) -> None:
    """A counter that no traced code reads is no input; where code may read it without naming it, it is."""
    cls = load(RECEIVERS).Layer
    layer = cls()
    layer.child = types.SimpleNamespace(parent=layer)
    method = Identity(FunctionSnapshot.of(getattr(cls, name)), layer)
    bound = lambda: stable_digest(getattr(layer, name))  # noqa: E731
    before = method.digest(), bound()
    layer.count += 1
    changed = [a != b for a, b in zip(before, (method.digest(), bound()), strict=True)]
    assert changed == [name in READS_ALL] * 2
    before = method.digest(), bound()
    cls.calls += 1
    changed = [a != b for a, b in zip(before, (method.digest(), bound()), strict=True)]
    assert changed == [name in READS_ALL] * 2
    before = method.digest(), bound()
    if READS.get(name) == "b":
        layer.b.append(1)
    else:
        setattr(layer, READS.get(name, "a"), 7)
    assert method.digest() != before[0] and bound() != before[1]


def test_instances_whose_class_finds_attributes_itself_count_whole() -> None:
    class Asking:
        def __init__(self) -> None:
            self.a = self.count = 1

        def __getattr__(self, name: str) -> Any:
            return self.count

        def method(self) -> Any:
            return self.a + self.b

    asking = Asking()
    before = stable_digest(asking.method)
    asking.count += 1
    assert stable_digest(asking.method) != before


def test_a_counter_in_the_instance_traces_once(load: Any) -> None:
    """Neither the method's own calls nor those of a jit function that captured the bound method trace again."""
    pytest.importorskip("flydsl._mlir.dialects.fly")
    import flydsl.runtime as rt

    module = load(METHODS)
    scale = module.Scale(2.0)
    scope = load("""
import flydsl.compiler as flyc
import flydsl.expr as fx

def captured(method):
    @flyc.jit
    def run(X: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
        method(X, stream)
    return run
""")
    outer = scope.captured(module.Scale.__dict__["__call__"].__get__(scale))
    x = np.ones(64, np.float32)
    for calls in range(3):
        scale.count = calls
        scale(x)
        (bound,) = module.Scale.__dict__["__call__"]._instances.values()
        scale.count = -1
        assert bound.fast.dispatcher.current()  # so that the next call takes the fast path
        outer(x)
        rt.synchronize()
    assert (x == 64).all()
    assert len(module.Scale.__dict__["__call__"]._mem_cache) == len(outer._mem_cache) == 1
    scale.factor = 0.5
    outer(x)
    rt.synchronize()
    assert (x == 32).all() and len(outer._mem_cache) == 2
