// One small program before and after each pass, in full.
// RUN: fly-opt %s --fly-rewrite-func-signature | FileCheck %s --check-prefix=SIGNATURE
// RUN: fly-opt %s --fly-canonicalize | FileCheck %s --check-prefix=CANONICALIZE
// RUN: fly-opt %s --fly-convert-atom-call-to-ssa-form | FileCheck %s --check-prefix=CALLS
// RUN: fly-opt %s --fly-promote-regmem-to-vectorssa | FileCheck %s --check-prefix=REGISTERS

// SIGNATURE-LABEL: func.func @acc(
// SIGNATURE-SAME: %[[N:.*]]: !llvm.struct<packed (i32)>, {{.*}}) -> !llvm.struct<packed (i32)>
// SIGNATURE-NEXT: %[[ONE:.*]] = fly.make_int_tuple() : () -> !fly.int_tuple<(2,0)>
// SIGNATURE-NEXT: %[[R:.*]] = scf.for {{.*}} iter_args(%[[S:.*]] = %[[N]]) -> (!llvm.struct<packed (i32)>) {
// SIGNATURE-NEXT: %[[X:.*]] = llvm.extractvalue %[[S]][0] : !llvm.struct<packed (i32)>
// SIGNATURE-NEXT: %[[A:.*]] = fly.make_int_tuple(%[[X]]) : (i32) -> !fly.int_tuple<(?,5)>
// SIGNATURE-NEXT: %[[B:.*]] = fly.int_tuple_add(%[[A]], %[[ONE]])
// SIGNATURE-NEXT: %[[U:.*]] = llvm.mlir.undef : !llvm.struct<packed (i32)>
// SIGNATURE-NEXT: %[[M:.*]] = fly.get(%[[B]]) {mode = array<i32: 0>} : (!fly.int_tuple<(?,5)>) -> !fly.int_tuple<?>
// SIGNATURE-NEXT: %[[V:.*]] = fly.get_scalar(%[[M]]) : (!fly.int_tuple<?>) -> i32
// SIGNATURE-NEXT: %[[W:.*]] = llvm.insertvalue %[[V]], %[[U]][0] : !llvm.struct<packed (i32)>
// SIGNATURE-NEXT: scf.yield %[[W]] : !llvm.struct<packed (i32)>
// SIGNATURE-NEXT: }
// SIGNATURE-NEXT: return %[[R]] : !llvm.struct<packed (i32)>
func.func @acc(%n: !fly.int_tuple<(?,5)>, %lo: index, %hi: index, %st: index) -> !fly.int_tuple<(?,5)> {
  %one = fly.make_int_tuple() : () -> !fly.int_tuple<(2,0)>
  %r = scf.for %i = %lo to %hi step %st iter_args(%a = %n) -> (!fly.int_tuple<(?,5)>) {
    %b = fly.int_tuple_add(%a, %one) : (!fly.int_tuple<(?,5)>, !fly.int_tuple<(2,0)>) -> !fly.int_tuple<(?,5)>
    scf.yield %b : !fly.int_tuple<(?,5)>
  }
  return %r : !fly.int_tuple<(?,5)>
}

// CANONICALIZE-LABEL: func.func @divide()
// CANONICALIZE-NEXT: %[[S:.*]] = fly.make_int_tuple() : () -> !fly.int_tuple<((3,5),(1,2))>
// CANONICALIZE-NEXT: %[[R:.*]] = fly.make_int_tuple() : () -> !fly.int_tuple<((10,1),(0,5))>
// CANONICALIZE-NEXT: %[[D:.*]] = fly.make_layout(%[[S]], %[[R]]) : (!fly.int_tuple<((3,5),(1,2))>, !fly.int_tuple<((10,1),(0,5))>) -> !fly.layout<((3,5),(1,2)):((10,1),(0,5))>
// CANONICALIZE-NEXT: return %[[D]]
func.func @divide() -> !fly.layout<((3,5),(1,2)):((10,1),(0,5))> {
  %l = fly.static : !fly.layout<(3,10):(10,1)>
  %t = fly.static : !fly.tile<[3|5]>
  %d = fly.zipped_divide(%l, %t) : (!fly.layout<(3,10):(10,1)>, !fly.tile<[3|5]>) -> !fly.layout<((3,5),(1,2)):((10,1),(0,5))>
  return %d : !fly.layout<((3,5),(1,2)):((10,1),(0,5))>
}

!CA = !fly.copy_atom<!fly.universal_copy<64>, 32>
!L = !fly.layout<2:1>

