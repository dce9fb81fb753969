"""The registry of device runtimes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import flydsl.runtime as rt
from flydsl.runtime import device_runtime


class Custom(rt.DeviceRuntime):
    kind = "custom"

    def device_count(self) -> int:
        return 7

    def current_device_id(self) -> int:
        return 3


@pytest.fixture(autouse=True)
def fresh_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in (("_override", None), ("_instance", None), ("_extension_mapping", {})):
        monkeypatch.setattr(device_runtime, name, value)
    yield


def test_default_runtime_is_one_instance() -> None:
    runtime = rt.get_device_runtime()
    assert runtime is rt.get_device_runtime()
    assert isinstance(runtime, rt.SimDeviceRuntime)  # the library of these tests is a simulator
    assert (runtime.kind, runtime.device_count(), runtime.current_device_id()) == ("sim", 2, 0)


@pytest.mark.parametrize(("kind", "cls"), [("rocm", rt.RocmDeviceRuntime), ("SIM", rt.SimDeviceRuntime)])
def test_kind_from_the_environment(monkeypatch: pytest.MonkeyPatch, kind: str, cls: type) -> None:
    monkeypatch.setenv("FLYDSL_RUNTIME_KIND", kind)
    assert type(rt.get_device_runtime()) is cls


def test_pairing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rt.COMPILE_BACKEND_TO_RUNTIME_KIND == {"rocm": "rocm"}
    rt.ensure_compile_runtime_pairing_from_env("rocm")
    monkeypatch.setenv("FLYDSL_RUNTIME_KIND", "sim")
    rt.ensure_compile_runtime_pairing_from_env("ROCM")
    monkeypatch.setenv("FLYDSL_RUNTIME_KIND", "cuda")
    with pytest.raises(RuntimeError, match="requires device runtime kind 'rocm'"):
        rt.ensure_compile_runtime_pairing_from_env("rocm")
    with pytest.raises(RuntimeError, match="requires device runtime kind"):
        rt.get_device_runtime()
    with pytest.raises(ValueError, match="'other' has no device runtime kind"):
        rt.ensure_compile_runtime_pairing_from_env("other")
    assert device_runtime._instance is None


def test_unknown_kind_that_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    rt.register_compile_runtime_mapping("mine", "strange")
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "mine")
    monkeypatch.setenv("FLYDSL_RUNTIME_KIND", "strange")
    with pytest.raises(ValueError, match="Unknown FLYDSL_RUNTIME_KIND 'strange'"):
        rt.get_device_runtime()


def test_override(monkeypatch: pytest.MonkeyPatch) -> None:
    rt.register_device_runtime(Custom)
    with pytest.raises(ValueError, match="'custom' is registered already"):
        rt.register_device_runtime(Custom)
    with pytest.raises(RuntimeError, match="requires device runtime kind 'rocm', but it is 'custom'"):
        rt.get_device_runtime()
    rt.register_compile_runtime_mapping("mine", "custom")
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "mine")
    assert rt.get_device_runtime().device_count() == 7
    with pytest.raises(RuntimeError, match="in use already"):
        rt.register_device_runtime(Custom)
    rt.register_device_runtime(Custom, kind="rocm", force=True)
    monkeypatch.delenv("FLYDSL_COMPILE_BACKEND")
    assert rt.get_device_runtime().current_device_id() == 3


def test_compatibility_of_an_instance() -> None:
    rt.ensure_compile_runtime_compatible("rocm")
    rt.ensure_compile_runtime_compatible("rocm", runtime=rt.SimDeviceRuntime())
    with pytest.raises(RuntimeError, match="kind 'rocm', but it is 'custom'"):
        rt.ensure_compile_runtime_compatible("rocm", runtime=Custom())


def test_kind_is_needed() -> None:
    class Nameless(Custom):
        kind = ""

    with pytest.raises(ValueError, match="needs a kind"):
        rt.register_device_runtime(Nameless)
