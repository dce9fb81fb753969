"""Copy and MMA atoms, and tiled copies and MMAs."""

from __future__ import annotations

from typing import Any

from flydsl._mlir.dialects import fly
from flydsl.tracing.locations import dsl_loc_tracing

from .._functions import functions
from .base import FlyValue, caster_for

# State fields by op mnemonic: the vocabulary of `atom.set_value`. TDM adds indexed names.
_TDM_FIELDS = {"workgroup_mask", "imm_offset", *(f"extent_{i}" for i in range(5)), *(f"stride_{i}" for i in range(4))}
_STATE_FIELDS = {
    "cdna3.buffer_copy": {"soffset"},
    "cdna3.buffer_copy_lds": {"soffset", "imm_offset"},
    "cdna3.buffer_atomic": {"soffset"},
    "cdna4.buffer_load_async_lds": {"soffset", "imm_offset"},
    "cdna4.mfma_scale": {"scale_a", "scale_b"},
    "gfx1250.wmma_scale": {"scale_a", "scale_b"},
    "gfx1250.tdm": _TDM_FIELDS,
}
_STATELESS = ("universal_", "cdna3.mfma", "gfx11.wmma", "gfx120x.wmma", "gfx1250.wmma", "cdna4.lds_read_trans",
              "cdna4.global_load_async_lds", "gfx1250.lds_read_trans")


def check_state_field(atom_type: Any, field: str) -> None:
    """ValueError when the atom's op has no state field of that name. Unknown ops are left to lowering."""
    text = str(atom_type)
    start = text.rfind("!fly", 0, text.find("<", text.find("<") + 1) + 1)
    name = text[start:].split("<", 1)[0].removeprefix("!fly_rocdl.").removeprefix("!fly.")
    fields = _STATE_FIELDS.get(name)
    if fields is None and not name.startswith(_STATELESS):
        return
    if field not in (fields or ()):
        known = ", ".join(sorted(fields)) if fields else "none"
        raise ValueError(f"atom {name} has no state field {field!r} (its fields: {known})")


class _Stateful(FlyValue):
    @dsl_loc_tracing
    def set_value(self, field: Any, value: Any = None) -> Any:
        """A new atom with a state field (or every field of a dict) set; this atom is unchanged."""
        if not isinstance(field, dict):
            return functions.atom_set_value(self, field, value)
        atom: Any = self
        for name, field_value in field.items():
            atom = functions.atom_set_value(atom, name, field_value)
        return atom


@caster_for(fly.CopyAtomType)
class CopyAtom(_Stateful):
    """One copy instruction, with its thread-value layouts."""

    @property
    def val_bits(self) -> int:
        """Bits of a value in the counting of the thread-value layouts."""
        return self.type.val_bits

    @property
    def thr_layout(self) -> Any:
        """The threads that execute the instruction together."""
        return fly.static(self.type.thr_layout)

    thr_id = thr_layout

    @property
    def layout_src_tv(self) -> Any:
        """(thread, value) of the source to the place in it."""
        return fly.static(self.type.tv_layout_src)

    @property
    def layout_dst_tv(self) -> Any:
        """(thread, value) of the destination to the place in it."""
        return fly.static(self.type.tv_layout_dst)

    @property
    def layout_ref_tv(self) -> Any:
        """The (thread, value) numbering that the other two are compared in."""
        return fly.static(self.type.tv_layout_ref)


@caster_for(fly.MmaAtomType)
class MmaAtom(_Stateful):
    """One matrix instruction, with its thread-value layouts."""

    @property
    def thr_layout(self) -> Any:
        """The threads that execute the instruction together."""
        return fly.static(self.type.thr_layout)

    thr_id = thr_layout

    @property
    def shape_mnk(self) -> Any:
        """Extents M, N and K of one instruction."""
        return fly.static(self.type.shape_mnk)

    @property
    def layout_A_tv(self) -> Any:  # noqa: N802
        """(thread, value) of operand A to the place in the M x K block."""
        return fly.static(self.type.tv_layout_a)

    @property
    def layout_B_tv(self) -> Any:  # noqa: N802
        """(thread, value) of operand B to the place in the N x K block."""
        return fly.static(self.type.tv_layout_b)

    @property
    def layout_C_tv(self) -> Any:  # noqa: N802
        """(thread, value) of the accumulator to the place in the M x N block."""
        return fly.static(self.type.tv_layout_c)


