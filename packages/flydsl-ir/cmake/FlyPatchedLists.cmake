# Lists and iterators of MLIR's Python bindings (part of FlyPatches.cmake).

# Of a block, Python passed on the operation that it is in; a successor is in another one than it succeeds.
fly_replace(fly_ir_core [[
  return PyBlock(operation, block);
}

PyOpSuccessors PyOpSuccessors::slice]] [[
  return PyBlock(*operation->getParentOperation(), block);
}

PyOpSuccessors PyOpSuccessors::slice]])
fly_replace(fly_ir_core [[
            mlirRegionAppendOwnedBlock(region.get(), b);
]] [[
            mlirRegionAppendOwnedBlock(region.get(), b);
            self.~PyBlock();
            new (&self) PyBlock(region.getParentOperation(), b);
]])

# Lists and iterators hold objects that are checked, where upstream holds blocks, operations and uses.
# What passes took from an operation or a block is no longer in a list that was made before.
fly_replace(fly_ir_core [[
  if (mlirBlockIsNull(next)) {
    throw nb::stop_iteration();
  }

  PyBlock returnBlock(operation, next);
  next = mlirBlockGetNextInRegion(next);
  return returnBlock;
]] [[
  if (!next)
    throw nb::stop_iteration();
  PyBlock returnBlock = *next;
  take(mlirBlockGetNextInRegion(returnBlock.get()));
  return returnBlock;
]])
fly_replace(fly_ir_core [[
  if (mlirOperationIsNull(next)) {
    throw nb::stop_iteration();
  }

  PyOperationRef returnOperation =
      PyOperation::forOperation(parentOperation->getContext(), next, parentOperation.getObject());
  next = mlirOperationGetNextInBlock(next);
  return returnOperation->createOpView();
]] [[
  if (!next)
    throw nb::stop_iteration();
  PyOperationRef returnOperation = *next;
  take(mlirOperationGetNextInBlock(returnOperation->get()));
  return returnOperation->createOpView();
]])
fly_replace(fly_ir_core
  "mlirBlockGetFirstOperation(block)" "mlirBlockGetFirstOperation(block.get())")
fly_replace(fly_ir_core [[
  MlirOperation owner = mlirOpOperandGetOwner(opOperand);
  PyMlirContextRef context =
      PyMlirContext::forContext(mlirOperationGetContext(owner));
  return PyOperation::forOperation(context, owner)->createOpView();
]] [[
  return const_cast<PyOperationRef &>(owner)->createOpView();
]])
fly_replace(fly_ir_core
  "return mlirOpOperandGetOperandNumber(opOperand);" "return number;")
