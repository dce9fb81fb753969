// Boundaries carry pointers and packed structs of the dynamic leaves.
// RUN: fly-opt %s --fly-rewrite-func-signature | FileCheck %s

module attributes {gpu.container_module} {
// CHECK-LABEL: func.func @memref(
// CHECK-SAME: !fly.ptr<f32, global>, %{{.*}}: !llvm.struct<packed (struct<packed (i32, i32)>, struct<packed (i64)>)>)
func.func @memref(%m: !fly.memref<f32, global, (?,?):(?{i64},1)>) { return }

// CHECK-LABEL: func.func @composed(
// CHECK-SAME: !llvm.struct<packed (struct<packed (struct<packed (i32)>)>, struct<packed (i32)>)>)
func.func @composed(%c: !fly.composed_layout<S<2,3,3> o ? o (8,?{div=8}):(1,8)>) { return }

// CHECK-LABEL: func.func @coord_tensor(
// CHECK-SAME: !llvm.struct<packed (struct<packed (i32)>, struct<packed (struct<packed (i32)>)>)>)
func.func @coord_tensor(%c: !fly.coord_tensor<(?,0), (?,8):(1E0,1E1)>) { return }

// CHECK-LABEL: func.func @static(
// CHECK-SAME: %{{[a-z0-9]+}}: i32)
func.func @static(%a: !fly.layout<(4,8):(8,1)>, %i: i32, %b: !fly.tile<[4|8]>) { return }

// CHECK-LABEL: func.func @acc(
// CHECK: scf.for {{.*}} iter_args({{.*}}) -> (!llvm.struct<packed (i32)>)
// CHECK: llvm.extractvalue
// CHECK: fly.int_tuple_add
// CHECK: fly.get_scalar
// CHECK: llvm.insertvalue
// CHECK: scf.yield %{{.*}} : !llvm.struct<packed (i32)>
func.func @acc(%n: !fly.int_tuple<(?,5)>, %lo: index, %hi: index, %st: index) -> !fly.int_tuple<(?,5)> {
  %one = fly.make_int_tuple() : () -> !fly.int_tuple<(2,0)>
  %r = scf.for %i = %lo to %hi step %st iter_args(%a = %n) -> (!fly.int_tuple<(?,5)>) {
    %b = fly.int_tuple_add(%a, %one) : (!fly.int_tuple<(?,5)>, !fly.int_tuple<(2,0)>) -> !fly.int_tuple<(?,5)>
    scf.yield %b : !fly.int_tuple<(?,5)>
  }
  return %r : !fly.int_tuple<(?,5)>
}

gpu.module @m {
  // CHECK-LABEL: gpu.func @k(
  // CHECK-SAME: !fly.ptr<f32, global>, %{{.*}}: !llvm.struct<packed (struct<packed (i32)>)>) kernel
  // CODEGEN gfx942,gfx950,gfx1201,gfx1250: s_endpgm
  gpu.func @k(%m: !fly.memref<f32, global, (?,24):(24,1)>, %t: !fly.tile<[4]>) kernel { gpu.return }
}

// CHECK-LABEL: func.func @launch(
// CHECK: gpu.launch_func {{.*}} args(%{{.*}} : !fly.ptr<f32, global>, %{{.*}} : !llvm.struct<packed (struct<packed (i32)>)>)
func.func @launch(%m: !fly.memref<f32, global, (?,24):(24,1)>, %t: !fly.tile<[4]>) {
  %c1 = arith.constant 1 : index
  gpu.launch_func @m::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%m : !fly.memref<f32, global, (?,24):(24,1)>, %t : !fly.tile<[4]>)
  return
}
}
