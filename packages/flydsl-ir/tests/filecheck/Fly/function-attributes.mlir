// Attributes of arguments follow them, and attributions stay, through all passes that change a signature.
// RUN: fly-opt %s --fly-rewrite-func-signature | FileCheck %s --check-prefix=REWRITE
// RUN: fly-opt %s --fly-rewrite-func-signature --fly-canonicalize --fly-layout-lowering \
// RUN:   --fly-convert-atom-call-to-ssa-form --fly-promote-regmem-to-vectorssa --convert-fly-to-rocdl \
// RUN:   --canonicalize | FileCheck %s --check-prefix=LOWER

gpu.module @m {
  // The layout is static, so it has no carrier; the pointer of the tensor takes its attribute.
  // REWRITE: gpu.func @k(%{{.*}}: !llvm.struct<packed (i32)>, %{{.*}}: !fly.ptr<f32, global> {llvm.noalias}, %{{.*}}: !llvm.struct<packed (struct<packed (i32)>)>, %{{.*}}: i32 {llvm.range = #llvm.constant_range<i32, 0, 64>})
  // REWRITE-SAME: workgroup(%[[W:.*]] : memref<16xf32, #gpu.address_space<workgroup>>)
  // REWRITE-SAME: private(%[[P:.*]] : memref<4xf32, #gpu.address_space<private>>)
  // REWRITE-SAME: kernel attributes {known_block_size = array<i32: 64, 1, 1>, rocdl.waves_per_eu = 2 : i32}
  // REWRITE: memref.store %{{.*}}, %[[W]]
  // REWRITE: memref.store %{{.*}}, %[[P]]
  // LOWER: gpu.func @k(%{{.*}}: !llvm.struct<packed (i32)>, %{{.*}}: !llvm.ptr<1> {llvm.noalias}, %{{.*}}: !llvm.struct<packed (struct<packed (i32)>)>, %{{.*}}: i32 {llvm.range
  // LOWER-SAME: workgroup(%[[W:.*]] : memref<16xf32
  // LOWER-SAME: private(%[[P:.*]] : memref<4xf32
  // LOWER: memref.store %{{.*}}, %[[W]]
  // LOWER: memref.store %{{.*}}, %[[P]]
  gpu.func @k(%t: !fly.int_tuple<(?,4)>, %l: !fly.layout<(4,8):(1,4)>,
              %a: !fly.memref<f32, global, (?,4):(4,1)> {llvm.noalias},
              %n: i32 {llvm.range = #llvm.constant_range<i32, 0, 64>})
      workgroup(%w: memref<16xf32, #gpu.address_space<workgroup>>)
      private(%q: memref<4xf32, #gpu.address_space<private>>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>, rocdl.waves_per_eu = 2 : i32} {
    %r = fly.make_ptr() {dictAttrs = {allocSize = 1 : i64}} : () -> !fly.ptr<f32, register>
    %i = fly.make_int_tuple(%n) : (i32) -> !fly.int_tuple<(?,0)>
    %v = fly.memref.load(%a, %i) : (!fly.memref<f32, global, (?,4):(4,1)>, !fly.int_tuple<(?,0)>) -> f32
    fly.ptr.store(%v, %r) : (f32, !fly.ptr<f32, register>) -> ()
    %x = fly.ptr.load(%r) : (!fly.ptr<f32, register>) -> f32
    %c0 = arith.constant 0 : index
    memref.store %x, %w[%c0] : memref<16xf32, #gpu.address_space<workgroup>>
    memref.store %x, %q[%c0] : memref<4xf32, #gpu.address_space<private>>
    gpu.return
  }
}
