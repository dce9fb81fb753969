// RUN: fly-opt %s --fly-expand-math -verify-diagnostics
gpu.module @m {
  gpu.func @f(%x: f64, %o: !llvm.ptr<1>) kernel {
    // expected-error@+1 {{on f64 has no expansion for this target}}
    %0 = math.tanh %x : f64
    llvm.store %0, %o : f64, !llvm.ptr<1>
    gpu.return
  }
}
