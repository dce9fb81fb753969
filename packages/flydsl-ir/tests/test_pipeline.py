"""The pass pipeline, from fly IR built in Python to a code object."""

import pytest
from flydsl._mlir import ir, passmanager
from flydsl._mlir.dialects import fly, func, gpu

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
        thread = arith_index_to_i32(gpu.thread_id(gpu.Dimension.x))
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


def arith_index_to_i32(value):
    from flydsl._mlir.dialects import arith

    return arith.index_cast(ir.IntegerType.get_signless(32), value)


def test_kernel_round_trips(ctx):
    module = build_copy_kernel()
    assert module.operation.verify()
    text = str(module)
    assert str(ir.Module.parse(text)) == text


@pytest.mark.parametrize("arch", ARCHES)
def test_kernel_compiles(ctx, arch):
    from flydsl.ir import compile_hsaco

    module = build_copy_kernel()
    passmanager.PassManager.parse(pipeline(arch)).run(module.operation)
    assert "fly." not in str(module)
    assert compile_hsaco(module, arch)[:4] == b"\x7fELF"


def test_kernel_uses_wide_accesses(ctx):
    from flydsl.ir import compile_hsaco, disassemble

    module = build_copy_kernel()
    passmanager.PassManager.parse(pipeline("gfx942")).run(module.operation)
    text = disassemble(compile_hsaco(module, "gfx942"))
    assert "global_load_dwordx4" in text and "global_store_dwordx4" in text


def test_failing_pass_is_an_exception(module):
    # Nothing lowers a copy to an address space that does not exist on the target.
    space = ir.Attribute.parse("3 : i32")
    pointer = fly.PointerType.get(ir.F32Type.get(), space)

    @func.FuncOp.from_py_func(pointer)
    def f(p):
        fly.ptr_load(ir.F32Type.get(), p)

    with pytest.raises(ir.MLIRError):
        passmanager.PassManager.parse("builtin.module(convert-fly-to-rocdl)").run(module.operation)
