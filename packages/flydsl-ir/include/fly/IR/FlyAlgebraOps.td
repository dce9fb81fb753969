//===- FlyAlgebraOps.td - structure, coordinates, layout algebra -*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===---------------------------------------------------------------------------===//

#ifndef FLY_IR_FLYALGEBRAOPS_TD
#define FLY_IR_FLYALGEBRAOPS_TD

include "fly/IR/FlyOpBase.td"

//===---------------------------------------------------------------------------===//
// Structural operations
//===---------------------------------------------------------------------------===//

def Fly_GetOp : Fly_PureOp<"get"> {
  let summary = "the mode at a path";
  let description = [{
    ```mlir
    %m = fly.get(%l) {mode = array<i32: 1, 0>}
        : (!fly.layout<(7,(8,9)):(72,(9,1))>) -> !fly.layout<8:9>
    ```
  }];
  let arguments = (ins Fly_IntTupleLike:$input, DenseI32ArrayAttr:$mode);
  let results = (outs Fly_IntTupleLike:$result);
}

def Fly_TakeOp : Fly_PureOp<"take"> {
  let summary = "modes begin..end-1";
  let description = [{
    ```mlir
    %m = fly.take(%t) {begin = 1 : i32, end = -1 : i32}
        : (!fly.int_tuple<(5,6,7)>) -> !fly.int_tuple<(6,7)>
    ```
  }];
  let arguments = (ins Fly_IntTupleLike:$tuple, I32Attr:$begin, I32Attr:$end);
  let results = (outs Fly_IntTupleLike:$result);
}

def Fly_SelectOp : Fly_PureOp<"select"> {
  let summary = "modes by index";
  let description = [{
    ```mlir
    %m = fly.select(%t) {indices = array<i32: 2, 0>}
        : (!fly.int_tuple<(5,6,7)>) -> !fly.int_tuple<(7,5)>
    ```
  }];
  let arguments = (ins Fly_IntTupleLike:$tuple, DenseI32ArrayAttr:$indices);
  let results = (outs Fly_IntTupleLike:$result);
}

def Fly_GroupOp : Fly_PureOp<"group"> {
  let summary = "modes begin..end-1 gathered into one mode";
  let description = [{
    ```mlir
    %m = fly.group(%t) {begin = 1 : i32, end = 3 : i32}
        : (!fly.int_tuple<(5,6,7)>) -> !fly.int_tuple<(5,(6,7))>
    ```
  }];
  let arguments = (ins Fly_IntTupleLike:$tuple, I32Attr:$begin, I32Attr:$end);
  let results = (outs Fly_IntTupleLike:$result);
}

class Fly_ExtendOp<string mnemonic, string where> : Fly_PureOp<mnemonic> {
  let summary = "a tuple with modes added at the " # where;
  let description = "With `n`, adds copies of `elem` until the rank is `n`.\n\n```mlir\n%r = fly."
    # mnemonic # "<3> (%t, %e) : (!fly.int_tuple<5>, !fly.int_tuple<9>) -> !fly.int_tuple<"
    # !if(!eq(where, "end"), "(5,9,9)", "(9,9,5)") # ">\n```";
  let arguments = (ins Fly_IntTupleOrNarrowLayout:$tuple, Fly_IntTupleOrLayout:$elem,
                       OptionalAttr<I32Attr>:$n);
  let results = (outs Fly_IntTupleOrNarrowLayout:$result);
  let assemblyFormat = [{
    (`<` $n^ `>`)? ` ` `(` operands `)` attr-dict `:` functional-type(operands, results)
  }];
}

def Fly_AppendOp : Fly_ExtendOp<"append", "end">;
def Fly_PrependOp : Fly_ExtendOp<"prepend", "beginning">;

