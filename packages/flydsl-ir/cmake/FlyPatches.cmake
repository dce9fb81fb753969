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

# The objects that Python has of operations are known (python/support/HeldOperations.h): erasing an
# operation ends those of it and of what is in it, where upstream knows only the one that it was
# erased by, and passes and patterns end those of what they erase.
configure_file("${CMAKE_SOURCE_DIR}/python/support/HeldOperations.h"
  "${CMAKE_BINARY_DIR}/include/mlir/Bindings/Python/HeldOperations.h" COPYONLY)
fly_replace(fly_ir_core [[
    : BaseContextObject(std::move(contextRef)), operation(operation) {}

PyOperation::~PyOperation() {
]] [[
    : BaseContextObject(std::move(contextRef)), operation(operation) {
  HeldOperations::add(this, operation);
}

PyOperation::~PyOperation() {
  HeldOperations::remove(this, operation);
]])
fly_replace(fly_ir_core
  "mlirOperationClone(operation)" "mlirOperationClone(get())")

# What others use is not erased: they would use what is gone.
fly_replace(fly_ir_core [[
void PyOperation::erase() {
  checkValid();
  setInvalid();
  mlirOperationDestroy(operation);
]] [[
static void checkUnused(MlirOperation operation) {
  if (HeldOperations::isUsedOutside(operation))
    throw nb::value_error("the operation is still used: erase what uses it first");
}

void PyOperation::erase() {
  checkValid();
  checkUnused(operation);
  HeldOperations::invalidate(operation);
  mlirOperationDestroy(operation);
]])
fly_replace(fly_ir_core [[
    // And destroy it when it is detached, i.e. owned by Python.
    erase();
]] [[
    // And destroy it when it is detached, i.e. owned by Python, unless others still use it.
    if (!HeldOperations::isUsedOutside(operation))
      erase();
]])
fly_replace(fly_ir_core [[
  mlirModuleDestroy(module);
]] [[
  if (!HeldOperations::isUsedByPython(module))
    mlirModuleDestroy(module);
]])
fly_replace(fly_ir_core [[
  mlirSymbolTableErase(symbolTable, symbol.getOperation().get());
]] [[
  MlirOperation erased = symbol.getOperation().get();
  checkUnused(erased);
  HeldOperations::invalidate(erased);
  mlirSymbolTableErase(symbolTable, erased);
  seen = HeldOperations::changes();
]])
fly_replace(fly_ir_core [[
            return mlirBlockEraseArgument(self.get(), index);
]] [[
            if (index >= mlirBlockGetNumArguments(self.get()))
              throw nb::index_error("the block has no argument of this index");
            if (!mlirOpOperandIsNull(mlirValueGetFirstUse(mlirBlockGetArgument(self.get(), index))))
              throw nb::value_error("the argument is still used: erase what uses it first");
            mlirBlockEraseArgument(self.get(), index);
            HeldOperations::addChange();
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
include(FlyPatchedLists)

# What a thread has entered and not left when it ends stays: without the GIL it cannot be let go, and
# to take the GIL while Python ends would end the process.
fly_replace(fly_ir_core [[
  static thread_local std::vector<PyThreadContextEntry> stack;
  return stack;
]] [[
  struct Stack {
    std::vector<PyThreadContextEntry> entries;
    ~Stack() {
      if (!entries.empty())
        new std::vector<PyThreadContextEntry>(std::move(entries));
    }
  };
  static thread_local Stack stack;
  return stack.entries;
]])
file(CONFIGURE OUTPUT "${fly_patched_dir}/IRCore.cpp" CONTENT "${fly_ir_core}" @ONLY)

# The build's include directory is in front of MLIR's.
# What an element of a list throws, a caster of Python for one, went through functions of C.
find_file(fly_nanobind_utils mlir/Bindings/Python/NanobindUtils.h HINTS ${MLIR_INCLUDE_DIRS} NO_DEFAULT_PATH REQUIRED)
file(READ "${fly_nanobind_utils}" fly_nanobind_utils)
fly_replace(fly_nanobind_utils
  "return self->getItem(index).release().ptr();"
  "return orError([&] { return self->getItem(index).release().ptr(); });")
fly_replace(fly_nanobind_utils
  "return self->getItemSlice(rawSubscript).release().ptr();"
  "return orError([&] { return self->getItemSlice(rawSubscript).release().ptr(); });")
fly_replace(fly_nanobind_utils [[
  /// Hook for derived classes willing to bind more methods.
]] [[
  template <typename Function> static PyObject *orError(Function function) {
    try {
      return function();
    } catch (nanobind::python_error &error) {
      error.restore();
    } catch (nanobind::builtin_exception &error) {
      bool isIndex = error.type() == nanobind::exception_type::index_error;
      PyErr_SetString(isIndex ? PyExc_IndexError : PyExc_ValueError, error.what());
    } catch (std::exception &error) {
      PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return nullptr;
  }

  /// Hook for derived classes willing to bind more methods.
]])
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/include/mlir/Bindings/Python/NanobindUtils.h"
  CONTENT "${fly_nanobind_utils}" @ONLY)

find_file(fly_ir_header mlir/Bindings/Python/IRCore.h HINTS ${MLIR_INCLUDE_DIRS} NO_DEFAULT_PATH REQUIRED)
file(READ "${fly_ir_header}" fly_ir_core_header)
string(REGEX REPLACE "#include \"([A-Z])" "#include \"mlir/Bindings/Python/\\1" # beside the original
  fly_ir_core_header "${fly_ir_core_header}")
fly_replace(fly_ir_core_header
  "#include \"llvm/ADT/DenseMap.h\""
  "#include \"mlir/Bindings/Python/HeldOperations.h\"
#include \"llvm/ADT/DenseMap.h\"")
fly_replace(fly_ir_core_header
  "operator MlirValue() const { return value; }"
  "operator MlirValue() const { return const_cast<PyValue *>(this)->get(); }")
fly_replace(fly_ir_core_header [[
  MlirValue get() { return value; }
]] [[
  MlirValue get() {
    checkValid();
    return value;
  }
  MlirValue getUnchecked() const { return value; }
]])
fly_replace(fly_ir_core_header [[
  void checkValid() { return parentOperation->checkValid(); }

  /// Gets a capsule wrapping the void* within the MlirValue.
]] [[
  void checkValid() { parentOperation->checkHas(value, seen); }

  /// Gets a capsule wrapping the void* within the MlirValue.
]])
fly_replace(fly_ir_core_header [[
  PyOperationRef parentOperation;
  MlirValue value;
]] [[
  PyOperationRef parentOperation;
  MlirValue value;
  uint64_t seen = HeldOperations::changes();
]])
fly_replace(fly_ir_core_header [[
  void checkValid() const;

  /// Gets the owning block or]] [[
  void checkValid() const;

  /// Raises if `part`, a block or a value of this operation, is gone. It was there when there had been
  /// `seen` changes.
  template <typename Part> void checkHas(Part part, uint64_t &seen) const {
    checkValid();
    if (seen == HeldOperations::changes())
      return;
    if (!HeldOperations::contains(operation, part))
      throw std::runtime_error("the operation has been invalidated: a block or value of it is gone");
    seen = HeldOperations::changes();
  }

  /// Gets the owning block or]])
fly_replace(fly_ir_core_header [[
  MlirBlock get() { return block; }
  PyOperationRef &getParentOperation() { return parentOperation; }

  void checkValid() { return parentOperation->checkValid(); }
]] [[
  MlirBlock get() const {
    checkValid();
    return block;
  }
  PyOperationRef &getParentOperation() { return parentOperation; }

  void checkValid() const { const_cast<PyOperationRef &>(parentOperation)->checkHas(block, seen); }
]])
fly_replace(fly_ir_core_header [[
private:
  PyOperationRef parentOperation;
  MlirBlock block;
};

/// An insertion point]] [[
private:
  PyOperationRef parentOperation;
  MlirBlock block;
  mutable uint64_t seen = HeldOperations::changes();
};

/// An insertion point]])
fly_patch_list_header()
fly_replace(fly_ir_core_header [[
  PyOperationRef operation;
  MlirSymbolTable symbolTable;
]] [[
  void refresh();

  PyOperationRef operation;
  MlirSymbolTable symbolTable;
  uint64_t seen = HeldOperations::changes();
]])
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/include/mlir/Bindings/Python/IRCore.h"
  CONTENT "${fly_ir_core_header}" @ONLY)

# Passes and patterns change what Python has objects of.
file(READ "${fly_py_src}/MLIRPythonExtension.Core/Pass.cpp" fly_pass)
fly_replace(fly_pass "#include \"Pass.h\"" "#include \"${fly_py_src}/MLIRPythonExtension.Core/Pass.h\"")
fly_replace(fly_pass
  "            MlirLogicalResult status = mlirPassManagerRunOnOp("
  "            ChangesByOthers changes(op.getOperation());
            MlirLogicalResult status = mlirPassManagerRunOnOp(")
file(CONFIGURE OUTPUT "${fly_patched_dir}/Pass.cpp" CONTENT "${fly_pass}" @ONLY)
file(READ "${fly_py_src}/MLIRPythonExtension.Core/Rewrite.cpp" fly_rewrite)
fly_replace(fly_rewrite "#include \"Rewrite.h\"" "#include \"${fly_py_src}/MLIRPythonExtension.Core/Rewrite.h\"")
fly_replace(fly_rewrite
  "         MlirLogicalResult status = mlirApplyPatternsAndFoldGreedily("
  "         PyOperationRef operation = PyOperation::forOperation(
             module.getContext(), mlirModuleGetOperation(module.get()), module.getRef().getObject());
         ChangesByOthers changes(*operation.get());
         MlirLogicalResult status = mlirApplyPatternsAndFoldGreedily(")
fly_replace(fly_rewrite
  "            MlirLogicalResult status = mlirApplyPatternsAndFoldGreedilyWithOp("
  "            ChangesByOthers changes(op.getOperation());
            MlirLogicalResult status = mlirApplyPatternsAndFoldGreedilyWithOp(")
fly_replace(fly_rewrite
  "            mlirWalkAndApplyPatterns("
  "            ChangesByOthers changes(op.getOperation());
            mlirWalkAndApplyPatterns(")
file(CONFIGURE OUTPUT "${fly_patched_dir}/Rewrite.cpp" CONTENT "${fly_rewrite}" @ONLY)
