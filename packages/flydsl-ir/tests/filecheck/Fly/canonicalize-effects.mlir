// A static result is rebuilt from its type; what else its operation does stays.
// RUN: fly-opt %s --fly-canonicalize | FileCheck %s
// RUN: fly-opt %s --fly-rewrite-func-signature --fly-canonicalize --fly-layout-lowering --convert-fly-to-rocdl --canonicalize | FileCheck %s --check-prefix=LOWER

func.func private @effect() -> !fly.int_tuple<3>

// CHECK-LABEL: func.func @branch(
// CHECK: scf.if
// CHECK: fly.ptr.store
// LOWER-LABEL: func.func @branch(
// LOWER: scf.if
// LOWER: llvm.store
// LOWER: return %c3_i32
func.func @branch(%c: i1, %p: !fly.ptr<f32, global>, %v: f32) -> i32 {
  %t = scf.if %c -> (!fly.int_tuple<3>) {
    fly.ptr.store(%v, %p) : (f32, !fly.ptr<f32, global>) -> ()
    %k = fly.make_int_tuple() : () -> !fly.int_tuple<3>
    scf.yield %k : !fly.int_tuple<3>
  } else {
    %k = fly.make_int_tuple() : () -> !fly.int_tuple<3>
    scf.yield %k : !fly.int_tuple<3>
  }
  %s = fly.get_scalar(%t) : (!fly.int_tuple<3>) -> i32
  return %s : i32
}

// CHECK-LABEL: func.func @region(
// CHECK: fly.ptr.store
// LOWER-LABEL: func.func @region(
// LOWER: llvm.store
func.func @region(%p: !fly.ptr<f32, global>, %v: f32) -> i32 {
  %t = scf.execute_region -> !fly.int_tuple<3> {
    fly.ptr.store(%v, %p) : (f32, !fly.ptr<f32, global>) -> ()
    %k = fly.make_int_tuple() : () -> !fly.int_tuple<3>
    scf.yield %k : !fly.int_tuple<3>
  }
  %s = fly.get_scalar(%t) : (!fly.int_tuple<3>) -> i32
  return %s : i32
}

// CHECK-LABEL: func.func @call(
// CHECK: call @effect()
func.func @call() -> i32 {
  %t = func.call @effect() : () -> !fly.int_tuple<3>
  %s = fly.get_scalar(%t) : (!fly.int_tuple<3>) -> i32
  return %s : i32
}

// A branch without effects goes with its result.
// CHECK-LABEL: func.func @pure(
// CHECK-NOT: scf.if
// CHECK: return
func.func @pure(%c: i1) -> i32 {
  %t = scf.if %c -> (!fly.int_tuple<3>) {
    %k = fly.make_int_tuple() : () -> !fly.int_tuple<3>
    scf.yield %k : !fly.int_tuple<3>
  } else {
    %k = fly.make_int_tuple() : () -> !fly.int_tuple<3>
    scf.yield %k : !fly.int_tuple<3>
  }
  %s = fly.get_scalar(%t) : (!fly.int_tuple<3>) -> i32
  return %s : i32
}
