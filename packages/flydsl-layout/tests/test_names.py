"""The public names: complete, loadable, declared for type checkers; only the standard library is imported."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import flydsl.layout as L

SOURCE = Path(L.__file__).parent

#: CuTe's names, the ``fx`` names of functions on layouts and int tuples, and what users of either reach for.
EXPECTED = """
Layout Swizzle CoordSwizzle ComposedLayout Tile Basis E Dyn sym LayoutError
make_layout make_ordered_layout make_row_major make_column_major make_identity_layout make_layout_like
make_fragment_like make_fragment_layout_like make_composed_layout make_tile make_shape make_stride make_coord
make_int_tuple rank depth size cosize coshape coprofile shape stride get get_ take select group flatten unflatten append
prepend replace expand get_shape get_stride get_scalar get_leaves composed_get_inner composed_get_offset
composed_get_outer crd2idx idx2crd crd2crd get_flat_coord get_1d_coord slice slice_ slice_and_offset dice coalesce
filter filter_ filter_zeros composition complement right_inverse left_inverse recast recast_layout upcast downcast
max_common_vector max_common_layout logical_divide zipped_divide tiled_divide flat_divide divides_evenly
logical_product zipped_product tiled_product flat_product raked_product blocked_product tile_to_shape local_tile
local_partition nullspace kernel congruent weakly_congruent compatible weakly_compatible make_layout_tv CopyAtom MmaAtom
TiledCopy TiledMma make_tiled_copy make_tiled_copy_tv make_tiled_copy_A make_tiled_copy_B make_tiled_copy_C
make_tiled_mma tiled_copy_partition_src tiled_copy_partition_dst tiled_copy_retile tiled_mma_partition
tiled_mma_partition_shape mma_make_fragment same_map is_injective is_surjective is_bijective is_contiguous image
widest_vector to_linear from_linear LinearLayout assert_same_map enumerate_map mma_atom mma_atoms bank_conflicts
copy_atom copy_atoms
find_swizzle to_svg to_html to_latex to_table parse parse_layout parse_int_tuple parse_tile parse_composed to_fly_type
substitute int_tuple_add int_tuple_sub int_tuple_mul int_tuple_div int_tuple_mod int_tuple_product
int_tuple_product_each int_tuple_product_like shape_div ceil_div elem_less equal inner_product product
""".split()


@pytest.mark.parametrize("name", EXPECTED)
def test_name_exists_and_is_documented(name: str) -> None:
    x = getattr(L, name)
    assert x.__doc__, name
    assert name in dir(L)
    assert name in L.__all__ or name in ("filter", "slice")


def test_stub_declares_every_name() -> None:
    stub = ast.parse((SOURCE / "__init__.pyi").read_text(encoding="utf-8"))
    declared: dict[str, tuple[str, str]] = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom):
            for a in node.names:
                declared[a.asname or a.name] = (str(node.module), a.name)
    declared["filter"], declared["slice"] = declared["filter_"], declared["slice_"]
    assert declared == L._WHERE
    listed = next(n.value for n in stub.body if isinstance(n, ast.Assign) and n.targets[0].id == "__all__")  # type: ignore[attr-defined]
    assert ast.literal_eval(listed) == L.__all__ == sorted(L.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        L.nothing  # noqa: B018


def test_star_import_leaves_the_builtins_alone() -> None:
    scope: dict[str, object] = {}
    exec("from flydsl.layout import *", scope)
    assert "slice" not in scope and "filter" not in scope and scope["composition"] is L.composition


def test_modules_do_not_hide_functions() -> None:
    """A submodule of a public name would replace the function once it is imported."""
    assert not {p.stem for p in SOURCE.glob("*.py")} & set(L._WHERE)


def test_only_the_standard_library() -> None:
    for path in SOURCE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [str(node.module)]
            for name in names:
                top = name.split(".")[0]
                assert top in sys.stdlib_module_names or name == "flydsl.layout", f"{path.name} imports {name}"
                assert top != "pickle"


def test_import_is_quick() -> None:
    """The best of a few processes, because other work on the machine only ever adds."""
    code = "import time; t = time.perf_counter(); import flydsl.layout; print(time.perf_counter() - t)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    times = [float(subprocess.check_output([sys.executable, "-c", code], env=env)) for _ in range(5)]
    assert min(times) < 0.03
