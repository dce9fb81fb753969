"""Booleans in memory take a byte each: loads, stores, copies through registers, LDS and buffers, on the device."""

import ctypes
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from flydsl import ir as flyir
from flydsl._mlir import ir, passmanager

runtime = pytest.importorskip("flydsl.runtime", reason="needs flydsl-runtime for a device")

_spec = importlib.util.spec_from_file_location(
    "math_accuracy", Path(__file__).resolve().parents[1] / "tools" / "math_accuracy.py"
)
math_accuracy = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(math_accuracy)

PIPELINE = (
    "builtin.module(fly-rewrite-func-signature,fly-canonicalize,fly-layout-lowering,fly-convert-atom-call-to-ssa-form,"
    "{promote}convert-fly-to-rocdl,canonicalize,gpu.module(convert-scf-to-cf,cse,convert-gpu-to-rocdl{{chipset={arch} "
    "index-bitwidth=0 runtime=HIP use-bare-ptr-memref-call-conv=true}}),convert-cf-to-llvm,convert-vector-to-llvm,"
    "convert-arith-to-llvm,reconcile-unrealized-casts)"
)
HEADER = """
!p = !fly.ptr<i1, global>
!g = !fly.memref<i1, global, 8:1>
!s = !fly.memref<i1, shared, 8:1>
!r = !fly.memref<i1, register, 8:1>
!q = !fly.ptr<i1, #fly_rocdl.buffer_desc>
!d = !fly.memref<i1, #fly_rocdl.buffer_desc, 8:1>
!lds = !fly.ptr<i1, shared, align<16>>
!bytes = !fly.ptr<i8, shared, align<16>>
!copy = !fly.copy_atom<!fly.universal_copy<8>, 1>
!move = !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<8>, 1>
!i = !fly.int_tuple<?{div=8}>
!l = !fly.layout<8:1>
gpu.module @m { gpu.func @k(%a: !p, %b: !p, %c: !p) kernel {
  %thread = gpu.thread_id x
  %t = arith.index_cast %thread : index to i32
  %eight = arith.constant 8 : i32
  %first = arith.muli %t, %eight : i32
  %one = fly.make_int_tuple(%t) : (i32) -> !fly.int_tuple<?>
  %oct = fly.make_int_tuple(%first) : (i32) -> !i
"""
FOOTER = "gpu.return } }"

