"""Triton kernels for AMD GPUs on the simulator, with CPU tensors of torch.

    from flydsl.runtime.triton import activate

    activate("gfx950")
    kernel[grid](x, y, n, BLOCK=1024)      # x and y are CPU tensors

or, without a change of the program, ``TRITON_DEFAULT_BACKEND=flydsl python program.py`` (``FLYDSL_SIM_ARCH`` chooses
the architecture). Triton compiles as it does for a GPU; the code object that would run there is what the simulator
executes, so :func:`flydsl.runtime.checked`, :func:`flydsl.runtime.profile` and breakpoints work on it. Triton (tested:
3.9) and torch are not installed with this package.
"""

from __future__ import annotations

__all__ = ["activate"]


def activate(arch: str | None = None) -> None:
    """Make the simulator Triton's device; a later call chooses another architecture.

    :param arch: such as ``"gfx950"`` (default: ``FLYDSL_SIM_ARCH``, ``ARCH``, else gfx942)

    Raises ImportError without Triton, ValueError for an architecture that is not simulated, RuntimeError if the process
    uses a GPU.
    """
    from triton.runtime import driver

    from .driver import SimulatorDriver

    simulator = driver._active if isinstance(driver._active, SimulatorDriver) else SimulatorDriver()
    simulator.choose(arch)
    driver.set_active(simulator)
