"""The FlyDSL compiler: ``import flydsl.compiler as flyc``."""

from __future__ import annotations

__version__ = "0.1.0"

from flydsl.utils import namespace

from .backends import BaseBackend, GPUTarget, compile_backend_name, get_backend, register_backend
from .jit_function import CompiledFunction, compile, jit
from .kernel_function import kernel
from .specialization.jit_argument import JitArgumentRegistry, from_c_void_p, from_dlpack, from_torch_tensor

__all__ = [
    "BaseBackend", "CompiledFunction", "compile_backend_name", "get_backend", "GPUTarget", "register_backend",
    "JitArgumentRegistry", "from_dlpack", "from_torch_tensor", "from_c_void_p",
    "jit", "kernel", "compile",
]

namespace.install()
