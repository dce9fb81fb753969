//===- RegisterState.cpp - what is in register memory ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "RegisterState.h"

#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include "llvm/ADT/Sequence.h"

#include <utility>

using namespace mlir;
using namespace mlir::fly;

static constexpr int64_t kWidestOperand = 512; // bits

bool fly::isWide(VectorType state) {
  return state.getNumElements() * state.getElementTypeBitWidth() > kWidestOperand;
}

static int64_t sizeOf(Value value) {
  auto type = dyn_cast<VectorType>(value.getType());
  return type ? type.getNumElements() : 1;
}

static Value insert(OpBuilder &builder, Location loc, Value value, Value into, int64_t begin) {
  if (isa<VectorType>(value.getType()))
    return vector::InsertStridedSliceOp::create(builder, loc, value, into, ArrayRef<int64_t>{begin},
                                                ArrayRef<int64_t>{1});
  return vector::InsertOp::create(builder, loc, value, into, begin);
}

/// Elements of a value; of a single one, the element.
static Value slice(OpBuilder &builder, Location loc, Value value, int64_t begin, int64_t count) {
  if (sizeOf(value) == count)
    return value;
  return vector::ExtractStridedSliceOp::create(builder, loc, value, ArrayRef<int64_t>{begin},
                                               ArrayRef<int64_t>{count}, ArrayRef<int64_t>{1});
}

static Value asElement(OpBuilder &builder, Location loc, Value value) {
  return isa<VectorType>(value.getType())
             ? Value(vector::ExtractOp::create(builder, loc, value, int64_t(0)))
             : value;
}

/// Vectors and elements one after the other. Equal sizes are joined in pairs, which is a shuffle of
/// no more lanes than it gives.
static Value concatenate(OpBuilder &builder, Location loc, Type element, ArrayRef<Value> values) {
  SmallVector<Value> joined;
  int64_t total = 0;
  auto join = [&](Value next) {
    for (total += sizeOf(next); !joined.empty() && joined.back().getType() == next.getType();) {
      auto lanes = llvm::to_vector(llvm::seq<int64_t>(0, 2 * sizeOf(next)));
      next = vector::ShuffleOp::create(builder, loc, joined.pop_back_val(), next, lanes);
    }
    joined.push_back(next);
  };
  while (!values.empty()) {
    ArrayRef<Value> run = values.take_while([](Value value) { return sizeOf(value) == 1; });
    if (run.empty()) {
      join(values.front());
      values = values.drop_front();
      continue;
    }
    SmallVector<Value> elements;
    for (Value value : run)
      elements.push_back(asElement(builder, loc, value));
    auto type = VectorType::get({static_cast<int64_t>(run.size())}, element);
    join(vector::FromElementsOp::create(builder, loc, type, elements));
    values = values.drop_front(run.size());
  }
  if (joined.size() == 1)
    return joined.front();
  Value result = ub::PoisonOp::create(builder, loc, VectorType::get({total}, element),
                                       builder.getAttr<ub::PoisonAttr>());
  int64_t begin = 0;
  for (Value value : joined) {
    result = insert(builder, loc, value, result, begin);
    begin += sizeOf(value);
  }
  return result;
}

/// Forgets what was written to elements, and keeps what of it is outside of them.
void RegisterState::clear(OpBuilder &builder, Location loc, int64_t begin, int64_t end) {
  auto it = written.upper_bound(begin);
  if (it != written.begin())
    --it;
  while (it != written.end() && it->first < end) {
    int64_t first = it->first, last = first + sizeOf(it->second.value);
    if (last <= begin) {
      ++it;
      continue;
    }
    Written old = it->second;
    it = written.erase(it);
    if (first < begin)
      written[first] = {slice(builder, loc, old.value, 0, begin - first), old.isInVector};
    if (last > end)
      it = std::next(written.insert(it, {end, {slice(builder, loc, old.value, end - first, last - end),
                                               old.isInVector}}));
  }
}

void RegisterState::write(OpBuilder &builder, Location loc, int64_t begin, Value value) {
  if (!isWide(type())) {
    vector = insert(builder, loc, value, vector, begin);
    return;
  }
  clear(builder, loc, begin, begin + sizeOf(value));
  written[begin] = {value};
}

Value RegisterState::read(OpBuilder &builder, Location loc, int64_t begin, int64_t count) const {
  if (!isWide(type()))
    return vector::ExtractStridedSliceOp::create(builder, loc, vector, ArrayRef<int64_t>{begin},
                                                 ArrayRef<int64_t>{count}, ArrayRef<int64_t>{1});
  SmallVector<Value> parts;
  int64_t place = begin, end = begin + count;
  auto it = written.upper_bound(begin);
  if (it != written.begin() && std::prev(it)->first + sizeOf(std::prev(it)->second.value) > begin)
    --it;
  for (; place < end; ++it) {
    int64_t next = it == written.end() ? end : std::min(it->first, end);
    if (place < next)
      parts.push_back(slice(builder, loc, vector, place, next - place));
    place = std::max(place, next);
    if (place == end)
      break;
    int64_t stop = std::min(it->first + sizeOf(it->second.value), end);
    parts.push_back(slice(builder, loc, it->second.value, place - it->first, stop - place));
    place = stop;
  }
  if (parts.size() == 1 && isa<VectorType>(parts.front().getType()))
    return parts.front();
  return concatenate(builder, loc, type().getElementType(), parts);
}

Value RegisterState::readElement(OpBuilder &builder, Location loc, int64_t index) const {
  auto it = written.upper_bound(index);
  if (it != written.begin()) {
    auto [begin, last] = *std::prev(it);
    if (!isa<VectorType>(last.value.getType()) && begin == index)
      return last.value;
    if (index < begin + sizeOf(last.value))
      return vector::ExtractOp::create(builder, loc, last.value, index - begin);
  }
  return vector::ExtractOp::create(builder, loc, vector, index);
}

// What is written goes into the vector that another block gave, also where it is all of it: LLVM then keeps the
// registers of the loop, and from a vector of new parts it copies them.
Value RegisterState::whole(OpBuilder &builder, Location loc) {
  for (auto &[begin, part] : written)
    if (!std::exchange(part.isInVector, true))
      vector = insert(builder, loc, part.value, vector, begin);
  return vector;
}
