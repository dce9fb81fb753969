//===- Launcher.cpp - The Python type flydsl.runtime.Launcher ----------------===//
//
// A type of the C API with the vectorcall protocol: a call builds no argument
// tuple and looks nothing up.
//
//===----------------------------------------------------------------------===//

#include "Launcher.h"

#include "Arguments.h"
#include "Errors.h"
#include "Launch.h"
#include "LauncherObject.h"
#include "PlanParser.h"

#include <cstddef>
#include <memory>
#include <nanobind/stl/string.h>
#include <structmember.h>

namespace nb = nanobind;

namespace flydsl::runtime {

namespace {

struct LauncherObject {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  LauncherState *state;
};

LauncherState &stateOf(PyObject *self) { return *reinterpret_cast<LauncherObject *>(self)->state; }

/// Lets Ctrl-C end a host loop of a plan. Called without the GIL.
void checkInterrupt() {
  nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0)
    throw nb::python_error();
}

const DeviceKernels &kernelsOnCurrentDevice(LauncherState &state, const HipApi &api) {
  int device = 0;
  checkHip(api, api.getDevice(&device), "hipGetDevice");
  return state.kernels.get(api, state.plan, device);
}

/// Number of positional arguments fits; keywords and too few are errors.
void checkCall(const LauncherState &state, size_t count, PyObject *keywords) {
  if (keywords && PyTuple_GET_SIZE(keywords) > 0) {
    PyErr_Format(PyExc_TypeError, "%s(): a launcher takes positional arguments only, got '%U'",
                 state.plan.name.c_str(), PyTuple_GET_ITEM(keywords, 0));
    throw nb::python_error();
  }
  if (state.positions.empty() && count != state.parameterCount)
    raiseCountError(state.plan, count);
  if (count < state.parameterCount) {
    PyErr_Format(PyExc_IndexError, "%s needs %zu arguments, got %zu", state.plan.name.c_str(),
                 state.parameterCount, count);
    throw nb::python_error();
  }
}

PyObject *launcherVectorcall(PyObject *self, PyObject *const *args, size_t flags,
                             PyObject *keywords) {
  return guarded([&]() -> PyObject * {
    LauncherState &state = stateOf(self);
    checkCall(state, PyVectorcall_NARGS(flags), keywords);
    runLauncher(state, args, nullptr);
    Py_RETURN_NONE;
  });
}

/// Collects launches as Python dictionaries.
class RecordingSink final : public LaunchSink {
public:
  explicit RecordingSink(const Plan &plan) : plan(plan) {}

  void launch(const LaunchSpec &spec, const int64_t *regs) override {
    const ResolvedLaunch launch = resolveLaunch(plan, spec, regs);
    std::string kernargs(spec.kernargBytes, '\0');
    packKernelArgs(spec, regs, kernargs.data());
    nb::dict record;
    record["kernel"] = *launch.kernel;
    record["grid"] = nb::make_tuple(launch.grid[0], launch.grid[1], launch.grid[2]);
    record["block"] = nb::make_tuple(launch.block[0], launch.block[1], launch.block[2]);
    record["cluster"] = launch.hasCluster ? nb::object(nb::make_tuple(
                                                launch.cluster[0], launch.cluster[1],
                                                launch.cluster[2]))
                                          : nb::object(nb::none());
    record["smem"] = launch.smem;
    record["stream"] = launch.stream;
    record["kernargs"] = nb::bytes(kernargs.data(), kernargs.size());
    records.append(record);
  }

  void poll() override {
    if (PyErr_CheckSignals() != 0)
      throw nb::python_error();
  }

