"""The HIP API as programs see it: from C with the published prototypes, and names that exist."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from clangc import compile_gpu, find_clang

HERE = Path(__file__).parent

SOURCE = """
GLOBAL i32 bias = 1;
KERNEL void add(GLOBAL i32 *out, const GLOBAL i32 *in, i32 n, i32 by) {
  i32 i = WG() * 64 + TID();
  if (i < n) out[i] = in[i] + by + bias - 1;
}
"""

# What PyTorch (ROCm), Triton and programs compiled as HIP resolve at load time or with dlsym.
NAMES = """
hipInit hipDriverGetVersion hipRuntimeGetVersion hipGetDeviceCount hipGetDevice hipSetDevice
hipGetDevicePropertiesR0600 hipDeviceGetAttribute hipDeviceGetName hipDeviceGetPCIBusId hipDeviceTotalMem
hipDeviceComputeCapability hipDeviceCanAccessPeer hipDeviceEnablePeerAccess hipDeviceGetStreamPriorityRange
hipDeviceSynchronize hipDeviceReset hipDevicePrimaryCtxGetState hipDevicePrimaryCtxRetain hipCtxGetCurrent
hipCtxSetCurrent hipCtxGetDevice hipCtxPushCurrent hipCtxPopCurrent hipChooseDeviceR0600 hipGetProcAddress
hipMalloc hipFree hipMallocAsync hipFreeAsync hipMallocManaged hipHostMalloc hipHostFree hipHostRegister
hipHostUnregister hipHostGetDevicePointer hipExtMallocWithFlags hipMemGetInfo hipMemGetAddressRange hipMemPoolCreate
hipMemPoolSetAccess hipMemPoolTrimTo hipMemPoolGetAttribute hipMemPoolSetAttribute hipDeviceGetDefaultMemPool
hipMemcpy hipMemcpyAsync hipMemcpyWithStream hipMemcpy2D hipMemcpy2DAsync hipMemcpy3D hipMemcpy3DAsync hipMemcpyPeer
hipMemcpyPeerAsync hipMemcpyToSymbol hipMemcpyFromSymbol hipMemcpyHtoD hipMemcpyDtoH hipMemcpyDtoDAsync hipMemset
hipMemsetAsync hipMemset2D hipMemset3D hipMemsetD8 hipMemsetD16Async hipMemsetD32Async hipMemPrefetchAsync hipMemAdvise
hipPointerGetAttributes hipPointerGetAttribute hipDrvPointerGetAttributes hipPointerSetAttribute
hipStreamCreate hipStreamCreateWithFlags hipStreamCreateWithPriority hipStreamDestroy hipStreamQuery
hipStreamSynchronize hipStreamWaitEvent hipStreamAddCallback hipLaunchHostFunc hipStreamGetFlags hipStreamGetPriority
hipStreamGetDevice hipStreamGetCaptureInfo hipStreamGetCaptureInfo_v2 hipStreamIsCapturing hipStreamBeginCapture
hipStreamEndCapture hipStreamUpdateCaptureDependencies hipThreadExchangeStreamCaptureMode hipStreamWaitValue32
hipStreamWaitValue64 hipStreamWriteValue32 hipStreamWriteValue64 hipExtStreamCreateWithCUMask hipExtStreamGetCUMask
hipEventCreate hipEventCreateWithFlags hipEventDestroy hipEventRecord hipEventRecordWithFlags hipEventQuery
hipEventSynchronize hipEventElapsedTime hipIpcGetMemHandle hipIpcOpenMemHandle hipIpcCloseMemHandle
hipIpcGetEventHandle hipIpcOpenEventHandle
hipModuleLoad hipModuleLoadData hipModuleLoadDataEx hipModuleUnload hipModuleGetFunction hipModuleGetGlobal
hipModuleLaunchKernel hipExtModuleLaunchKernel hipModuleLaunchCooperativeKernel hipDrvLaunchKernelEx hipLaunchKernel
hipLaunchKernelExC hipLaunchCooperativeKernel hipFuncGetAttribute hipFuncGetAttributes hipFuncSetAttribute
hipFuncSetCacheConfig hipGetFuncBySymbol hipGetSymbolAddress hipGetSymbolSize
hipModuleOccupancyMaxActiveBlocksPerMultiprocessor hipModuleOccupancyMaxPotentialBlockSize
hipOccupancyMaxActiveBlocksPerMultiprocessor hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags
hipOccupancyMaxPotentialBlockSize hipOccupancyAvailableDynamicSMemPerBlock
hipGraphCreate hipGraphDestroy hipGraphClone hipGraphInstantiate hipGraphInstantiateWithFlags hipGraphLaunch
hipGraphExecDestroy hipGraphExecUpdate hipGraphGetNodes hipGraphGetRootNodes hipGraphGetEdges hipGraphDebugDotPrint
hipGraphAddKernelNode hipGraphAddMemcpyNode hipGraphAddMemcpyNode1D hipGraphAddMemsetNode hipGraphAddHostNode
hipGraphAddEmptyNode hipGraphAddChildGraphNode hipGraphAddEventRecordNode hipGraphAddEventWaitNode
hipGraphAddDependencies hipGraphNodeGetType hipGraphKernelNodeGetParams hipGraphKernelNodeSetParams
hipGraphExecKernelNodeSetParams hipUserObjectCreate hipGraphRetainUserObject hipGraphUpload
hipGetLastError hipPeekAtLastError hipExtGetLastError hipGetErrorName hipGetErrorString hipDrvGetErrorString
__hipRegisterFatBinary __hipRegisterFunction __hipRegisterVar __hipUnregisterFatBinary __hipPushCallConfiguration
__hipPopCallConfiguration
""".split()


def test_names(sim):
    """Every name is implemented: it exists and is not among those that return hipErrorNotSupported."""
    sim.lib.flysimUnsupported.restype = ctypes.c_char_p
    unsupported = set(sim.lib.flysimUnsupported().decode().split())
    assert [n for n in NAMES if not hasattr(sim.lib, n) or n in unsupported] == []
    assert len(unsupported) < 140
    assert all(hasattr(sim.lib, n) for n in unsupported)


@pytest.mark.skipif(find_clang() is None, reason="no clang with an AMD GPU target")
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_c_program(sim, build_dir, tmp_path, arch):
    """hip_program.c: graphs, capture, copies, pools, values in memory, events across processes."""
    image = tmp_path / "add.hsaco"
    image.write_bytes(compile_gpu(SOURCE, arch, "2", build_dir))
    library = Path(sim.lib._name)
    program = tmp_path / "program"
    subprocess.run(
        ["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, HERE / "hip_program.c"]
        + [library, f"-Wl,-rpath,{library.parent}"],
        check=True,
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FLYDSL_SIM_")}
    for devices in ("1", "2"):
        done = subprocess.run(
            [program, image],
            env=environment | {"FLYDSL_SIM_ARCH": arch, "FLYDSL_SIM_DEVICES": devices},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stdout) == (0, "passed\n"), f"{devices} devices\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize(("arch", "dies", "registers"), [
    ("gfx90a", 1, 512), ("gfx942", 8, 512), ("gfx950", 8, 512), ("gfx1100", 1, 256), ("gfx1201", 1, 256),
    ("gfx1250", 8, 1024)])
def test_dies_and_registers_of_a_device(sim, arch, dies, registers):
    sim.set_arch(arch)
    for attribute, expected in ((10018, dies), (10019, registers)):  # NumberOfXccs, MaxAvailableVgprsPerThread
        value = ctypes.c_int(-1)
        sim.check(sim.lib.hipDeviceGetAttribute(ctypes.byref(value), attribute, 0))
        assert value.value == expected
