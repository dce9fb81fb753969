//===- Patterns.h - parts of convert-fly-to-rocdl -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_ROCDL_LIB_CONVERSION_PATTERNS_H
#define FLY_ROCDL_LIB_CONVERSION_PATTERNS_H

#include "fly/IR/FlyOps.h"

#include "mlir/Transforms/DialectConversion.h"

namespace mlir::fly_rocdl {

/// LLVM address space of a fly address space; that of `generic` for an unknown one.
unsigned getLLVMAddressSpace(Attribute space);

/// True for the space whose pointers are a resource and an offset.
bool isBufferSpace(Attribute space);

/// {ptr<8> resource, i32 element offset}.
Type getFatPointerType(MLIRContext *ctx);

/// What fly types become; see the pass description.
class FlyToROCDLTypeConverter : public TypeConverter {
public:
  explicit FlyToROCDLTypeConverter(MLIRContext *ctx);
};

void populateMemoryPatterns(const TypeConverter &converter, RewritePatternSet &patterns);
void populateAtomPatterns(const TypeConverter &converter, RewritePatternSet &patterns);

} // namespace mlir::fly_rocdl

#endif // FLY_ROCDL_LIB_CONVERSION_PATTERNS_H