def Fly_SliceOp : Fly_PureOp<"slice"> {
  let summary = "the parts that face a `*` of the coordinate";
  let description = [{
    ```mlir
    %s = fly.slice(%m, %c)
        : (!fly.memref<f32, global, (9,16):(16,1)>, !fly.int_tuple<(3,*)>)
       -> !fly.memref<f32, global, 16:1>
    ```
  }];
  let arguments = (ins Fly_IntTupleLike:$src, Fly_IntTupleType:$coord);
  let results = (outs Fly_IntTupleLike:$result);
}

def Fly_DiceOp : Fly_PureOp<"dice"> {
  let summary = "the parts that do not face a `*` of the coordinate";
  let description = [{
    ```mlir
    %s = fly.dice(%l, %c) : (!fly.layout<(9,16):(16,1)>, !fly.int_tuple<(3,*)>)
       -> !fly.layout<9:16>
    ```
  }];
  let arguments = (ins Fly_IntTupleOrLayout:$src, Fly_IntTupleType:$coord);
  let results = (outs Fly_IntTupleOrLayout:$result);
}

//===---------------------------------------------------------------------------===//
// Coordinates and sizes
//===---------------------------------------------------------------------------===//

def Fly_SizeOp : Fly_PureOp<"size"> {
  let summary = "the number of coordinates";
  let description = [{
    ```mlir
    %n = fly.size(%l) : (!fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<32>
    ```
  }];
  let arguments = (ins Fly_IntTupleLike:$int_tuple);
  let results = (outs Fly_IntTupleType:$result);
}

class Fly_LayoutMeasureOp<string mnemonic, string what, string example> : Fly_PureOp<mnemonic> {
  let summary = what;
  let description = "```mlir\n%r = fly." # mnemonic # "(%l) : " # example # "\n```";
  let arguments = (ins Fly_LayoutLike:$layout);
  let results = (outs Fly_IntTupleType:$result);
}

def Fly_CoprofileOp : Fly_LayoutMeasureOp<"coprofile", "the structure of the codomain",
  "(!fly.layout<(3,5):(1E0,2E1)>) -> !fly.int_tuple<(0,0)>">;
def Fly_CoshapeOp : Fly_LayoutMeasureOp<"coshape", "the shape of the codomain",
  "(!fly.layout<(3,5):(1E0,2E1)>) -> !fly.int_tuple<(3,9)>">;
def Fly_CosizeOp : Fly_LayoutMeasureOp<"cosize", "the size of the codomain",
  "(!fly.layout<(3,5):(5,2)>) -> !fly.int_tuple<19>">;

def Fly_Crd2IdxOp : Fly_PureOp<"crd2idx"> {
  let summary = "the index of a coordinate";
  let description = [{
    ```mlir
    %i = fly.crd2idx(%c, %l)
        : (!fly.int_tuple<(?,5)>, !fly.layout<(5,7):(14,2)>) -> !fly.int_tuple<?{div=2}>
    ```
  }];
  let arguments = (ins Fly_IntTupleType:$coord, Fly_CoordMap:$layout);
  let results = (outs Fly_IntTupleType:$index);
}

def Fly_Idx2CrdOp : Fly_PureOp<"idx2crd"> {
  let summary = "the coordinate of an index";
  let description = [{
    ```mlir
    %c = fly.idx2crd(%i, %l) : (!fly.int_tuple<23>, !fly.layout<((2,3),5):((5,10),1)>)
       -> !fly.int_tuple<((0,2),3)>
    ```
  }];
  let arguments = (ins Fly_IntTupleType:$coord, Fly_LayoutType:$layout);
  let results = (outs Fly_IntTupleType:$result);
}

class Fly_IndexMapOp<string mnemonic> : Fly_PureOp<mnemonic> {
  let arguments = (ins Fly_IntTupleType:$index, Fly_LayoutType:$layout);
  let results = (outs Fly_IntTupleType:$result);
}

def Fly_GetFlatCoordOp : Fly_IndexMapOp<"get_flat_coord"> {
  let summary = "one integer for each top-level mode, from an index";
  let description = [{
    ```mlir
    %c = fly.get_flat_coord(%i, %l)
        : (!fly.int_tuple<37>, !fly.layout<((2,3),(4,5)):((20,40),(5,1))>) -> !fly.int_tuple<(1,11)>
    ```
  }];
}

