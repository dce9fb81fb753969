"""Dispatcher and Guards: calls find their launcher by what the arguments are, and only while nothing changed."""

from __future__ import annotations

import contextvars
import ctypes
import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from runtime_plans import HSACO, launch, launch_plan, scalar, tensor

from flydsl.runtime import Launcher
from flydsl.runtime._native import Dispatcher, Guards, reserve_type


def launcher(count: int, *arguments: dict[str, Any], positions: list[int] | None = None) -> Launcher:
    """A launcher that passes its pointers, extents and scalars to the kernel in 8 bytes each."""
    code: list[list[Any]] = []
    triples = []
    for i, argument in enumerate(arguments):
        opcode = {"tensor": "ptr", "scalar": "arg", "stream": "stream", "pointer": "ptr"}[argument["kind"]]
        code.append([opcode, 1 + i, i])
        triples.append((1 + i, 8 * i, 8))
    code.append(launch(args=tuple(triples), size=8 * len(arguments)))
    positions = list(range(len(arguments))) if positions is None else positions
    return Launcher(launch_plan(list(arguments), *code), HSACO, positions=positions, parameters=count)


def dispatcher(*parameters: tuple[Any, ...], guards: tuple[Guards, ...] = ()) -> Dispatcher:
    found = Dispatcher(parameters, len(parameters))
    found.arm(guards)
    return found


VALUE = ("x", "value")


def test_recognises_the_same_kind_of_tensor(fake_hip: Any) -> None:
    d = dispatcher(VALUE)
    assert d(np.zeros((4, 4), np.float32)) is NotImplemented
    assert d.add((np.zeros((4, 4), np.float32),), launcher(1, tensor("x")))
    for other in (np.zeros((7, 9), np.float32), np.zeros((8, 8), np.float32)[:4, :4]):
        assert d(other) is None
    unlike = [np.zeros((4, 4), np.float16), np.zeros(4, np.float32), np.zeros((4, 4), np.int32),
              np.zeros((4, 4), np.float32, order="F"), np.zeros((4, 4, 4), np.float32), 3, None, "text"]
    for other in unlike:
        assert d(other) is NotImplemented, other


def test_leading_axis_of_extent_one(fake_hip: Any) -> None:
    """The lowest axis of stride 1 is the static one, whatever its extent."""
    d = dispatcher(VALUE)
    column = np.zeros((5, 1), np.float32)  # strides (1, 1)
    d.add((column,), launcher(1, tensor("x")))
    assert d(np.zeros((5, 3), np.float32)) is NotImplemented
    assert d(np.zeros((9, 1), np.float32)) is None


def test_no_unit_stride_is_left_to_the_front_end(fake_hip: Any) -> None:
    d = dispatcher(VALUE)
    assert d.add((np.zeros((8, 8), np.float32)[:, ::2],), launcher(1, tensor("x"))) is False
    assert d.add((np.zeros((), np.float32),), launcher(1, tensor("x", rank=0))) is False


@pytest.mark.parametrize(
    ("same", "others"),
    [
        (1, [2, True, 1.0, "1", (1,)]),
        (True, [1, False, 1.0]),
        (0.0, [-0.0, 0, False]),
        ("ab", ["ac", b"ab", ("ab",)]),
        ((1, (2, "x")), [(1, (2, "y")), (1, 2, "x"), ((1, 2), "x"), (1, (True, "x"))]),
        (int, [float, 1]),
    ],
)
def test_compile_time_values_by_type_and_value(fake_hip: Any, same: Any, others: list[Any]) -> None:
    d = dispatcher(("c", "constexpr"), ("n", "value"))
    assert d.add((same, 5), launcher(2, scalar("n"), positions=[1]))
    assert d(same, 6) is None
    assert d("".join(["a", "b"]) if same == "ab" else same, 7) is None  # equal, another object
    for other in others:
        assert d(other, 6) is NotImplemented, other


def test_what_has_no_value_is_never_keyed(fake_hip: Any) -> None:
    d = dispatcher(("c", "constexpr"))
    for value in ([1], {}, lambda: 1, 1 << 80, object()):
        assert d.add((value,), launcher(1)) is False
        assert d.add((value,), launcher(1, positions=[])) is False
        assert d(value) is NotImplemented


