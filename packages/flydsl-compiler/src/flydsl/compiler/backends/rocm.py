"""The ROCm backend: fly dialects to ROCDL for AMD GPUs."""

from __future__ import annotations

import re
from typing import Any

from flydsl.runtime.device import get_rocm_arch, get_warp_size
from flydsl.tracing.ir_walk import kernel_functions
from flydsl.utils import env

from .base import AOTRuntimeConfig, BaseBackend, GPUTarget

_ARCH = re.compile(r"gfx[0-9a-f]{3,5}(-[a-z]+)?(:[a-z]+[+-])*")
_SUPPORTED = (
    "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1200", "gfx1201", "gfx1250", "gfx1250-strict",
)
#: Libraries that generate code; their content enters the toolchain fingerprint.
NATIVE_LIBRARIES = ("_mlir/_mlir_libs/libFlyPythonCAPI.so*", "_mlir/_mlir_libs/_fly*.so", "_mlir/_mlir_libs/_mlir.*.so")
_SPACES = {"generic": 0, "global": 1, "shared": 3, "register": 5}


class RocmBackend(BaseBackend):
    """AMD GPUs through the AMDGPU code generator, in process."""

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == "rocm"

    @staticmethod
    def detect_target() -> GPUTarget:
        return RocmBackend._target(env.compile.arch or get_rocm_arch(), " (from ARCH or device detection)")

    @classmethod
    def make_target(cls, arch: str) -> GPUTarget:
        return cls._target(arch)

    @staticmethod
    def _target(arch: str, source: str = "") -> GPUTarget:
        arch = arch.strip().lower()
        if not _ARCH.fullmatch(arch) or arch.split(":")[0] not in _SUPPORTED:
            raise ValueError(f"unknown architecture {arch!r}{source}; known: {', '.join(_SUPPORTED)}")
        return GPUTarget("rocm", arch, get_warp_size(arch))

    @classmethod
    def llvm_address_space(cls, space: Any) -> int:
        name = str(space).rpartition(".")[2].lower()
        if name not in _SPACES:
            raise ValueError(f"no LLVM address space for {space}")
        return _SPACES[name]

    @property
    def chip(self) -> str:
        """The processor, without variant and feature suffixes."""
        return re.split(r"[-:]", self.target.arch)[0]

    @property
    def target_id(self) -> str:
        """The processor with its features (``gfx942:sramecc+:xnack-``), without a variant (``gfx1250-strict``)."""
        _, colon, features = self.target.arch.partition(":")
        return self.chip + colon + features

    def pipeline_fragments(self, *, compile_hints: dict[str, Any]) -> list[str]:
        # runtime=OpenCL concerns printf only: the back end lowers it without a device library.
        to_rocdl = (
            f"convert-gpu-to-rocdl{{chipset={self.chip} index-bitwidth=0 runtime=OpenCL "
            "use-bare-ptr-memref-call-conv=true}"
        )
        device = f"gpu.module(convert-scf-to-cf,cse,{to_rocdl},fly-rocdl-cluster-attr)"
        return [
            "fly-rewrite-func-signature",
            # Braces end the stage's name: dumps keep their numbers.
            "fly-canonicalize{},fly-rocdl-expand-ops",
            "fly-layout-lowering",
            "fly-int-swizzle-simplify",
            "canonicalize",
            "fly-convert-atom-call-to-ssa-form",
            "fly-promote-regmem-to-vectorssa",
            "convert-fly-to-rocdl",
            "canonicalize{max-iterations=10},"
            f"gpu.module(convert-rocdl-fastmath-ops,fly-expand-math{{chipset={self.chip}}})",
            device,
            "convert-scf-to-cf",
            # Code generation adds the debug scopes, to device functions: the pass that does it ends the process where a
            # function of the host side, which is none of LLVM's, has an operation at a call site.
            "gpu.module(convert-arith-to-llvm,reconcile-unrealized-casts)",
        ]

    def lower_compile_hints(self, module: Any, *, compile_hints: dict[str, Any]) -> None:
        from flydsl._mlir import ir

        if compile_hints.get("unsafe_fp_math"):
            for function in kernel_functions(module):
                _add_passthrough(function, "unsafe-fp-math", "true")
        waves = compile_hints.get("waves_per_eu")
        if waves is None or waves == 0:
            return

        value = waves_per_eu(waves)
        for function in kernel_functions(module):
            if "," in value:
                # The ROCDL attribute takes one number; a range is an attribute of the LLVM function.
                _add_passthrough(function, "amdgpu-waves-per-eu", value)
                if "rocdl.waves_per_eu" in function.attributes:
                    del function.attributes["rocdl.waves_per_eu"]
            else:
                number = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), int(value))
                function.attributes["rocdl.waves_per_eu"] = number

    def attach_fragment(self, compile_hints: dict[str, Any]) -> str:
        """The pass that attaches the target with its options to the ``gpu.module``."""

        def flag(value: Any) -> str:
            return str(bool(value)).lower()

        fast, unsafe = flag(compile_hints.get("fast_fp_math")), flag(compile_hints.get("unsafe_fp_math"))
        return (
            f"rocdl-attach-target{{O={env.compile.opt_level} abi=600 chip={self.chip} correct-sqrt=true daz=false "
            f"fast={fast} features= finite-only=false module= triple=amdgcn-amd-amdhsa unsafe-math={unsafe} "
            f"wave64={flag(self.target.warp_size == 64)}}}"
        )

    def external_binary_pipeline_fragments(self, *, compile_hints: dict[str, Any]) -> tuple[list[str], str]:
        before = [*self.pipeline_fragments(compile_hints=compile_hints), self.attach_fragment(compile_hints)]
        return before, "gpu-module-to-binary{format=fatbin}"

    def aot_runtime_config(self) -> AOTRuntimeConfig:
        # The adapter to the HIP API is part of each exported object.
        return AOTRuntimeConfig("", ("libamdhip64.so",), ("-lamdhip64", "-pthread"))

    def gpu_module_targets(self) -> list[str]:
        return [f'#rocdl.target<chip = "{self.chip}">']

    def native_lib_patterns(self) -> list[str]:
        return list(NATIVE_LIBRARIES)

    def jit_runtime_lib_basenames(self) -> list[str]:
        return []


