// Multiples of the swizzle's period move out of the swizzle.
// RUN: fly-opt %s --fly-int-swizzle-simplify | FileCheck %s

gpu.module @m {
  // CHECK-LABEL: gpu.func @peel(
  // CHECK-SAME: %[[X:.*]]: i32, %[[Y:.*]]: i32, %[[P:.*]]: !llvm.ptr
  // CHECK: %[[M:.*]] = arith.muli %[[Y]]
  // CHECK: %[[A:.*]] = arith.andi %[[X]]
  // CHECK: %[[S:.*]] = arith.shrui %[[A]]
  // CHECK: %[[R:.*]] = arith.xori %[[X]], %[[S]]
  // CHECK: %[[R1:.*]] = arith.addi %[[R]], %[[M]]
  // CHECK: %[[R2:.*]] = arith.addi %[[R1]], %c96_i32
  // CHECK: llvm.store %[[R2]]
  // CODEGEN gfx942,gfx950,gfx1201,gfx1250: s_xor_b32
  gpu.func @peel(%x: i32, %y: i32, %p: !llvm.ptr) kernel {
    %c128 = arith.constant 128 : i32
    %c96 = arith.constant 96 : i32
    %c24 = arith.constant 24 : i32
    %c2 = arith.constant 2 : i32
    %m = arith.muli %y, %c128 : i32
    %t = arith.addi %x, %m : i32
    %u = arith.addi %t, %c96 : i32
    %a = arith.andi %u, %c24 : i32
    %s = arith.shrui %a, %c2 : i32
    %r = arith.xori %u, %s : i32
    llvm.store %r, %p : i32, !llvm.ptr
    gpu.return
  }

  // CHECK-LABEL: gpu.func @keep(
  // CHECK: arith.xori %[[U:.*]], %
  // CODEGEN gfx942,gfx950,gfx1201,gfx1250: s_xor_b32
  gpu.func @keep(%x: i32, %y: i32, %p: !llvm.ptr) kernel {
    %c24 = arith.constant 24 : i32
    %c2 = arith.constant 2 : i32
    %u = arith.addi %x, %y : i32
    %a = arith.andi %u, %c24 : i32
    %s = arith.shrui %a, %c2 : i32
    %r = arith.xori %u, %s : i32
    llvm.store %r, %p : i32, !llvm.ptr
    gpu.return
  }

  // Lanes of a vector are no addresses.
  // CHECK-LABEL: gpu.func @lanes(
  // CHECK: %[[U:.*]] = arith.addi
  // CHECK: arith.xori %[[U]], %{{.*}} : vector<4xi32>
  // CODEGEN none: the value is not used
  gpu.func @lanes(%x: vector<4xi32>) {
    %c96 = arith.constant dense<96> : vector<4xi32>
    %c24 = arith.constant dense<24> : vector<4xi32>
    %c2 = arith.constant dense<2> : vector<4xi32>
    %u = arith.addi %x, %c96 : vector<4xi32>
    %a = arith.andi %u, %c24 : vector<4xi32>
    %s = arith.shrui %a, %c2 : vector<4xi32>
    %r = arith.xori %u, %s : vector<4xi32>
    vector.print %r : vector<4xi32>
    gpu.return
  }
}