// CALLS-LABEL: func.func @copy(
// CALLS-SAME: %[[G:.*]]: !fly.ptr<f32, global, align<8>>, %[[RP:.*]]: !fly.ptr<f32, register>)
// CALLS: %[[VG:.*]] = fly.make_view(%[[G]]
// CALLS: %[[V:.*]] = fly.copy_atom_call_ssa(%{{.*}}, %[[VG]]) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : ({{.*}}, !fly.memref<f32, global, 2:1, align<8>>) -> vector<2xf32>
// CALLS-NEXT: fly.ptr.store(%[[V]], %[[RP]]) : (vector<2xf32>, !fly.ptr<f32, register>) -> ()
func.func @copy(%g: !fly.ptr<f32, global, align<8>>, %rp: !fly.ptr<f32, register>) {
  %l = fly.static : !L
  %ca = fly.make_copy_atom {valBits = 32 : i32} : !CA
  %vg = fly.make_view(%g, %l) : (!fly.ptr<f32, global, align<8>>, !L) -> !fly.memref<f32, global, 2:1, align<8>>
  %vr = fly.make_view(%rp, %l) : (!fly.ptr<f32, register>, !L) -> !fly.memref<f32, register, 2:1>
  fly.copy_atom_call(%ca, %vg, %vr) : (!CA, !fly.memref<f32, global, 2:1, align<8>>, !fly.memref<f32, register, 2:1>) -> ()
  return
}

gpu.module @m {
  // REGISTERS-LABEL: gpu.func @promote(
  // REGISTERS-SAME: %[[X:.*]]: f32, %[[LB:.*]]: index, %[[UB:.*]]: index, %[[ST:.*]]: index, %[[C:.*]]: i1, %[[OUT:.*]]: !fly.ptr<f32, global>) kernel
  // REGISTERS-NEXT: %[[P:.*]] = ub.poison : vector<4xf32>
  // REGISTERS-NEXT: %[[I:.*]] = vector.insert %[[X]], %[[P]] [3] : f32 into vector<4xf32>
  // REGISTERS-NEXT: %[[F:.*]] = scf.for {{.*}} = %[[LB]] to %[[UB]] step %[[ST]] iter_args(%[[S:.*]] = %[[I]]) -> (vector<4xf32>) {
  // REGISTERS-NEXT: %[[V:.*]] = vector.extract %[[S]][3] : f32 from vector<4xf32>
  // REGISTERS-NEXT: %[[W:.*]] = arith.addf %[[V]], %[[X]] : f32
  // REGISTERS-NEXT: %[[Q:.*]] = scf.if %[[C]] -> (vector<4xf32>) {
  // REGISTERS-NEXT: %[[N:.*]] = vector.insert %[[W]], %[[S]] [3] : f32 into vector<4xf32>
  // REGISTERS-NEXT: scf.yield %[[N]] : vector<4xf32>
  // REGISTERS-NEXT: } else {
  // REGISTERS-NEXT: scf.yield %[[S]] : vector<4xf32>
  // REGISTERS-NEXT: }
  // REGISTERS-NEXT: scf.yield %[[Q]] : vector<4xf32>
  // REGISTERS-NEXT: }
  // REGISTERS-NEXT: %[[L:.*]] = vector.extract %[[F]][3] : f32 from vector<4xf32>
  // REGISTERS-NEXT: fly.ptr.store(%[[L]], %[[OUT]])
  // CODEGEN gfx942,gfx950,gfx1201,gfx1250: s_endpgm
  gpu.func @promote(%x: f32, %lb: index, %ub: index, %st: index, %c: i1, %out: !fly.ptr<f32, global>) kernel {
    %r = fly.make_ptr() {dictAttrs = {allocSize = 4 : i64}} : () -> !fly.ptr<f32, register>
    %o3 = fly.make_int_tuple() : () -> !fly.int_tuple<3>
    %p3 = fly.add_offset(%r, %o3) : (!fly.ptr<f32, register>, !fly.int_tuple<3>) -> !fly.ptr<f32, register>
    fly.ptr.store(%x, %p3) : (f32, !fly.ptr<f32, register>) -> ()
    scf.for %i = %lb to %ub step %st {
      %v = fly.ptr.load(%p3) : (!fly.ptr<f32, register>) -> f32
      %w = arith.addf %v, %x : f32
      scf.if %c {
        fly.ptr.store(%w, %p3) : (f32, !fly.ptr<f32, register>) -> ()
      }
    }
    %last = fly.ptr.load(%p3) : (!fly.ptr<f32, register>) -> f32
    fly.ptr.store(%last, %out) : (f32, !fly.ptr<f32, global>) -> ()
    gpu.return
  }
}