@caster_for(fly.TiledCopyType)
class TiledCopy(FlyValue):
    """A copy atom repeated over threads and values to cover a tile."""

    @property
    def copy_atom(self) -> Any:
        """The atom as a value."""
        return fly.get_copy_atom(self)

    @property
    def tile_mn(self) -> Any:
        """The tile that all threads cover with one call."""
        return fly.static(self.type.tile_mn)

    @property
    def layout_tv_tiled(self) -> Any:
        """(thread, value) to the place in the tile."""
        return fly.static(self.type.layout_thr_val)

    @property
    def layout_src_tv_tiled(self) -> Any:
        """(thread, value) of the source to the place in the tile."""
        return fly.static(self.type.tiled_tv_layout_src)

    @property
    def layout_dst_tv_tiled(self) -> Any:
        """(thread, value) of the destination to the place in the tile."""
        return fly.static(self.type.tiled_tv_layout_dst)

    def set_value(self, field: Any, value: Any = None) -> TiledCopy:
        """A tiled copy whose atom has a state field (or every field of a dict) set; this one is unchanged."""
        return fly.make_tiled_copy(self.copy_atom.set_value(field, value), self.layout_tv_tiled, self.tile_mn)

    def thread_values(self, shape: tuple[int, ...], side: str = "dst") -> Any:
        """Thread-value layout of a partition of a tile of a static shape, as `ThreadValues`; `side` is src or dst."""
        return functions.copy_thread_values(self.type, side, tuple(shape), self.copy_atom.type)

    def get_slice(self, thr: Any) -> Any:
        """The part of thread `thr`: a `ThrCopy`."""
        return functions.ThrCopy(self, thr)

    thr_slice = get_slice


@caster_for(fly.TiledMmaType)
class TiledMma(FlyValue):
    """An MMA atom repeated over wave groups, with an optional permutation of its M, N and K modes."""

    @property
    def mma_atom(self) -> Any:
        """The atom *type*."""
        return self.type.mma_atom

    @property
    def atom_layout(self) -> Any:
        """How the atoms of the wave groups lie in M, N and K."""
        return fly.static(self.type.atom_layout)

    @property
    def permutation_mnk(self) -> Any:
        """The tiler that permutes M, N and K."""
        return fly.static(self.type.permutation)

    @property
    def tile_size_mnk(self) -> Any:
        """Extents M, N and K of one call of all threads."""
        return fly.static(self.type.tile_size_mnk)

    @property
    def thr_layout_vmnk(self) -> Any:
        """(thread of the atom, M, N, K) to the thread of the workgroup."""
        return fly.static(self.type.thr_layout_vmnk)

    @property
    def tv_layout_A_tiled(self) -> Any:  # noqa: N802
        """(thread, value) of operand A to the place in the M x K tile."""
        return fly.static(self.type.tiled_tv_layout_a)

    @property
    def tv_layout_B_tiled(self) -> Any:  # noqa: N802
        """(thread, value) of operand B to the place in the N x K tile."""
        return fly.static(self.type.tiled_tv_layout_b)

    @property
    def tv_layout_C_tiled(self) -> Any:  # noqa: N802
        """(thread, value) of the accumulator to the place in the M x N tile."""
        return fly.static(self.type.tiled_tv_layout_c)

    def set_value(self, field: Any, value: Any = None) -> TiledMma:
        """A tiled MMA whose atom has a state field (or every field of a dict) set; this one is unchanged."""
        atom = fly.get_mma_atom(self).set_value(field, value)
        return fly.make_tiled_mma(atom, self.atom_layout, permutation=self.permutation_mnk)

    def get_slice(self, thr: Any) -> Any:
        """The part of thread `thr`: a `ThrMma`."""
        return functions.ThrMma(self, thr)

    thr_slice = get_slice

    def _fragment(self, operand: str, tensor: Any, stages: int | None) -> Any:
        return functions.mma_make_fragment(getattr(fly.MmaOperand, operand), self, tensor, stages=stages)

    def make_fragment_A(self, tensor: Any, *, stages: int | None = None) -> Any:  # noqa: N802
        """Register fragment for operand A of a tile, in the atom's element type.

        `tensor` is the tile (M, K), or its static shape. The fragment of a static tile knows its thread-value layout
        (`thread_values`).
        """
        return self._fragment("A", tensor, stages)

    def make_fragment_B(self, tensor: Any, *, stages: int | None = None) -> Any:  # noqa: N802
        """The same for operand B, of a tile (N, K)."""
        return self._fragment("B", tensor, stages)

    def make_fragment_C(self, tensor: Any, *, stages: int | None = None) -> Any:  # noqa: N802
        """The same for the accumulator, of a tile (M, N)."""
        return self._fragment("C", tensor, stages)

    def thread_values(self, operand: str, shape: tuple[int, ...]) -> Any:
        """Thread-value layout of operand 'A', 'B' or 'C' for a tile of a static shape, as `ThreadValues`."""
        if str(operand).upper() not in ("A", "B", "C"):
            raise ValueError(f"operand must be 'A', 'B' or 'C', got {operand!r}")
        return functions.mma_thread_values(self.type, operand, tuple(shape))