  nb::list records;

private:
  const Plan &plan;
};

PyObject *evaluateMethod(PyObject *self, PyObject *const *args, Py_ssize_t count) noexcept {
  return guarded([&]() -> PyObject * {
    LauncherState &state = stateOf(self);
    checkCall(state, count, nullptr);
    BoundArguments bound(state);
    bound.bind(args, nullptr, DevicePolicy{});
    RecordingSink sink(state.plan);
    evaluate(state.plan, bound.values(), sink);
    return sink.records.release().ptr();
  });
}

PyObject *loadMethod(PyObject *self, PyObject *) noexcept {
  return guarded([&]() -> PyObject * {
    const HipApi &api = requireApi();
    {
      nb::gil_scoped_release release;
      kernelsOnCurrentDevice(stateOf(self), api);
    }
    Py_RETURN_NONE;
  });
}

int kernelIndex(const Plan &plan, const std::string &kernel) {
  for (size_t i = 0; i < plan.kernels.size(); ++i)
    if (plan.kernels[i] == kernel)
      return static_cast<int>(i);
  throw nb::key_error((plan.name + "(): no kernel '" + kernel + "' in this plan").c_str());
}

PyObject *kernelAttributesMethod(PyObject *self, PyObject *argument) noexcept {
  return guarded([&]() -> PyObject * {
    LauncherState &state = stateOf(self);
    const HipApi &api = requireApi();
    int index = kernelIndex(state.plan, nb::cast<std::string>(nb::handle(argument)));
    if (!api.funcGetAttribute)
      throw LibraryError("the HIP library '" + api.path + "' has no hipFuncGetAttribute");
    // hipFunction_attribute values.
    static constexpr struct {
      const char *name;
      int attribute;
    } kAttributes[] = {{"max_threads_per_block", 0}, {"shared_bytes", 1}, {"const_bytes", 2},
                       {"local_bytes", 3},           {"num_regs", 4}};
    HipFunction function;
    {
      nb::gil_scoped_release release;
      function = kernelsOnCurrentDevice(state, api).functions[index];
    }
    nb::dict result;
    for (auto [name, attribute] : kAttributes) {
      int value = 0;
      checkHip(api, api.funcGetAttribute(&value, attribute, function), "hipFuncGetAttribute");
      result[name] = value;
    }
    return result.release().ptr();
  });
}

PyObject *maxActiveBlocksMethod(PyObject *self, PyObject *args) noexcept {
  return guarded([&]() -> PyObject * {
    const char *kernel;
    int threads;
    Py_ssize_t smem = 0;
    if (!PyArg_ParseTuple(args, "si|n:max_active_blocks", &kernel, &threads, &smem))
      return nullptr;
    LauncherState &state = stateOf(self);
    const HipApi &api = requireApi();
    int index = kernelIndex(state.plan, kernel);
    if (!api.occupancyMaxActiveBlocks)
      throw LibraryError("the HIP library '" + api.path +
                         "' has no hipModuleOccupancyMaxActiveBlocksPerMultiprocessor");
    int blocks = 0;
    {
      nb::gil_scoped_release release;
      HipFunction function = kernelsOnCurrentDevice(state, api).functions[index];
      checkHip(api, api.occupancyMaxActiveBlocks(&blocks, function, threads, smem),
               "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor");
    }
    return PyLong_FromLong(blocks);
  });
}

/// Reads the optional mapping from a call's arguments to the plan's.
void readMapping(LauncherState &state, PyObject *positions, Py_ssize_t parameters,
                 PyObject *converters) {
  const size_t count = state.plan.args.size();
  state.parameterCount = count;
  if (positions != Py_None) {
    state.parameterCount = static_cast<size_t>(parameters);
    for (nb::handle position : nb::borrow<nb::object>(positions))
      if (!nb::try_cast(position, state.positions.emplace_back()))
        throw nb::value_error("positions: expected numbers of parameters");
    for (uint32_t position : state.positions)
      if (parameters < 0 || position >= state.parameterCount)
        throw nb::value_error("positions: out of range of the parameters");
    if (state.positions.size() != count)
      throw nb::value_error("positions: one entry for each argument of the plan is needed");
  }
  if (converters == Py_None)
    return;
  for (nb::handle converter : nb::borrow<nb::object>(converters))
    state.converters.push_back(converter.is_none() ? nullptr : converter.inc_ref().ptr());
  if (state.converters.size() != count)
    throw nb::value_error("converters: one entry for each argument of the plan is needed");
}

/// Has \p processors (a tuple of callables) called with the handle of each module that is loaded.
void setProcessors(LauncherState &state, PyObject *processors) {
  if (processors == Py_None || PyObject_IsTrue(processors) != 1)
    return;
  Py_INCREF(processors); // kept as long as the loaded code, which is for ever
  state.kernels.onLoaded = [processors](HipModule module) {
    nb::gil_scoped_acquire gil;
    for (nb::handle processor : nb::borrow<nb::object>(processors))
      processor(reinterpret_cast<uintptr_t>(module));
  };
}

PyObject *newLauncher(PyTypeObject *type, PyObject *args, PyObject *keywords) noexcept {
  return guarded([&]() -> PyObject * {
    static const char *names[] = {"plan",       "hsaco",      "arch",      "positions",
                                  "parameters", "converters", "post_load", nullptr};
    PyObject *plan, *positions = Py_None, *converters = Py_None, *processors = Py_None;
    Py_ssize_t parameters = -1;
    Py_buffer hsaco;
    const char *arch = "";
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!y*|$sOnOO:Launcher",
                                     const_cast<char **>(names), &PyDict_Type, &plan, &hsaco,
                                     &arch, &positions, &parameters, &converters, &processors))
      return nullptr;
    std::string codeObject(static_cast<const char *>(hsaco.buf), hsaco.len);
    PyBuffer_Release(&hsaco);
    auto state = std::make_unique<LauncherState>(parsePlan(nb::borrow<nb::dict>(plan)),
                                                 std::move(codeObject), arch);
    readMapping(*state, positions, parameters, converters);
    setProcessors(*state, processors);
    auto *self = reinterpret_cast<LauncherObject *>(type->tp_alloc(type, 0));
    if (!self)
      return nullptr;
    self->vectorcall = launcherVectorcall;
    self->state = state.release();
    return reinterpret_cast<PyObject *>(self);
  });
}

