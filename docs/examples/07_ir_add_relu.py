"""Fused add + ReLU written at the level of the IR: build a module with the bindings, print it, verify it, lower it.

Nothing is traced here: the operations that the front end would emit are built one by one with `flydsl._mlir`, in the
`fly` dialect, where the layout of a tensor is part of its type. The module is then lowered by the passes that every
kernel goes through, turned into a code object, and launched through the HIP C API, which on a machine without an
AMD GPU is the simulator's.

    python docs/examples/07_ir_add_relu.py            # prints the module
    python docs/examples/07_ir_add_relu.py --quiet
"""

from __future__ import annotations

import argparse

import _common as common
import _hip as hip
import numpy as np

import flydsl.compiler as flyc
import flydsl.ir
from flydsl._mlir import ir, passmanager
from flydsl._mlir.dialects import arith, fly, gpu
from flydsl.runtime.device import get_rocm_arch

KERNEL = "fused_add_relu"
THREADS, BLOCKS, VECTOR = 256, 6, 4  # 128 bits of float32 for a thread


def tensor_type() -> ir.Type:
    """float32 in global memory, indexed (value, thread, workgroup), aligned for 128-bit accesses."""
    layout = fly.LayoutType.get((VECTOR, THREADS, BLOCKS), (1, VECTOR, VECTOR * THREADS))
    return fly.MemRefType.get(ir.F32Type.get(), layout, fly.AddressSpace.Global, 16)


def coordinate(*leaves) -> ir.Value:
    """An integer tuple: integers are part of its type, None is a hole (a mode to keep), values are run-time leaves."""
    int_tuple_type, dynamic = fly.infer_int_tuple_type(leaves)
    return fly.make_int_tuple(int_tuple_type, dynamic)


def build_module() -> ir.Module:
    """C = max(A + B, 0): one `gpu.module` with one kernel."""
    i32, f32 = ir.IntegerType.get_signless(32), ir.F32Type.get()
    module = ir.Module.create()
    module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
    with ir.InsertionPoint(module.body):
        kernels = gpu.GPUModuleOp("kernels")
    arguments = [tensor_type()] * 3
    with ir.InsertionPoint(kernels.bodyRegion.blocks.append()):
        function = gpu.GPUFuncOp(ir.TypeAttr.get(ir.FunctionType.get(arguments, [])), sym_name=KERNEL, kernel=True)
        function.attributes["known_block_size"] = ir.DenseI32ArrayAttr.get([THREADS, 1, 1])

    with ir.InsertionPoint(function.body.blocks.append(*arguments)):
        a, b, c = function.body.blocks[0].arguments
        thread = arith.index_cast(i32, gpu.thread_id(gpu.Dimension.x))
        block = arith.index_cast(i32, gpu.block_id(gpu.Dimension.x))
        mine = coordinate(None, thread, block)

        atom_type = fly.CopyAtomType.get(fly.CopyOpUniversalCopyType.get(32 * VECTOR), 32)
        atom = fly.make_copy_atom(atom_type, 32)
        register_layout = fly.make_layout(coordinate(VECTOR), coordinate(1))
        register_type = fly.MemRefType.get(f32, register_layout.type)
        loaded = []
        for source in (a, b):
            registers = fly.memref_alloca(register_type, register_layout)
            fly.copy_atom_call(atom, fly.slice(source, mine), registers)
            loaded.append(fly.memref_load_vec(registers))

        vector = loaded[0].type
        zero = arith.constant(vector, ir.DenseElementsAttr.get_splat(vector, ir.FloatAttr.get(f32, 0.0)))
        result = arith.maximumf(arith.addf(*loaded), zero)  # maximumf keeps NaN, as max(x, 0) of a framework does

        registers = fly.memref_alloca(register_type, register_layout)
        fly.memref_store_vec(result, registers)
        fly.copy_atom_call(atom, registers, fly.slice(c, mine))
        gpu.return_([])
    return module


def rejection(text: str) -> str:
    """What the parser and the verifier have against the text of a module; empty if it is correct."""
    try:
        ir.Module.parse(text)
    except ir.MLIRError as error:
        return error.error_diagnostics[0].message
    return ""


def compile_module(module: ir.Module, arch: str) -> bytes:
    """Lower a module in place through the passes of the target's backend, and generate its code object."""
    fragments = flyc.get_backend(arch=arch).pipeline_fragments(compile_hints={})
    passmanager.PassManager.parse(f"builtin.module({','.join(fragments)})").run(module.operation)
    return flydsl.ir.compile_hsaco(module, arch)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quiet", action="store_true", help="do not print the module")
    quiet = parser.parse_args().quiet
    with ir.Context(), ir.Location.unknown():
        module = build_module()
        if not quiet:
            print(module)
        common.expect("the module verifies:", module.operation.verify())
        text = str(module)
        common.expect("its text parses to the same module:", str(ir.Module.parse(text)) == text)

        # Layouts are types: a slice of one thread's vector has the layout 4:1, and no other will do.
        wrong = rejection(text.replace("global, 4:1,", "global, 4:2,"))
        print(f"with another layout: {wrong}")
        common.expect("a wrong module is rejected:", "4:1" in wrong)

        arch = get_rocm_arch()
        code_object = compile_module(module, arch)

    a, b = (common.random_f32((BLOCKS * THREADS * VECTOR,), seed) for seed in (1, 2))
    c = common.poisoned_like(a)
    hip.Module(code_object).launch(KERNEL, BLOCKS, THREADS, a, b, c)
    print(f"{len(code_object)} bytes of code object on {common.describe_device()}")
    common.check("add + ReLU", c, np.maximum(common.to_host(a) + common.to_host(b), 0))


if __name__ == "__main__":
    main()