def Fly_Get1DCoordOp : Fly_IndexMapOp<"get_1d_coord"> {
  let summary = "the colexicographic coordinate of an index";
  let description = [{
    ```mlir
    %c = fly.get_1d_coord(%i, %l)
        : (!fly.int_tuple<37>, !fly.layout<((2,3),(4,5)):((20,40),(5,1))>) -> !fly.int_tuple<67>
    ```
  }];
}

//===---------------------------------------------------------------------------===//
// Layout algebra
//===---------------------------------------------------------------------------===//

def Fly_CoalesceOp : Fly_PureOp<"coalesce"> {
  let summary = "an equal function with fewer modes";
  let description = [{
    ```mlir
    %r = fly.coalesce(%l) : (!fly.layout<(3,1,(2,5)):(2,9,(6,12))>) -> !fly.layout<30:2>
    ```
  }];
  let arguments = (ins Fly_LayoutLike:$layout, Fly_OptionalIntTuple:$pattern);
  let results = (outs Fly_LayoutLike:$result);
}

def Fly_CompositionOp : Fly_PureOp<"composition"> {
  let summary = "outer after inner";
  let description = [{
    ```mlir
    %r = fly.composition(%a, %b)
        : (!fly.layout<(6,5):(5,1)>, !fly.layout<10:3>) -> !fly.layout<(2,5):(15,1)>
    ```
  }];
  let arguments = (ins Fly_LayoutLike:$outer, Fly_LayoutOrTile:$inner);
  let results = (outs Fly_LayoutLike:$result);
}

def Fly_ComplementOp : Fly_PureOp<"complement"> {
  let summary = "the layout of the gaps";
  let description = [{
    ```mlir
    %r = fly.complement(%l, %m)
        : (!fly.layout<6:5>, !fly.int_tuple<70>) -> !fly.layout<(5,3):(1,30)>
    ```
  }];
  let arguments = (ins Fly_NarrowLayout:$layout, Fly_OptionalIntTuple:$codomain_size);
  let results = (outs Fly_NarrowLayout:$result);
}

class Fly_InverseOp<string mnemonic, string what, string example> : Fly_PureOp<mnemonic> {
  let summary = what;
  let description = "```mlir\n%r = fly." # mnemonic # "(%l) : " # example # "\n```";
  let arguments = (ins Fly_NarrowLayout:$layout);
  let results = (outs Fly_NarrowLayout:$result);
}

def Fly_RightInverseOp : Fly_InverseOp<"right_inverse", "R with layout(R(i)) = i",
  "(!fly.layout<(6,4):(4,1)>) -> !fly.layout<(4,6):(6,1)>">;
def Fly_LeftInverseOp : Fly_InverseOp<"left_inverse", "R with R(layout(c)) = c",
  "(!fly.layout<(3,5):(2,6)>) -> !fly.layout<(2,15):(0,1)>">;

class Fly_DivideOp<string mnemonic, string what, string example> : Fly_PureOp<mnemonic> {
  let summary = what;
  let description = "```mlir\n%r = fly." # mnemonic # "(%l, %t) : " # example # "\n```";
  let arguments = (ins Fly_LayoutLike:$layout, Fly_LayoutOrTile:$divisor);
  let results = (outs Fly_LayoutLike:$result);
}

def Fly_LogicalDivideOp : Fly_DivideOp<"logical_divide", "split every mode into (tile, rest)",
  "(!fly.layout<(12,30):(30,1)>, !fly.tile<[3|5]>) -> !fly.layout<((3,4),(5,6)):((30,90),(1,5))>">;
def Fly_ZippedDivideOp : Fly_DivideOp<"zipped_divide", "split into (tiles, rests)",
  "(!fly.layout<(12,30):(30,1)>, !fly.tile<[3|5]>) -> !fly.layout<((3,5),(4,6)):((30,1),(90,5))>">;
