"""Architecture detection and the facts of architectures."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from flydsl.runtime import device
from flydsl.runtime.device import check_smem_capacity, get_rocm_arch, get_warp_size, is_rdna_arch


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_machine_archs", lambda: ())


def test_default() -> None:
    assert get_rocm_arch() == "gfx942"


@pytest.mark.parametrize("variable", ["FLYDSL_GPU_ARCH", "HSA_OVERRIDE_GFX_VERSION"])
@pytest.mark.parametrize(
    ("value", "arch"),
    [
        ("gfx950", "gfx950"),
        ("GFX90A", "gfx90a"),
        ("9.4.2", "gfx942"),
        ("9.0.10", "gfx90a"),
        ("12.0.1", "gfx1201"),
        ("11.5.1", "gfx1151"),
        ("nonsense", "gfx942"),
        ("9.4", "gfx942"),
    ],
)
def test_variables(monkeypatch: pytest.MonkeyPatch, variable: str, value: str, arch: str) -> None:
    monkeypatch.setenv(variable, value)
    assert get_rocm_arch() == arch


def test_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_SIM_ARCH", "gfx1250")
    assert get_rocm_arch() == "gfx1250"
    monkeypatch.setattr(device, "_machine_archs", lambda: ("gfx1100", "gfx950"))
    assert get_rocm_arch() == "gfx1100"
    assert device.get_rocm_device_count() == 2
    monkeypatch.setenv("FLYDSL_RUNTIME_KIND", "sim")
    assert get_rocm_arch() == "gfx1250"
    monkeypatch.setenv("HSA_OVERRIDE_GFX_VERSION", "9.4.2")
    assert get_rocm_arch() == "gfx942"
    monkeypatch.setenv("FLYDSL_GPU_ARCH", "gfx950")
    assert get_rocm_arch() == "gfx950"


def test_kernel_driver_topology(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for index, version in enumerate((0, 90402, 90010, 120001, 110501, 120500)):
        node = tmp_path / str(index)
        node.mkdir()
        (node / "properties").write_text(f"cpu_cores_count 0\ngfx_target_version {version}\nvendor_id 4098\n")
    (tmp_path / "6").mkdir()
    monkeypatch.setattr(device, "_KFD_NODES", tmp_path)
    assert device._kfd_archs() == ("gfx942", "gfx90a", "gfx1201", "gfx1151", "gfx1250")


def test_agent_enumerator(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: Any, **__: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 0, stdout="gfx000\ngfx942:sramecc+:xnack-\n\nGFX1100\n")

    monkeypatch.setattr(subprocess, "run", run)
    assert device._enumerated_archs() == ("gfx942", "gfx1100")

    def fail(*_: Any, **__: Any) -> None:
        raise FileNotFoundError("rocm_agent_enumerator")

    monkeypatch.setattr(subprocess, "run", fail)
    assert device._enumerated_archs() == ()


@pytest.mark.parametrize(
    ("arch", "rdna", "wave"),
    [
        ("gfx90a", False, 64),
        ("gfx942", False, 64),
        ("gfx950", False, 64),
        ("gfx1030", True, 32),
        ("gfx1100", True, 32),
        ("gfx1201", True, 32),
        ("gfx1250", False, 32),
        ("", False, 64),
    ],
)
def test_families(arch: str, rdna: bool, wave: int) -> None:
    assert is_rdna_arch(arch) is rdna
    assert get_warp_size(arch) == wave


def test_families_of_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_GPU_ARCH", "gfx1201")
    assert is_rdna_arch()
    assert get_warp_size() == 32


def test_lds_capacity() -> None:
    check_smem_capacity(None, "gfx942")
    check_smem_capacity(65536, "gfx942")
    check_smem_capacity(1 << 30, "gfx9999")
    check_smem_capacity(163840, "gfx950:xnack-")
    with pytest.raises(RuntimeError, match="131072 bytes of LDS .* work-group on gfx942 has at most 65536"):
        check_smem_capacity(131072, "gfx942")
    with pytest.raises(RuntimeError, match="at most 65536"):
        check_smem_capacity(65537)


def test_timeout_of_the_agent_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_ROCM_AGENT_TIMEOUT", "soon")
    with pytest.raises(ValueError, match="FLYDSL_ROCM_AGENT_TIMEOUT='soon' is no whole number of seconds"):
        device._seconds("FLYDSL_ROCM_AGENT_TIMEOUT", 300)
