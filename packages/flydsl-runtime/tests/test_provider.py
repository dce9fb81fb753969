"""Choice of the HIP library, each case in a process of its own."""

from __future__ import annotations

import json

import pytest
from runtime_fake_hip import build_fake_hip

from flydsl.runtime import HipError, _provider

LAUNCH = """
import numpy as np
from runtime_plans import HSACO, launch, launch_plan, tensor
from flydsl.runtime import Launcher, kind, library_path
try:
    Launcher(launch_plan([tensor("A", "f32", 1)], launch()), HSACO, arch="gfx942")(np.zeros(3, np.float32))
    print("launched on", kind(), library_path())
except Exception as error:
    print(type(error).__name__ + ":", error)
"""


def simulator() -> str:
    return str(build_fake_hip("FAKE_HIP_SIMULATOR"))


def rocm() -> str:
    return str(build_fake_hip())


def test_explicit_library(run_python) -> None:
    result = run_python(LAUNCH, FLYDSL_HIP_LIBRARY=simulator())
    assert result.stdout == f"launched on sim {simulator()}\n", result.stderr
    assert result.stderr == ""  # the user chose: no notice


def test_host_memory_on_a_gpu_is_an_error(run_python) -> None:
    result = run_python(LAUNCH, FLYDSL_HIP_LIBRARY=rocm())
    assert "ValueError: f(): argument 'A' (position 1): expected a tensor on ROCm device 0" in result.stdout
    assert "got one in host memory; copy it to the GPU first" in result.stdout


def test_device_array_and_devices_on_a_gpu(run_python) -> None:
    code = """
import numpy as np
import flydsl.runtime as rt
from runtime_plans import HSACO, launch, launch_plan, tensor
array = rt.DeviceArray.from_numpy(np.arange(3, dtype=np.float32))
launcher = rt.Launcher(launch_plan([tensor("A", "f32", 1)], launch()), HSACO)
launcher(array)
print(array.numpy().tolist())
rt.set_device(1)
try:
    launcher(array)
except ValueError as error:
    print(error)
"""
    result = run_python(code, FLYDSL_HIP_LIBRARY=rocm(), FLYDSL_RUNTIME_KIND="rocm")
    assert result.stdout.splitlines() == [
        "[0.0, 1.0, 2.0]",
        "f(): argument 'A' (position 1): expected a tensor on the current ROCm device 1, got one on ROCm device 0",
    ], result.stderr


def test_missing_library(run_python) -> None:
    result = run_python(LAUNCH, FLYDSL_HIP_LIBRARY="/nowhere/libamdhip64.so.7")
    assert result.stdout.startswith("HipError: cannot open the HIP library '/nowhere/libamdhip64.so.7': ")


def test_library_that_is_no_library(run_python, tmp_path) -> None:
    path = tmp_path / "libamdhip64.so"
    path.write_text("not an ELF file")
    result = run_python(LAUNCH, FLYDSL_HIP_LIBRARY=str(path))
    assert result.stdout.startswith(f"HipError: cannot open the HIP library '{path}': "), result.stderr


def test_library_without_a_needed_symbol(run_python) -> None:
    path = build_fake_hip("FAKE_HIP_NO_LAUNCH")
    result = run_python(LAUNCH, FLYDSL_HIP_LIBRARY=str(path))
    expected = f"HipError: '{path}' is not a usable HIP library; missing symbols: hipModuleLaunchKernel"
    assert result.stdout.strip() == expected, result.stderr


def test_some_other_library(run_python) -> None:
    result = run_python(LAUNCH, FLYDSL_HIP_LIBRARY="libc.so.6")
    assert "HipError: 'libc.so.6' is not a usable HIP library; missing symbols: hipInit, " in result.stdout


def test_library_of_the_other_kind(run_python) -> None:
    result = run_python(LAUNCH, FLYDSL_HIP_LIBRARY=simulator(), FLYDSL_RUNTIME_KIND="rocm")
    assert "HipError: FLYDSL_RUNTIME_KIND is 'rocm', but the HIP library found is the simulator" in result.stdout
    result = run_python(LAUNCH, FLYDSL_HIP_LIBRARY=rocm(), FLYDSL_RUNTIME_KIND="sim")
    assert "HipError: FLYDSL_RUNTIME_KIND is 'sim', but " in result.stdout
    assert "is not a simulator library" in result.stdout


def test_unknown_kind(run_python) -> None:
    result = run_python(LAUNCH, FLYDSL_RUNTIME_KIND="cuda")
    assert result.stdout.strip() == "ValueError: Unknown FLYDSL_RUNTIME_KIND 'cuda': expected one of rocm, sim"


def test_rocm_without_any_library(run_python) -> None:
    code = f"import flydsl.runtime._provider as p; p._rocm_candidates = lambda: iter(['/a.so', '/b.so'])\n{LAUNCH}"
    result = run_python(code, FLYDSL_RUNTIME_KIND="rocm")
    assert "HipError: no usable HIP library found:\n  cannot open the HIP library '/a.so'" in result.stdout
    assert "'/b.so'" in result.stdout