def Fly_TiledDivideOp : Fly_DivideOp<"tiled_divide", "split into (tiles, rest, rest, ...)",
  "(!fly.layout<(12,30):(30,1)>, !fly.tile<[3|5]>) -> !fly.layout<((3,5),4,6):((30,1),90,5)>">;
def Fly_FlatDivideOp : Fly_DivideOp<"flat_divide", "split into (tile, ..., rest, ...)",
  "(!fly.layout<(12,30):(30,1)>, !fly.tile<[3|5]>) -> !fly.layout<(3,5,4,6):(30,1,90,5)>">;

class Fly_ProductOp<string mnemonic, string what, string example> : Fly_PureOp<mnemonic> {
  let summary = what;
  let description = "```mlir\n%r = fly." # mnemonic # "(%l, %t) : " # example # "\n```";
  let arguments = (ins Fly_NarrowLayout:$layout, Fly_LayoutType:$tile);
  let results = (outs Fly_NarrowLayout:$result);
}

def Fly_LogicalProductOp : Fly_ProductOp<"logical_product", "(layout, repetitions)",
  "(!fly.layout<3:1>, !fly.layout<(2,5):(5,1)>) -> !fly.layout<(3,(2,5)):(1,(15,3))>">;
def Fly_ZippedProductOp : Fly_ProductOp<"zipped_product", "(layout, repetitions)",
  "(!fly.layout<3:1>, !fly.layout<(2,5):(5,1)>) -> !fly.layout<(3,(2,5)):(1,(15,3))>">;
def Fly_TiledProductOp : Fly_ProductOp<"tiled_product", "(layout, repetition, ...)",
  "(!fly.layout<3:1>, !fly.layout<(2,5):(5,1)>) -> !fly.layout<(3,2,5):(1,15,3)>">;
def Fly_FlatProductOp : Fly_ProductOp<"flat_product", "(mode, ..., repetition, ...)",
  "(!fly.layout<(3,2):(2,1)>, !fly.layout<4:1>) -> !fly.layout<(3,2,4):(2,1,6)>">;
def Fly_BlockedProductOp : Fly_ProductOp<"blocked_product", "repetition by mode, block fastest",
  "(!fly.layout<(3,2):(2,1)>, !fly.layout<(4,5):(1,4)>) -> !fly.layout<((3,4),(2,5)):((2,6),(1,24))>">;
def Fly_RakedProductOp : Fly_ProductOp<"raked_product", "repetition by mode, tile fastest",
  "(!fly.layout<(3,2):(2,1)>, !fly.layout<(4,5):(1,4)>) -> !fly.layout<((4,3),(5,2)):((6,2),(24,1))>">;

def Fly_RecastLayoutOp : Fly_PureOp<"recast_layout"> {
  let summary = "the same bytes seen in elements of another width";
  let description = [{
    ```mlir
    %r = fly.recast_layout(%l) {new_type_bits = 32 : i32, old_type_bits = 16 : i32}
        : (!fly.layout<(6,8):(8,1)>) -> !fly.layout<(6,4):(4,1)>
    ```
  }];
  let arguments = (ins I32Attr:$new_type_bits, I32Attr:$old_type_bits, Fly_NarrowLayout:$src);
  let results = (outs Fly_NarrowLayout:$result);
}

def Fly_TileToShapeOp : Fly_PureOp<"tile_to_shape"> {
  let summary = "a block repeated to fill a shape, in an order";
  let description = [{
    ```mlir
    %r = fly.tile_to_shape(%b, %s, %o)
        : (!fly.layout<(3,2):(2,1)>, !fly.int_tuple<(12,10)>, !fly.int_tuple<(0,1)>)
       -> !fly.layout<((3,4),(2,5)):((2,6),(1,24))>
    ```
  }];
  let arguments = (ins Fly_NarrowLayout:$block, Fly_IntTupleType:$trg_shape,
                       Fly_IntTupleType:$ord_shape);
  let results = (outs Fly_NarrowLayout:$result);
}

#endif // FLY_IR_FLYALGEBRAOPS_TD