def test_keywords_defaults_and_arity(fake_hip: Any) -> None:
    d = Dispatcher([("a", "value"), ("b", "value", 2), ("k", "value", 3)], 2)
    d.arm([])
    seen = launcher(3, scalar("a"), scalar("b"), scalar("k"))
    assert d.add((1, 2, 3), seen)
    assert d(1) is None and d(1, 2) is None and d(1, b=5, k=6) is None and d(k=1, a=2) is None
    for args, kwargs in (((), {}), ((1, 2, 3), {}), ((1,), {"a": 1}), ((1,), {"z": 1})):
        assert d(*args, **kwargs) is NotImplemented


def test_errors_name_parameter_and_position(fake_hip: Any) -> None:
    d = dispatcher(("c", "constexpr"), ("n", "value"))
    d.add((0, 1), launcher(2, scalar("n"), positions=[1]))
    with pytest.raises(OverflowError, match=r"argument 'n' \(position 2\)"):
        d(0, 1 << 40)


def test_custom_types_are_left_to_the_front_end(fake_hip: Any) -> None:
    class Mine(np.ndarray):
        pass

    d = dispatcher(VALUE)
    d.add((np.zeros(4, np.float32),), launcher(1, tensor("x", rank=1)))
    array = np.zeros(4, np.float32).view(Mine)
    assert d(array) is None
    reserve_type(Mine)
    assert d(array) is NotImplemented
    assert d(np.zeros(4, np.float32)) is None


def test_wrappers_by_the_object_they_offer(fake_hip: Any) -> None:
    class Wrapper:
        def __init__(self, key: Any, value: Any) -> None:
            self.__flydsl_runtime_key__, self.__flydsl_runtime_arg__ = key, value

    Wrapper.__flydsl_runtime_arg__ = None  # the type tells that its objects are wrappers
    one, two = ("one",), ("two",)
    d = dispatcher(VALUE)
    array = np.zeros(4, np.float32)
    assert d.add((Wrapper(one, array),), launcher(1, tensor("x", rank=1)))
    assert d(Wrapper(one, array)) is None
    assert d(Wrapper(two, array)) is NotImplemented
    assert d(Wrapper(None, array)) is NotImplemented
    assert d(array) is NotImplemented


def test_converters(fake_hip: Any) -> None:
    class Half:
        def __init__(self, raw: int) -> None:
            self.raw = raw

    plan = launch_plan([scalar("h", "u32")], ["arg", 1, 0], launch(args=((1, 0, 4),), size=4))
    target = Launcher(plan, HSACO, positions=[1], parameters=2, converters=[lambda h: h.raw])
    assert target.evaluate("ignored", Half(7))[0]["kernargs"] == (7).to_bytes(4, "little")
    with pytest.raises(TypeError, match="argument 'h'"):
        target.evaluate("ignored", 7)
    with pytest.raises(IndexError, match="needs 2 arguments, got 1"):
        target("ignored")
    target("ignored", Half(1), "extra")
    with pytest.raises(ValueError, match="positions"):
        Launcher(plan, HSACO, positions=[5], parameters=2)


# ---- guards


def test_each_kind_of_guard() -> None:
    class Slotted:
        __slots__ = ("a",)

    class Plain:
        attribute = 1

    names: dict[str, Any] = {"a": 1}
    items, members, slotted = [1, 2], {1, 2}, Slotted()
    slotted.a = "s"

    def make_cell() -> Any:
        captured = "c"

        def set_it(value: Any) -> None:
            nonlocal captured
            captured = value

        return set_it, set_it.__closure__[0]  # type: ignore[index]

    set_it, cell = make_cell()
    cases: list[tuple[tuple[Any, ...], Any]] = [
        (("item", names, "a", 1), lambda: names.update(a=2)),
        (("item", names, "new"), lambda: names.update(new=2)),
        (("dict", names, None), lambda: names.update(other=2)),
        (("list", items, None), lambda: items.append(3)),
        (("set", members, None), lambda: members.add(3)),
        (("attr", slotted, "a", "s"), lambda: setattr(slotted, "a", "t")),
        (("cell", cell, "c"), lambda: set_it("d")),
        (("type", Plain, None), lambda: setattr(Plain, "attribute", 2)),
    ]
    copies = {"dict": dict, "list": tuple, "set": set, "type": lambda c: dict(vars(c))}
    for entry, change in cases:
        if entry[-1] is None:
            entry = (*entry[:2], copies[entry[0]](entry[1]))
        guards = Guards([entry])
        names["unrelated" + entry[0]] = 1 if entry[0] == "item" else names.get("unrelated", 0)
        guards = Guards([entry if entry[0] != "dict" else ("dict", names, dict(names))])
        assert guards.unchanged() and guards.unchanged() and guards.first_change() == ""
        change()
        assert not guards.unchanged(), entry
        assert guards.first_change()


