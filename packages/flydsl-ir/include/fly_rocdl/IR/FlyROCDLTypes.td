//===- FlyROCDLTypes.td - operations that atoms wrap ------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===--------------------------------------------------------------------------===//

#ifndef FLY_ROCDL_IR_FLYROCDLTYPES_TD
#define FLY_ROCDL_IR_FLYROCDLTYPES_TD

include "mlir/IR/AttrTypeBase.td"
include "fly/IR/FlyInterfaces.td"
include "fly_rocdl/IR/FlyROCDLAttrs.td"

defvar FlyROCDL_MayStatic = DeclareTypeInterfaceMethods<Fly_MayStaticTypeInterface>;
defvar FlyROCDL_Copy = DeclareTypeInterfaceMethods<Fly_CopyOpTypeInterface>;
defvar FlyROCDL_Mma = DeclareTypeInterfaceMethods<Fly_MmaOpTypeInterface>;
defvar FlyROCDL_Stateful = DeclareTypeInterfaceMethods<Fly_StatefulOpTypeInterface>;

// Copies of an atom are moved whole, not piece by piece.
def FlyROCDL_WholeTileCopy : NativeTypeTrait<"WholeTileCopy"> {
  let cppNamespace = "::mlir::fly";
}

// The hardware places the lanes of a wave one behind the other.
def FlyROCDL_LaneOrderedCopy : NativeTypeTrait<"LaneOrderedCopy"> {
  let cppNamespace = "::mlir::fly";
}
// Atoms of tensor moves may have valBits = 0.
def FlyROCDL_TensorMove : NativeTypeTrait<"TensorMove"> {
  let cppNamespace = "::mlir::fly";
}

class FlyROCDL_Type<string name, string typeMnemonic, list<Trait> traits>
    : TypeDef<FlyROCDL_Dialect, name, traits> {
  let mnemonic = typeMnemonic;
  let genVerifyDecl = 1;
}

//===--------------------------------------------------------------------------===//
// Copy operations
//===--------------------------------------------------------------------------===//

class FlyROCDL_CopyType<string name, string typeMnemonic, list<Trait> traits = []>
    : FlyROCDL_Type<name, typeMnemonic, !listconcat([FlyROCDL_MayStatic, FlyROCDL_Copy], traits)>;

// State methods of a copy that is addressed through fields shared by several operations.
defvar FlyROCDL_FieldIndex = [{
  /// Position of a field in the state; nullopt if this operation has none of that name.
  static std::optional<int32_t> getFieldIndex(AtomStateField field);
}];

def FlyROCDL_CopyOpCDNA3BufferCopyType
    : FlyROCDL_CopyType<"CopyOpCDNA3BufferCopy", "cdna3.buffer_copy", [FlyROCDL_Stateful]> {
  let summary = "buffer load to, or store from, registers";
  let parameters = (ins "int32_t":$bitSize, DefaultValuedParameter<"int32_t", "0">:$cacheModifier);
  let assemblyFormat = "`<` $bitSize (`,` `cache` `=` $cacheModifier^)? `>`";
  let extraClassDeclaration = FlyROCDL_FieldIndex # [{
    ::mlir::Type getNarrowed(int32_t bits) const {
      return get(getContext(), bits, getCacheModifier());
    }
  }];
}

def FlyROCDL_CopyOpCDNA3BufferCopyLDSType
    : FlyROCDL_CopyType<"CopyOpCDNA3BufferCopyLDS", "cdna3.buffer_copy_lds",
                        [FlyROCDL_Stateful, FlyROCDL_LaneOrderedCopy]> {
  let summary = "buffer load straight into LDS";
  let parameters = (ins "int32_t":$bitSize);
  let assemblyFormat = "`<` $bitSize `>`";
  let extraClassDeclaration = FlyROCDL_FieldIndex;
}

def FlyROCDL_CopyOpCDNA3BufferAtomicType
    : FlyROCDL_CopyType<"CopyOpCDNA3BufferAtomic", "cdna3.buffer_atomic", [FlyROCDL_Stateful]> {
  let summary = "atomic read-modify-write of buffer memory";
  let parameters = (ins "::mlir::fly::AtomicOpAttr":$atomicOp, "::mlir::Type":$valType);
  let assemblyFormat = "`<` custom<AtomicOp>($atomicOp) `,` $valType `>`";
  let builders = [
    TypeBuilderWithInferredContext<(ins "::mlir::fly::AtomicOpAttr":$atomicOp,
                                        "::mlir::Type":$valType), [{
      return $_get(valType.getContext(), atomicOp, valType);
    }]>
  ];
  let extraClassDeclaration = FlyROCDL_FieldIndex;
}

