"""The matrix instructions of flydsl-layout (data) against the atoms of the fly_rocdl dialect (C++)."""

from __future__ import annotations

import pytest

from flydsl.layout import mma_atom, mma_atoms, to_fly_type

ir = pytest.importorskip("flydsl._mlir.ir")
fly = pytest.importorskip("flydsl._mlir.dialects.fly")
pytest.importorskip("flydsl._mlir.dialects.fly_rocdl")
pytestmark = pytest.mark.one_arch

FLOAT8 = {"fp8": "f8E4M3FN", "bf8": "f8E5M2"}
GFX942_FLOAT8 = {"fp8": "f8E4M3FNUZ", "bf8": "f8E5M2FNUZ"}


def op_type(name: str, arch: str, types: tuple[str, str, str], mnk: tuple[int, int, int]) -> str | None:
    """Text of the dialect's operation type, None where the dialect has no atom for the instruction."""
    float8 = GFX942_FLOAT8 if arch == "gfx942" else FLOAT8
    a, b, acc = (float8.get(t, t) for t in types)
    shape = "x".join(map(str, mnk))
    signature = f"<{shape}, ({a}, {b}) -> {acc}"
    flags = ", signA = false, signB = false, clamp = false>"
    if name.startswith("mfma_scale"):
        return f"!fly_rocdl.cdna4.mfma_scale{signature}, opselA = 0, opselB = 0>"
    if name.startswith("wmma_scale"):
        block = 16 if name.startswith("wmma_scale16") else 32
        rest = f", opselA = 0, opselB = 0, modC = 0, reuseA = false, reuseB = false, blockSize = {block}>"
        return f"!fly_rocdl.gfx1250.wmma_scale{signature}{rest}"
    if name.endswith(("FN", "M2")) or acc == "bf16f32":
        return None
    if name.startswith("mfma"):
        return f"!fly_rocdl.cdna3.mfma{signature}>" if "xf32" not in types and "f64" not in types else None
    if arch.startswith("gfx11"):
        return f"!fly_rocdl.gfx11.wmma{signature}{flags}"
    return f"!fly_rocdl.{'gfx1250' if arch == 'gfx1250' else 'gfx120x'}.wmma{signature}{flags}"


def test_layouts_are_those_of_the_dialect() -> None:
    context = ir.Context()
    context.load_all_available_dialects()
    wrong, missing, compared = [], [], 0
    with context, ir.Location.unknown():
        for info in mma_atoms():
            if info.sparse or info.blocks > 1:
                continue
            arch = info.archs[0]
            text = op_type(info.name, arch, (info.a_type, info.b_type, info.acc_type), info.shape_mnk)
            if text is None:
                continue
            try:
                atom = fly.MmaAtomType.get(ir.Type.parse(text))
            except ir.MLIRError:
                missing.append(info.name)
                continue
            compared += 1
            assert mma_atom(text, arch) is info
            theirs = [str(t) for t in (atom.thr_layout, atom.tv_layout_a, atom.tv_layout_b, atom.tv_layout_c)]
            ours = [to_fly_type(x) for x in (info.atom.thr, info.atom.a, info.atom.b, info.atom.c)]
            if ours != theirs:
                wrong.append(f"{info.name} on {arch}: Python {ours}, C++ {theirs}")
    assert not wrong, "\n".join(wrong)
    assert compared > 100
    # The instructions that existing kernels do not use need no atom in the dialect; it may gain them.
    assert set(missing) <= {
        "mfma_i32_32x32x32_i8", "mfma_i32_16x16x64_i8", "wmma_f16_16x16x16_f16", "wmma_bf16_16x16x16_bf16",
    }