SCALAR = """
  %pa = fly.add_offset(%a, %one) : (!p, !fly.int_tuple<?>) -> !p
  %pb = fly.add_offset(%b, %one) : (!p, !fly.int_tuple<?>) -> !p
  %pc = fly.add_offset(%c, %one) : (!p, !fly.int_tuple<?>) -> !p
  %x = fly.ptr.load(%pa) : (!p) -> i1
  %y = fly.ptr.load(%pb) : (!p) -> i1
  %z = arith.xori %x, %y : i1
  fly.ptr.store(%z, %pc) : (i1, !p) -> ()
"""
VECTOR = """
  %pa = fly.add_offset(%a, %oct) : (!p, !i) -> !p
  %pb = fly.add_offset(%b, %oct) : (!p, !i) -> !p
  %pc = fly.add_offset(%c, %oct) : (!p, !i) -> !p
  %x = fly.ptr.load(%pa) : (!p) -> vector<8xi1>
  %y = fly.ptr.load(%pb) : (!p) -> vector<8xi1>
  %z = arith.xori %x, %y : vector<8xi1>
  fly.ptr.store(%z, %pc) : (vector<8xi1>, !p) -> ()
"""
# a into registers (one of them changed), from there through LDS to c; b is not used.
COPY = """
  %l = fly.static : !l
  %pa = fly.add_offset(%a, %oct) : (!p, !i) -> !p
  %pc = fly.add_offset(%c, %oct) : (!p, !i) -> !p
  %va = fly.make_view(%pa, %l) : (!p, !l) -> !g
  %vc = fly.make_view(%pc, %l) : (!p, !l) -> !g
  %bytes = fly.make_ptr() {dictAttrs = {allocBytes = 512, allocAlign = 16}} : () -> !bytes
  %lds = fly.recast_iter(%bytes) : (!bytes) -> !lds
  %ps = fly.add_offset(%lds, %oct) : (!lds, !i) -> !fly.ptr<i1, shared>
  %vs = fly.make_view(%ps, %l) : (!fly.ptr<i1, shared>, !l) -> !s
  %r = fly.memref.alloca(%l) : (!l) -> !r
  %atom = fly.make_copy_atom {valBits = 1 : i32} : !copy
  fly.copy_atom_call(%atom, %va, %r) : (!copy, !g, !r) -> ()
  %true = arith.constant true
  %five = fly.make_int_tuple() : () -> !fly.int_tuple<5>
  fly.memref.store(%true, %r, %five) : (i1, !r, !fly.int_tuple<5>) -> ()
  fly.copy_atom_call(%atom, %r, %vs) : (!copy, !r, !s) -> ()
  fly.copy_atom_call(%atom, %vs, %vc) : (!copy, !s, !g) -> ()
"""
# The same through buffers, with an offset in elements.
BUFFER = """
  %zero = arith.constant 0 : i16
  %size = arith.constant 512 : i64
  %flags = arith.constant FLAGS : i32
  %l = fly.static : !l
  %ba = fly.make_ptr(%a, %zero, %size, %flags) : (!p, i16, i64, i32) -> !q
  %bc = fly.make_ptr(%c, %zero, %size, %flags) : (!p, i16, i64, i32) -> !q
  %pa = fly.add_offset(%ba, %oct) : (!q, !i) -> !q
  %pc = fly.add_offset(%bc, %oct) : (!q, !i) -> !q
  %va = fly.make_view(%pa, %l) : (!q, !l) -> !d
  %vc = fly.make_view(%pc, %l) : (!q, !l) -> !d
  %r = fly.memref.alloca(%l) : (!l) -> !r
  %atom = fly.make_copy_atom {valBits = 1 : i32} : !move
  fly.copy_atom_call(%atom, %va, %r) : (!move, !d, !r) -> ()
  %true = arith.constant true
  %five = fly.make_int_tuple() : () -> !fly.int_tuple<5>
  fly.memref.store(%true, %r, %five) : (i1, !r, !fly.int_tuple<5>) -> ()
  fly.copy_atom_call(%atom, %r, %vc) : (!move, !r, !d) -> ()
"""


def flags(arch: str) -> int:
    """Last word of a buffer descriptor."""
    return 159744 if arch.startswith("gfx9") or arch == "gfx1250" else 553807872


def run(body: str, promote: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """512 booleans a and b, and c as 64 threads leave it (2 where nothing was stored)."""
    arch = runtime.device_info().arch
    with ir.Context():
        module = ir.Module.parse(HEADER + body.replace("FLAGS", str(flags(arch))) + FOOTER)
        step = "fly-promote-regmem-to-vectorssa," if promote else ""
        passmanager.PassManager.parse(PIPELINE.format(arch=arch, promote=step)).run(module.operation)
        hsaco = flyir.compile_hsaco(module, arch)
    rng = np.random.default_rng(5)
    a, b = (rng.integers(0, 2, 512).astype(np.uint8) for _ in range(2))
    c = np.full(512, 2, np.uint8)
    math_accuracy.launch(ctypes.CDLL(str(runtime.library_path())), hsaco, [a, b, c], groups=1)
    return a, b, c


def test_single_values():
    a, b, c = run(SCALAR)
    np.testing.assert_array_equal(c[:64], a[:64] ^ b[:64])
    assert (c[64:] == 2).all()


def test_vectors():
    a, b, c = run(VECTOR)
    np.testing.assert_array_equal(c, a ^ b)


@pytest.mark.parametrize("promote", [True, False], ids=["values", "memory"])
@pytest.mark.parametrize("body", [COPY, BUFFER], ids=["universal", "buffer"])
def test_copies(body, promote):
    a, _, c = run(body, promote)
    expected = a.copy()
    expected[5::8] = 1
    np.testing.assert_array_equal(c, expected)