def FlyROCDL_CopyOpCDNA4LdsReadTransposeType
    : FlyROCDL_CopyType<"CopyOpCDNA4LdsReadTranspose", "cdna4.lds_read_trans"> {
  let summary = "LDS read that transposes inside each group of 16 lanes";
  let parameters = (ins "int32_t":$transGranularity, "int32_t":$bitSize);
  let assemblyFormat = [{
    `<` `trans` `=` custom<TransGranularity>($transGranularity) `,` $bitSize `>`
  }];
}

def FlyROCDL_CopyOpGFX1250LdsReadTransposeType
    : FlyROCDL_CopyType<"CopyOpGFX1250LdsReadTranspose", "gfx1250.lds_read_trans"> {
  let summary = "LDS read that transposes inside each group of 8 or 16 lanes";
  let description = [{
    Of 16-bit elements each of 8 lanes addresses 8 in a row and receives one of each lane; of 8-bit
    elements each of 16 lanes does, and receives one of every second four lanes.
    For example `!fly_rocdl.gfx1250.lds_read_trans<trans = 16b, 128>`.
  }];
  let parameters = (ins "int32_t":$transGranularity, "int32_t":$bitSize);
  let assemblyFormat = [{
    `<` `trans` `=` custom<TransGranularity>($transGranularity) `,` $bitSize `>`
  }];
}

def FlyROCDL_CopyOpCDNA4BufferLoadAsyncLDSType
    : FlyROCDL_CopyType<"CopyOpCDNA4BufferLoadAsyncLDS", "cdna4.buffer_load_async_lds",
                        [FlyROCDL_Stateful, FlyROCDL_LaneOrderedCopy]> {
  let summary = "asynchronous buffer load into LDS";
  let parameters = (ins "int32_t":$bitSize);
  let assemblyFormat = "`<` $bitSize `>`";
  let extraClassDeclaration = FlyROCDL_FieldIndex;
}

def FlyROCDL_CopyOpCDNA4GlobalLoadAsyncLDSType
    : FlyROCDL_CopyType<"CopyOpCDNA4GlobalLoadAsyncLDS", "cdna4.global_load_async_lds",
                        [FlyROCDL_LaneOrderedCopy]> {
  let summary = "asynchronous global load into LDS";
  let parameters = (ins "int32_t":$bitSize);
  let assemblyFormat = "`<` $bitSize `>`";
}

def FlyROCDL_CopyOpGFX1250TDMType
    : FlyROCDL_CopyType<"CopyOpGFX1250TDM", "gfx1250.tdm",
                        [FlyROCDL_Stateful, FlyROCDL_WholeTileCopy, FlyROCDL_TensorMove]> {
  let summary = "copy of a whole tile by the tensor data mover";
  let parameters = (ins "int32_t":$rank, "int32_t":$numWarps, "int32_t":$padInterval,
                        "int32_t":$padAmount, "int32_t":$cacheModifier, "bool":$atomicBarrier,
                        "bool":$earlyTimeout);
  let assemblyFormat = [{
    `<` `rank` `=` $rank `,` `warps` `=` $numWarps `,` `pad` `=` $padInterval `,` $padAmount `,`
    `cache` `=` $cacheModifier `,` `barrier` `=` custom<Bool>($atomicBarrier) `,`
    `timeout` `=` custom<Bool>($earlyTimeout) `>`
  }];
}

// A tile of `shape` (descriptor axes, outermost first) between global and shared memory. The global
// side is a tensor of descriptor coordinates; `tensor2tdm` gives the axis of each tensor mode.
class FlyROCDL_TensorCopyType<string name, string typeMnemonic, dag extra, string extraFormat>
    : FlyROCDL_CopyType<name, typeMnemonic, [FlyROCDL_Stateful, FlyROCDL_TensorMove]> {
  let parameters = !con((ins ArrayRefParameter<"int32_t">:$shape, "::mlir::Type":$elemTy,
                             "::mlir::fly::IntTupleAttr":$tensor2tdm,
                             DefaultValuedParameter<"bool", "false">:$atomicBarrier,
                             DefaultValuedParameter<"int32_t", "0">:$cacheModifier,
                             DefaultValuedParameter<"int32_t", "1">:$iterCount), extra);
  let assemblyFormat = "`<` `shape` `=` `[` $shape `]` `,` `elem` `=` $elemTy `,` `tensor2tdm` `=` " #
      "custom<BareIntTuple>($tensor2tdm) `` " # extraFormat # " `>`";
}

def FlyROCDL_CopyOpCDNA5TensorLoadType
    : FlyROCDL_TensorCopyType<"CopyOpCDNA5TensorLoad", "cdna5.tensor_load",
                              (ins DefaultValuedParameter<"int32_t", "0">:$padInterval,
                                   DefaultValuedParameter<"int32_t", "0">:$padAmount),
                              "custom<TensorLoadTail>($atomicBarrier, $cacheModifier, " #
                              "$iterCount, $padInterval, $padAmount)"> {
  let summary = "tile load from global memory into LDS by the tensor data mover";
}

