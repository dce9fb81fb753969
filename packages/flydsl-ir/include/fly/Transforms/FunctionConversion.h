//===- FunctionConversion.h - conversion of functions and control flow -*- C++ -*-===//
//
// Upstream's pattern for signatures loses the attributions of a gpu.func and leaves the attributes
// of arguments in place when an argument becomes several or none.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_TRANSFORMS_FUNCTIONCONVERSION_H
#define FLY_TRANSFORMS_FUNCTIONCONVERSION_H

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Transforms/DialectConversion.h"

namespace mlir::fly {

/// Converts the signature and the entry block of a function. The attributes of an argument move to the
/// first of the arguments that it becomes (the pointer of a tensor).
template <typename FuncT>
struct FunctionSignaturePattern : OpConversionPattern<FuncT> {
  using OpConversionPattern<FuncT>::OpConversionPattern;

  LogicalResult matchAndRewrite(FuncT op, typename FuncT::Adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    const TypeConverter &converter = *this->getTypeConverter();
    auto type = cast<FunctionType>(op.getFunctionType());
    unsigned numInputs = type.getNumInputs();
    Region &body = op.getFunctionBody();
    unsigned numArguments = body.empty() ? numInputs : body.front().getNumArguments();

    TypeConverter::SignatureConversion signature(numArguments);
    SmallVector<Type> results;
    if (failed(converter.convertSignatureArgs(type.getInputs(), signature)) ||
        failed(converter.convertTypes(type.getResults(), results)))
      return failure();
    SmallVector<Type> inputs = llvm::to_vector(signature.getConvertedTypes());
    // Attributions follow the inputs in the block.
    for (unsigned i = numInputs; i < numArguments; ++i) {
      Type attribution = converter.convertType(body.front().getArgument(i).getType());
      if (!attribution)
        return failure();
      signature.addInputs(i, attribution);
    }
    SmallVector<DictionaryAttr> attributes(inputs.size(), rewriter.getDictionaryAttr({}));
    bool hasAttributes = false;
    for (unsigned i = 0; i < numInputs; ++i) {
      auto mapping = signature.getInputMapping(i);
      DictionaryAttr old = op.getArgAttrDict(i);
      if (!old || old.empty() || !mapping || mapping->size == 0)
        continue;
      attributes[mapping->inputNo] = old;
      hasAttributes = true;
    }
    if (!body.empty() && failed(rewriter.convertRegionTypes(&body, converter, &signature)))
      return failure();
    rewriter.modifyOpInPlace(op, [&] {
      op.removeArgAttrsAttr();
      op.setType(FunctionType::get(op.getContext(), inputs, results));
      if (hasAttributes)
        op.setAllArgAttrs(attributes);
    });
    return success();
  }
};

/// Converts the operations that only pass values on: functions with their calls, launches and returns,
/// the control flow of scf, the branches of cf, arith.select and ub.poison. A type may become several types or none.
/// `converter` must outlive the conversion.
void populateStructuralConversion(const TypeConverter &converter, RewritePatternSet &patterns,
                                  ConversionTarget &target);

} // namespace mlir::fly

#endif // FLY_TRANSFORMS_FUNCTIONCONVERSION_H
