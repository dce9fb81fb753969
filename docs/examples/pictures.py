"""The pictures of docs/examples.md, drawn from the layouts that the examples use.

    python docs/examples/pictures.py            # writes docs/examples/pictures/*.svg
    python docs/examples/pictures.py --check    # fails if a file is not what this script would write
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import flydsl.layout as fl

FOLDER = Path(__file__).parent / "pictures"


def pictures() -> dict[str, str]:
    """SVG text by file name."""
    tile_2, tv_2 = fl.make_layout_tv(fl.Layout((16, 4), (4, 1)), fl.Layout((1, 4), (4, 1)))
    # S<3,3,3> on values is S<3,0,3> on chunks of 8 values.
    swizzled = fl.ComposedLayout(fl.Swizzle(3, 0, 3), 0, fl.Layout((16, 8), (8, 1)))
    # One block of 16 columns and 32 values of K, as (column, chunk of 8 values): where each chunk lies.
    chunks = fl.Layout((16, 4), (1, 16))
    attention = fl.make_tiled_mma(fl.mma_atom("mfma_f32_16x16x16_f16"))
    return {
        "01_vector_add.svg": fl.to_svg(
            fl.Layout((4, 32), (32, 1)), title="thread of each 128-bit vector in a tile of 4 x 128 values"
        ),
        "02_tiled_copy.svg": fl.to_svg(tv_2, tile=tile_2, title="thread and value of each element of a 16 x 16 tile"),
        "03_tiled_mma.svg": fl.to_svg(fl.mma_atom("mfma_f32_16x16x16_f16")),
        "04_lds_swizzle.svg": fl.to_svg(swizzled, title="16 rows of A in LDS: position of each chunk of 8 values"),
        "04_preshuffle.svg": fl.to_svg(chunks, title="128-bit chunk of B: 16 columns x 4 chunks of K"),
        "05_gather_scatter.svg": fl.to_svg(
            fl.Layout((8, 32), (32, 1)), title="thread of each 128-bit copy; every copy has an offset of its own"
        ),
        "06_block_reduction.svg": fl.to_svg(
            fl.Layout((8, 32), (32, 1)), title="thread by wave (row) and lane (column) where a wave has 32 lanes"
        ),
        "07_ir_add_relu.svg": fl.to_svg(
            fl.Layout((4, 16), (1, 4)), title="(value, thread) to element: one 128-bit vector for a thread"
        ),
        "09_scores.svg": fl.to_svg(
            attention.tv_layout("c", (16, 16)), tile=(16, 16), title="S^T: lane and value of each (key, row)"
        ),
        "09_operand.svg": fl.to_svg(
            attention.tv_layout("b", (16, 16)), tile=(16, 16), title="P as operand B: lane and value of each (row, key)"
        ),
    }


def main() -> int:
    """Command line; 1 if --check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check, stale = parser.parse_args().check, []
    for name, svg in pictures().items():
        path = FOLDER / name
        if not path.exists() or path.read_text() != svg:
            stale.append(name)
            if not check:
                path.parent.mkdir(exist_ok=True)
                path.write_text(svg)
    print(("stale: " if check else "written: ") + (", ".join(stale) or "none"))
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
