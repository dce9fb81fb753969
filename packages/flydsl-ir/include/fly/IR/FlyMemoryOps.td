//===- FlyMemoryOps.td - pointers, tensors, utilities -----------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===--------------------------------------------------------------------------===//

#ifndef FLY_IR_FLYMEMORYOPS_TD
#define FLY_IR_FLYMEMORYOPS_TD

include "fly/IR/FlyOpBase.td"

def Fly_MakePtrOp : Fly_Op<"make_ptr"> {
  let summary = "an allocation, or a pointer built by the target";
  let description = [{
    Registers: `allocSize` elements, at most what the private memory of a lane holds. Shared memory:
    `allocBytes`, `allocAlign`. Other spaces take the operands that the target defines.

    ```mlir
    %p = fly.make_ptr() {dictAttrs = {allocSize = 4 : i64}} : () -> !fly.ptr<f32, register>
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$args, OptionalAttr<DictionaryAttr>:$dictAttrs);
  let results = (outs Fly_PointerType:$result);
  let hasVerifier = 1;
}

def Fly_GetDynSharedOp : Fly_PureOp<"get_dyn_shared"> {
  let summary = "the start of dynamic shared memory";
  let description = [{
    ```mlir
    %p = fly.get_dyn_shared() : !fly.ptr<i8, shared, align<1024>>
    ```
  }];
  let results = (outs Fly_PointerType:$result);
  let assemblyFormat = "`(` `)` attr-dict `:` qualified(type($result))";
}

def Fly_IntToPtrOp : Fly_Op<"inttoptr", [Pure]> {
  let summary = "a pointer from an integer address";
  let description = [{
    ```mlir
    %p = fly.inttoptr(%a) : (i64) -> !fly.ptr<f32, global>
    ```
  }];
  let arguments = (ins Fly_ScalarInt:$src);
  let results = (outs Fly_PointerType:$result);
}

def Fly_PtrToIntOp : Fly_PureOp<"ptrtoint"> {
  let summary = "the address: i32 in shared, i64 in global memory";
  let description = [{
    ```mlir
    %a = fly.ptrtoint(%p) : (!fly.ptr<f32, shared>) -> i32
    ```
  }];
  let arguments = (ins Fly_PointerType:$ptr);
  let results = (outs Fly_ScalarInt:$result);
}

def Fly_ToLLVMPtrOp : Fly_PureOp<"to_llvm_ptr"> {
  let summary = "the pointer as an LLVM pointer";
  let description = [{
    ```mlir
    %a = fly.to_llvm_ptr(%p) {llvm_address_space = 3 : i32}
        : (!fly.ptr<f32, shared>) -> !llvm.ptr<3>
    ```
  }];
  let arguments = (ins Fly_PointerType:$ptr, I32Attr:$llvm_address_space);
  let results = (outs AnyType:$result);
}

def Fly_AddOffsetOp : Fly_PureOp<"add_offset"> {
  let summary = "an iterator moved by an offset in elements";
  let description = [{
    ```mlir
    %q = fly.add_offset(%p, %o) : (!fly.ptr<f16, shared, align<32>>, !fly.int_tuple<?{div=6}>)
       -> !fly.ptr<f16, shared, align<4>>
    ```
  }];
  let arguments = (ins Fly_IteratorLike:$ptr, Fly_IntTupleType:$offset);
  let results = (outs Fly_IteratorLike:$result);
}

def Fly_ApplySwizzleOp : Fly_PureOp<"apply_swizzle"> {
  let summary = "the pointer with its addresses swizzled at access";
  let description = [{
    ```mlir
    %q = fly.apply_swizzle(%p, %s)
        : (!fly.ptr<f32, shared, align<64>>, !fly.swizzle<S<3,3,3>>)
       -> !fly.ptr<f32, shared, align<32>, S<3,3,3>>
    ```
  }];
  let arguments = (ins Fly_PointerType:$ptr, Fly_SwizzleType:$swizzle);
  let results = (outs Fly_PointerType:$result);
}

def Fly_DecompositionOp : Fly_PureOp<"decomposition"> {
  let summary = "a composed tensor as an offset and a plain layout";
  let description = [{
    Exact only if the inner function commutes with the offsets of the layout: meant for tiles
    smaller than the swizzle's granularity.

    ```mlir
    %q = fly.decomposition(%t) : (!fly.memref<f16, shared, S<3,3,3> o 8 o 8:1, align<128>>)
       -> !fly.memref<f16, shared, 8:1, align<16>>
    ```
  }];
  let arguments = (ins Fly_TensorLike:$tensor);
  let results = (outs Fly_TensorLike:$result);
}

def Fly_RecastIterOp : Fly_Op<"recast_iter", [Pure]> {
  let summary = "the pointer with another element type";
  let description = [{
    ```mlir
    %q = fly.recast_iter(%p) : (!fly.ptr<i8, shared, align<16>>) -> !fly.ptr<f32, shared, align<16>>
    ```
  }];
  let arguments = (ins Fly_PointerType:$src);
  let results = (outs Fly_PointerType:$result);
}

def Fly_PtrLoadOp : Fly_Op<"ptr.load"> {
  let summary = "a scalar or vector load";
  let description = [{
    ```mlir
    %v = fly.ptr.load(%p) : (!fly.ptr<f32, global, align<16>>) -> vector<4xf32>
    ```
  }];
  let arguments = (ins Fly_IteratorLike:$ptr);
  let results = (outs AnyType:$result);
  let hasVerifier = 1;
}

def Fly_PtrStoreOp : Fly_Op<"ptr.store"> {
  let summary = "a scalar or vector store";
  let description = [{
    ```mlir
    fly.ptr.store(%v, %p) : (vector<4xf32>, !fly.ptr<f32, global, align<16>>) -> ()
    ```
  }];
  let arguments = (ins AnyType:$value, Fly_PointerType:$ptr);
  let hasVerifier = 1;
}

def Fly_MemRefAllocaOp : Fly_Op<"memref.alloca"> {
  let summary = "a tensor in registers";
  let description = [{
    ```mlir
    %m = fly.memref.alloca(%l) : (!fly.layout<4:1>) -> !fly.memref<f32, register, 4:1>
    ```
  }];
  let arguments = (ins Fly_LayoutType:$layout);
  let results = (outs Fly_MemRefType:$result);
  let hasVerifier = 1;
}

def Fly_MemRefLoadOp : Fly_InferredOp<"memref.load"> {
  let summary = "the element at a coordinate";
  let description = [{
    ```mlir
    %v = fly.memref.load(%m, %c) : (!fly.memref<f32, global, (4,8):(8,1)>, !fly.int_tuple<(1,2)>)
       -> f32
    ```
  }];
  let arguments = (ins Fly_TensorLike:$memref, Fly_IntTupleType:$indices);
  let results = (outs AnyType:$result);
}

def Fly_MemRefStoreOp : Fly_Op<"memref.store"> {
  let summary = "stores an element at a coordinate";
  let description = [{
    ```mlir
    fly.memref.store(%v, %m, %c)
        : (f32, !fly.memref<f32, global, (4,8):(8,1)>, !fly.int_tuple<(1,2)>) -> ()
    ```
  }];
  let arguments = (ins AnyType:$value, Fly_MemRefType:$memref, Fly_IntTupleType:$indices);
  let hasVerifier = 1;
}

def Fly_MemRefLoadVecOp : Fly_InferredOp<"memref.load_vec"> {
  let summary = "all elements in colexicographic order";
  let description = [{
    ```mlir
    %v = fly.memref.load_vec(%m) : (!fly.memref<f32, register, (2,4):(1,2)>) -> vector<8xf32>
    ```
  }];
  let arguments = (ins Fly_TensorLike:$memref);
  let results = (outs AnyType:$result);
}

def Fly_MemRefStoreVecOp : Fly_Op<"memref.store_vec"> {
  let summary = "stores all elements in colexicographic order";
  let description = [{
    ```mlir
    fly.memref.store_vec(%v, %m) : (vector<8xf32>, !fly.memref<f32, register, (2,4):(1,2)>) -> ()
    ```
  }];
  let arguments = (ins AnyType:$vector, Fly_MemRefType:$memref);
  let hasVerifier = 1;
}

def Fly_ExtractAlignedPointerAsIndexOp : Fly_Op<"extract_aligned_pointer_as_index", [Pure]> {
  let summary = "the address of a tensor or pointer (deprecated: use get_iter and to_llvm_ptr)";
  let description = [{
    The result is an LLVM pointer of the address space or of the generic one, or an `index`.
    The type of a tensor is written without its name, that of a pointer in full.

    ```mlir
    %p = fly.extract_aligned_pointer_as_index %m : <f32, global, 8:1> -> !llvm.ptr<1>
    ```
  }];
  let arguments = (ins Fly_MemRefOrPointer:$source);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$source attr-dict `:` custom<StrippedMemRef>(type($source)) `->` type($result)";
}

def Fly_PrintOp : Fly_Op<"print"> {
  let summary = "prints values";
  let description = [{
    `{}` in the format takes the next value; an empty format separates values by spaces.

    ```mlir
    fly.print(%t) {format = "coord {}"} : (!fly.int_tuple<(?,4)>) -> ()
    ```
  }];
  let arguments = (ins StrAttr:$format, Variadic<AnyType>:$values);
}

def Fly_AssumeOp : Fly_Op<"assume", [Pure]> {
  let summary = "a value with a refined type (reserved)";
  let description = [{
    ```mlir
    %r = fly.assume(%d, %s) : (!fly.int_tuple<?{div=4}>, !fly.int_tuple<?>) -> !fly.int_tuple<?{div=4}>
    ```
  }];
  let arguments = (ins AnyType:$dst, AnyType:$src);
  let results = (outs AnyType:$result);
}

#endif // FLY_IR_FLYMEMORYOPS_TD
