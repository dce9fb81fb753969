//===- FlyAtomOps.td - copy and MMA atoms, tiled operations -----*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===--------------------------------------------------------------------------===//

#ifndef FLY_IR_FLYATOMOPS_TD
#define FLY_IR_FLYATOMOPS_TD

include "fly/IR/FlyOpBase.td"

//===--------------------------------------------------------------------------===//
// Atoms
//===--------------------------------------------------------------------------===//

def Fly_MakeMmaAtomOp : Fly_Op<"make_mma_atom", [Pure]> {
  let summary = "an MMA atom";
  let description = [{
    ```mlir
    %a = fly.make_mma_atom : !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
    ```
  }];
  let results = (outs Fly_MmaAtomType:$result);
  let assemblyFormat = "attr-dict `:` qualified(type($result))";
}

def Fly_MakeCopyAtomOp : Fly_Op<"make_copy_atom", [Pure]> {
  let summary = "a copy atom, with construction operands if its operation has any";
  let description = [{
    ```mlir
    %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly.universal_copy<128>, 32>
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$args, I32Attr:$valBits);
  let results = (outs Fly_CopyAtomType:$result);
  let assemblyFormat = "(`(` $args^ `:` type($args) `)`)? attr-dict `:` qualified(type($result))";
  let builders = [
    OpBuilder<(ins "::mlir::fly::CopyAtomType":$type), [{
      build($_builder, $_state, type, ::mlir::ValueRange(), type.getValBits());
    }]>
  ];
  let hasVerifier = 1;
}

def Fly_AtomSetValueOp : Fly_PureOp<"atom.set_value"> {
  let summary = "an atom with one field of its state replaced";
  let description = [{
    ```mlir
    %b = fly.atom.set_value(%a, "soffset", %v) : (!at, i32) -> !at
    ```
  }];
  let arguments = (ins AnyType:$atom, StrAttr:$field, AnyType:$value);
  let results = (outs AnyType:$result);
  let assemblyFormat = [{
    `(` $atom `,` $field `,` $value `)` attr-dict `:` functional-type(operands, results)
  }];
}

def Fly_GetCopyAtomOp : Fly_PureOp<"get_copy_atom"> {
  let summary = "the copy atom of a tiled copy";
  let description = [{
    ```mlir
    %a = fly.get_copy_atom(%t) : (!tc) -> !fly.copy_atom<!fly.universal_copy<64>, 16>
    ```
  }];
  let arguments = (ins Fly_TiledCopyType:$tiledCopy);
  let results = (outs Fly_CopyAtomType:$result);
}

def Fly_GetMmaAtomOp : Fly_PureOp<"get_mma_atom"> {
  let summary = "the MMA atom of a tiled MMA";
  let description = [{
    ```mlir
    %a = fly.get_mma_atom(%t) : (!tm) -> !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
    ```
  }];
  let arguments = (ins Fly_TiledMmaType:$tiledMma);
  let results = (outs Fly_MmaAtomType:$result);
}

//===--------------------------------------------------------------------------===//
// Tiled operations
//===--------------------------------------------------------------------------===//

def Fly_MakeTiledCopyOp : Fly_PureOp<"make_tiled_copy"> {
  let summary = "a copy atom spread over a thread-value layout and a tile";
  let description = [{
    ```mlir
    %t = fly.make_tiled_copy(%a, %tv, %mn) : (!fly.copy_atom<!fly.universal_copy<64>, 16>,
        !fly.layout<((4,6),4):((24,1),6)>, !fly.tile<[6|16]>) -> !tc
    ```
  }];
  let arguments = (ins Fly_CopyAtomType:$copyAtom, Fly_LayoutType:$layoutThrVal,
                       Fly_TileType:$tileMN);
  let results = (outs Fly_TiledCopyType:$result);
}

def Fly_MakeTiledMmaOp : Fly_PureOp<"make_tiled_mma"> {
  let summary = "an MMA atom spread over an atom layout";
  let description = [{
    ```mlir
    %t = fly.make_tiled_mma(%a, %l) : (!atom, !fly.layout<(4,2,1):(2,1,0)>) -> !tm
    ```
  }];
  let arguments = (ins AnyType:$mmaAtom, Fly_LayoutType:$atomLayout,
                       Fly_OptionalTile:$permutation);
  let results = (outs Fly_TiledMmaType:$result);
}

def Fly_TiledCopyPartitionSrcOp : Fly_PureOp<"tiled_copy.partition_src"> {
  let summary = "the part of the source that one thread copies";
  let description = [{
    ```mlir
    %p = fly.tiled_copy.partition_src(%t, %m, %tid) : (!tc,
        !fly.memref<f16, global, (12,48):(48,1), align<16>>, !fly.int_tuple<?>)
       -> !fly.memref<f16, global, ((4,1),2,3):((1,0),288,16), align<8>>
    ```
  }];
  let arguments = (ins Fly_TiledCopyType:$tiledCopy, Fly_TensorLike:$src, Fly_IntTupleType:$coord);
  let results = (outs Fly_TensorLike:$result);
}

def Fly_TiledCopyPartitionDstOp : Fly_PureOp<"tiled_copy.partition_dst"> {
  let summary = "the part of the destination that one thread copies";
  let description = [{
    ```mlir
    %p = fly.tiled_copy.partition_dst(%t, %m, %tid) : (!tc,
        !fly.memref<f16, global, (12,48):(48,1), align<16>>, !fly.int_tuple<?>)
       -> !fly.memref<f16, global, ((4,1),2,3):((1,0),288,16), align<8>>
    ```
  }];
  let arguments = (ins Fly_TiledCopyType:$tiledCopy, Fly_TensorLike:$dst, Fly_IntTupleType:$coord);
  let results = (outs Fly_TensorLike:$result);
}

def Fly_TiledCopyRetileOp : Fly_PureOp<"tiled_copy.retile"> {
  let summary = "a thread's fragment seen in the order of another tiled copy";
  let description = [{
    ```mlir
    %p = fly.tiled_copy.retile(%t, %f) : (!tc, !fly.memref<f16, register, (2,4,3):(1,2,8)>)
       -> !fly.memref<f16, register, (((2,2),1),4,2):(((1,8),0),2,16)>
    ```
  }];
  let arguments = (ins Fly_TiledCopyType:$tiledCopy, Fly_MemRefType:$input);
  let results = (outs Fly_MemRefType:$result);
}

def Fly_TiledMmaPartitionOp : Fly_PureOp<"tiled_mma.partition"> {
  let summary = "the part of an operand that one thread holds";
  let description = [{
    ```mlir
    %p = fly.tiled_mma.partition(b, %t, %m, %tid) : (!tm,
        !fly.memref<f32, global, (8,6):(6,1)>, !fly.int_tuple<?>)
       -> !fly.memref<f32, global, (1,4,6):(0,12,1)>
    ```
  }];
  let arguments = (ins Fly_MmaOperandAttr:$operand_id, Fly_TiledMmaType:$tiled_mma,
                       Fly_TensorLike:$input, Fly_IntTupleType:$coord);
  let results = (outs Fly_TensorLike:$result);
  let assemblyFormat = [{
    `(` custom<MmaOperand>($operand_id) `,` $tiled_mma `,` $input `,` $coord `)` attr-dict `:`
    functional-type(operands, results)
  }];
}

def Fly_TiledMmaPartitionShapeOp : Fly_PureOp<"tiled_mma.partition_shape"> {
  let summary = "the shape of the part of an operand that one thread holds";
  let description = [{
    ```mlir
    %s = fly.tiled_mma.partition_shape(%t, %m) {operand_id = #fly<mma_operand a>}
        : (!tm, !fly.int_tuple<(8,6)>) -> !fly.int_tuple<(1,2,6)>
    ```
  }];
  let arguments = (ins Fly_MmaOperandAttr:$operand_id, Fly_TiledMmaType:$tiled_mma,
                       Fly_IntTupleType:$shape);
  let results = (outs Fly_IntTupleType:$result);
}

def Fly_MmaMakeFragmentOp : Fly_PureOp<"mma.make_fragment"> {
  let summary = "registers for one thread's part of an operand";
  let description = [{
    ```mlir
    %f = fly.mma.make_fragment(b, %t, %m, stages = 3) : (!tm, !fly.memref<f32, global, (8,6):(6,1)>)
       -> !fly.memref<f32, register, (1,4,6,3):(0,6,1,24)>
    ```
  }];
  let arguments = (ins Fly_MmaOperandAttr:$operand_id, Fly_TiledMmaType:$tiled_mma,
                       Fly_MemRefType:$input, OptionalAttr<I32Attr>:$stages);
  let results = (outs Fly_MemRefType:$result);
  let assemblyFormat = [{
    `(` custom<MmaOperand>($operand_id) `,` $tiled_mma `,` $input (`,` `stages` `=` $stages^)? `)` attr-dict `:`
    functional-type(operands, results)
  }];
}

def Fly_CopyOp : Fly_Op<"copy"> {
  let summary = "copies a tensor with a copy atom, mode by mode";
  let description = [{
    Mode 0 of source and destination is what one atom call moves. A false entry of the predicate skips
    its access: a register destination keeps its contents, or becomes zero with `zeroFill`.

    ```mlir
    fly.copy(%a, %s, %d, %p) : (!fly.copy_atom<!fly.universal_copy<32>, 32>,
        !fly.memref<f32, global, (1,4):(1,8)>, !fly.memref<f32, register, (1,4):(1,1)>,
        !fly.memref<i1, register, (1,4):(0,1)>) -> ()
    ```
  }];
  let arguments = (ins AnyType:$copyAtom, Fly_TensorLike:$src, Fly_TensorLike:$dst,
                       Optional<Fly_MemRefType>:$pred, UnitAttr:$zeroFill);
  let hasVerifier = 1;
}

def Fly_GemmOp : Fly_Op<"gemm", [AttrSizedOperandSegments]> {
  let summary = "multiplies fragments with an MMA atom";
  let description = [{
    ```mlir
    fly.gemm(%m, %d, %a, %b, %c) {traversalOrder = #fly<gemm_traversal_order kmn>}
        : (!atom, !d, !a, !b, !c) -> ()
    ```
  }];
  let arguments = (ins AnyType:$mmaAtom, Fly_MemRefType:$d, Variadic<Fly_MemRefType>:$a,
                       Variadic<Fly_MemRefType>:$b, Fly_MemRefType:$c,
                       OptionalAttr<Fly_GemmTraversalOrderAttr>:$traversalOrder,
                       Optional<Fly_LayoutType>:$traversalLayout);
  let assemblyFormat = [{
    `(` $mmaAtom `,` $d `,` custom<OperandGroup>($a) `,` custom<OperandGroup>($b) `,` $c `)`
    `` custom<TraversalLayout>($traversalLayout) attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Fly_CopyAtomCall : Fly_Op<"copy_atom_call"> {
  let summary = "one copy instruction";
  let description = [{
    A tensor of coordinates stands for global memory that the atom knows itself. With `zeroFill` a false
    predicate makes a destination in registers zero. Buffer accesses then take an address outside of the
    resource instead of a branch.

    ```mlir
    fly.copy_atom_call(%a, %s, %d) : (!fly.copy_atom<!fly.universal_copy<32>, 32>,
        !fly.memref<f32, global, 1:1>, !fly.memref<f32, register, 1:1>) -> ()
    ```
  }];
  let arguments = (ins Fly_CopyAtomType:$copyAtom, Fly_TensorLike:$src, Fly_TensorLike:$dst,
                       Optional<Fly_MemRefType>:$pred, UnitAttr:$zeroFill);
  let hasVerifier = 1;
}

def Fly_MmaAtomCall : Fly_Op<"mma_atom_call", [AttrSizedOperandSegments]> {
  let summary = "one multiply-accumulate instruction, d = a * b + c";
  let description = [{
    A group `[%a, %scale]` stands for an operand with extra data.

    ```mlir
    fly.mma_atom_call(%m, %d, %a, %b, %c) : (!atom, !d, !a, !b, !c) -> ()
    ```
  }];
  let arguments = (ins Fly_MmaAtomType:$mmaAtom, Fly_MemRefType:$d, Variadic<Fly_MemRefType>:$a,
                       Variadic<Fly_MemRefType>:$b, Fly_MemRefType:$c);
  let assemblyFormat = [{
    `(` $mmaAtom `,` $d `,` custom<OperandGroup>($a) `,` custom<OperandGroup>($b) `,` $c `)`
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Fly_CopyAtomCallSSA : Fly_Op<"copy_atom_call_ssa", [AttrSizedOperandSegments]> {
  let summary = "one copy instruction with register operands as values";
  let description = [{
    ```mlir
    %v = fly.copy_atom_call_ssa(%a, %s) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
        : (!fly.copy_atom<!fly.universal_copy<64>, 32>, !fly.memref<f32, global, 2:1, align<8>>)
       -> vector<2xf32>
    ```
  }];
  let arguments = (ins Fly_CopyAtomType:$copyAtom, AnyType:$src, Optional<AnyType>:$dst,
                       Optional<AnyType>:$pred, UnitAttr:$zeroFill);
  let results = (outs Variadic<AnyType>:$results);
  let hasVerifier = 1;
}

def Fly_MmaAtomCallSSA : Fly_Op<"mma_atom_call_ssa", [AttrSizedOperandSegments]> {
  let summary = "one multiply-accumulate instruction with register operands as values";
  let description = [{
    ```mlir
    %d = fly.mma_atom_call_ssa(%m, %a, %b, %c)
        : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, f32, f32, f32) -> f32
    ```
  }];
  let arguments = (ins Fly_MmaAtomType:$mmaAtom, Optional<AnyType>:$d, Variadic<AnyType>:$a,
                       Variadic<AnyType>:$b, AnyType:$c);
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = [{
    `(` $mmaAtom `,` custom<OperandGroup>($a) `,` custom<OperandGroup>($b) `,` $c `)`
    (`dst` `=` $d^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif // FLY_IR_FLYATOMOPS_TD
