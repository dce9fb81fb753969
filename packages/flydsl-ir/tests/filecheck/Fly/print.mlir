// fly.print as gpu.printf in kernels and vector.print on the host.
// RUN: fly-opt %s --fly-canonicalize --fly-layout-lowering | FileCheck %s

gpu.module @m {
  // CHECK-LABEL: gpu.func @k(
  // CHECK: gpu.printf "at (%d,%d) of (4,8):(8,1): %.2f\0A", %{{.*}}, %{{.*}}, %{{.*}} : i32, i32, f32
  // CODEGEN gfx942,gfx950,gfx1201,gfx1250: s_swap_?pc_[bi]64
  gpu.func @k(%i: i32, %f: f32) kernel {
    %t = fly.make_int_tuple(%i) : (i32) -> !fly.int_tuple<(?,4)>
    %l = fly.static : !fly.layout<(4,8):(8,1)>
    fly.print(%t, %l, %f) {format = "at {} of {}: {}"} : (!fly.int_tuple<(?,4)>, !fly.layout<(4,8):(8,1)>, f32) -> ()
    gpu.return
  }

  // CHECK-LABEL: gpu.func @vectors(
  // CHECK: gpu.printf "[%ld, %ld] [%.2lf]\0A", %{{.*}}, %{{.*}}, %{{.*}} : i64, i64, f64
  // CODEGEN gfx942,gfx950,gfx1201,gfx1250: s_swap_?pc_[bi]64
  gpu.func @vectors(%i: vector<2xi64>, %f: vector<1xf64>) kernel {
    fly.print(%i, %f) {format = "{} {}"} : (vector<2xi64>, vector<1xf64>) -> ()
    gpu.return
  }

  // CHECK-LABEL: gpu.func @unsigned(
  // CHECK: gpu.printf "%lu [%u, %u]\0A", %{{.*}}, %{{.*}}, %{{.*}} : i64, i32, i32
  // CODEGEN gfx942,gfx950,gfx1201,gfx1250: s_swap_?pc_[bi]64
  gpu.func @unsigned(%i: i64, %v: vector<2xi8>) kernel {
    %a = builtin.unrealized_conversion_cast %i : i64 to ui64
    %b = builtin.unrealized_conversion_cast %v : vector<2xi8> to vector<2xui8>
    fly.print(%a, %b) {format = "{} {}"} : (ui64, vector<2xui8>) -> ()
    gpu.return
  }
}

// CHECK-LABEL: func.func @host(
// CHECK: vector.print %{{.*}} : i32 punctuation <no_punctuation>
// CHECK: vector.print str " (1,2)"
// CHECK-NEXT: vector.print{{$}}
// CHECK: vector.print %{{.*}} : ui64
func.func @host(%i: i32, %u: i64) {
  %t = fly.make_int_tuple() : () -> !fly.int_tuple<(1,2)>
  fly.print(%i, %t) {format = ""} : (i32, !fly.int_tuple<(1,2)>) -> ()
  %a = builtin.unrealized_conversion_cast %u : i64 to ui64
  fly.print(%a) {format = ""} : (ui64) -> ()
  return
}