def test_simulated_architecture(run_python) -> None:
    code = "import flydsl.runtime as rt; print(rt.device_info().arch)"
    library = simulator()
    assert run_python(code, FLYDSL_HIP_LIBRARY=library, FLYDSL_SIM_ARCH="gfx950").stdout == "gfx950\n"
    assert run_python(code, FLYDSL_HIP_LIBRARY=library, ARCH="gfx1201").stdout == "gfx1201\n"
    assert run_python(code, FLYDSL_HIP_LIBRARY=library, ARCH="gfx1250-strict").stdout == "gfx1250\n"
    assert run_python(code, FLYDSL_HIP_LIBRARY=library, ARCH="gfx950", FLYDSL_SIM_ARCH="gfx942").stdout == "gfx942\n"
    result = run_python(LAUNCH, FLYDSL_HIP_LIBRARY=library, FLYDSL_SIM_ARCH="gfx000")
    assert result.stdout.strip() == "SimulatorError: architecture 'gfx000' is not simulated"


DEFAULT = """
import flydsl.runtime._provider as p
p.get_rocm_device_count = lambda: {gpus}
p._rocm_candidates = lambda: iter([{rocm!r}])
p.simulator_directory = lambda: p.Path({simulator!r}).parent
print(p.kind(), p.kind())
"""


def test_default_is_the_simulator_with_one_notice(run_python) -> None:
    result = run_python(DEFAULT.format(gpus=0, rocm=rocm(), simulator=simulator()))
    assert result.stdout == "sim sim\n", result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith("flydsl: no AMD GPU found; kernels run on the simulator (gfx942).")


def test_default_is_the_gpu_if_there_is_one(run_python) -> None:
    result = run_python(DEFAULT.format(gpus=2, rocm=rocm(), simulator=simulator()))
    assert (result.stdout, result.stderr) == ("rocm rocm\n", "")


def test_default_says_why_the_gpu_is_not_used(run_python) -> None:
    result = run_python(DEFAULT.format(gpus=1, rocm="/nowhere.so", simulator=simulator()))
    assert result.stdout == "sim sim\n", result.stderr
    assert "the GPU cannot be used (no usable HIP library found" in result.stderr


def test_no_notice_when_the_simulator_is_asked_for(run_python) -> None:
    code = DEFAULT.format(gpus=0, rocm=rocm(), simulator=simulator())
    result = run_python(code, FLYDSL_RUNTIME_KIND="sim")
    assert (result.stdout, result.stderr) == ("sim sim\n", "")


def test_importing_touches_no_library(run_python) -> None:
    code = """
import flydsl.runtime, flydsl.runtime.device, flydsl.runtime.device_runtime
from flydsl.runtime import Launcher, Stream, _native
print(_native.library_info())
"""
    result = run_python(code, FLYDSL_HIP_LIBRARY="/nowhere")
    assert result.stdout == "None\n", result.stderr


def test_installation_without_simulator(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    import flydsl.runtime

    monkeypatch.setattr(flydsl.runtime, "__path__", [str(tmp_path)])
    monkeypatch.setattr(_provider._native, "__file__", str(tmp_path / "native" / "_native.so"))
    with pytest.raises(HipError, match="libamdhip64.so.7 is not part of this installation"):
        _provider.simulator_directory()
    (tmp_path / "_sim").mkdir()
    (tmp_path / "_sim" / "libamdhip64.so.7").touch()
    assert _provider.simulator_directory() == tmp_path / "_sim"


def test_candidates_prefer_a_library_in_the_process(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    (tmp_path / "lib").mkdir()
    library = tmp_path / "lib" / "libamdhip64.so.6"
    library.touch()
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    monkeypatch.setattr(_provider, "_mapped_libraries", lambda: iter(["/loaded/libamdhip64.so.7"]))
    candidates = list(_provider._rocm_candidates())
    assert candidates[0] == "/loaded/libamdhip64.so.7"
    assert str(library) in candidates[1:]
    assert candidates[-4:] == ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"]


def test_command_line(run_python) -> None:
    run = "import sys; from flydsl.runtime.__main__ import main; sys.exit(main({arguments!r}))"
    result = run_python(run.format(arguments=["info", "--json"]), FLYDSL_HIP_LIBRARY=simulator())
    facts = json.loads(result.stdout)
    assert facts["kind"] == "sim"
    assert facts["library"] == simulator()
    assert facts["devices"][0]["arch"] == "gfx942"
    assert facts["devices"][1]["name"] == "fake device 1"
    assert facts["devices"][0]["lds_bytes"] == 65536

    text = run_python(run.format(arguments=["info"]), FLYDSL_HIP_LIBRARY=simulator()).stdout
    assert "kind           sim" in text
    assert "304 compute units, wave 64, 1024 work-items and 65536 bytes of LDS per work-group" in text

    failed = run_python(run.format(arguments=["info"]), FLYDSL_HIP_LIBRARY="/nowhere")
    assert failed.returncode == 1
    assert failed.stderr.startswith("error: cannot open the HIP library '/nowhere'")
