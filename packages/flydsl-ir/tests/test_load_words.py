"""Buffer loads of 64 bits: a loop carries the words that they give, not an integer made of them."""

import re

from flydsl import ir as flyir

KERNEL = """
define amdgpu_kernel void @k(ptr addrspace(8) %p, ptr addrspace(1) %q, i32 %n) {
start:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %first = call i64 @llvm.amdgcn.raw.ptr.buffer.load.i64(ptr addrspace(8) %p, i32 %t, i32 0, i32 0)
  %a0 = bitcast i64 %first to TYPE
  br label %loop
loop:
  %a = phi TYPE [ %a0, %start ], [ %a1, %loop ]
  %i = phi i32 [ 0, %start ], [ %i1, %loop ]
  %i1 = add i32 %i, 1
  %at = add i32 %t, %i1
  %next = call i64 @llvm.amdgcn.raw.ptr.buffer.load.i64(ptr addrspace(8) %p, i32 %at, i32 0, i32 0)
  %a1 = bitcast i64 %next to TYPE
  %to = getelementptr TYPE, ptr addrspace(1) %q, i32 %i
  store TYPE %a, ptr addrspace(1) %to
  %more = icmp ult i32 %i1, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
declare i32 @llvm.amdgcn.workitem.id.x()
declare i64 @llvm.amdgcn.raw.ptr.buffer.load.i64(ptr addrspace(8), i32, i32, i32 immarg)
"""


def optimized(kind: str) -> str:
    return flyir.compile_to(KERNEL.replace("TYPE", kind), "gfx1201", "llvm-opt").decode()


def test_a_vector_is_loaded_as_words() -> None:
    for kind in ("<2 x i32>", "<4 x half>", "<8 x i8>"):
        text = optimized(kind)
        assert "raw.ptr.buffer.load.v2i32" in text and not re.search(r"phi i64 \[ %", text), text


def test_an_integer_stays_one() -> None:
    assert "raw.ptr.buffer.load.i64" in optimized("i64")
