"""Every extension and every dialect module of the package imports."""

import importlib
import pkgutil
from pathlib import Path

import pytest

import flydsl._mlir._mlir_libs as libs
from flydsl._mlir import dialects, ir, passmanager

LIBS_DIR = Path(libs.__file__).parent
EXTENSIONS = sorted({file.name.split(".")[0] for file in LIBS_DIR.glob("_*.so")})
# Generated modules are imported through the public ones.
DIALECTS = sorted(name for _, name, _ in pkgutil.iter_modules(dialects.__path__) if not name.startswith("_"))


def test_our_extensions_are_present():
    assert {"_flyRegister", "_flyDialects", "_flyCodegen", "_mlir"} <= set(EXTENSIONS)


@pytest.mark.parametrize("name", EXTENSIONS)
def test_extension_imports(name):
    importlib.import_module(f"flydsl._mlir._mlir_libs.{name}")


def test_native_parts_have_the_upstream_names():
    from flydsl._mlir._mlir_libs import _mlirDialectsFly, _mlirDialectsFlyROCDL
    from flydsl._mlir.dialects import fly, fly_rocdl

    assert _mlirDialectsFly.LayoutType is fly.LayoutType
    assert _mlirDialectsFlyROCDL.MmaOpCDNA3_MFMAType is fly_rocdl.MmaOpCDNA3_MFMAType


def test_our_dialects_are_present():
    assert {"fly", "fly_rocdl", "rocdl", "llvm", "gpu", "index"} <= set(DIALECTS)


@pytest.mark.parametrize("name", DIALECTS)
def test_dialect_module_imports(name):
    importlib.import_module(f"flydsl._mlir.dialects.{name}")


@pytest.mark.parametrize("name", ["fly", "fly_rocdl", "arith", "cf", "func", "gpu", "llvm", "rocdl", "scf", "vector"])
def test_dialect_is_loaded(ctx, name):
    assert ctx.dialects[name] is not None


FLY_PASSES = [
    "fly-rewrite-func-signature",
    "fly-canonicalize",
    "fly-layout-lowering",
    "fly-int-swizzle-simplify",
    "fly-convert-atom-call-to-ssa-form",
    "fly-promote-regmem-to-vectorssa",
    "convert-fly-to-rocdl",
]
UPSTREAM_PASSES = [
    "canonicalize",
    "cse",
    "convert-scf-to-cf",
    "convert-cf-to-llvm",
    "gpu-to-llvm{use-bare-pointers-for-host=true use-bare-pointers-for-kernels=true}",
    "convert-vector-to-llvm",
    "convert-arith-to-llvm",
    "convert-func-to-llvm",
    "reconcile-unrealized-casts",
    "gpu.module(convert-scf-to-cf,cse,convert-gpu-to-rocdl{chipset=gfx942 index-bitwidth=0 runtime=HIP "
    "use-bare-ptr-memref-call-conv=true},fly-rocdl-cluster-attr)",
]


@pytest.mark.parametrize("name", FLY_PASSES + UPSTREAM_PASSES)
def test_pass_is_registered(ctx, name):
    pipeline = passmanager.PassManager.parse(f"builtin.module({name})")
    pipeline.run(ir.Module.create().operation)


def test_unknown_pass_is_an_error(ctx):
    with pytest.raises(ValueError, match="no-such-pass"):
        passmanager.PassManager.parse("builtin.module(no-such-pass)")
