// RUN: fly-opt %s --pass-pipeline='builtin.module(gpu.module(fly-rocdl-odd-bitcasts))' | FileCheck %s

// Elements that do not divide each other pass through one integer; the side of bytes or words is taken apart by shifts.

gpu.module @kernels {
  // CHECK-LABEL: llvm.func @to_six_bits
  // CHECK-SAME: (%[[X:.*]]: vector<3xi8>)
  // CHECK: %[[A:.*]] = llvm.extractelement %[[X]]
  // CHECK: %[[A0:.*]] = llvm.zext %[[A]] : i8 to i24
  // CHECK: %[[B:.*]] = llvm.extractelement %[[X]]
  // CHECK: %[[B0:.*]] = llvm.zext %[[B]] : i8 to i24
  // CHECK: %[[B1:.*]] = llvm.shl %[[B0]], %{{.*}} : i24
  // CHECK: %[[AB:.*]] = llvm.or %[[A0]], %[[B1]] : i24
  // CHECK: %[[ALL:.*]] = llvm.or %[[AB]], %{{.*}} : i24
  // CHECK: %[[R:.*]] = llvm.bitcast %[[ALL]] : i24 to vector<4xi6>
  // CHECK: llvm.return %[[R]]
  llvm.func @to_six_bits(%x: vector<3xi8>) -> vector<4xi6> {
    %r = llvm.bitcast %x : vector<3xi8> to vector<4xi6>
    llvm.return %r : vector<4xi6>
  }

  // CHECK-LABEL: llvm.func @from_six_bits
  // CHECK: %[[ALL:.*]] = llvm.bitcast %{{.*}} : vector<16xi6> to i96
  // CHECK: llvm.trunc %[[ALL]] : i96 to i32
  // CHECK: %[[S:.*]] = llvm.lshr %[[ALL]], %{{.*}} : i96
  // CHECK: llvm.trunc %[[S]] : i96 to i32
  // CHECK: %[[R:.*]] = llvm.bitcast %{{.*}} : vector<3xi32> to vector<3xf32>
  // CHECK: llvm.return %[[R]]
  llvm.func @from_six_bits(%x: vector<16xi6>) -> vector<3xf32> {
    %r = llvm.bitcast %x : vector<16xi6> to vector<3xf32>
    llvm.return %r : vector<3xf32>
  }

  // CHECK-LABEL: llvm.func @others
  // CHECK-NEXT: llvm.bitcast %{{.*}} : vector<4xi8> to vector<2xi16>
  // CHECK-NEXT: llvm.bitcast %{{.*}} : vector<2xi16> to f32
  // CHECK-NEXT: llvm.return
  llvm.func @others(%x: vector<4xi8>) -> f32 {
    %0 = llvm.bitcast %x : vector<4xi8> to vector<2xi16>
    %1 = llvm.bitcast %0 : vector<2xi16> to f32
    llvm.return %1 : f32
  }
}
