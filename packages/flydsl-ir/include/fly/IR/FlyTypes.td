//===- FlyTypes.td - types of the fly dialect -------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===--------------------------------------------------------------------------===//

#ifndef FLY_IR_FLYTYPES_TD
#define FLY_IR_FLYTYPES_TD

include "fly/IR/FlyAttrs.td"

class Fly_Type<string name, string typeMnemonic, list<Trait> traits = []>
    : TypeDef<Fly_Dialect, name, traits> {
  let mnemonic = typeMnemonic;
}

defvar Fly_MayStaticType = DeclareTypeInterfaceMethods<Fly_MayStaticTypeInterface>;
defvar Fly_NestedType = DeclareTypeInterfaceMethods<Fly_NestedTypeInterface>;
defvar Fly_CopyOpType = DeclareTypeInterfaceMethods<Fly_CopyOpTypeInterface>;
defvar Fly_MmaOpType = DeclareTypeInterfaceMethods<Fly_MmaOpTypeInterface>;

// A type that wraps one structural attribute.
class Fly_WrapperType<string name, string typeMnemonic, string attrClass, list<Trait> traits>
    : Fly_Type<name, typeMnemonic, traits> {
  let parameters = (ins attrClass:$attr);
  let builders = [
    TypeBuilderWithInferredContext<(ins attrClass:$attr), [{
      return $_get(attr.getContext(), attr);
    }]>
  ];
  let hasCustomAssemblyFormat = 1;
}

def Fly_BasisType : Fly_WrapperType<"Basis", "basis", "::mlir::fly::BasisAttr",
                                    [Fly_MayStaticType]> {
  let summary = "a scaled basis vector, `!fly.basis<3E1E0>`";
}

def Fly_IntTupleType : Fly_WrapperType<"IntTuple", "int_tuple", "::mlir::fly::IntTupleAttr",
                                       [Fly_NestedType, Fly_MayStaticType]> {
  let summary = "a nested tuple of integers, `!fly.int_tuple<(4,(?,2E1))>`";
  let extraClassDeclaration = [{
    IntTupleType at(int32_t index) const;
  }];
}

def Fly_LayoutType : Fly_WrapperType<"Layout", "layout", "::mlir::fly::LayoutAttr",
                                     [Fly_NestedType, Fly_MayStaticType]> {
  let summary = "a layout, `!fly.layout<(4,?):(1,8)>`";
  let extraClassDeclaration = [{
    LayoutType at(int32_t index) const;
  }];
}

def Fly_SwizzleType : Fly_WrapperType<"Swizzle", "swizzle", "::mlir::fly::SwizzleAttr",
                                      [Fly_MayStaticType]> {
  let summary = "a swizzle function, `!fly.swizzle<S<3,4,3>>`";
}

def Fly_CoordSwizzleType
    : Fly_WrapperType<"CoordSwizzle", "coord_swizzle", "::mlir::fly::CoordSwizzleAttr",
                      [Fly_MayStaticType]> {
  let summary = "a swizzle of coordinates, `!fly.coord_swizzle<CS<2,1,[0],0,[1]>>`";
}

def Fly_ComposedLayoutType
    : Fly_WrapperType<"ComposedLayout", "composed_layout", "::mlir::fly::ComposedLayoutAttr",
                      [Fly_NestedType, Fly_MayStaticType]> {
  let summary = "a composed layout, `!fly.composed_layout<S<3,4,3> o 0 o (8,64):(64,1)>`";
  let extraClassDeclaration = [{
    ComposedLayoutType at(int32_t index) const;
  }];
}

def Fly_TileType : Fly_WrapperType<"Tile", "tile", "::mlir::fly::TileAttr", [Fly_MayStaticType]> {
  let summary = "a tiler by mode, `!fly.tile<[16|*|(2,2):(1,4)]>`";
}

def Fly_PointerType : Fly_Type<"Pointer", "ptr"> {
  let summary = "a typed pointer, `!fly.ptr<f16, shared, align<16>, S<3,4,3>>`";
  let parameters = (ins "::mlir::Type":$elemTy, "::mlir::Attribute":$addressSpace,
                        "::mlir::fly::AlignAttr":$alignment, "::mlir::fly::SwizzleAttr":$swizzle);
  let builders = [
    // A null alignment or swizzle means the trivial one.
    TypeBuilderWithInferredContext<(ins "::mlir::Type":$elemTy, "::mlir::Attribute":$addressSpace,
                                        CArg<"::mlir::fly::AlignAttr", "{}">:$alignment,
                                        CArg<"::mlir::fly::SwizzleAttr", "{}">:$swizzle), [{
      return $_get(elemTy.getContext(), elemTy, addressSpace,
                   alignOrTrivial(alignment, elemTy),
                   swizzleOrTrivial(swizzle, elemTy));
    }]>,
    TypeBuilderWithInferredContext<(ins "::mlir::Type":$elemTy,
                                        "::mlir::fly::AddressSpace":$addressSpace,
                                        CArg<"::mlir::fly::AlignAttr", "{}">:$alignment,
                                        CArg<"::mlir::fly::SwizzleAttr", "{}">:$swizzle), [{
      return $_get(elemTy.getContext(), elemTy,
                   AddressSpaceAttr::get(elemTy.getContext(), addressSpace),
                   alignOrTrivial(alignment, elemTy),
                   swizzleOrTrivial(swizzle, elemTy));
    }]>
  ];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Divisibility of the address in elements.
    int64_t getValueDivisibility() const;
    bool isInSpace(AddressSpace space) const;
  }];
}

