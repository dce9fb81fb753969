"""The copy instructions of flydsl-layout (data) against the atoms of the fly and fly_rocdl dialects (C++)."""

from __future__ import annotations

import pytest

from flydsl.layout import copy_atom, copy_atoms, to_fly_type

ir = pytest.importorskip("flydsl._mlir.ir")
fly = pytest.importorskip("flydsl._mlir.dialects.fly")
pytest.importorskip("flydsl._mlir.dialects.fly_rocdl")
pytestmark = pytest.mark.one_arch


def op_types() -> list[str]:
    """Texts of the dialects' operation types."""
    out = ["!fly.universal_atomic<add, f32>", "!fly_rocdl.cdna3.buffer_atomic<add, vector<2xf16>>"]
    for info in copy_atoms():
        dialect = "fly" if info.name.startswith("universal") else "fly_rocdl"
        out.append(f"!{dialect}.{info.name}".replace("lds_read_trans<", "lds_read_trans<trans = "))
    return out


@pytest.mark.parametrize("text", op_types())
def test_layouts_are_those_of_the_dialect(text: str) -> None:
    info = copy_atom(text)
    with ir.Context() as context, ir.Location.unknown():
        context.load_all_available_dialects()
        for val_bits in (1, 4, 6, 8, 16, 32):
            if info.bits % val_bits or ("trans" in text and f"{val_bits}b" not in text):
                continue
            wrapped = f"!fly.copy_atom<{text}, {val_bits}>"
            theirs = fly.CopyAtomType(ir.Type.parse(wrapped))
            assert copy_atom(wrapped) == info
            atom = info.atom(val_bits)
            found = [theirs.thr_layout, theirs.tv_layout_src, theirs.tv_layout_dst, theirs.tv_layout_ref]
            ours = [atom.thr, atom.src, atom.dst, atom.ref]
            assert [to_fly_type(x) for x in ours] == [str(t) for t in found], wrapped
