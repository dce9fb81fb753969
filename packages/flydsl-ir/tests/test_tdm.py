"""Copies by the tensor data mover: types in Python, and the instruction at the end of the pipeline."""

import pytest

from flydsl._mlir import ir, passmanager
from flydsl._mlir.dialects import fly, fly_rocdl
from flydsl.ir import emit_isa

PIPELINE = (
    "builtin.module(fly-rewrite-func-signature,fly-canonicalize,fly-rocdl-expand-ops,fly-layout-lowering,"
    "fly-int-swizzle-simplify,canonicalize,fly-convert-atom-call-to-ssa-form,fly-promote-regmem-to-vectorssa,"
    "convert-fly-to-rocdl,canonicalize,gpu.module(convert-scf-to-cf,cse,fly-expand-math,"
    "convert-gpu-to-rocdl{chipset=gfx1250 index-bitwidth=0 runtime=HIP use-bare-ptr-memref-call-conv=true}),"
    "gpu.module(convert-vector-to-llvm,convert-arith-to-llvm,reconcile-unrealized-casts))"
)


def test_type_and_text(ctx):
    half = ir.F16Type.get()
    axes = (fly._Basis(1, [0]), fly._Basis(1, [1]))
    load = fly_rocdl.CopyOpCDNA5TensorLoadType.get([32, 64], half, axes, pad_interval=64, pad_amount=8)
    text = (
        "!fly_rocdl.cdna5.tensor_load<shape = [32, 64], elem = f16, tensor2tdm = (1E0,1E1), "
        "padInterval = 64, padAmount = 8>"
    )
    assert str(load) == text and ir.Type.parse(text) == load
    store = fly_rocdl.CopyOpCDNA5TensorStoreType.get([32, 64], half, axes, True, 2, 4)
    assert str(store) == (
        "!fly_rocdl.cdna5.tensor_store<shape = [32, 64], elem = f16, tensor2tdm = (1E0,1E1), "
        "atomicBarrier = true, cacheModifier = 2, iterCount = 4>"
    )
    # One call moves the tile, four times for four iterations.
    assert str(fly.CopyAtomType.get(store, 16).tv_layout_src) == "!fly.layout<(1,8192):(1,1)>"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], "half", 0), "shape must have 1 to 5 axes"),
        (([0, 4], "half", "axes"), "extents of shape must be in 1..65535"),
        (([4, 4], "half", (1, 2)), "tensor2tdm must consist of static basis leaves of the axes E0..E1"),
        (([4, 4], "half", "axes", False, 0, 1, 48, 8), "padInterval must be a power of two"),
        (([4, 4], "half", "axes", False, 0, 1, 0, 8), "must both be zero or both non-zero"),
        (([4, 4, 4], "half", "axes", False, 0, 2), "iterCount needs a shape of at most 2 axes"),
    ],
)
def test_rules(ctx, arguments, message):
    named = {"half": ir.F16Type.get(), "axes": (fly._Basis(1, [0]), fly._Basis(1, [1]))}
    arguments = [named.get(a, a) if isinstance(a, str) else a for a in arguments]
    with pytest.raises(ValueError, match=message):
        fly_rocdl.CopyOpCDNA5TensorLoadType.get(*arguments)


def test_partition_among_warps(ctx):
    axes = (fly._Basis(1, [0]), fly._Basis(1, [1]))
    load = fly_rocdl.CopyOpCDNA5TensorLoadType.get([32, 64], ir.F16Type.get(), axes)
    atom = fly.CopyAtomType.get(load, 16)
    tile = fly.MemRefType.get(ir.F16Type.get(), fly.LayoutType.get((128, 64), (64, 1)), fly.AddressSpace.Shared)
    layout = fly_rocdl.tdm_partition_layout(atom, tile, tile, 4)
    # A warp takes 32 rows, which are 64 elements along mode 1 (stride 128 in the tile) by 32 along mode 0.
    assert str(layout) == "!fly.layout<(((64,32),1),4):(((128,1),0),32)>"
    with pytest.raises(ValueError, match="which 3 warps copy"):
        fly_rocdl.tdm_partition_layout(atom, tile, tile, 3)
    with pytest.raises(ValueError, match="expected a copy atom and a memref"):
        fly_rocdl.tdm_partition_layout(tile, tile, tile, 4)


def compile_kernel(body: str) -> str:
    with ir.Context():
        module = ir.Module.parse(f"module attributes {{gpu.container_module}} {{ gpu.module @m {{ {body} }} }}")
        passmanager.PassManager.parse(PIPELINE).run(module.operation)
        return emit_isa(module, "gfx1250")


def test_legacy_copy_is_one_instruction():
    isa = compile_kernel("""
      gpu.func @k(%g: !fly.memref<f32, global, (8,32):(128,1)>, %l: !fly.memref<f32, shared, (8,32):(36,1)>) kernel {
        %a = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 4, pad = 32, 4, cache = 0, barrier = false, timeout = false>, 32>
        fly.copy(%a, %g, %l) : (!fly.copy_atom<!fly_rocdl.gfx1250.tdm<rank = 2, warps = 4, pad = 32, 4, cache = 0, barrier = false, timeout = false>, 32>, !fly.memref<f32, global, (8,32):(128,1)>, !fly.memref<f32, shared, (8,32):(36,1)>) -> ()
        gpu.return
      }""")  # noqa: E501
    assert isa.count("tensor_load_to_lds") == 1


def test_tiled_copy_is_one_instruction():
    isa = compile_kernel("""
      gpu.func @k(%t: !fly.memref<f16, global, (?,?):(?{i64},1)>, %s: !fly.memref<f16, shared, (16,64):(64,1)>) kernel {
        %l = fly.static : !fly.layout<(16,64):(64,1)>
        %ti = fly.static : !fly.tile<[16|64]>
        %atom, %coord = fly_rocdl.make_tiled_tdm_store_atom %t, %l, %ti : !fly.memref<f16, global, (?,?):(?{i64},1)>, !fly.layout<(16,64):(64,1)>, !fly.tile<[16|64]>
        %tiles = fly.zipped_divide(%coord, %ti) : (!fly.coord_tensor<(0,0), (?,?):(1E0,1E1)>, !fly.tile<[16|64]>) -> !fly.coord_tensor<(0,0), ((16,64),(?,?)):((1E0,1E1),(16E0,64E1))>
        %where = fly.make_int_tuple() : () -> !fly.int_tuple<(*,(1,2))>
        %tile = fly.slice(%tiles, %where) : (!fly.coord_tensor<(0,0), ((16,64),(?,?)):((1E0,1E1),(16E0,64E1))>, !fly.int_tuple<(*,(1,2))>) -> !fly.coord_tensor<(16,128), (16,64):(1E0,1E1)>
        fly.copy(%atom, %s, %tile) : (!fly.copy_atom<!fly_rocdl.cdna5.tensor_store<shape = [16, 64], elem = f16, tensor2tdm = (1E0,1E1)>, 16>, !fly.memref<f16, shared, (16,64):(64,1)>, !fly.coord_tensor<(16,128), (16,64):(1E0,1E1)>) -> ()
        gpu.return
      }""")  # noqa: E501
    assert isa.count("tensor_store_from_lds") == 1