void deallocLauncher(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  LauncherState *state = reinterpret_cast<LauncherObject *>(self)->state;
  if (!state->kernels.pinned())
    delete state;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject *reprLauncher(PyObject *self) {
  LauncherState &state = stateOf(self);
  return PyUnicode_FromFormat("<flydsl.runtime.Launcher %s for %s: %zd arguments, %zd kernels>",
                              state.plan.name.c_str(), state.kernels.architecture().c_str(),
                              state.plan.args.size(), state.plan.kernels.size());
}

PyObject *nameGetter(PyObject *self, void *) {
  return PyUnicode_FromString(stateOf(self).plan.name.c_str());
}

PyObject *archGetter(PyObject *self, void *) {
  return PyUnicode_FromString(stateOf(self).kernels.architecture().c_str());
}

PyObject *kernelsGetter(PyObject *self, void *) {
  return guarded([&] {
    nb::list result;
    for (const std::string &kernel : stateOf(self).plan.kernels)
      result.append(kernel);
    return nb::tuple(result).release().ptr();
  });
}

PyObject *argumentNamesGetter(PyObject *self, void *) {
  return guarded([&] {
    nb::list result;
    for (const ArgSpec &spec : stateOf(self).plan.args)
      result.append(spec.name);
    return nb::tuple(result).release().ptr();
  });
}

PyMethodDef launcherMethods[] = {
    {"evaluate", reinterpret_cast<PyCFunction>(reinterpret_cast<void *>(evaluateMethod)),
     METH_FASTCALL,
     "evaluate(*args) -> list[dict]\n\n"
     "Run the plan without a device and return what it would launch: kernel, grid, block, cluster,\n"
     "smem (bytes), stream (handle) and kernargs (bytes) of each launch."},
    {"load", loadMethod, METH_NOARGS,
     "load() -> None\n\nLoad the code object on the current device now (it must be loaded before a\n"
     "graph capture). Raises HipError."},
    {"kernel_attributes", kernelAttributesMethod, METH_O,
     "kernel_attributes(kernel) -> dict[str, int]\n\nRegisters, static LDS, scratch and the thread\n"
     "limit of a loaded kernel on the current device."},
    {"max_active_blocks", maxActiveBlocksMethod, METH_VARARGS,
     "max_active_blocks(kernel, block_threads, smem=0) -> int\n\nWork-groups of the kernel that fit\n"
     "on one compute unit of the current device at a time."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef launcherProperties[] = {
    {"name", nameGetter, nullptr, "Name of the compiled function.", nullptr},
    {"arch", archGetter, nullptr, "Architecture that the code object is for.", nullptr},
    {"kernels", kernelsGetter, nullptr, "Symbols of the kernels the plan launches.", nullptr},
    {"argument_names", argumentNamesGetter, nullptr, "Names of the arguments in order.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef launcherMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(LauncherObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

constexpr const char *kLauncherDoc =
    "Launcher(plan, hsaco, *, arch='', positions=None, parameters=-1, converters=None,\n"
    "         post_load=None)\n--\n\n"
    "A compiled function that can be called.\n\n"
    "plan is the launch plan (a dictionary, see the README), hsaco the code object and arch its\n"
    "architecture. Calling the launcher checks the arguments in place, evaluates the plan and\n"
    "launches its kernels on the current device without waiting for them; the code object is\n"
    "loaded on first use of each device. Safe to call from several threads.\n\n"
    "positions gives for each argument of the plan its position among the parameters of a call,\n"
    "which may be more (the others are ignored); converters gives for each a callable that turns\n"
    "the object passed into a number or pointer, or None. post_load is a sequence of callables that\n"
    "get the handle of each loaded module before anything of it is launched.\n\n"
    "Raises ValueError for an invalid plan; a call raises TypeError, ValueError or OverflowError\n"
    "for an argument that does not fit (the message names it, what was expected and found),\n"
    "ValueError for a bad launch size, HipError or SimulatorError if the device reports an error.";

PyType_Slot launcherSlots[] = {
    {Py_tp_new, reinterpret_cast<void *>(newLauncher)},
    {Py_tp_dealloc, reinterpret_cast<void *>(deallocLauncher)},
    {Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
    {Py_tp_repr, reinterpret_cast<void *>(reprLauncher)},
    {Py_tp_methods, launcherMethods},
    {Py_tp_getset, launcherProperties},
    {Py_tp_members, launcherMembers},
    {Py_tp_doc, const_cast<char *>(kLauncherDoc)},
    {0, nullptr}};

PyType_Spec launcherSpec = {"flydsl.runtime.Launcher", sizeof(LauncherObject), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE |
                                Py_TPFLAGS_HAVE_VECTORCALL,
                            launcherSlots};

PyTypeObject *launcherType = nullptr;

} // namespace

LauncherState *launcherStateOf(PyObject *object) {
  return PyObject_TypeCheck(object, launcherType) ? &stateOf(object) : nullptr;
}

void runLauncher(LauncherState &state, PyObject *const *args, const TensorView *const *views) {
  const HipApi &api = requireApi();
  DevicePolicy policy;
  policy.check = true;
  policy.hostMemory = api.isSimulator();
  checkHip(api, api.getDevice(&policy.device), "hipGetDevice");
  BoundArguments bound(state);
  bound.bind(args, views, policy);

  // A kernel may take long (the simulator runs it here) and the queue may be full.
  nb::gil_scoped_release release;
  const DeviceKernels &kernels = state.kernels.get(api, state.plan, policy.device);
  if (api.simLaunchRanges) {
    const TensorRanges ranges(state.plan, bound.values());
    DeviceSink sink(api, state.plan, kernels, checkInterrupt, &ranges);
    evaluate(state.plan, bound.values(), sink);
    return;
  }
  DeviceSink sink(api, state.plan, kernels, checkInterrupt);
  evaluate(state.plan, bound.values(), sink);
}

void registerLauncher(nb::module_ &m) {
  launcherType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&launcherSpec));
  m.attr("Launcher") = nb::handle(reinterpret_cast<PyObject *>(launcherType));
}

} // namespace flydsl::runtime
