"""Redraw the pictures of the guide."""

from pathlib import Path

from flydsl.layout import Layout, Swizzle, Tile, blocked_product, make_layout_tv, mma_atom, raked_product, to_svg

HERE = Path(__file__).parent / "pictures"


def pictures() -> dict[str, str]:
    tile, tv = make_layout_tv(Layout((4, 8), (8, 1)), Layout((1, 2), (0, 1)))
    a, t = Layout((2, 3), (3, 1)), Layout((3, 4), (4, 1))
    return {
        "blocked": to_svg(blocked_product(a, t), product_of=(a, t)),
        "raked": to_svg(raked_product(a, t), product_of=(a, t)),
        "row_major": to_svg(Layout((4, 8), (8, 1))),
        "divide": to_svg(Layout((8, 8), (8, 1)), tiler=Tile(4, 2)),
        "tv": to_svg(tv, tile=tile),
        "mfma": to_svg(mma_atom("mfma_f32_16x16x16_f16")),
        "swizzle": to_svg(Swizzle(3, 0, 3)),
    }


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    for name, svg in pictures().items():
        (HERE / f"{name}.svg").write_text(svg, encoding="utf-8")