def _add_passthrough(function: Any, key: str, value: str) -> None:
    """Give the LLVM function an attribute; one of the same name that it had is replaced."""
    from flydsl._mlir import ir

    entries = []
    if "passthrough" in function.attributes:
        for entry in ir.ArrayAttr(function.attributes["passthrough"]):
            pair = isinstance(entry, ir.ArrayAttr)
            if (str(entry[0]) if pair else str(entry)).strip('"') != key:
                entries.append(entry)
    entries.append(ir.ArrayAttr.get([ir.StringAttr.get(key), ir.StringAttr.get(value)]))
    function.attributes["passthrough"] = ir.ArrayAttr.get(entries)


def waves_per_eu(value: Any) -> str:
    """The attribute text of a ``waves_per_eu`` hint: ``"min"`` or ``"min,max"``.

    Raises:
        TypeError: not an int, a pair of ints or a string. ValueError: negative, or min > max.
    """
    parts: Any = value
    if isinstance(value, str):
        try:
            parts = tuple(int(part) for part in value.split(","))
        except ValueError:
            raise ValueError(f"waves_per_eu={value!r} is not 'min' or 'min,max'") from None
    elif type(value) is int:
        parts = (value,)
    if not isinstance(parts, tuple) or not 1 <= len(parts) <= 2 or any(type(part) is not int for part in parts):
        raise TypeError(f"waves_per_eu must be an int, (min, max) or a string, got {value!r}")
    if any(part < 0 for part in parts):
        raise ValueError(f"waves_per_eu must not be negative, got {value!r}")
    if len(parts) == 2 and parts[0] > parts[1]:
        raise ValueError(f"waves_per_eu={value!r}: min is greater than max")
    return ",".join(str(part) for part in parts)
