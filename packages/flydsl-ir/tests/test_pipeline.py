"""The pass pipeline, from fly IR built in Python to a code object."""

import pytest

from flydsl._mlir import ir, passmanager
from flydsl._mlir.dialects import arith, fly, gpu
from flydsl.ir import compile_hsaco, disassemble

ARCHES = ["gfx942", "gfx950", "gfx1201", "gfx1250"]


def pipeline(arch):
    """The stages of the compiler up to LLVM dialect inside of the gpu.module."""
    stages = [
        "fly-rewrite-func-signature",
        "fly-canonicalize",
        "fly-layout-lowering",
        "fly-int-swizzle-simplify",
        "canonicalize",
        "fly-convert-atom-call-to-ssa-form",
        "fly-promote-regmem-to-vectorssa",
        "convert-fly-to-rocdl",
        "canonicalize",
        f"gpu.module(convert-scf-to-cf,cse,convert-gpu-to-rocdl{{chipset={arch} index-bitwidth=0 runtime=HIP "
        "use-bare-ptr-memref-call-conv=true},fly-rocdl-cluster-attr)",
    ]
    return f"builtin.module({','.join(stages)})"


def build_copy_kernel():
    """A kernel in which every thread copies four f32 through registers."""
    module = ir.Module.create()
    module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
    f32 = ir.F32Type.get()
    source = fly.MemRefType.get(f32, fly.LayoutType.get((64, 4), (4, 1)), fly.AddressSpace.Global, 16)
    with ir.InsertionPoint(module.body):
        gpu_module = gpu.GPUModuleOp("kernels")
    with ir.InsertionPoint(gpu_module.bodyRegion.blocks.append()):
        signature = ir.TypeAttr.get(ir.FunctionType.get([source, source], []))
        kernel = gpu.GPUFuncOp(signature, sym_name="copy4", kernel=True)
    with ir.InsertionPoint(kernel.body.blocks.append(source, source)):
        src, dst = kernel.body.blocks[0].arguments
        thread = arith.index_cast(ir.IntegerType.get_signless(32), gpu.thread_id(gpu.Dimension.x))
        coord_type, leaves = fly.infer_int_tuple_type((thread, None))
        # A hole is part of the type; only the thread is a run-time leaf.
        coord = fly.make_int_tuple(coord_type, leaves)
        layout = fly.make_layout(*(fly.make_int_tuple(fly.IntTupleType.get(x), []) for x in (4, 1)))
        fragment = fly.memref_alloca(fly.MemRefType.get(f32, layout.type), layout)
        atom = fly.make_copy_atom(fly.CopyAtomType.get(fly.CopyOpUniversalCopyType.get(128), 32), 32)
        fly.copy_atom_call(atom, fly.slice(src, coord), fragment)
        fly.copy_atom_call(atom, fragment, fly.slice(dst, coord))
        gpu.return_([])
    return module


def test_kernel_round_trips(ctx):
    module = build_copy_kernel()
    assert module.operation.verify()
    text = str(module)
    assert str(ir.Module.parse(text)) == text


@pytest.mark.parametrize("arch", ARCHES)
def test_kernel_compiles(ctx, arch):
    module = build_copy_kernel()
    passmanager.PassManager.parse(pipeline(arch)).run(module.operation)
    assert "fly." not in str(module)
    assert compile_hsaco(module, arch)[:4] == b"\x7fELF"


def test_kernel_uses_wide_accesses(ctx):
    module = build_copy_kernel()
    passmanager.PassManager.parse(pipeline("gfx942")).run(module.operation)
    text = disassemble(compile_hsaco(module, "gfx942"))
    assert "global_load_dwordx4" in text and "global_store_dwordx4" in text


def test_failing_pass_is_an_exception(ctx):
    # A 16-byte access does not fit into the 8 bytes that the swizzle keeps together.
    module = ir.Module.parse("""
    gpu.module @kernels {
      gpu.func @f(%p: !fly.ptr<f16, shared, align<64>, S<3,3,3>>) kernel {
        %v = fly.ptr.load(%p) : (!fly.ptr<f16, shared, align<64>, S<3,3,3>>) -> vector<8xf16>
        gpu.return
      }
    }""")
    with pytest.raises(ir.MLIRError) as error:
        passmanager.PassManager.parse("builtin.module(convert-fly-to-rocdl)").run(module.operation)
    assert error.value.error_diagnostics
