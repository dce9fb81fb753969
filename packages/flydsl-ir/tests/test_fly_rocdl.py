"""Type classes, enums and ops of the fly_rocdl dialect."""

import pytest

from flydsl._mlir import ir
from flydsl._mlir.dialects import fly, fly_rocdl
from flydsl._mlir.dialects import fly_rocdl as r

TYPES = {
    "f16": ir.F16Type,
    "bf16": ir.BF16Type,
    "f32": ir.F32Type,
    "f8": ir.Float8E4M3FNType,
    "fp4": ir.Float4E2M1FNType,
}


def t(*names):
    return [TYPES[name].get() if name in TYPES else ir.Type.parse(name) for name in names]


GOOD = [
    (lambda: r.CopyOpCDNA3BufferCopyType.get(128), "cdna3.buffer_copy<128>"),
    (lambda: r.CopyOpCDNA3BufferCopyType.get(64, 2), "cdna3.buffer_copy<64, cache = 2>"),
    (lambda: r.CopyOpCDNA3BufferCopyLDSType.get(bit_size=32), "cdna3.buffer_copy_lds<32>"),
    (lambda: r.CopyOpCDNA3BufferAtomicType.get(fly.AtomicOp.Add, *t("f32")), "cdna3.buffer_atomic<add, f32>"),
    (lambda: r.CopyOpCDNA4LdsReadTransposeType.get(8, 64), "cdna4.lds_read_trans<trans = 8b, 64>"),
    (lambda: r.CopyOpGFX1250LdsReadTransposeType.get(16, 128), "gfx1250.lds_read_trans<trans = 16b, 128>"),
    (lambda: r.CopyOpCDNA4BufferLoadAsyncLDSType.get(96), "cdna4.buffer_load_async_lds<96>"),
    (lambda: r.CopyOpCDNA4GlobalLoadAsyncLDSType.get(128), "cdna4.global_load_async_lds<128>"),
    (
        lambda: r.CopyOpGFX1250TDMType.get(2, 4, pad_interval=32, pad_amount=4),
        "gfx1250.tdm<rank = 2, warps = 4, pad = 32, 4, cache = 0, barrier = false, timeout = false>",
    ),
    (lambda: r.MmaOpCDNA3_MFMAType.get(16, 16, 16, *t("f16", "f16", "f32")), "cdna3.mfma<16x16x16, (f16, f16) -> f32>"),
    (
        lambda: r.MmaOpCDNA4_MFMAScaleType.get(32, 32, 64, *t("fp4", "f8", "f32"), opsel_a=2),
        "cdna4.mfma_scale<32x32x64, (f4E2M1FN, f8E4M3FN) -> f32, opselA = 2, opselB = 0>",
    ),
    (
        lambda: r.MmaOpGFX11_WMMAType.get(16, 16, 16, *t("f16", "f16", "f32")),
        "gfx11.wmma<16x16x16, (f16, f16) -> f32, signA = false, signB = false, clamp = false>",
    ),
    (
        lambda: r.MmaOpGFX120X_WMMAType.get(16, 16, 16, *t("bf16", "bf16", "f32")),
        "gfx120x.wmma<16x16x16, (bf16, bf16) -> f32, signA = false, signB = false, clamp = false>",
    ),
    (
        lambda: r.MmaOpGFX1250_WMMAType.get(16, 16, 32, *t("f16", "f16", "f32"), mod_c=1),
        "gfx1250.wmma<16x16x32, (f16, f16) -> f32, signA = false, signB = false, clamp = false, modC = 1>",
    ),
    (
        lambda: r.MmaOpGFX1250_WMMAScaleType.get(16, 16, 128, *t("f8", "f8", "f32"), block_size=16),
        "gfx1250.wmma_scale<16x16x128, (f8E4M3FN, f8E4M3FN) -> f32, opselA = 0, opselB = 0, modC = 0, "
        "reuseA = false, reuseB = false, blockSize = 16>",
    ),
]


@pytest.mark.parametrize(("make", "text"), GOOD, ids=[text.split("<")[0] for _, text in GOOD])
def test_get_and_round_trip(ctx, make, text):
    ty = make()
    assert str(ty) == f"!fly_rocdl.{text}"
    parsed = ir.Type.parse(str(ty))
    assert parsed == ty and type(parsed) is type(ty)


