//===- FlyTupleOps.td - constructors, extractors, tuple ops -----*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===--------------------------------------------------------------------------===//

#ifndef FLY_IR_FLYTUPLEOPS_TD
#define FLY_IR_FLYTUPLEOPS_TD

include "fly/IR/FlyOpBase.td"

//===--------------------------------------------------------------------------===//
// Constructors
//===--------------------------------------------------------------------------===//

def Fly_StaticOp : Fly_Op<"static", [Pure]> {
  let summary = "a value fully described by its type";
  let description = [{
    ```mlir
    %l = fly.static : !fly.layout<(4,8):(8,1)>
    ```
  }];
  let results = (outs AnyType:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
}

class Fly_MakeTupleOp<string mnemonic> : Fly_Op<mnemonic, [Pure]> {
  let arguments = (ins Variadic<Fly_ScalarInt>:$dyncElems);
  let results = (outs Fly_IntTupleType:$result);
  let hasVerifier = 1;
}

def Fly_MakeIntTupleOp : Fly_MakeTupleOp<"make_int_tuple"> {
  let summary = "an int tuple from its dynamic leaves";
  let description = [{
    Takes one operand for each dynamic leaf of the result type, left to right.

    ```mlir
    %t = fly.make_int_tuple(%n) : (i32) -> !fly.int_tuple<(4,?)>
    ```
  }];
}

def Fly_MakeShapeOp : Fly_MakeTupleOp<"make_shape"> {
  let summary = "synonym of make_int_tuple for shapes";
  let description = [{
    ```mlir
    %s = fly.make_shape(%n) : (i32) -> !fly.int_tuple<(4,?)>
    ```
  }];
}

def Fly_MakeStrideOp : Fly_MakeTupleOp<"make_stride"> {
  let summary = "synonym of make_int_tuple for strides";
  let description = [{
    ```mlir
    %s = fly.make_stride(%n) : (i64) -> !fly.int_tuple<(?{i64},1)>
    ```
  }];
}

def Fly_MakeCoordOp : Fly_MakeTupleOp<"make_coord"> {
  let summary = "synonym of make_int_tuple for coordinates";
  let description = [{
    ```mlir
    %c = fly.make_coord(%i) : (i32) -> !fly.int_tuple<(?,*)>
    ```
  }];
}

def Fly_MakeLayoutOp : Fly_PureOp<"make_layout"> {
  let summary = "a layout from shape and stride";
  let description = [{
    ```mlir
    %l = fly.make_layout(%s, %d)
        : (!fly.int_tuple<(4,8)>, !fly.int_tuple<(8,1)>) -> !fly.layout<(4,8):(8,1)>
    ```
  }];
  let arguments = (ins Fly_IntTupleType:$shape, Fly_IntTupleType:$stride);
  let results = (outs Fly_LayoutType:$result);
}

def Fly_MakeLayoutLikeOp : Fly_PureOp<"make_layout_like"> {
  let summary = "the compact layout with the stride order of another";
  let description = [{
    ```mlir
    %l = fly.make_layout_like(%r) : (!fly.layout<(6,7,5):(0,5,1)>) -> !fly.layout<(6,7,5):(1,5,1)>
    ```
  }];
  let arguments = (ins Fly_LayoutType:$ref);
  let results = (outs Fly_LayoutType:$result);
}

def Fly_MakeOrderedLayoutOp : Fly_PureOp<"make_ordered_layout"> {
  let summary = "the compact layout whose strides ascend in the given order";
  let description = [{
    ```mlir
    %l = fly.make_ordered_layout(%s, %o) : (!fly.int_tuple<(12,20,5)>, !fly.int_tuple<(2,0,1)>)
       -> !fly.layout<(12,20,5):(100,1,20)>
    ```
  }];
  let arguments = (ins Fly_IntTupleType:$shape, Fly_IntTupleType:$order);
  let results = (outs Fly_LayoutType:$result);
}

def Fly_MakeComposedLayoutOp : Fly_PureOp<"make_composed_layout"> {
  let summary = "the composition inner(offset + outer(c))";
  let description = [{
    ```mlir
    %c = fly.make_composed_layout(%i, %o, %l)
        : (!fly.swizzle<S<3,3,3>>, !fly.int_tuple<0>, !fly.layout<(8,64):(64,1)>)
       -> !fly.composed_layout<S<3,3,3> o 0 o (8,64):(64,1)>
    ```
  }];
  let arguments = (ins Fly_ComposedInner:$inner, Fly_IntTupleType:$offset,
                       Fly_NarrowLayout:$outer);
  let results = (outs Fly_ComposedLayoutType:$result);
}

def Fly_MakeIdentityLayoutOp : Fly_PureOp<"make_identity_layout"> {
  let summary = "the layout that maps every coordinate to itself";
  let description = [{
    ```mlir
    %l = fly.make_identity_layout(%s)
        : (!fly.int_tuple<(12,(5,8))>) -> !fly.layout<(12,(5,8)):(1E0,(1E1E0,1E1E1))>
    ```
  }];
  let arguments = (ins Fly_IntTupleType:$shape);
  let results = (outs Fly_LayoutType:$result);
}

def Fly_MakeViewOp : Fly_PureOp<"make_view"> {
  let summary = "a tensor from an iterator and a layout";
  let description = [{
    ```mlir
    %v = fly.make_view(%p, %l) : (!fly.ptr<f32, global>, !fly.layout<(4,8):(8,1)>)
       -> !fly.memref<f32, global, (4,8):(8,1)>
    ```
  }];
  let arguments = (ins Fly_IteratorLike:$iter, Fly_NarrowLayout:$layout);
  let results = (outs Fly_TensorLike:$result);
}

def Fly_MakeFragmentLikeOp : Fly_PureOp<"make_fragment_like"> {
  let summary = "a register tensor shaped like another tensor";
  let description = [{
    ```mlir
    %f = fly.make_fragment_like(%t, i1) : (!fly.coord_tensor<(0,0), (4,6):(1E0,1E1)>)
       -> !fly.memref<i1, register, (4,6):(1,4)>
    ```
  }];
  let arguments = (ins Fly_LayoutOrTensor:$src,
                       OptionalAttr<TypeAttr>:$dtype);
  let results = (outs Fly_MemRefType:$result);
  let assemblyFormat = [{
    `(` $src (`,` $dtype^)? `)` attr-dict `:` functional-type(operands, results)
  }];
}

def Fly_MakeFragmentLayoutLikeOp : Fly_PureOp<"make_fragment_layout_like"> {
  let summary = "the layout of the register image of a tensor";
  let description = [{
    ```mlir
    %l = fly.make_fragment_layout_like(%t)
        : (!fly.layout<(4,3,5):(1,20,4)>) -> !fly.layout<(4,3,5):(1,20,4)>
    ```
  }];
  let arguments = (ins Fly_LayoutOrMemRef:$src);
  let results = (outs Fly_LayoutType:$result);
}

//===--------------------------------------------------------------------------===//
// Extractors
//===--------------------------------------------------------------------------===//

def Fly_GetScalarOp : Fly_PureOp<"get_scalar"> {
  let summary = "the integer of a leaf";
  let description = [{
    Strips one-element tuples; the coefficient of a basis leaf.

    ```mlir
    %i = fly.get_scalar(%t) : (!fly.int_tuple<?>) -> i32
    ```
  }];
  let arguments = (ins Fly_IntTupleType:$int_tuple);
  let results = (outs AnySignlessInteger:$result);
}

def Fly_GetLeavesOp : Fly_PureOp<"get_leaves"> {
  let summary = "all leaves of an int tuple as scalars";
  let description = [{
    ```mlir
    %a, %b = fly.get_leaves(%t) : (!fly.int_tuple<(3,?{i64})>) -> (i32, i64)
    ```
  }];
  let arguments = (ins Fly_IntTupleType:$input, DefaultValuedAttr<BoolAttr, "false">:$dynamicOnly);
  let results = (outs Variadic<Fly_ScalarInt>:$results);
}

def Fly_GetShapeOp : Fly_PureOp<"get_shape"> {
  let summary = "the shape of the linear layout";
  let description = [{
    ```mlir
    %s = fly.get_shape(%l) : (!fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<(4,8)>
    ```
  }];
  let arguments = (ins Fly_LayoutLike:$layout);
  let results = (outs Fly_IntTupleType:$result);
}

def Fly_GetStrideOp : Fly_PureOp<"get_stride"> {
  let summary = "the stride of a plain layout";
  let description = [{
    ```mlir
    %s = fly.get_stride(%l) : (!fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<(8,1)>
    ```
  }];
  let arguments = (ins Fly_LayoutLike:$layout);
  let results = (outs Fly_IntTupleType:$result);
}

def Fly_GetLayoutOp : Fly_PureOp<"get_layout"> {
  let summary = "the layout of a tensor";
  let description = [{
    ```mlir
    %l = fly.get_layout(%m) : (!fly.memref<f32, global, 8:1>) -> !fly.layout<8:1>
    ```
  }];
  let arguments = (ins Fly_TensorLike:$memref);
  let results = (outs Fly_NarrowLayout:$result);
}

def Fly_GetIterOp : Fly_PureOp<"get_iter"> {
  let summary = "the iterator (pointer or base coordinate) of a tensor";
  let description = [{
    ```mlir
    %p = fly.get_iter(%m) : (!fly.memref<f32, global, 8:1>) -> !fly.ptr<f32, global>
    ```
  }];
  let arguments = (ins Fly_TensorLike:$memref);
  let results = (outs Fly_IteratorLike:$result);
}

def Fly_ComposedGetInnerOp : Fly_PureOp<"composed_get_inner"> {
  let summary = "the inner function of a composed layout";
  let description = [{
    ```mlir
    %i = fly.composed_get_inner(%c)
        : (!fly.composed_layout<S<3,3,3> o 0 o 64:1>) -> !fly.swizzle<S<3,3,3>>
    ```
  }];
  let arguments = (ins Fly_ComposedLayoutType:$input);
  let results = (outs Fly_ComposedInner:$result);
}

def Fly_ComposedGetOffsetOp : Fly_PureOp<"composed_get_offset"> {
  let summary = "the offset of a composed layout";
  let description = [{
    ```mlir
    %o = fly.composed_get_offset(%c)
        : (!fly.composed_layout<S<3,3,3> o 0 o 64:1>) -> !fly.int_tuple<0>
    ```
  }];
  let arguments = (ins Fly_ComposedLayoutType:$input);
  let results = (outs Fly_IntTupleType:$result);
}

def Fly_ComposedGetOuterOp : Fly_PureOp<"composed_get_outer"> {
  let summary = "the outer layout of a composed layout";
  let description = [{
    ```mlir
    %o = fly.composed_get_outer(%c)
        : (!fly.composed_layout<S<3,3,3> o 0 o 64:1>) -> !fly.layout<64:1>
    ```
  }];
  let arguments = (ins Fly_ComposedLayoutType:$input);
  let results = (outs Fly_NarrowLayout:$result);
}

//===--------------------------------------------------------------------------===//
// Int-tuple arithmetic
//===--------------------------------------------------------------------------===//

def Fly_IntTupleAddOp : Fly_BinaryTupleOp<"int_tuple_add"> {
  let summary = "coordinate addition";
  let description = [{
    ```mlir
    %s = fly.int_tuple_add(%a, %b)
        : (!fly.int_tuple<(3,4)>, !fly.int_tuple<5E1>) -> !fly.int_tuple<(3,9)>
    ```
  }];
}

class Fly_ZipOp<string mnemonic, string what, string example> : Fly_BinaryTupleOp<mnemonic> {
  let summary = what # " leaf by leaf";
  let description = "```mlir\n%r = fly." # mnemonic # "(%a, %b) : " # example # "\n```";
}

def Fly_IntTupleSubOp : Fly_ZipOp<"int_tuple_sub", "subtraction",
  "(!fly.int_tuple<(7,8)>, !fly.int_tuple<(2,8)>) -> !fly.int_tuple<(5,0)>">;
def Fly_IntTupleMulOp : Fly_ZipOp<"int_tuple_mul", "multiplication",
  "(!fly.int_tuple<(2,?)>, !fly.int_tuple<(3,4)>) -> !fly.int_tuple<(6,?{div=4})>">;
def Fly_IntTupleDivOp : Fly_ZipOp<"int_tuple_div", "division (towards zero)",
  "(!fly.int_tuple<-7>, !fly.int_tuple<2>) -> !fly.int_tuple<-3>">;
def Fly_IntTupleModOp : Fly_ZipOp<"int_tuple_mod", "remainder",
  "(!fly.int_tuple<?{div=48}>, !fly.int_tuple<20>) -> !fly.int_tuple<?{div=4}>">;

def Fly_IntTupleProductOp : Fly_UnaryTupleOp<"int_tuple_product"> {
  let summary = "the product of all leaves";
  let description = [{
    ```mlir
    %r = fly.int_tuple_product(%a) : (!fly.int_tuple<(3,(4,5))>) -> !fly.int_tuple<60>
    ```
  }];
}

def Fly_IntTupleProductEachOp : Fly_UnaryTupleOp<"int_tuple_product_each"> {
  let summary = "the product of every top-level mode";
  let description = [{
    ```mlir
    %r = fly.int_tuple_product_each(%a) : (!fly.int_tuple<(3,(4,5))>) -> !fly.int_tuple<(3,20)>
    ```
  }];
}

def Fly_IntTupleProductLikeOp : Fly_BinaryTupleOp<"int_tuple_product_like"> {
  let summary = "products of the parts that face the leaves of a guide";
  let description = [{
    ```mlir
    %r = fly.int_tuple_product_like(%a, %g)
        : (!fly.int_tuple<((2,3),4)>, !fly.int_tuple<(1,1)>) -> !fly.int_tuple<(6,4)>
    ```
  }];
}

def Fly_ShapeDivOp : Fly_BinaryTupleOp<"shape_div"> {
  let summary = "shape division: one side must divide the other";
  let description = [{
    ```mlir
    %r = fly.shape_div(%a, %b)
        : (!fly.int_tuple<(6,10,4)>, !fly.int_tuple<12>) -> !fly.int_tuple<(1,5,4)>
    ```
  }];
}

def Fly_CeilDivOp : Fly_BinaryTupleOp<"ceil_div"> {
  let summary = "division rounded up";
  let description = [{
    ```mlir
    %r = fly.ceil_div(%a, %b) : (!fly.int_tuple<50>, !fly.int_tuple<12>) -> !fly.int_tuple<5>
    ```
  }];
}

class Fly_CompareOp<string mnemonic> : Fly_Op<mnemonic, [Pure]> {
  let arguments = (ins Fly_IntTupleType:$lhs, Fly_IntTupleType:$rhs);
  let results = (outs I1:$result);
}

def Fly_ElemLessOp : Fly_CompareOp<"elem_less"> {
  let summary = "true if every mode of the left side is less";
  let description = [{
    ```mlir
    %p = fly.elem_less(%c, %s) : (!fly.int_tuple<(?,?)>, !fly.int_tuple<(4,8)>) -> i1
    ```
  }];
}

def Fly_EqualOp : Fly_CompareOp<"equal"> {
  let summary = "true if profiles and leaves are equal";
  let description = [{
    ```mlir
    %p = fly.equal(%a, %b) : (!fly.int_tuple<(?,?)>, !fly.int_tuple<(4,8)>) -> i1
    ```
  }];
}

#endif // FLY_IR_FLYTUPLEOPS_TD
