//===- FlyEnums.td - enums of the fly dialect -------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===--------------------------------------------------------------------------===//

#ifndef FLY_IR_FLYENUMS_TD
#define FLY_IR_FLYENUMS_TD

include "mlir/IR/EnumAttr.td"

class Fly_I32Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::mlir::fly";
}

def Fly_CachePolicy : Fly_I32Enum<"CachePolicy", "cache policy of a global access", [
  I32EnumAttrCase<"CacheGlobal", 0, "cache_global">,
  I32EnumAttrCase<"CacheAlways", 1, "cache_always">
]>;

def Fly_AddressSpace : Fly_I32Enum<"AddressSpace", "address space of a pointer", [
  I32EnumAttrCase<"Generic", 0, "generic">,
  I32EnumAttrCase<"Global", 1, "global">,
  I32EnumAttrCase<"Shared", 2, "shared">,
  I32EnumAttrCase<"Register", 3, "register">
]>;

def Fly_MmaOperand : Fly_I32Enum<"MmaOperand", "operand of a matrix multiply-accumulate", [
  I32EnumAttrCase<"A", 0, "a">,
  I32EnumAttrCase<"B", 1, "b">,
  I32EnumAttrCase<"C", 2, "c">,
  I32EnumAttrCase<"D", 3, "d">
]>;

def Fly_AtomicOp : Fly_I32Enum<"AtomicOp", "read-modify-write operation", [
  I32EnumAttrCase<"Add", 0, "add">,
  I32EnumAttrCase<"Max", 1, "max">,
  I32EnumAttrCase<"Min", 2, "min">,
  I32EnumAttrCase<"And", 3, "and">,
  I32EnumAttrCase<"Or", 4, "or">,
  I32EnumAttrCase<"Inc", 5, "inc">,
  I32EnumAttrCase<"Dec", 6, "dec">
]>;

// The letters list the loops innermost first.
def Fly_GemmTraversalOrder : Fly_I32Enum<"GemmTraversalOrder", "loop order of fly.gemm", [
  I32EnumAttrCase<"KMN", 0, "kmn">,
  I32EnumAttrCase<"KNM", 1, "knm">,
  I32EnumAttrCase<"MKN", 2, "mkn">,
  I32EnumAttrCase<"MNK", 3, "mnk">,
  I32EnumAttrCase<"NKM", 4, "nkm">,
  I32EnumAttrCase<"NMK", 5, "nmk">,
  I32EnumAttrCase<"KMN_Serpentine", 6, "kmn_serpentine">,
  I32EnumAttrCase<"KNM_Serpentine", 7, "knm_serpentine">,
  I32EnumAttrCase<"MKN_Serpentine", 8, "mkn_serpentine">,
  I32EnumAttrCase<"MNK_Serpentine", 9, "mnk_serpentine">,
  I32EnumAttrCase<"NKM_Serpentine", 10, "nkm_serpentine">,
  I32EnumAttrCase<"NMK_Serpentine", 11, "nmk_serpentine">
]>;

#endif // FLY_IR_FLYENUMS_TD