BAD = [
    lambda: r.CopyOpCDNA3BufferCopyType.get(7),
    lambda: r.CopyOpCDNA3BufferCopyLDSType.get(64),
    lambda: r.CopyOpCDNA3BufferAtomicType.get(42, *t("f32")),
    lambda: r.CopyOpCDNA4LdsReadTransposeType.get(8, 96),
    lambda: r.CopyOpGFX1250LdsReadTransposeType.get(16, 64),
    lambda: r.CopyOpCDNA4BufferLoadAsyncLDSType.get(64),
    lambda: r.CopyOpCDNA4GlobalLoadAsyncLDSType.get(64),
    lambda: r.CopyOpGFX1250TDMType.get(6, 1),
    lambda: r.CopyOpGFX1250TDMType.get(2, 3),
    lambda: r.MmaOpCDNA3_MFMAType.get(16, 16, 17, *t("f16", "f16", "f32")),
    lambda: r.MmaOpCDNA3_MFMAType.get(16, 16, 16, *t("f16", "f16", "f16")),
    lambda: r.MmaOpCDNA4_MFMAScaleType.get(16, 16, 128, *t("f8", "f8", "f32"), opsel_a=4),
    lambda: r.MmaOpGFX11_WMMAType.get(16, 16, 16, *t("f16", "f16", "f32"), sign_a=True),
    lambda: r.MmaOpGFX120X_WMMAType.get(16, 16, 16, *t("f16", "f16", "f32"), clamp=True),
    lambda: r.MmaOpGFX1250_WMMAType.get(32, 16, 32, *t("f16", "f16", "f32")),
    lambda: r.MmaOpGFX1250_WMMAScaleType.get(16, 16, 128, *t("f8", "f8", "f32"), block_size=8),
]


@pytest.mark.parametrize("make", BAD, ids=range(len(BAD)))
def test_verifier_errors(ctx, make):
    with pytest.raises(ValueError, match=r"\w"):
        make()


def test_messages(ctx):
    with pytest.raises(ValueError, match="numWarps must be a positive power of two, got 3"):
        r.CopyOpGFX1250TDMType.get(2, 3)
    with pytest.raises(ValueError, match="unsupported bitSize = 64"):
        r.CopyOpCDNA3BufferCopyLDSType.get(64)


def test_wmma_flags_are_keyword_only(ctx):
    types = t("f16", "f16", "f32")
    for cls in (r.MmaOpGFX11_WMMAType, r.MmaOpGFX120X_WMMAType):
        with pytest.raises(TypeError):
            cls.get(16, 16, 16, *types, False, False, False)
    r.MmaOpGFX1250_WMMAType.get(16, 16, 32, *types, False, False, False)


def test_atom_of_an_mfma(ctx):
    atom = fly.MmaAtomType.get(r.MmaOpCDNA3_MFMAType.get(16, 16, 16, *t("f16", "f16", "f32")))
    assert str(atom.shape_mnk) == "!fly.int_tuple<(16,16,16)>"
    assert atom.tv_layout_a.is_static and atom.tv_layout_c.is_static


def test_atom_of_a_buffer_copy(ctx):
    atom = fly.CopyAtomType.get(r.CopyOpCDNA3BufferCopyType.get(128), 32)
    assert str(atom.tv_layout_src) == "!fly.layout<(1,4):(1,1)>"
    assert not atom.is_static


def test_address_space(ctx):
    space = r.TargetAddressSpace.BufferDesc
    assert str(space) == "#fly_rocdl.buffer_desc" and type(space) is r.BufferDescAddressAttr
    pointer = fly.PointerType.get(*t("f16"), space)
    assert pointer.address_space == space and type(pointer.address_space) is r.BufferDescAddressAttr


def test_atom_state_field():
    names = ["soffset", "imm_offset", "scale_a", "scale_b", "workgroup_mask"]
    assert [str(fly_rocdl.AtomStateField(i)) for i in range(5)] == names


def test_get_buffer_rsrc(module):
    pointer = fly.make_ptr(fly.PointerType.get(*t("f32"), r.TargetAddressSpace.BufferDesc), [])
    assert str(fly_rocdl.get_buffer_rsrc(pointer).type) == "!llvm.ptr<8>"
