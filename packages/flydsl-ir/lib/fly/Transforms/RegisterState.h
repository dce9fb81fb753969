//===- RegisterState.h - what is in register memory --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#ifndef FLY_LIB_TRANSFORMS_REGISTERSTATE_H
#define FLY_LIB_TRANSFORMS_REGISTERSTATE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

#include <map>

namespace mlir::fly {

/// True if the vector is wider than any operand of an instruction: what is put together of its parts
/// is better not taken apart again, in time that grows with the square of its size.
bool isWide(VectorType state);

/// The content of an allocation in registers at a place of a block.
///
/// One that is not wide is a vector, which each write inserts into. Of a wide one the values that the
/// block wrote are kept as they are, which reads of the same elements get back; the vector is put
/// together where another block needs it.
class RegisterState {
public:
  RegisterState() = default;
  explicit RegisterState(Value vector) : vector(vector) {}

  /// Writes a vector or an element of the state's element type.
  void write(OpBuilder &builder, Location loc, int64_t begin, Value value);

  /// The elements as a vector.
  Value read(OpBuilder &builder, Location loc, int64_t begin, int64_t count) const;

  Value readElement(OpBuilder &builder, Location loc, int64_t index) const;

  /// The whole content as a vector, of which later calls make use.
  Value whole(OpBuilder &builder, Location loc);

private:
  struct Written {
    Value value;
    bool isInVector = false;
  };

  VectorType type() const { return cast<VectorType>(vector.getType()); }
  void clear(OpBuilder &builder, Location loc, int64_t begin, int64_t end);

  Value vector;
  std::map<int64_t, Written> written; ///< by the first element; they do not overlap
};

} // namespace mlir::fly

#endif // FLY_LIB_TRANSFORMS_REGISTERSTATE_H
