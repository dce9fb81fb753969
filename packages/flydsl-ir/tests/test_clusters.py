"""Work-group clusters of gfx1250, on the simulator: multicast copies into local memory and the cluster barrier."""

import ctypes
from pathlib import Path

import numpy as np

from flydsl import ir as flyir
from flydsl._mlir import ir, passmanager

SOURCE = Path(__file__).parent / "filecheck" / "Codegen" / "cluster.mlir"
PIPELINE = (
    "builtin.module(fly-rewrite-func-signature,fly-canonicalize,fly-layout-lowering,fly-convert-atom-call-to-ssa-form,"
    "fly-promote-regmem-to-vectorssa,convert-fly-to-rocdl,canonicalize,gpu.module(convert-scf-to-cf,cse,"
    "convert-gpu-to-rocdl{chipset=gfx1250 index-bitwidth=0 runtime=HIP use-bare-ptr-memref-call-conv=true},"
    "fly-rocdl-cluster-attr),convert-cf-to-llvm,convert-arith-to-llvm,reconcile-unrealized-casts)"
)
CLUSTER_DIMENSION = 4  # the id of the launch attribute


class LaunchAttribute(ctypes.Structure):
    """hipLaunchAttribute."""

    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("dims", ctypes.c_uint * 3),
                ("rest", ctypes.c_char * 52)]


class LaunchConfig(ctypes.Structure):
    """HIP_LAUNCH_CONFIG."""

    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("lds", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(LaunchAttribute)),
                ("count", ctypes.c_uint)]


def code_object() -> bytes:
    with ir.Context():
        module = ir.Module.parse(SOURCE.read_text())
        passmanager.PassManager.parse(PIPELINE).run(module.operation)
        return flyir.compile_hsaco(module, "gfx1250")


def test_multicast_and_cluster_barrier(gfx1250):
    groups, cluster = 8, 4
    source = np.random.default_rng(0).integers(0, 900, (groups, 32)).astype(np.float32)
    result = np.full((groups, cluster, 32), -1, np.float32)

    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert gfx1250.hipModuleLoadData(ctypes.byref(module), code_object()) == 0
    assert gfx1250.hipModuleGetFunction(ctypes.byref(function), module, b"gather") == 0
    attribute = LaunchAttribute(CLUSTER_DIMENSION, b"", (cluster, 1, 1))
    config = LaunchConfig((groups, 1, 1), (32, 1, 1), 0, None, ctypes.pointer(attribute), 1)
    pointers = [ctypes.c_void_p() for _ in (source, result)]
    for pointer, array in zip(pointers, (source, result), strict=True):
        assert gfx1250.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(array.nbytes)) == 0
        assert gfx1250.hipMemcpy(pointer, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes), 1) == 0
    arguments = (ctypes.c_void_p * 2)(*[ctypes.addressof(pointer) for pointer in pointers])
    assert gfx1250.hipDrvLaunchKernelEx(ctypes.byref(config), function, arguments, None) == 0
    assert gfx1250.hipDeviceSynchronize() == 0
    size = ctypes.c_size_t(result.nbytes)
    assert gfx1250.hipMemcpy(result.ctypes.data_as(ctypes.c_void_p), pointers[1], size, 2) == 0
    for pointer in pointers:
        gfx1250.hipFree(pointer)
    gfx1250.hipModuleUnload(module)

    # Each group has the rows of all groups of its cluster, raised by its own place.
    rows = source.reshape(groups // cluster, 1, cluster, 32)
    places = 1000 * np.arange(cluster, dtype=np.float32).reshape(1, cluster, 1, 1)
    np.testing.assert_array_equal(result.reshape(groups // cluster, cluster, cluster, 32), rows + places)


def test_metadata_carries_the_cluster():
    """hipModuleLoad learns from the code object which cluster the kernel was compiled for."""
    assert b".cluster_dims" in code_object()
