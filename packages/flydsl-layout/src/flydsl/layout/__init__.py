"""Layout algebra in pure Python: shapes, strides, layouts, swizzles, tilers and everything one does with them.

>>> from flydsl.layout import Layout, composition, logical_divide
>>> logical_divide(Layout((4, 2, 3), (2, 1, 8)), Layout(4, 2))
Layout(((2, 2), (2, 3)), ((4, 1), (2, 8)))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .algebra import (
    coalesce,
    complement,
    filter_,
    filter_zeros,
    left_inverse,
    right_inverse,
)
from .composition import composition
from .construct import (
    append,
    coprofile,
    coshape,
    cosize,
    crd2idx,
    depth,
    dice,
    downcast,
    expand,
    flatten,
    get,
    get_1d_coord,
    get_flat_coord,
    group,
    idx2crd,
    make_column_major,
    make_composed_layout,
    make_fragment_layout_like,
    make_identity_layout,
    make_layout,
    make_layout_like,
    make_ordered_layout,
    make_row_major,
    make_tile,
    prepend,
    rank,
    recast_layout,
    replace,
    select,
    shape,
    size,
    slice_,
    slice_and_offset,
    stride,
    take,
    unflatten,
    upcast,
)
from .coords import crd2crd
from .core import ComposedLayout, CoordSwizzle, Layout, Swizzle, Tile
from .divide import (
    blocked_product,
    divides_evenly,
    flat_divide,
    flat_product,
    local_partition,
    local_tile,
    logical_divide,
    logical_product,
    raked_product,
    tile_to_shape,
    tiled_divide,
    tiled_product,
    zipped_divide,
    zipped_product,
)
from .errors import LayoutError
from .inttuple import (
    add as int_tuple_add,
)
from .inttuple import (
    ceil_div,
    compatible,
    congruent,
    elem_less,
    equal,
    inner_product,
    product_each,
    product_like,
    shape_div,
    to_text,
    weakly_compatible,
    weakly_congruent,
)
from .inttuple import (
    div as int_tuple_div,
)
from .inttuple import (
    mod as int_tuple_mod,
)
from .inttuple import (
    mul as int_tuple_mul,
)
from .inttuple import (
    product as int_tuple_product,
)
from .inttuple import (
    product_each as int_tuple_product_each,
)
from .inttuple import (
    product_like as int_tuple_product_like,
)
from .inttuple import (
    sub as int_tuple_sub,
)
from .queries import (
    assert_same_map,
    enumerate_map,
    image,
    is_bijective,
    is_contiguous,
    is_injective,
    is_surjective,
    kernel,
    max_common_layout,
    max_common_vector,
    nullspace,
    same_map,
    substitute,
    widest_vector,
)
from .scalar import Basis, Dyn, IntTuple, sym

if TYPE_CHECKING:
    from .atoms import mma_atom, mma_atoms
    from .banks import bank_conflicts, find_swizzle
    from .linear import LinearLayout, from_linear, to_linear
    from .pictures import to_html, to_latex, to_svg, to_table
    from .text import parse, parse_composed, parse_int_tuple, parse_layout, parse_tile, to_fly_type
    from .tv import CopyAtom, MmaAtom, TiledCopy, TiledMma, make_layout_tv, make_tiled_copy_for, make_tiled_copy_tv

__version__ = "0.1.0"

# Parts that plain algebra does not need are imported on first use, to keep the import of the package quick.
_LAZY = {
    name: module
    for module, names in {
        "atoms": ("mma_atom", "mma_atoms"),
        "banks": ("bank_conflicts", "find_swizzle"),
        "linear": ("LinearLayout", "from_linear", "to_linear"),
        "pictures": ("to_html", "to_latex", "to_svg", "to_table"),
        "text": ("parse", "parse_composed", "parse_int_tuple", "parse_layout", "parse_tile", "to_fly_type"),
        "tv": (
            "CopyAtom",
            "MmaAtom",
            "TiledCopy",
            "TiledMma",
            "make_layout_tv",
            "make_tiled_copy_for",
            "make_tiled_copy_tv",
        ),
    }.items()
    for name in names
}

__all__ = [
    "Basis",
    "ComposedLayout",
    "CoordSwizzle",
    "CopyAtom",
    "Dyn",
    "IntTuple",
    "Layout",
    "LayoutError",
    "LinearLayout",
    "MmaAtom",
    "Swizzle",
    "Tile",
    "TiledCopy",
    "TiledMma",
    "append",
    "assert_same_map",
    "bank_conflicts",
    "blocked_product",
    "ceil_div",
    "coalesce",
    "compatible",
    "complement",
    "composition",
    "congruent",
    "coprofile",
    "coshape",
    "cosize",
    "crd2crd",
    "crd2idx",
    "depth",
    "dice",
    "divides_evenly",
    "downcast",
    "elem_less",
    "enumerate_map",
    "equal",
    "expand",
    "filter_",
    "filter_zeros",
    "find_swizzle",
    "flat_divide",
    "flat_product",
    "flatten",
    "from_linear",
    "get",
    "get_1d_coord",
    "get_flat_coord",
    "group",
    "idx2crd",
    "image",
    "inner_product",
    "int_tuple_add",
    "int_tuple_div",
    "int_tuple_mod",
    "int_tuple_mul",
    "int_tuple_product",
    "int_tuple_product_each",
    "int_tuple_product_like",
    "int_tuple_sub",
    "is_bijective",
    "is_contiguous",
    "is_injective",
    "is_surjective",
    "kernel",
    "left_inverse",
    "local_partition",
    "local_tile",
    "logical_divide",
    "logical_product",
    "make_column_major",
    "make_composed_layout",
    "make_fragment_layout_like",
    "make_identity_layout",
    "make_layout",
    "make_layout_like",
    "make_layout_tv",
    "make_ordered_layout",
    "make_row_major",
    "make_tile",
    "make_tiled_copy_for",
    "make_tiled_copy_tv",
    "max_common_layout",
    "max_common_vector",
    "mma_atom",
    "mma_atoms",
    "nullspace",
    "parse",
    "parse_composed",
    "parse_int_tuple",
    "parse_layout",
    "parse_tile",
    "prepend",
    "product_each",
    "product_like",
    "raked_product",
    "rank",
    "recast_layout",
    "replace",
    "right_inverse",
    "same_map",
    "select",
    "shape",
    "shape_div",
    "size",
    "slice_",
    "slice_and_offset",
    "stride",
    "substitute",
    "sym",
    "take",
    "tile_to_shape",
    "tiled_divide",
    "tiled_product",
    "to_fly_type",
    "to_html",
    "to_latex",
    "to_linear",
    "to_svg",
    "to_table",
    "to_text",
    "unflatten",
    "upcast",
    "weakly_compatible",
    "weakly_congruent",
    "widest_vector",
    "zipped_divide",
    "zipped_product",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value
