//===- DeviceFunctions.cpp - Devices, memory, streams, events and graphs -----===//
//
// Thin bindings: the public interface with its documentation is in the Python
// modules of flydsl.runtime. Handles and addresses are integers here.
//
//===----------------------------------------------------------------------===//

#include "Errors.h"
#include "HipApi.h"
#include "Launcher.h"
#include "TensorView.h"

#include <cstring>
#include <memory>
#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace flydsl::runtime {

namespace {

constexpr int kMemcpyDefault = 4;
constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventDisableTiming = 2;
/// What cannot be captured fails in the capturing thread alone (hipStreamCaptureModeThreadLocal).
constexpr int kCaptureThreadLocal = 1;

template <typename T> T *pointer(uint64_t bits) {
  return reinterpret_cast<T *>(static_cast<uintptr_t>(bits));
}

uint64_t handle(void *value) { return reinterpret_cast<uintptr_t>(value); }

/// Runs a HIP call without the GIL.
template <typename Call> void blocking(const char *name, Call call) {
  const HipApi &api = requireApi();
  nb::gil_scoped_release release;
  checkHip(api, call(api), name);
}

/// Opens a HIP library and makes it the one in use. \p kind is "rocm" or "sim" if the user asked
/// for that, else empty. Nothing is published on failure.
void loadLibrary(const std::string &path, const std::string &kind, const std::string &simArch,
                 bool requireDevice) {
  std::unique_ptr<HipApi> api;
  {
    nb::gil_scoped_release release;
    api.reset(HipApi::load(path));
    if (kind == "rocm" && api->isSimulator())
      throw LibraryError("FLYDSL_RUNTIME_KIND is 'rocm', but the HIP library found is the "
                         "simulator '" + api->path + "'");
    if (kind == "sim" && !api->isSimulator())
      throw LibraryError("FLYDSL_RUNTIME_KIND is 'sim', but '" + api->path +
                         "' is not a simulator library (it lacks flysimVersion)");
    // The simulator fixes its device when it is initialised.
    if (api->simSetArch && !simArch.empty())
      checkHip(*api, api->simSetArch(simArch.c_str()), "flysimSetArch");
    if (api->simSetInterrupt)
      api->simSetInterrupt(askInterrupt);
    checkHip(*api, api->init(0), "hipInit");
    int count = 0;
    if (requireDevice)
      checkHip(*api, api->getDeviceCount(&count), "hipGetDeviceCount");
    if (requireDevice && count == 0)
      throw LibraryError("the HIP library '" + api->path + "' sees no device");
  }
  setCurrentApi(api.release());
}

nb::object libraryInfo() {
  HipApi *api = currentApi();
  if (!api)
    return nb::none();
  nb::dict result;
  result["path"] = api->path;
  result["is_simulator"] = api->isSimulator();
  const char *version = api->simVersion ? api->simVersion() : nullptr;
  result["simulator_version"] = version ? nb::object(nb::str(version)) : nb::object(nb::none());
  int hipVersion = 0;
  bool known = api->runtimeGetVersion && api->runtimeGetVersion(&hipVersion) == kHipSuccess;
  result["hip_version"] = known ? nb::object(nb::int_(hipVersion)) : nb::object(nb::none());
  return result;
}

int deviceCount() {
  const HipApi &api = requireApi();
  int count = 0;
  int status = api.getDeviceCount(&count);
  if (status == kHipErrorNoDevice) {
    if (api.getLastError)
      (void)api.getLastError();
    return 0;
  }
  checkHip(api, status, "hipGetDeviceCount");
  return count;
}

int currentDevice() {
  const HipApi &api = requireApi();
  int device = 0;
  checkHip(api, api.getDevice(&device), "hipGetDevice");
  return device;
}

nb::dict deviceInfo(int device) {
  const HipApi &api = requireApi();
  nb::dict result;
  char name[256] = "";
  if (api.deviceGetName)
    checkHip(api, api.deviceGetName(name, sizeof(name), device), "hipDeviceGetName");
  result["name"] = std::string(name);
  result["arch"] = deviceArch(api, device);
  size_t memory = 0;
  if (api.deviceTotalMem)
    checkHip(api, api.deviceTotalMem(&memory, device), "hipDeviceTotalMem");
  result["total_memory"] = memory;
  static constexpr struct {
    const char *key;
    int attribute;
  } kAttributes[] = {{"warp_size", kAttrWarpSize},
                     {"compute_units", kAttrMultiprocessorCount},
                     {"max_threads_per_block", kAttrMaxThreadsPerBlock},
                     {"lds_bytes", kAttrMaxSharedMemoryPerBlock},
                     {"clock_khz", kAttrClockRateKHz}};
  for (auto [key, attribute] : kAttributes) {
    int value = 0;
    bool known = api.deviceGetAttribute(&value, attribute, device) == kHipSuccess;
    result[key] = known ? nb::object(nb::int_(value)) : nb::object(nb::none());
  }
  if (api.getLastError)
    (void)api.getLastError(); // an attribute that this HIP does not know is no error here
  return result;
}

uint64_t allocate(size_t bytes) {
  void *result = nullptr;
  blocking("hipMalloc", [&](const HipApi &api) { return api.malloc(&result, bytes); });
  return handle(result);
}

/// The field of \p api, a function that not every HIP release has.
template <typename Function>
Function present(const HipApi &api, Function function, const char *name) {
  if (!function)
    throw LibraryError("the HIP library '" + api.path + "' has no " + name);
  return function;
}

uint64_t allocateUncached(size_t bytes) {
  void *result = nullptr;
  blocking("hipExtMallocWithFlags", [&](const HipApi &api) {
    auto function = present(api, api.extMallocWithFlags, "hipExtMallocWithFlags");
    return function(&result, bytes, kMallocUncached);
  });
  return handle(result);
}

nb::bytes ipcHandle(uint64_t address) {
  HipIpcMemHandle result{};
  blocking("hipIpcGetMemHandle", [&](const HipApi &api) {
    auto function = present(api, api.ipcGetMemHandle, "hipIpcGetMemHandle");
    return function(&result, pointer<void>(address));
  });
  return nb::bytes(result.reserved, sizeof result.reserved);
}

uint64_t openIpc(nb::bytes content) {
  HipIpcMemHandle given;
  if (content.size() != sizeof given.reserved)
    throw nb::value_error("a handle of 64 bytes expected");
  memcpy(given.reserved, content.c_str(), sizeof given.reserved);
  void *result = nullptr;
  blocking("hipIpcOpenMemHandle", [&](const HipApi &api) {
    auto function = present(api, api.ipcOpenMemHandle, "hipIpcOpenMemHandle");
    return function(&result, given, kIpcLazyEnablePeerAccess);
  });
  return handle(result);
}

void closeIpc(uint64_t address) {
  blocking("hipIpcCloseMemHandle", [&](const HipApi &api) {
    return present(api, api.ipcCloseMemHandle, "hipIpcCloseMemHandle")(pointer<void>(address));
  });
}

void copy(uint64_t destination, uint64_t source, size_t bytes, nb::handle stream) {
  auto *to = pointer<void>(destination);
  auto *from = pointer<void>(source);
  if (stream.is_none()) {
    blocking("hipMemcpy", [&](const HipApi &api) {
      return api.memcpy(to, from, bytes, kMemcpyDefault);
    });
    return;
  }
  auto *queue = pointer<void>(nb::cast<uint64_t>(stream));
  blocking("hipMemcpyAsync", [&](const HipApi &api) {
    return api.memcpyAsync(to, from, bytes, kMemcpyDefault, queue);
  });
}

void fill(uint64_t destination, int value, size_t bytes, nb::handle stream) {
  auto *to = pointer<void>(destination);
  if (stream.is_none()) {
    blocking("hipMemset", [&](const HipApi &api) { return api.memset(to, value, bytes); });
    return;
  }
  auto *queue = pointer<void>(nb::cast<uint64_t>(stream));
  blocking("hipMemsetAsync",
           [&](const HipApi &api) { return api.memsetAsync(to, value, bytes, queue); });
}

/// \param ordered its work and that of the null stream wait for each other.
uint64_t createStream(bool ordered) {
  HipStream stream = nullptr;
  blocking("hipStreamCreateWithFlags", [&](const HipApi &api) {
    return api.streamCreateWithFlags(&stream, ordered ? 0 : kStreamNonBlocking);
  });
  return handle(stream);
}

uint64_t createEvent(bool timing) {
  HipEvent event = nullptr;
  blocking("hipEventCreateWithFlags", [&](const HipApi &api) {
    return api.eventCreateWithFlags(&event, timing ? 0 : kEventDisableTiming);
  });
  return handle(event);
}

float elapsedTime(uint64_t start, uint64_t stop) {
  float milliseconds = 0;
  blocking("hipEventElapsedTime", [&](const HipApi &api) {
    return api.eventElapsedTime(&milliseconds, pointer<void>(start), pointer<void>(stop));
  });
  return milliseconds;
}

/// Calls an optional query entry point; true when the work is done.
bool query(HipError (*call)(void *), uint64_t object, const char *name) {
  const HipApi &api = requireApi();
  if (!call)
    throw LibraryError("the HIP library '" + api.path + "' has no " + name);
  int status = call(pointer<void>(object));
  if (status == kHipErrorNotReady) {
    if (api.getLastError)
      (void)api.getLastError();
    return false;
  }
  checkHip(api, status, name);
  return true;
}

void streamWaitEvent(uint64_t stream, uint64_t event) {
  if (!requireApi().streamWaitEvent)
    throw LibraryError("the HIP library '" + requireApi().path + "' has no hipStreamWaitEvent");
  blocking("hipStreamWaitEvent", [&](const HipApi &api) {
    return api.streamWaitEvent(pointer<void>(stream), pointer<void>(event), 0);
  });
}

void beginCapture(uint64_t stream) {
  blocking("hipStreamBeginCapture", [&](const HipApi &api) {
    auto function = present(api, api.streamBeginCapture, "hipStreamBeginCapture");
    return function(pointer<void>(stream), kCaptureThreadLocal);
  });
}

/// Ends a capture; the executable graph, or 0 where \p keep is false.
uint64_t endCapture(uint64_t stream, bool keep) {
  HipGraph graph = nullptr;
  HipGraphExec executable = nullptr;
  blocking("hipStreamEndCapture", [&](const HipApi &api) {
    auto function = present(api, api.streamEndCapture, "hipStreamEndCapture");
    return function(pointer<void>(stream), &graph);
  });
  blocking("hipGraphInstantiate", [&](const HipApi &api) {
    auto instantiate = present(api, api.graphInstantiate, "hipGraphInstantiate");
    HipError status = keep ? instantiate(&executable, graph, nullptr, nullptr, 0) : kHipSuccess;
    (void)present(api, api.graphDestroy, "hipGraphDestroy")(graph);
    return status;
  });
  return handle(executable);
}

/// What hipLaunchHostFunc runs, on a thread of the library. \p function is a Python function
/// that does not raise.
void callPython(void *function) {
  nb::gil_scoped_acquire acquire;
  PyObject *result = PyObject_CallNoArgs(static_cast<PyObject *>(function));
  if (!result)
    PyErr_WriteUnraisable(static_cast<PyObject *>(function));
  Py_XDECREF(result);
}

/// The caller keeps \p function alive as long as the stream, or a graph captured on it, may run it.
void launchHostFunction(uint64_t stream, nb::callable function) {
  blocking("hipLaunchHostFunc", [&](const HipApi &api) {
    auto launch = present(api, api.launchHostFunc, "hipLaunchHostFunc");
    return launch(pointer<void>(stream), callPython, function.ptr());
  });
}

nb::object describeTensor(nb::handle object) {
  TensorView view;
  ViewResult result = viewTensor(object.ptr(), view);
  nb::object inner;
  if (result == ViewResult::Wrapper) {
    inner = nb::steal(unwrapArgument(object.ptr()));
    result = inner.is_valid() ? viewTensor(inner.ptr(), view) : ViewResult::Error;
  }
  nb::object owner = view.owner ? nb::steal(view.owner) : nb::object();
  if (result == ViewResult::Error)
    throw nb::python_error();
  if (result != ViewResult::Ok)
    return nb::none();

  nb::object shape = nb::steal(PyTuple_New(view.rank));
  nb::object strides = nb::steal(PyTuple_New(view.rank));
  int64_t compact = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    int64_t stride = compact;
    if (view.strides) {
      if (view.strides[i] % view.strideUnit != 0)
        throw nb::value_error("a stride is not a multiple of the element size");
      stride = view.strides[i] / view.strideUnit;
    }
    compact *= view.shape[i];
    PyTuple_SET_ITEM(shape.ptr(), i, PyLong_FromLongLong(view.shape[i]));
    PyTuple_SET_ITEM(strides.ptr(), i, PyLong_FromLongLong(stride));
  }
  return nb::make_tuple(view.dtype.str(), shape, strides, handle(view.data),
                        view.device.type, view.device.id);
}

} // namespace