def Fly_MemRefType : Fly_Type<"MemRef", "memref"> {
  let summary = "a pointer with a layout, `!fly.memref<f32, global, (4,?):(1,4), align<16>>`";
  // `layout` is a LayoutAttr or a ComposedLayoutAttr, measured in elements.
  let parameters = (ins "::mlir::Type":$elemTy, "::mlir::Attribute":$addressSpace,
                        "::mlir::Attribute":$layout, "::mlir::fly::AlignAttr":$alignment,
                        "::mlir::fly::SwizzleAttr":$swizzle);
  let builders = [
    TypeBuilderWithInferredContext<(ins "::mlir::Type":$elemTy, "::mlir::Attribute":$addressSpace,
                                        "::mlir::Attribute":$layout,
                                        CArg<"::mlir::fly::AlignAttr", "{}">:$alignment,
                                        CArg<"::mlir::fly::SwizzleAttr", "{}">:$swizzle), [{
      return $_get(elemTy.getContext(), elemTy, addressSpace,
                   layout, alignOrTrivial(alignment, elemTy),
                   swizzleOrTrivial(swizzle, elemTy));
    }]>,
    TypeBuilderWithInferredContext<(ins "::mlir::Type":$elemTy,
                                        "::mlir::fly::AddressSpace":$addressSpace,
                                        "::mlir::Attribute":$layout,
                                        CArg<"::mlir::fly::AlignAttr", "{}">:$alignment,
                                        CArg<"::mlir::fly::SwizzleAttr", "{}">:$swizzle), [{
      return $_get(elemTy.getContext(), elemTy,
                   AddressSpaceAttr::get(elemTy.getContext(), addressSpace),
                   layout, alignOrTrivial(alignment, elemTy),
                   swizzleOrTrivial(swizzle, elemTy));
    }]>,
    // The view of a pointer through a layout.
    TypeBuilderWithInferredContext<(ins "::mlir::fly::PointerType":$ptr,
                                        "::mlir::Attribute":$layout), [{
      return $_get(ptr.getContext(), ptr.getElemTy(), ptr.getAddressSpace(), layout,
                   ptr.getAlignment(), ptr.getSwizzle());
    }]>
  ];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The type of the pointer that is viewed.
    PointerType getPointerType() const;
    int64_t getValueDivisibility() const;
    bool isInSpace(AddressSpace space) const { return getPointerType().isInSpace(space); }
    bool hasPlainLayout() const { return ::llvm::isa<LayoutAttr>(getLayout()); }
    LayoutAttr getLinearLayout() const;
    /// True if the layout is plain and static and the elements stand one after the other in memory, in
    /// the order of their coordinates; `count` is their number.
    bool isConsecutive(int64_t *count = nullptr) const;
    /// The memref of mode `index`; null if there is none.
    MemRefType at(int32_t index) const;
    MemRefType at(::llvm::ArrayRef<int32_t> path) const;
  }];
}

def Fly_CoordTensorType : Fly_Type<"CoordTensor", "coord_tensor",
                                   [Fly_NestedType, Fly_MayStaticType]> {
  let summary = "a tensor of coordinates, `!fly.coord_tensor<(0,0), (4,8):(1E0,1E1)>`";
  let parameters = (ins "::mlir::fly::IntTupleAttr":$base, "::mlir::Attribute":$layout);
  let builders = [
    TypeBuilderWithInferredContext<(ins "::mlir::fly::IntTupleAttr":$base,
                                        "::mlir::Attribute":$layout), [{
      return $_get(base.getContext(), base, layout);
    }]>
  ];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool hasPlainLayout() const { return ::llvm::isa<LayoutAttr>(getLayout()); }
    LayoutAttr getLinearLayout() const;
    CoordTensorType at(int32_t index) const;
  }];
}

