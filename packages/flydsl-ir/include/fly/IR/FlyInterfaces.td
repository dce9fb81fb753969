//===- FlyInterfaces.td - interfaces of the fly dialect ---------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===--------------------------------------------------------------------------===//

#ifndef FLY_IR_FLYINTERFACES_TD
#define FLY_IR_FLYINTERFACES_TD

include "mlir/IR/OpBase.td"

// Methods shared by the attribute and the type flavour of "nested".
defvar Fly_NestedMethods = [
  InterfaceMethod<"True if this is not a tuple.", "bool", "isLeaf", (ins)>,
  InterfaceMethod<"Number of top-level modes; 1 for a leaf.", "int32_t", "rank", (ins)>,
  InterfaceMethod<"Nesting depth; 0 for a leaf.", "int32_t", "depth", (ins)>
];

defvar Fly_NestedOverloads = [{
    /// Rank of the mode at `path`; -1 if there is no such mode.
    int32_t rank(::llvm::ArrayRef<int32_t> path) {
      auto mode = modeAt(path);
      return mode ? mode.rank() : -1;
    }
    int32_t rank(int32_t index) { return rank(::llvm::ArrayRef<int32_t>(index)); }
    /// Depth of the mode at `path`; -1 if there is no such mode.
    int32_t depth(::llvm::ArrayRef<int32_t> path) {
      auto mode = modeAt(path);
      return mode ? mode.depth() : -1;
    }
    int32_t depth(int32_t index) { return depth(::llvm::ArrayRef<int32_t>(index)); }
}];

def Fly_NestedAttrInterface : AttrInterface<"NestedAttrInterface"> {
  let cppNamespace = "::mlir::fly";
  let description = "An attribute with the nesting structure of an int tuple.";
  let methods = !listconcat(Fly_NestedMethods, [
    InterfaceMethod<"The mode at `index`; null if there is none.",
                    "::mlir::Attribute", "getMode", (ins "int32_t":$index)>
  ]);
  let extraClassDeclaration = Fly_NestedOverloads # [{
    NestedAttrInterface modeAt(::llvm::ArrayRef<int32_t> path) {
      NestedAttrInterface mode = *this;
      for (int32_t index : path) {
        if (!mode)
          return {};
        mode = ::llvm::dyn_cast_or_null<NestedAttrInterface>(mode.getMode(index));
      }
      return mode;
    }
  }];
}

def Fly_NestedTypeInterface : TypeInterface<"NestedTypeInterface"> {
  let cppNamespace = "::mlir::fly";
  let description = "A type with the nesting structure of an int tuple.";
  let methods = !listconcat(Fly_NestedMethods, [
    InterfaceMethod<"The mode at `index` as a type of the same kind; null if there is none.",
                    "::mlir::Type", "getMode", (ins "int32_t":$index)>
  ]);
  let extraClassDeclaration = Fly_NestedOverloads # [{
    NestedTypeInterface modeAt(::llvm::ArrayRef<int32_t> path) {
      NestedTypeInterface mode = *this;
      for (int32_t index : path) {
        if (!mode)
          return {};
        mode = ::llvm::dyn_cast_or_null<NestedTypeInterface>(mode.getMode(index));
      }
      return mode;
    }
  }];
}

def Fly_MayStaticAttrInterface : AttrInterface<"MayStaticAttrInterface"> {
  let cppNamespace = "::mlir::fly";
  let description = "An attribute whose content may be known at compile time.";
  let methods = [
    InterfaceMethod<"True if no leaf is dynamic.", "bool", "isStatic", (ins)>
  ];
}

def Fly_MayStaticTypeInterface : TypeInterface<"MayStaticTypeInterface"> {
  let cppNamespace = "::mlir::fly";
  let description = "A type whose values may be fully described by the type.";
  let methods = [
    InterfaceMethod<"True if a value carries no run-time data.", "bool", "isStatic", (ins)>,
    InterfaceMethod<[{
      Builds the normal-form producer of a value of this static type. Returns null if
      `currentValue` is non-null and already in that form, or if the type has none.
    }], "::mlir::Value", "rebuildStaticValue",
    (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc,
         "::mlir::Value":$currentValue)>
  ];
}

