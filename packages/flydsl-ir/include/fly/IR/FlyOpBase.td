//===- FlyOpBase.td - operand classes and op bases --------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===--------------------------------------------------------------------------===//

#ifndef FLY_IR_FLYOPBASE_TD
#define FLY_IR_FLYOPBASE_TD

include "fly/IR/FlyTypes.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Fly_IteratorLike : AnyTypeOf<[Fly_IntTupleType, Fly_PointerType]>;
def Fly_TensorLike : AnyTypeOf<[Fly_CoordTensorType, Fly_MemRefType]>;
def Fly_MemRefOrPointer : AnyTypeOf<[Fly_MemRefType, Fly_PointerType]>;
def Fly_NarrowLayout : AnyTypeOf<[Fly_LayoutType, Fly_ComposedLayoutType]>;
def Fly_LayoutLike : AnyTypeOf<[Fly_LayoutType, Fly_ComposedLayoutType, Fly_CoordTensorType,
                                Fly_MemRefType]>;
def Fly_IntTupleLike : AnyTypeOf<[Fly_IntTupleType, Fly_LayoutType, Fly_ComposedLayoutType,
                                  Fly_CoordTensorType, Fly_MemRefType]>;
def Fly_IntTupleOrNarrowLayout : AnyTypeOf<[Fly_IntTupleType, Fly_LayoutType,
                                            Fly_ComposedLayoutType]>;
def Fly_IntTupleOrLayout : AnyTypeOf<[Fly_IntTupleType, Fly_LayoutType]>;
def Fly_LayoutOrMemRef : AnyTypeOf<[Fly_LayoutType, Fly_MemRefType]>;
def Fly_LayoutOrTensor : AnyTypeOf<[Fly_LayoutType, Fly_MemRefType, Fly_CoordTensorType]>;
def Fly_LayoutOrTile : AnyTypeOf<[Fly_LayoutType, Fly_TileType]>;
def Fly_ComposedInner : AnyTypeOf<[Fly_LayoutType, Fly_SwizzleType, Fly_CoordSwizzleType,
                                   Fly_ComposedLayoutType]>;
def Fly_CoordMap : AnyTypeOf<[Fly_LayoutType, Fly_ComposedLayoutType, Fly_SwizzleType,
                              Fly_CoordSwizzleType]>;
def Fly_ScalarInt : AnyTypeOf<[I32, I64]>;
def Fly_OptionalIntTuple : Optional<Fly_IntTupleType>;
def Fly_OptionalTile : Optional<Fly_TileType>;

// The default syntax: `fly.NAME(operands) attr-dict : (operand types) -> result types`.
class Fly_Op<string mnemonic, list<Trait> traits = []>
    : Op<Fly_Dialect, mnemonic, traits> {
  let assemblyFormat = "`(` operands `)` attr-dict `:` functional-type(operands, results)";
}

// An op whose result types follow from operands and attributes. Inference runs before the verifier
// does, on operands of any type, so it checks them against `kArgumentKinds` first.
class Fly_InferredOp<string mnemonic, list<Trait> traits = []>
    : Fly_Op<mnemonic, !listconcat(traits, [InferTypeOpAdaptor])> {
  list<string> argumentKinds =
      !foreach(i, !range(!size(arguments)), !cast<string>(!getdagarg<Constraint>(arguments, i)));
  let extraClassDeclaration =
      "static constexpr const char *kArgumentKinds[] = {\"" # !interleave(argumentKinds, "\", \"") #
      "\"};";
}

// The same without effects.
class Fly_PureOp<string mnemonic, list<Trait> traits = []>
    : Fly_InferredOp<mnemonic, !listconcat(traits, [Pure])>;

class Fly_UnaryTupleOp<string mnemonic> : Fly_PureOp<mnemonic> {
  let arguments = (ins Fly_IntTupleType:$input);
  let results = (outs Fly_IntTupleType:$result);
}

class Fly_BinaryTupleOp<string mnemonic> : Fly_PureOp<mnemonic> {
  let arguments = (ins Fly_IntTupleType:$lhs, Fly_IntTupleType:$rhs);
  let results = (outs Fly_IntTupleType:$result);
}

#endif // FLY_IR_FLYOPBASE_TD