def FlyROCDL_CopyOpCDNA5TensorStoreType
    : FlyROCDL_TensorCopyType<"CopyOpCDNA5TensorStore", "cdna5.tensor_store", (ins),
                              "custom<TensorStoreTail>($atomicBarrier, $cacheModifier, " #
                              "$iterCount)"> {
  let summary = "tile store from LDS to global memory by the tensor data mover";
}

//===--------------------------------------------------------------------------===//
// Matrix operations
//===--------------------------------------------------------------------------===//

defvar FlyROCDL_MmaParams = (ins "int32_t":$m, "int32_t":$n, "int32_t":$k, "::mlir::Type":$elemTyA,
                                 "::mlir::Type":$elemTyB, "::mlir::Type":$elemTyAcc);

// `MxNxK, (TA, TB) -> TAcc`, then what the operation adds.
defvar FlyROCDL_MmaFormat =
    "`<` custom<DimsMNK>($m, $n, $k) `,` `(` $elemTyA `,` $elemTyB `)` `->` $elemTyAcc";
defvar FlyROCDL_WmmaFlags = "`,` `signA` `=` custom<Bool>($signA) `,` `signB` `=` " #
    "custom<Bool>($signB) `,` `clamp` `=` custom<Bool>($clamp)";
defvar FlyROCDL_Opsel = "`,` `opselA` `=` $opselA `,` `opselB` `=` $opselB";

class FlyROCDL_MmaType<string name, string typeMnemonic, dag extra, string extraFormat,
                       list<Trait> traits = []>
    : FlyROCDL_Type<name, typeMnemonic, !listconcat([FlyROCDL_MayStatic, FlyROCDL_Mma], traits)> {
  let parameters = !con(FlyROCDL_MmaParams, extra);
  let assemblyFormat = FlyROCDL_MmaFormat # extraFormat # " `>`";
}

def FlyROCDL_MmaOpCDNA3_MFMAType
    : FlyROCDL_MmaType<"MmaOpCDNA3_MFMA", "cdna3.mfma", (ins), ""> {
  let summary = "wave64 matrix multiply-accumulate";
}

def FlyROCDL_MmaOpCDNA4_MFMAScaleType
    : FlyROCDL_MmaType<"MmaOpCDNA4_MFMAScale", "cdna4.mfma_scale",
                       (ins "int32_t":$opselA, "int32_t":$opselB), FlyROCDL_Opsel,
                       [FlyROCDL_Stateful]> {
  let summary = "wave64 matrix multiply-accumulate with block scales";
}

class FlyROCDL_WmmaType<string name, string typeMnemonic>
    : FlyROCDL_MmaType<name, typeMnemonic, (ins "bool":$signA, "bool":$signB, "bool":$clamp),
                       FlyROCDL_WmmaFlags>;

def FlyROCDL_MmaOpGFX11_WMMAType : FlyROCDL_WmmaType<"MmaOpGFX11_WMMA", "gfx11.wmma"> {
  let summary = "wave32 matrix multiply-accumulate of RDNA3";
}

def FlyROCDL_MmaOpGFX120X_WMMAType : FlyROCDL_WmmaType<"MmaOpGFX120X_WMMA", "gfx120x.wmma"> {
  let summary = "wave32 matrix multiply-accumulate of RDNA4";
}

def FlyROCDL_MmaOpGFX1250_WMMAType
    : FlyROCDL_MmaType<"MmaOpGFX1250_WMMA", "gfx1250.wmma",
                       (ins "bool":$signA, "bool":$signB, "bool":$clamp,
                            DefaultValuedParameter<"int32_t", "0">:$modC,
                            DefaultValuedParameter<"bool", "false">:$reuseA,
                            DefaultValuedParameter<"bool", "false">:$reuseB),
                       FlyROCDL_WmmaFlags # " `` custom<WmmaTail>($modC, $reuseA, $reuseB)"> {
  let summary = "wave32 matrix multiply-accumulate of gfx1250";
}

def FlyROCDL_MmaOpGFX1250_WMMAScaleType
    : FlyROCDL_MmaType<"MmaOpGFX1250_WMMAScale", "gfx1250.wmma_scale",
                       (ins "int32_t":$opselA, "int32_t":$opselB, "int32_t":$modC,
                            "bool":$reuseA, "bool":$reuseB, "int32_t":$blockSize),
                       FlyROCDL_Opsel # "`,` `modC` `=` $modC `,` `reuseA` `=` " #
                           "custom<Bool>($reuseA) `,` `reuseB` `=` custom<Bool>($reuseB) `,` " #
                           "`blockSize` `=` $blockSize",
                       [FlyROCDL_Stateful]> {
  let summary = "wave32 matrix multiply-accumulate with block scales";
}

#endif // FLY_ROCDL_IR_FLYROCDLTYPES_TD