def Fly_CopyOpTypeInterface : TypeInterface<"CopyOpTypeInterface"> {
  let cppNamespace = "::mlir::fly";
  let description = [{
    An instruction that copies data. Thread-value layouts map (thread, bit) to a bit index of the
    atom's tile. In the emit methods, `pred` is an i1, and null like `predTy` when there is no predicate;
    operands are already converted to the target's types, `*Ty` are the fly types.
  }];
  let methods = [
    InterfaceMethod<"Layout of the threads that take part.", "::mlir::Attribute",
                    "getThrLayout", (ins)>,
    InterfaceMethod<"Source thread-value layout in bits.", "::mlir::Attribute",
                    "getThrBitLayoutSrc", (ins)>,
    InterfaceMethod<"Destination thread-value layout in bits.", "::mlir::Attribute",
                    "getThrBitLayoutDst", (ins)>,
    InterfaceMethod<"Reference thread-value layout in bits.", "::mlir::Attribute",
                    "getThrBitLayoutRef", (ins)>,
    InterfaceMethod<"Emits the copy between two memory operands.", "::llvm::LogicalResult",
                    "emitAtomCall",
                    (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc,
                         "::mlir::Type":$copyAtomTy, "::mlir::Type":$srcTy,
                         "::mlir::Type":$dstTy, "::mlir::Type":$predTy,
                         "::mlir::Value":$atomVal, "::mlir::Value":$src,
                         "::mlir::Value":$dst, "::mlir::Value":$pred)>,
    InterfaceMethod<[{
      Emits the copy with register operands as values. With a null `resultTy` the destination is
      memory and the returned value is null; otherwise `dst` (only with `pred`) is the old content.
    }], "::mlir::FailureOr<::mlir::Value>", "emitAtomCallSSA",
                    (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc,
                         "::mlir::Type":$resultTy, "::mlir::Type":$copyAtomTy,
                         "::mlir::Type":$srcTy, "::mlir::Type":$dstTy,
                         "::mlir::Type":$predTy, "::mlir::Value":$atomVal,
                         "::mlir::Value":$src, "::mlir::Value":$dst, "::mlir::Value":$pred)>,
    InterfaceMethod<"The same copy of `bits` bits with the same state; null if there is none.",
                    "::mlir::Type", "getNarrowed", (ins "int32_t":$bits), "", [{ return {}; }]>
  ];
}

def Fly_MmaOpTypeInterface : TypeInterface<"MmaOpTypeInterface"> {
  let cppNamespace = "::mlir::fly";
  let description = [{
    A matrix multiply-accumulate instruction, d = a * b + c. The A and B operands are groups: the
    data operand first, then for instance its scale.
  }];
  let methods = [
    InterfaceMethod<"Layout of the threads that take part.", "::mlir::Attribute",
                    "getThrLayout", (ins)>,
    InterfaceMethod<"The int tuple (M,N,K).", "::mlir::Attribute", "getShapeMNK", (ins)>,
    InterfaceMethod<"Thread-value layout of A over (M,K).", "::mlir::Attribute",
                    "getThrValLayoutA", (ins)>,
    InterfaceMethod<"Thread-value layout of B over (N,K).", "::mlir::Attribute",
                    "getThrValLayoutB", (ins)>,
    InterfaceMethod<"Thread-value layout of C and D over (M,N).", "::mlir::Attribute",
                    "getThrValLayoutC", (ins)>,
    InterfaceMethod<"Element type of A.", "::mlir::Type", "getValTypeA", (ins)>,
    InterfaceMethod<"Element type of B.", "::mlir::Type", "getValTypeB", (ins)>,
    InterfaceMethod<"Element type of C.", "::mlir::Type", "getValTypeC", (ins)>,
    InterfaceMethod<"Element type of D.", "::mlir::Type", "getValTypeD", (ins)>,
    InterfaceMethod<"Emits the instruction on memory operands.", "::llvm::LogicalResult",
                    "emitAtomCall",
                    (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc,
                         "::mlir::Type":$mmaAtomTy, "::mlir::Type":$dTy,
                         "::mlir::TypeRange":$aTys, "::mlir::TypeRange":$bTys,
                         "::mlir::Type":$cTy, "::mlir::Value":$atomVal, "::mlir::Value":$d,
                         "::mlir::ValueRange":$a, "::mlir::ValueRange":$b,
                         "::mlir::Value":$c)>,
    InterfaceMethod<[{
      Emits the instruction on register values. With a null `resultTy` the result is stored to the
      memory operand `d` and the returned value is null.
    }], "::mlir::FailureOr<::mlir::Value>", "emitAtomCallSSA",
                    (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc,
                         "::mlir::Type":$resultTy, "::mlir::Type":$mmaAtomTy,
                         "::mlir::Type":$dTy, "::mlir::TypeRange":$aTys,
                         "::mlir::TypeRange":$bTys, "::mlir::Type":$cTy,
                         "::mlir::Value":$atomVal, "::mlir::Value":$d,
                         "::mlir::ValueRange":$a, "::mlir::ValueRange":$b,
                         "::mlir::Value":$c)>
  ];
}

def Fly_StatefulOpTypeInterface : TypeInterface<"StatefulOpTypeInterface"> {
  let cppNamespace = "::mlir::fly";
  let description = "A copy or MMA operation with state that is set at run time.";
  let methods = [
    InterfaceMethod<"The LLVM struct that carries the state.", "::mlir::Type",
                    "getConvertedType", (ins "::mlir::MLIRContext *":$ctx)>,
    InterfaceMethod<"The initial state.", "::mlir::Value", "getDefaultState",
                    (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc)>,
    InterfaceMethod<"`atomStruct` with one field replaced; null if there is no such field.",
                    "::mlir::Value", "setAtomState",
                    (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc,
                         "::mlir::Value":$atomStruct, "::mlir::Attribute":$fieldAttr,
                         "::mlir::Value":$fieldValue)>
  ];
}

#endif // FLY_IR_FLYINTERFACES_TD
