"""Layout algebra in pure Python: shapes, strides, layouts, swizzles, tilers and everything one does with them.

>>> from flydsl.layout import Layout, composition, logical_divide
>>> logical_divide(Layout((4, 2, 3), (2, 1, 8)), Layout(4, 2))
Layout(((2, 2), (2, 3)), ((4, 1), (2, 8)))

The names are loaded on first use, so that importing the package costs next to nothing; ``__init__.pyi`` declares them
for type checkers.
"""

from __future__ import annotations

__version__ = "0.1.0"

_MODULES = {
    "algebra": """
        coalesce complement filter_ filter_zeros
    """,
    "atoms": """
        MmaAtomInfo mma_atom mma_atoms
    """,
    "banks": """
        BankReport SwizzleSearch bank_conflicts find_swizzle
    """,
    "compose": """
        composition
    """,
    "construct": """
        append append_ones composed_get_inner composed_get_offset composed_get_outer coprofile coshape cosize crd2idx
        depth dice downcast expand flatten get get_1d_coord get_flat_coord get_leaves get_scalar group
        idx2crd make_column_major make_composed_layout make_coord make_fragment_layout_like
        make_identity_layout make_int_tuple make_layout make_layout_like make_ordered_layout make_row_major
        make_shape make_stride make_swizzle make_tile prepend prepend_ones rank recast_layout replace select shape size
        slice_ slice_and_offset stride take unflatten upcast
    """,
    "coords": """
        crd2crd
    """,
    "copies": """
        CopyAtomInfo copy_atom copy_atoms
    """,
    "core": """
        ComposedLayout CoordSwizzle Layout Swizzle Tile
    """,
    "divide": """
        blocked_product divides_evenly flat_divide flat_product local_partition local_tile logical_divide
        logical_product raked_product tile_to_shape tiled_divide tiled_product zipped_divide zipped_product
    """,
    "errors": """
        LayoutError
    """,
    "inverses": """
        left_inverse right_inverse
    """,
    "linear": """
        LinearLayout from_linear to_linear
    """,
    "pictures": """
        to_html to_latex to_svg to_table
    """,
    "queries": """
        assert_same_map enumerate_map image is_bijective is_contiguous is_injective is_surjective kernel
        max_common_layout max_common_vector nullspace same_map substitute widest_vector
    """,
    "scalar": """
        Basis Dyn E IntTuple sym
    """,
    "text": """
        parse parse_composed parse_int_tuple parse_layout parse_tile to_fly_type
    """,
    "tuples": """
        basis_get basis_value ceil_div compatible congruent elem_less equal has_none inner_product int_tuple_add
        int_tuple_div int_tuple_mod int_tuple_mul int_tuple_sub is_static prefix_product product product_each
        product_like repeat_like shape_div to_text transform_leaf tuple_max tuple_sum weakly_compatible
        weakly_congruent
    """,
    "tv": """
        CopyAtom MmaAtom TiledCopy TiledMma make_layout_tv make_tiled_copy make_tiled_copy_A
        make_tiled_copy_B make_tiled_copy_C make_tiled_copy_for make_tiled_copy_tv make_tiled_mma
        mma_make_fragment tiled_copy_partition_dst tiled_copy_partition_src tiled_copy_retile
        tiled_mma_partition tiled_mma_partition_shape
    """,
}
_OTHER_NAMES = {
    "filter": ("algebra", "filter_"),
    "get_": ("construct", "get"),
    "get_shape": ("construct", "shape"),
    "get_stride": ("construct", "stride"),
    "group_modes": ("construct", "group"),
    "int_tuple_product": ("tuples", "product"),
    "int_tuple_product_each": ("tuples", "product_each"),
    "int_tuple_product_like": ("tuples", "product_like"),
    "is_congruent": ("tuples", "congruent"),
    "is_weakly_congruent": ("tuples", "weakly_congruent"),
    "make_fragment_like": ("construct", "make_fragment_layout_like"),
    "recast": ("construct", "recast_layout"),
    "slice": ("construct", "slice_"),
}
_WHERE = {name: (module, name) for module, names in _MODULES.items() for name in names.split()} | _OTHER_NAMES

# ``filter`` and ``slice`` exist under these names too, but ``import *`` leaves Python's own alone.
__all__ = sorted({*_WHERE} - {"filter", "slice"})


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _WHERE[name]
    value: object = getattr(import_module(f"{__name__}.{module}"), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
