# What is changed in the sources of MLIR's Python bindings. A text that is no longer there fails the build.
set(fly_patched_dir "${CMAKE_BINARY_DIR}/patched")

# fly_replace(VARIABLE FROM TO): every FROM in the text of a file becomes TO.
function(fly_replace variable from to)
  string(FIND "${${variable}}" "${from}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "the MLIR bindings changed: ${variable} does not have \"${from}\"")
  endif()
  string(REPLACE "${from}" "${to}" text "${${variable}}")
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()

# ir.py imports NumPy for a few attribute builders, which is half of the time of importing it. Here
# NumPy is imported when one of them runs.
file(READ "${fly_py_src}/MLIRPythonSources.Core.Python/ir.py" fly_ir_py)
fly_replace(fly_ir_py [[
    import numpy as np
]] [[
    class _LazyNumpy:
        def __getattr__(self, name):
            import numpy

            return getattr(numpy, name)

    np = _LazyNumpy()
]])
file(CONFIGURE OUTPUT "${fly_patched_dir}/ir.py" CONTENT "${fly_ir_py}" @ONLY)

# An operation in Python, and so its values and blocks, keeps what it is in: upstream, most of them
# keep only their context, and end the process when they are used after their module.
file(READ "${fly_py_src}/MLIRPythonExtension.MLIRPythonSupport/IRCore.cpp" fly_ir_core)
fly_replace(fly_ir_core [[
  if (parentKeepAlive) {
    unownedOperation->parentKeepAlive = std::move(parentKeepAlive);
  }
]] [[
  if (!parentKeepAlive) {
    MlirOperation top = operation;
    for (MlirOperation outer = top; !mlirOperationIsNull(outer);
         outer = mlirOperationGetParentOperation(outer))
      top = outer;
    auto &liveModules = unownedOperation->getContext()->liveModules;
    auto module = liveModules.find(mlirModuleFromOperation(top).ptr);
    if (module != liveModules.end())
      parentKeepAlive = nb::borrow<nb::object>(module->second.first);
  }
  unownedOperation->parentKeepAlive = std::move(parentKeepAlive);
]])
fly_replace(fly_ir_core [[
  assert(!attached && "operation already attached");
  attached = true;
]] [[
  assert(!attached && "operation already attached");
  attached = true;
  parentKeepAlive = parent;
]])
fly_replace(fly_ir_core
  "operation.setAttached();" "operation.setAttached(block.getParentOperation().getObject());")
fly_replace(fly_ir_core
  "forOperation(parentOperation->getContext(), next);"
  "forOperation(parentOperation->getContext(), next, parentOperation.getObject());")
fly_replace(fly_ir_core
  "forOperation(parentOperation->getContext(), childOp)"
  "forOperation(parentOperation->getContext(), childOp, parentOperation.getObject())")
fly_replace(fly_ir_core
  "return PyOperation::forOperation(getContext(), operation);"
  "return PyOperation::forOperation(getContext(), operation, parentKeepAlive);")

# To erase an operation ends what Python has of it, of its values and of what is in it: upstream
# knows only the object that it was erased by. (What passes erase stays unknown.)
fly_replace(fly_ir_core [[
PyOperation::PyOperation(PyMlirContextRef contextRef, MlirOperation operation)
    : BaseContextObject(std::move(contextRef)), operation(operation) {}

PyOperation::~PyOperation() {
]] [[
static llvm::DenseMap<void *, llvm::SmallVector<PyOperation *, 1>> &objectsOfOperations() {
  static auto *objects = new llvm::DenseMap<void *, llvm::SmallVector<PyOperation *, 1>>();
  return *objects;
}

static MlirWalkResult invalidateObjects(MlirOperation op, void *) {
  auto found = objectsOfOperations().find(op.ptr);
  if (found != objectsOfOperations().end())
    for (PyOperation *object : found->second)
      object->setInvalid();
  return MlirWalkResultAdvance;
}

PyOperation::PyOperation(PyMlirContextRef contextRef, MlirOperation operation)
    : BaseContextObject(std::move(contextRef)), operation(operation) {
  objectsOfOperations()[operation.ptr].push_back(this);
}

PyOperation::~PyOperation() {
  auto found = objectsOfOperations().find(operation.ptr);
  found->second.erase(std::find(found->second.begin(), found->second.end(), this));
  if (found->second.empty())
    objectsOfOperations().erase(found);
]])
fly_replace(fly_ir_core [[
  setInvalid();
  mlirOperationDestroy(operation);
]] [[
  setInvalid();
  mlirOperationWalk(operation, invalidateObjects, nullptr, MlirWalkPreOrder);
  mlirOperationDestroy(operation);
]])
# Comparisons and hashes read nothing of a value, so that one whose operation is gone can leave a dictionary.
fly_replace(fly_ir_core
  "return self.get().ptr == other.get().ptr;
          },
          \"Compares two values for pointer equality.\""
  "return self.getUnchecked().ptr == other.getUnchecked().ptr;
          },
          \"Compares two values for pointer equality.\"")
fly_replace(fly_ir_core [[
          [](PyValue &self) {
            return static_cast<size_t>(llvm::hash_value(self.get().ptr));
]] [[
          [](PyValue &self) {
            return static_cast<size_t>(llvm::hash_value(self.getUnchecked().ptr));
]])
file(CONFIGURE OUTPUT "${fly_patched_dir}/IRCore.cpp" CONTENT "${fly_ir_core}" @ONLY)

# The build's include directory is in front of MLIR's.
find_file(fly_ir_header mlir/Bindings/Python/IRCore.h HINTS ${MLIR_INCLUDE_DIRS} NO_DEFAULT_PATH REQUIRED)
file(READ "${fly_ir_header}" fly_ir_core_header)
string(REGEX REPLACE "#include \"([A-Z])" "#include \"mlir/Bindings/Python/\\1" # beside the original
  fly_ir_core_header "${fly_ir_core_header}")
fly_replace(fly_ir_core_header
  "operator MlirValue() const { return value; }"
  "operator MlirValue() const { return const_cast<PyValue *>(this)->get(); }")
fly_replace(fly_ir_core_header
  "  MlirValue get() { return value; }"
  "  MlirValue get() {
    checkValid();
    return value;
  }
  MlirValue getUnchecked() const { return value; }")
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/include/mlir/Bindings/Python/IRCore.h"
  CONTENT "${fly_ir_core_header}" @ONLY)