fly_replace(fly_ir_core [[
PyOpOperand PyOpOperandIterator::dunderNext() {
  if (mlirOpOperandIsNull(opOperand))
    throw nb::stop_iteration();

  PyOpOperand returnOpOperand(opOperand);
  opOperand = mlirOpOperandGetNextUse(opOperand);
  return returnOpOperand;
}
]] [[
PyOpOperandIterator::PyOpOperandIterator(MlirOpOperand use) {
  for (; !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation owner = mlirOpOperandGetOwner(use);
    PyMlirContextRef context = PyMlirContext::forContext(mlirOperationGetContext(owner));
    uses.emplace_back(PyOperation::forOperation(context, owner),
                      mlirOpOperandGetOperandNumber(use));
  }
}

PyOpOperand PyOpOperandIterator::dunderNext() {
  if (next == uses.size())
    throw nb::stop_iteration();
  return uses[next++];
}
]])
fly_replace(fly_ir_core
  "length == -1 ? mlirBlockGetNumArguments(block) : length, step),
      operation(std::move(operation)), block(block) {}"
  "length == -1 ? mlirBlockGetNumArguments(block) : length, step),
      operation(operation), block(operation, block) {}")
fly_replace(fly_ir_core
  "return mlirBlockGetNumArguments(block);" "return mlirBlockGetNumArguments(block.get());")
fly_replace(fly_ir_core
  "MlirValue argument = mlirBlockGetArgument(block, pos);"
  "checkElement(pos, mlirBlockGetNumArguments(block.get()));
  MlirValue argument = mlirBlockGetArgument(block.get(), pos);")
fly_replace(fly_ir_core
  "PyBlockArgumentList(operation, block, startIndex" "PyBlockArgumentList(operation, block.get(), startIndex")
fly_replace(fly_ir_core [[
  MlirValue operand = mlirOperationGetOperand(operation->get(), pos);
]] [[
  checkElement(pos, getRawNumElements());
  MlirValue operand = mlirOperationGetOperand(operation->get(), pos);
]])
fly_replace(fly_ir_core [[
  index = wrapIndex(index);
  mlirOperationSetOperand(]] [[
  index = wrapIndex(index);
  checkElement(index, getRawNumElements());
  mlirOperationSetOperand(]])
fly_replace(fly_ir_core [[
  MlirBlock block = mlirOperationGetSuccessor(operation->get(), pos);
]] [[
  checkElement(pos, getRawNumElements());
  MlirBlock block = mlirOperationGetSuccessor(operation->get(), pos);
]])
fly_replace(fly_ir_core [[
  MlirBlock block = mlirBlockGetSuccessor(this->block.get(), pos);
]] [[
  checkElement(pos, getRawNumElements());
  MlirBlock block = mlirBlockGetSuccessor(this->block.get(), pos);
]])
fly_replace(fly_ir_core [[
  MlirBlock block = mlirBlockGetPredecessor(this->block.get(), pos);
]] [[
  checkElement(pos, getRawNumElements());
  MlirBlock block = mlirBlockGetPredecessor(this->block.get(), pos);
]])
fly_replace(fly_ir_core [[
PyRegion PyRegionIterator::dunderNext() {
]] [[
static void checkElement(intptr_t index, intptr_t count) {
  if (index < 0 || index >= count)
    throw nb::index_error("the element has been erased");
}

PyRegion PyRegionIterator::dunderNext() {
]])

# A symbol table is made anew after changes; what it takes in is no longer Python's.
fly_replace(fly_ir_core [[
nb::object PySymbolTable::dunderGetItem(const std::string &name) {
  operation->checkValid();
]] [[
void PySymbolTable::refresh() {
  operation->checkValid();
  if (seen == HeldOperations::changes())
    return;
  seen = HeldOperations::changes();
  mlirSymbolTableDestroy(symbolTable);
  symbolTable = mlirSymbolTableCreate(operation->get());
}

nb::object PySymbolTable::dunderGetItem(const std::string &name) {
  refresh();
]])
fly_replace(fly_ir_core [[
void PySymbolTable::erase(PyOperationBase &symbol) {
  operation->checkValid();
]] [[
void PySymbolTable::erase(PyOperationBase &symbol) {
  refresh();
]])
fly_replace(fly_ir_core [[
PyStringAttribute PySymbolTable::insert(PyOperationBase &symbol) {
  operation->checkValid();
]] [[
PyStringAttribute PySymbolTable::insert(PyOperationBase &symbol) {
  refresh();
]])
fly_replace(fly_ir_core [[
  return PyStringAttribute(
      symbol.getOperation().getContext(),
      mlirSymbolTableInsert(symbolTable, symbol.getOperation().get()));
]] [[
  MlirAttribute name = mlirSymbolTableInsert(symbolTable, symbol.getOperation().get());
  if (!symbol.getOperation().isAttached())
    symbol.getOperation().setAttached(operation.getObject());
  return PyStringAttribute(symbol.getOperation().getContext(), name);
]])

# The declarations, once ${fly_ir_core_header} is read.
macro(fly_patch_list_header)
fly_replace(fly_ir_core_header [[
      : operation(std::move(operation)), next(next) {}

  PyBlockIterator &]] [[
      : operation(std::move(operation)) {
    take(next);
  }

  PyBlockIterator &]])
fly_replace(fly_ir_core_header [[
  PyOperationRef operation;
  MlirBlock next;
]] [[
  void take(MlirBlock block) {
    next.reset();
    if (!mlirBlockIsNull(block))
      next.emplace(operation, block);
  }

  PyOperationRef operation;
  std::optional<PyBlock> next;
]])
fly_replace(fly_ir_core_header [[
      : parentOperation(std::move(parentOperation)), next(next) {}

  PyOperationIterator &]] [[
      : parentOperation(std::move(parentOperation)) {
    take(next);
  }

  PyOperationIterator &]])
fly_replace(fly_ir_core_header [[
  PyOperationRef parentOperation;
  MlirOperation next;
]] [[
  void take(MlirOperation operation) {
    next.reset();
    if (!mlirOperationIsNull(operation))
      next.emplace(PyOperation::forOperation(parentOperation->getContext(), operation,
                                             parentOperation.getObject()));
  }

  PyOperationRef parentOperation;
  std::optional<PyOperationRef> next;
]])
fly_replace(fly_ir_core_header [[
      : parentOperation(std::move(parentOperation)), block(block) {}

  PyOperationIterator dunderIter();
]] [[
      : parentOperation(parentOperation), block(parentOperation, block) {}

  PyOperationIterator dunderIter();
]])
fly_replace(fly_ir_core_header [[
  PyOperationRef parentOperation;
  MlirBlock block;
};

class]] [[
  PyOperationRef parentOperation;
  PyBlock block;
};

class]])
fly_replace(fly_ir_core_header [[
  PyOpOperand(MlirOpOperand opOperand) : opOperand(opOperand) {}
]] [[
  PyOpOperand(PyOperationRef owner, size_t number) : owner(std::move(owner)), number(number) {}
]])
fly_replace(fly_ir_core_header [[
private:
  MlirOpOperand opOperand;
};

class MLIR_PYTHON_API_EXPORTED PyOpOperandIterator {
public:
  PyOpOperandIterator(MlirOpOperand opOperand) : opOperand(opOperand) {}
]] [[
private:
  PyOperationRef owner;
  size_t number;
};

class MLIR_PYTHON_API_EXPORTED PyOpOperandIterator {
public:
  explicit PyOpOperandIterator(MlirOpOperand firstUse);
]])
fly_replace(fly_ir_core_header [[
private:
  MlirOpOperand opOperand;
};
]] [[
private:
  std::vector<PyOpOperand> uses;
  size_t next = 0;
};
]])
fly_replace(fly_ir_core_header [[
  PyOperationRef operation;
  MlirBlock block;
};

/// A list of operation operands.]] [[
  PyOperationRef operation;
  PyBlock block;
};

/// A list of operation operands.]])
endmacro()
