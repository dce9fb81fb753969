//===- FlyAttrs.td - attributes of the fly dialect --------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===--------------------------------------------------------------------------===//

#ifndef FLY_IR_FLYATTRS_TD
#define FLY_IR_FLYATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "fly/IR/FlyDialect.td"
include "fly/IR/FlyEnums.td"
include "fly/IR/FlyInterfaces.td"

class Fly_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Fly_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

class Fly_EnumAttr<EnumAttrInfo info, string attrMnemonic>
    : EnumAttr<Fly_Dialect, info, attrMnemonic>;

def Fly_CachePolicyAttr : Fly_EnumAttr<Fly_CachePolicy, "cache_policy">;
def Fly_AddressSpaceAttr : Fly_EnumAttr<Fly_AddressSpace, "address_space">;
def Fly_MmaOperandAttr : Fly_EnumAttr<Fly_MmaOperand, "mma_operand">;
def Fly_AtomicOpAttr : Fly_EnumAttr<Fly_AtomicOp, "atomic_op">;
def Fly_GemmTraversalOrderAttr : Fly_EnumAttr<Fly_GemmTraversalOrder, "gemm_traversal_order">;

defvar Fly_MayStaticAttr = DeclareAttrInterfaceMethods<Fly_MayStaticAttrInterface>;
defvar Fly_NestedAttr = DeclareAttrInterfaceMethods<Fly_NestedAttrInterface>;

def Fly_AlignAttr : Fly_Attr<"Align", "align"> {
  let summary = "alignment of an address in bytes";
  let parameters = (ins "int32_t":$alignment);
  let builders = [
    // Alignment of an element whose index is a multiple of `divisibility`.
    AttrBuilderWithInferredContext<(ins "::mlir::Type":$elemTy, "int64_t":$divisibility)>
  ];
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// The alignment that every element of `elemTy` has.
    static AlignAttr getTrivialAlignment(::mlir::Type elemTy);
  }];
}

def Fly_IntAttr : Fly_Attr<"Int", "int", [Fly_MayStaticAttr]> {
  let summary = "None, a static integer, or a dynamic integer with width and divisibility";
  let parameters = (ins "int32_t":$value, "int32_t":$width, "int32_t":$divisibility,
                        "bool":$staticFlag);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    static IntAttr getNone(::mlir::MLIRContext *ctx) { return get(ctx, 0, 0, 0, true); }
    static IntAttr getStatic(::mlir::MLIRContext *ctx, int32_t value) {
      return get(ctx, value, 32, value == 0 ? 1 : value, true);
    }
    static IntAttr getDynamic(::mlir::MLIRContext *ctx, int32_t width = 32,
                              int32_t divisibility = 1) {
      return get(ctx, 0, width, divisibility, false);
    }
    bool isNone() const { return getStaticFlag() && getWidth() == 0; }
    /// True for a static leaf equal to `value`; None counts as 0.
    bool isStaticValue(int32_t value) const { return getStaticFlag() && getValue() == value; }
  }];
}

def Fly_BasisAttr : Fly_Attr<"Basis", "basis", [Fly_MayStaticAttr]> {
  let summary = "a scaled unit vector of a coordinate space";
  let parameters = (ins "::mlir::fly::IntAttr":$value, ArrayRefParameter<"int32_t">:$modes);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    int32_t depth() const { return getModes().size(); }
  }];
}

def Fly_SwizzleAttr : Fly_Attr<"Swizzle", "swizzle"> {
  let summary = "xor of index bits with higher index bits";
  let parameters = (ins "int32_t":$mask, "int32_t":$base, "int32_t":$shift);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    static SwizzleAttr getTrivial(::mlir::MLIRContext *ctx) { return get(ctx, 0, 0, 0); }
    /// True if the function is the identity.
    bool isTrivial() const { return getMask() == 0; }
  }];
  let genVerifyDecl = 1;
}