def test_a_value_put_back_is_no_change() -> None:
    names = {"a": "x"}
    guards = Guards([("item", names, "a", names["a"])])
    kept = names.pop("a")
    assert not guards.unchanged()
    names["a"] = kept
    assert guards.unchanged()


def test_malformed_guards() -> None:
    for entry in ((), ("item",), ("what", {}), ("item", [], "a"), ("list", [], []), 3):
        with pytest.raises(TypeError):
            Guards([entry])  # type: ignore[list-item]


def test_dispatch_ends_when_a_guard_fails(fake_hip: Any) -> None:
    names = {"a": 1}
    setting: contextvars.ContextVar[Any] = contextvars.ContextVar("setting", default=None)
    d = Dispatcher([VALUE], 1, setting)
    d.arm([Guards([("item", names, "a", 1)])])
    d.add((1,), launcher(1, scalar("x")))
    assert d(2) is None and d.current()
    token = setting.set({"a": 1})
    assert d(2) is NotImplemented
    setting.reset(token)
    assert d(2) is None
    names["a"] = 2
    assert d(2) is NotImplemented and not d.current()
    d.arm([Guards([("item", names, "a", 2)])])
    assert d(2) is NotImplemented  # forgotten


def test_cycles_are_collected() -> None:
    class Owner:
        pass

    owner = Owner()
    owner.guards = Guards([("attr", owner, "x", 1)])  # type: ignore[attr-defined]
    owner.d = Dispatcher([("x", "value", owner)], 1)  # type: ignore[attr-defined]
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None


def test_calls_from_threads_while_the_table_changes(fake_hip: Any) -> None:
    d = dispatcher(("c", "constexpr"), ("x", "value"))
    arrays = [np.zeros((4,) * rank, np.float32) for rank in (1, 2, 3)]
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for i in range(300):
                array = arrays[(i + seed) % 3]
                if d(i % 4, array) is NotImplemented:
                    d.add((i % 4, array), launcher(2, tensor("x", rank=array.ndim), positions=[1]))
                if i % 97 == seed:
                    d.arm([])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_pointers_to_ctypes_values(fake_hip: Any) -> None:
    d = dispatcher(VALUE)
    target = launcher(1, {"kind": "pointer", "name": "x"})
    assert d.add((ctypes.c_void_p(16),), target)
    assert d(ctypes.c_void_p(32)) is None


def test_stores_in_hot_code_are_seen() -> None:
    """The interpreter's specialised stores into instances and globals change what guards look at."""

    class Plain:
        def __init__(self) -> None:
            self.a, self.b = 1, 2

    scope: dict[str, Any] = {}
    exec("def store_global(v):\n    global G\n    G = v\ndef store(o, v):\n    o.a = v\n", scope)
    instance, values = Plain(), [object() for _ in range(7)]
    names = vars(instance)
    for i in range(300):  # long enough for the interpreter to specialise the stores
        scope["store"](instance, i)
        scope["store_global"](i)
    for i in range(300):
        scope["store"](instance, values[i % 7])
        scope["store_global"](values[i % 7])
        guards = [Guards([("dict", names, dict(names))]), Guards([("item", scope, "G", scope["G"])])]
        assert all(g.unchanged() and g.unchanged() for g in guards)
        scope["store"](instance, values[(i + 1) % 7])
        scope["store_global"](values[(i + 1) % 7])
        assert not any(g.unchanged() for g in guards)
