; smooth_step(x, shift) = t * t * (3 - 2 t) with t = x + shift, kept within 0 and 1. 11_extern_link.py links it.
target triple = "amdgcn-amd-amdhsa"

declare float @llvm.maxnum.f32(float, float)
declare float @llvm.minnum.f32(float, float)

define float @smooth_step(float %x, float %shift) {
  %moved = fadd float %x, %shift
  %above = call float @llvm.maxnum.f32(float %moved, float 0.0)
  %t = call float @llvm.minnum.f32(float %above, float 1.0)
  %twice = fadd float %t, %t
  %rest = fsub float 3.0, %twice
  %square = fmul float %t, %t
  %y = fmul float %square, %rest
  ret float %y
}