def Fly_CopyAtomType : Fly_Type<"CopyAtom", "copy_atom", [Fly_MayStaticType]> {
  let summary = "a copy instruction and the width of its values";
  let parameters = (ins "::mlir::Type":$copyOp, "int32_t":$valBits);
  let builders = [
    TypeBuilderWithInferredContext<(ins "::mlir::Type":$copyOp, "int32_t":$valBits), [{
      return $_get(copyOp.getContext(), copyOp, valBits);
    }]>
  ];
  let assemblyFormat = "`<` $copyOp `,` $valBits `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    LayoutAttr getThrLayout() const;
    /// Thread-value layouts in units of values; null (with a diagnostic from `emitError` if
    /// given) when the instruction's layouts cannot be expressed in values.
    LayoutAttr getThrValLayoutSrc(
        ::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError = {}) const;
    LayoutAttr getThrValLayoutDst(
        ::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError = {}) const;
    LayoutAttr getThrValLayoutRef(
        ::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError = {}) const;
  }];
}

def Fly_MmaAtomType : Fly_Type<"MmaAtom", "mma_atom", [Fly_MayStaticType]> {
  let summary = "a matrix multiply-accumulate instruction";
  let parameters = (ins "::mlir::Type":$mmaOp);
  let builders = [
    TypeBuilderWithInferredContext<(ins "::mlir::Type":$mmaOp), [{
      return $_get(mmaOp.getContext(), mmaOp);
    }]>
  ];
  let assemblyFormat = "`<` $mmaOp `>`";
  let extraClassDeclaration = [{
    LayoutAttr getThrLayout() const;
    IntTupleAttr getShapeMNK() const;
    /// Thread-value layout of an operand; D has the layout of C.
    LayoutAttr getThrValLayout(MmaOperand operand) const;
    ::mlir::Type getValType(MmaOperand operand) const;
  }];
}

def Fly_TiledCopyType : Fly_Type<"TiledCopy", "tiled_copy", [Fly_MayStaticType]> {
  let summary = "a copy atom spread over threads, values and a tile";
  let parameters = (ins "::mlir::Type":$copyAtom, "::mlir::fly::LayoutType":$layoutThrVal,
                        "::mlir::fly::TileType":$tileMN);
  let builders = [
    TypeBuilderWithInferredContext<(ins "::mlir::Type":$copyAtom,
                                        "::mlir::fly::LayoutType":$layoutThrVal,
                                        "::mlir::fly::TileType":$tileMN), [{
      return $_get(copyAtom.getContext(), copyAtom, layoutThrVal, tileMN);
    }]>
  ];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Fly_TiledMmaType : Fly_Type<"TiledMma", "tiled_mma", [Fly_MayStaticType]> {
  let summary = "an MMA atom spread over M, N and K";
  let parameters = (ins "::mlir::Type":$mmaAtom, "::mlir::fly::LayoutType":$atomLayout,
                        "::mlir::fly::TileType":$permutation);
  let builders = [
    // A null permutation means `[*|*|*]`.
    TypeBuilderWithInferredContext<(ins "::mlir::Type":$mmaAtom,
                                        "::mlir::fly::LayoutType":$atomLayout,
                                        CArg<"::mlir::fly::TileType", "{}">:$permutation), [{
      return $_get(mmaAtom.getContext(), mmaAtom, atomLayout,
                   permutation ? permutation : trivialPermutation(mmaAtom.getContext()));
    }]>
  ];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Fly_CopyOpUniversalCopyType : Fly_Type<"CopyOpUniversalCopy", "universal_copy",
                                           [Fly_MayStaticType, Fly_CopyOpType]> {
  let summary = "a copy of `bitSize` bits between any two places";
  let parameters = (ins "int32_t":$bitSize);
  let assemblyFormat = "`<` $bitSize `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    ::mlir::Type getNarrowed(int32_t bits) const { return get(getContext(), bits); }
  }];
}

def Fly_CopyOpUniversalAtomicType : Fly_Type<"CopyOpUniversalAtomic", "universal_atomic",
                                             [Fly_MayStaticType, Fly_CopyOpType]> {
  let summary = "an atomic read-modify-write of one value";
  let parameters = (ins "::mlir::fly::AtomicOpAttr":$atomicOp, "::mlir::Type":$valType,
                        StringRefParameter<"synchronisation scope">:$syncscope);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Fly_MmaOpUniversalFMAType : Fly_Type<"MmaOpUniversalFMA", "universal_fma",
                                         [Fly_MayStaticType, Fly_MmaOpType]> {
  let summary = "a scalar multiply-add, `!fly.universal_fma<1x1x1, (f32, f32) -> f32>`";
  let parameters = (ins "::mlir::Type":$elemTy);
  let builders = [
    TypeBuilderWithInferredContext<(ins "::mlir::Type":$elemTy), [{
      return $_get(elemTy.getContext(), elemTy);
    }]>
  ];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

#endif // FLY_IR_FLYTYPES_TD