def Fly_CoordSwizzleAttr : Fly_Attr<"CoordSwizzle", "coord_swizzle"> {
  let summary = "xor of one coordinate's bits with another coordinate's bits";
  let parameters = (ins "int32_t":$mask, "int32_t":$baseRow, ArrayRefParameter<"int32_t">:$modeRow,
                        "int32_t":$baseCol, ArrayRefParameter<"int32_t">:$modeCol);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Fly_IntTupleAttr : Fly_Attr<"IntTuple", "int_tuple", [Fly_MayStaticAttr, Fly_NestedAttr]> {
  let summary = "a nested tuple of integer leaves";
  // IntAttr or BasisAttr for a leaf, else an ArrayAttr of IntTupleAttr.
  let parameters = (ins "::mlir::Attribute":$value);
  let builders = [
    AttrBuilderWithInferredContext<(ins "::mlir::Attribute":$value), [{
      return $_get(value.getContext(), value);
    }]>
  ];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static IntTupleAttr getStatic(::mlir::MLIRContext *ctx, int32_t value) {
      return get(IntAttr::getStatic(ctx, value));
    }
    static IntTupleAttr getTuple(::mlir::MLIRContext *ctx,
                                 ::llvm::ArrayRef<IntTupleAttr> children);
    bool isLeafInt() const { return ::llvm::isa<IntAttr>(getValue()); }
    bool isLeafBasis() const { return ::llvm::isa<BasisAttr>(getValue()); }
    bool isLeafNone() const {
      auto leaf = ::llvm::dyn_cast<IntAttr>(getValue());
      return leaf && leaf.isNone();
    }
    bool isLeafStaticValue(int32_t value) const {
      auto leaf = ::llvm::dyn_cast<IntAttr>(getValue());
      return leaf && leaf.isStaticValue(value);
    }
    /// The integer of a leaf; the coefficient of a basis leaf; null for a tuple.
    IntAttr extractIntFromLeaf() const;
    /// Child `index`; a leaf is its own child 0; null if out of range.
    IntTupleAttr at(int32_t index) const;
    int32_t numDynamicLeaves() const;
    /// Calls `fn` on every leaf in depth-first order.
    void walkLeaves(::llvm::function_ref<void(IntTupleAttr)> fn) const;
  }];
}

def Fly_LayoutAttr : Fly_Attr<"Layout", "layout", [Fly_MayStaticAttr, Fly_NestedAttr]> {
  let summary = "a function from coordinates to indices";
  let parameters = (ins "::mlir::fly::IntTupleAttr":$shape, "::mlir::fly::IntTupleAttr":$stride);
  let builders = [
    AttrBuilderWithInferredContext<(ins "::mlir::fly::IntTupleAttr":$shape,
                                        "::mlir::fly::IntTupleAttr":$stride), [{
      return $_get(shape.getContext(), shape, stride);
    }]>
  ];
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    LayoutAttr at(int32_t index) const;
    /// True if shape and stride have one profile. The text of a type may say otherwise; what makes
    /// layouts does not.
    bool isCongruent() const;
  }];
}

def Fly_ComposedLayoutAttr
    : Fly_Attr<"ComposedLayout", "composed_layout", [Fly_MayStaticAttr, Fly_NestedAttr]> {
  let summary = "inner(offset + outer(coordinate))";
  let parameters = (ins "::mlir::Attribute":$inner, "::mlir::fly::IntTupleAttr":$offset,
                        "::mlir::Attribute":$outer);
  let builders = [
    AttrBuilderWithInferredContext<(ins "::mlir::Attribute":$inner,
                                        "::mlir::fly::IntTupleAttr":$offset,
                                        "::mlir::Attribute":$outer), [{
      return $_get(inner.getContext(), inner, offset, outer);
    }]>
  ];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    ComposedLayoutAttr at(int32_t index) const;
    /// The plain layout at the end of the chain of outer parts.
    LayoutAttr getLinear() const;
  }];
}

def Fly_TileAttr : Fly_Attr<"Tile", "tile"> {
  let summary = "a tiler by mode";
  // An element (IntAttr, LayoutAttr or TileAttr) for a leaf tile, else an ArrayAttr of elements.
  let parameters = (ins "::mlir::Attribute":$value);
  let builders = [
    AttrBuilderWithInferredContext<(ins "::mlir::Attribute":$value), [{
      return $_get(value.getContext(), value);
    }]>
  ];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isLeaf() const { return !::llvm::isa<::mlir::ArrayAttr>(getValue()); }
    int32_t rank() const;
    /// Element `index`; the only element of a leaf tile; null if out of range.
    ::mlir::Attribute at(int32_t index) const;
    static TileAttr getNones(::mlir::MLIRContext *ctx, int32_t rank);
  }];
}

// Lets a gpu.binary name the attribute as its offloading handler.
def Fly_OffloadingTranslation : NativeTrait<"OffloadingTranslationAttrTrait", ""> {
  let cppNamespace = "::mlir::gpu";
}

def Fly_ExplicitModuleAttr
    : Fly_Attr<"ExplicitModule", "explicit_module", [Fly_OffloadingTranslation]> {
  let summary = "offloading handler that leaves loading and launching to explicit calls";
}

#endif // FLY_IR_FLYATTRS_TD