void registerDeviceFunctions(nb::module_ &m) {
  m.def("load_library", &loadLibrary, nb::arg("path"), nb::arg("kind"), nb::arg("sim_arch"),
        nb::arg("require_device"));
  // For tests that bring a library of their own: the next use chooses again.
  m.def("forget_library", [] { setCurrentApi(nullptr); });
  m.def("library_info", &libraryInfo);
  m.def("device_count", &deviceCount);
  m.def("current_device", &currentDevice);
  m.def("set_device", [](int device) {
    blocking("hipSetDevice", [&](const HipApi &api) { return api.setDevice(device); });
  });
  m.def("device_info", &deviceInfo);
  m.def("synchronize", [] {
    blocking("hipDeviceSynchronize", [](const HipApi &api) { return api.deviceSynchronize(); });
  });
  m.def("describe_tensor", &describeTensor);
  m.def("export_once", [](nb::handle object) {
    PyObject *kept = exportOnce(object.ptr());
    if (!kept)
      throw nb::python_error();
    return nb::steal(kept);
  });
  m.def("dtype_bytes", [](const std::string &name) {
    const DType type = DType::parse(name);
    if (!type.valid())
      throw nb::type_error(("unknown element type " + name).c_str());
    return type.bytes();
  });

  m.def("malloc", &allocate);
  m.def("malloc_uncached", &allocateUncached);
  m.def("ipc_handle", &ipcHandle);
  m.def("open_ipc", &openIpc);
  m.def("close_ipc", &closeIpc);
  m.def("free", [](uint64_t address) {
    blocking("hipFree", [&](const HipApi &api) { return api.free(pointer<void>(address)); });
  });
  m.def("memcpy", &copy, nb::arg("dst"), nb::arg("src"), nb::arg("bytes"), nb::arg("stream").none());
  m.def("memset", &fill, nb::arg("dst"), nb::arg("value"), nb::arg("bytes"),
        nb::arg("stream").none());

  m.def("stream_create", &createStream, nb::arg("ordered") = false);
  m.def("stream_destroy", [](uint64_t stream) {
    blocking("hipStreamDestroy",
             [&](const HipApi &api) { return api.streamDestroy(pointer<void>(stream)); });
  });
  m.def("stream_synchronize", [](uint64_t stream) {
    blocking("hipStreamSynchronize",
             [&](const HipApi &api) { return api.streamSynchronize(pointer<void>(stream)); });
  });
  m.def("stream_query",
        [](uint64_t stream) { return query(requireApi().streamQuery, stream, "hipStreamQuery"); });
  m.def("stream_wait_event", &streamWaitEvent);

  m.def("stream_begin_capture", &beginCapture);
  m.def("stream_end_capture", &endCapture, nb::arg("stream"), nb::arg("keep"));
  m.def("stream_launch_host_function", &launchHostFunction);
  m.def("graph_launch", [](uint64_t graph, uint64_t stream) {
    blocking("hipGraphLaunch", [&](const HipApi &api) {
      auto launch = present(api, api.graphLaunch, "hipGraphLaunch");
      return launch(pointer<void>(graph), pointer<void>(stream));
    });
  });
  m.def("graph_destroy", [](uint64_t graph) {
    blocking("hipGraphExecDestroy", [&](const HipApi &api) {
      auto destroy = present(api, api.graphExecDestroy, "hipGraphExecDestroy");
      return destroy(pointer<void>(graph));
    });
  });

  m.def("event_create", &createEvent, nb::arg("timing"));
  m.def("event_destroy", [](uint64_t event) {
    blocking("hipEventDestroy",
             [&](const HipApi &api) { return api.eventDestroy(pointer<void>(event)); });
  });
  m.def("event_record", [](uint64_t event, uint64_t stream) {
    blocking("hipEventRecord", [&](const HipApi &api) {
      return api.eventRecord(pointer<void>(event), pointer<void>(stream));
    });
  });
  m.def("event_synchronize", [](uint64_t event) {
    blocking("hipEventSynchronize",
             [&](const HipApi &api) { return api.eventSynchronize(pointer<void>(event)); });
  });
  m.def("event_query",
        [](uint64_t event) { return query(requireApi().eventQuery, event, "hipEventQuery"); });
  m.def("event_elapsed_time", &elapsedTime);
}

} // namespace flydsl::runtime
