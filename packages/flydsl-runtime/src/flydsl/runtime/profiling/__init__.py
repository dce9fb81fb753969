"""Where simulated kernels spend their instructions, bytes and (estimated) cycles.

    with flydsl.runtime.profile(timing=True) as result:
        my_kernel(...)
    print(result.table())

Counts are exact for what the simulator executed. Cycles, times and rates are estimates of a model, never
measurements of a GPU, and are labelled so wherever they are shown.
"""

from .collect import Profile, environment_settings, profile, start_from_environment
from .model import Instruction, LaunchProfile, Sustained, Timing
from .totals import KernelTotal

__all__ = ["Instruction", "KernelTotal", "LaunchProfile", "Profile", "Sustained", "Timing", "environment_settings",
           "profile", "start_from_environment"]
