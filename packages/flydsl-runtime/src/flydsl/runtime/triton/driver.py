"""Triton's driver interface over the simulator: devices, code objects, streams, benchmarks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from triton.backends import driver as interface
from triton.backends.compiler import GPUTarget

from .. import _devices, _provider
from ..timing import default_timer
from .launcher import Launcher
from .library import Library, simulator

BACKEND = "flydsl"


class DeviceInterface:
    """What ``triton.testing`` asks of ``torch.cuda``. Its times are those of the simulation on this CPU, which say
    nothing of a GPU; ``driver.get_benchmarker()``, which autotuning uses, gives the timing model's."""

    def __init__(self) -> None:
        from ..streams import Event

        self._event = Event

    def Event(self, enable_timing: bool = True) -> Any:
        return self._event(enable_timing)

    @staticmethod
    def synchronize(device: Any = None) -> None:
        _devices.synchronize()

    @staticmethod
    def current_device() -> int:
        return 0


class Utilities:
    """Code objects and device properties, under the names that Triton's runtime uses."""

    def __init__(self, driver: SimulatorDriver) -> None:
        self._driver = driver

    def load_binary(self, name: str, image: bytes, shared: int, device: int) -> tuple[int, int, int, int, int]:
        """Module, function, registers, spilled registers and largest work-group of a kernel."""
        library = self._driver.library
        library.choose(self._driver.archs[device])
        module, function = library.load(image, name)
        registers, scratch, threads = (library.attribute(function, k) for k in (4, 3, 0))
        return module, function, registers, scratch // 4, threads

    def unload_module(self, module: int) -> None:
        self._driver.library.unload(module)

    def get_device_properties(self, device: int | None = None) -> dict[str, Any]:
        return self._driver.properties(self._driver.get_current_device() if device is None else device)


class SimulatorDriver(interface.DriverBase):
    """One simulated device at a time. Triton keeps compiled code by device number, so each architecture that was chosen
    has a number of its own."""

    launcher_cls = Launcher

    def __init__(self) -> None:
        self.library: Library = simulator()
        self.archs: list[str] = []
        self.choose(None)
        self.utils = Utilities(self)

    @classmethod
    def is_active(cls) -> bool:
        """True if the environment asks for it: installing this package changes no program."""
        return os.environ.get("TRITON_DEFAULT_BACKEND", "") == BACKEND

    def choose(self, arch: str | None) -> None:
        """Simulates this architecture from now on. Raises ValueError for an unknown one."""
        name = (arch or _provider.simulator_arch()).strip().lower().split(":")[0]
        self.library.choose(name)
        if name not in self.archs:
            self.archs.append(name)
        self._current = self.archs.index(name)

    def map_python_to_cpp_type(self, ty: str) -> str:
        from triton.backends.amd.driver import ty_to_cpp

        return ty_to_cpp(ty)

    def get_current_target(self) -> GPUTarget:
        arch = self.archs[self._current]
        return GPUTarget("hip", arch, self.properties(self._current)["warpSize"])

    def get_current_device(self) -> int:
        return self._current

    def set_current_device(self, device: int) -> None:
        self.choose(self.archs[device])

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        arch = self.archs[self._current if device is None else device]
        return (int(arch[3:-2]), int(arch[-2], 16))

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> DeviceInterface:
        return DeviceInterface()

    def get_benchmarker(self) -> Callable[..., Sequence[float]]:
        return _benchmark

    def get_empty_cache_for_benchmark(self) -> Any:
        import torch

        return torch.empty(0, dtype=torch.int32)  # a simulated launch always starts with empty caches

    def clear_cache(self, cache: Any) -> None:
        """Nothing to clear, see :meth:`get_empty_cache_for_benchmark`."""

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: int) -> Any:
        import torch

        return torch.zeros(size, dtype=torch.int8)

    def assemble_tensormap_to_arg(self, tensormaps_info: Any, args: Any) -> Any:
        return args

    def properties(self, device: int) -> dict[str, Any]:
        """Facts of a device, under the names that Triton uses."""
        self.library.choose(self.archs[device])
        facts = _devices.device_info(0)
        return {
            "max_shared_mem": facts.lds_bytes, "max_num_regs": 65536, "multiprocessor_count": facts.compute_units,
            "sm_clock_rate": facts.clock_khz, "mem_clock_rate": 0, "mem_bus_width": 0, "arch": facts.arch,
            "warpSize": facts.warp_size, "max_threads_per_sm": 2048, "cooperativeLaunch": 1,
        }


def _benchmark(call: Callable[[], Any], *, quantiles: Sequence[float] | None = None, **options: Any) -> Any:
    """Milliseconds of a call, estimated by the timing model; the same for every quantile, since it has no noise."""
    (milliseconds,) = default_timer().measure(call, 1, 0)
    return milliseconds if quantiles is None else [milliseconds] * len(quantiles)
