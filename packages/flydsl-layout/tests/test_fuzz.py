"""Coordinates, recast, queries, linear forms, text and odd operands against brute force (``fuzzing.py``).

The references are in ``brute.py`` and share no code with the package.  Where an operation refuses, the reference shows
that there is no answer.
"""

from __future__ import annotations

from typing import Any

from brute import Random, leaves, linear, size, split, value
from fuzzing import attempt, flat_modes, fuzz, modes

import flydsl.layout as L
from flydsl.layout import ComposedLayout, Layout, LayoutError, Swizzle


@fuzz
def test_slice_dice_and_coordinates(r: Random) -> None:
    a = r.layout(96, 2, r.choice(2, 3))
    crd = split(r.rng.randrange(size(a.shape)), a.shape)

    def punch(c: Any) -> Any:
        if r.rng.random() < 0.3:
            return None
        return tuple(map(punch, c)) if isinstance(c, tuple) else c

    holes = punch(crd)
    filled = _zero(holes)
    sub, offset = attempt(L.slice_and_offset, a, holes) or (None, 0)
    if sub is None:
        assert None not in leaves(holes)
    else:
        kept = [x for x in _kept(a, holes)]
        want = sorted(sum(v) for v in _sums([linear(k) for k in kept]))
        assert sorted(linear(sub)) == want and offset == value(a, filled)
        assert a(holes) == sub
    composed = ComposedLayout(r.swizzle(), r.choice(0, 3), a)
    if sub is not None and sub.size() == size(a.shape):
        assert linear(composed(holes)) == linear(composed)
    for i in range(size(a.shape)):
        c = split(i, a.shape)
        assert a(i) == a(c) == L.crd2idx(c, a) == value(a, i)
        assert L.crd2crd(c, a.shape, size(a.shape)) == i
        assert composed(i) == value(composed, i)
    b = r.bijective(48)
    for i in range(size(b.shape)):
        natural = L.idx2crd(value(b, i), b)
        assert value(b, natural) == value(b, i) and L.get_1d_coord(value(b, i), b) == i


def _zero(c: Any) -> Any:
    return 0 if c is None else tuple(map(_zero, c)) if isinstance(c, tuple) else c


def _kept(a: Layout, holes: Any) -> list[Layout]:
    if holes is None:
        return [a]
    if not isinstance(holes, tuple):
        return []
    return [k for m, h in zip(modes(a), holes, strict=True) for k in _kept(m, h)]


def _sums(parts: list[list[int]]) -> list[tuple[int, ...]]:
    out: list[tuple[int, ...]] = [()]
    for p in parts:
        out = [(*o, x) for o in out for x in p]
    return out


@fuzz
def test_recast(r: Random) -> None:
    a, f = r.layout(64), r.choice(2, 3, 4)
    down = attempt(L.downcast, a, f)
    if down is None:
        assert sum(1 for s, d in zip(leaves(a.shape), leaves(a.stride), strict=True) if d == 1 and s > 1) > 1, a
        return
    # Every element becomes f narrow ones; they are enumerated where a mode of stride 1 can hold them.
    wide = sorted(set(v // f for v in linear(down)))
    assert wide == sorted(set(linear(a))), f"downcast({a}, {f}) = {down}"
    up = attempt(L.upcast, a, f)
    if up is not None:
        assert set(linear(up)) == set(v // f for v in linear(a)), f"upcast({a}, {f}) = {up}"
        if all(d % f == 0 for d in leaves(a.stride)):
            assert [f * v for v in linear(up)] == linear(a)
    both = attempt(L.recast_layout, a, 16, 24)
    if both is not None and len(set(linear(a))) == size(a.shape):
        bits = {16 * v + k for v in linear(a) for k in range(16)}
        assert set(linear(both)) == {x // 24 for x in bits} or not any(1 < s and d == 1 for s, d in flat_modes(a)), (
            a,
            both,
        )
    if sum(1 for s, d in zip(leaves(a.shape), leaves(a.stride), strict=True) if d == 1) == 1:
        narrow = sorted(set(linear(down)))
        assert narrow == sorted({v * f + k for v in linear(a) for k in range(f)})


@fuzz
def test_queries(r: Random) -> None:
    a: Any = r.choice(r.layout(96), r.bijective(), r.composed())
    values = linear(a)
    n = len(values)
    assert L.is_injective(a) == (len(set(values)) == n), a
    assert L.is_bijective(a) == (sorted(values) == list(range(n))), a
    assert L.is_surjective(a) == (set(values) == set(range(max(values) + 1))), a
    assert L.is_contiguous(a) == (max(values) - min(values) + 1 == len(set(values))), a
    assert L.image(a) == set(values)
    assert L.kernel(a) == {i for i, v in enumerate(values) if v == values[0]}, a
    b: Any = r.choice(r.layout(96), a, r.composed())
    assert L.same_map(a, b) == (values == linear(b)), (a, b)
    if isinstance(a, Layout):
        z = L.nullspace(a)
        assert all(values[i] == 0 for i in linear(z)) and len(set(linear(z))) == size(z.shape), a
        bits = r.choice(8, 16, 32)
        v = L.widest_vector(a, bits, r.choice(2, 4, 8, 16, 64))
        assert all(values[i + k] == values[i] + k for i in range(0, n - v + 1, v) for k in range(v)), a
        b = r.layout(96)
        width, common = L.max_common_vector(a, b), L.max_common_layout(a, b)
        assert size(common.shape) == width or (width == 1 and common == Layout(1, 0))
        if width > 1:
            assert [value(a, x) for x in linear(common)] == list(range(width)), (a, b)
            assert [value(b, x) for x in linear(common)] == list(range(width)), (a, b)


@fuzz
def test_linear_layouts(r: Random) -> None:
    shape = tuple(r.choice(1, 2, 4, 8) for _ in range(r.choice(1, 2, 3)))
    order = list(range(len(shape)))
    r.rng.shuffle(order)
    strides, running = [0] * len(shape), 1
    for i in order:
        running *= r.choice(1, 1, 2, 4)
        strides[i], running = running, running * shape[i]
    a = Layout(shape, tuple(strides))
    swizzled = ComposedLayout(Swizzle(r.choice(0, 1, 2), r.choice(0, 1, 2), r.choice(2, 3)), 0, a)
    for x in (a, swizzled):
        f = L.to_linear(x)
        assert [f(i) for i in range(f.size)] == linear(x), x
        back = L.from_linear(f)
        assert linear(back) == linear(x), x
        assert f.is_injective == (len(set(linear(x))) == f.size)
    w = r.swizzle()
    f = L.to_linear(w)
    assert f.size == w.period and [f(i) for i in range(f.size)] == [value(w, i) for i in range(f.size)], w
    if sorted(linear(a)) == list(range(size(shape))):
        g = L.to_linear(a).inverse()
        assert all(g(v) == i for i, v in enumerate(linear(a)))


@fuzz
def test_only_layout_errors(r: Random) -> None:
    """Operands of every kind, congruent or not, static or not: an answer or a LayoutError, nothing else."""

    def leaf() -> Any:
        return r.choice(1, 2, 3, 4, 8, 0, -1, 12, None, L.Dyn(), L.Dyn(64, 8), L.Basis(1, (0,)), L.Basis(2, (1, 0)))

    def operand() -> Any:
        shape = r.shape(32, 2)
        roll = r.rng.random()
        if roll < 0.3:
            return r.choice(r.layout(), r.basis_layout(), r.composed())
        if roll < 0.5:
            return attempt(Layout, r.fill(shape, lambda: r.choice(1, 2, 4, L.Dyn(), L.Dyn(32, 4))), r.fill(shape, leaf))
        if roll < 0.6:
            return attempt(Layout, shape, r.fill(r.shape(8), leaf))
        return r.choice(
            r.tile(2), r.swizzle(), r.coord_swizzle(), shape, r.fill(shape, leaf), leaf(), "4:1", 2.5, [4, 2]
        )

    for name in r.rng.sample(OPERATIONS, 4):
        for count in (1, 2):
            args = [operand() for _ in range(count)]
            try:
                getattr(L, name)(*args)
            except LayoutError:
                pass
            except (TypeError, AttributeError) as e:
                # A wrong number or kind of operands is a mistake of the program, not of the layouts.
                kinds = all(isinstance(x, (Layout, ComposedLayout)) for x in args)
                if kinds and "argument" not in str(e) and name not in TUPLE_ARGUMENTS:
                    raise AssertionError(f"{name}{tuple(args)}: {e!r}") from e
            except Exception as e:
                raise AssertionError(f"{name}{tuple(args)}: {e!r}") from e


TUPLE_ARGUMENTS = """depth group is_surjective rank shape size stride take get_1d_coord get_flat_coord idx2crd crd2idx
""".split()
OPERATIONS = """append blocked_product ceil_div
 coalesce compatible complement composition congruent coprofile coshape cosize crd2idx
depth dice divides_evenly elem_less equal filter_ filter_zeros flat_divide flat_product flatten get_1d_coord
get_flat_coord group idx2crd inner_product int_tuple_add int_tuple_div int_tuple_mod int_tuple_mul int_tuple_product
int_tuple_sub is_bijective is_contiguous is_injective is_surjective left_inverse local_partition logical_divide
logical_product make_composed_layout make_fragment_layout_like make_identity_layout make_layout make_layout_like
make_layout_tv make_ordered_layout max_common_layout max_common_vector nullspace prepend product_each product_like
raked_product rank right_inverse same_map shape shape_div size slice_ stride tile_to_shape tiled_divide tiled_product
to_latex to_linear to_svg to_table unflatten weakly_compatible weakly_congruent zipped_divide zipped_product
""".split()


@fuzz
def test_text(r: Random) -> None:
    x: Any = r.choice(
        r.layout(), r.basis_layout(), r.composed(), r.swizzle(), r.tile(r.choice(1, 2, 3), 2), r.coord_swizzle(),
        ComposedLayout(r.coord_swizzle(), (0, 0), L.make_identity_layout((4, 8))),
    )
    assert L.parse(str(x)) == x and str(L.parse(str(x))) == str(x)
    assert L.parse(L.to_fly_type(x)) == x
    assert eval(repr(x), vars(L)) == x and hash(eval(repr(x), vars(L))) == hash(x)
    text = list(str(x))
    for _ in range(r.choice(1, 2, 4)):
        k = r.rng.randrange(len(text) + 1)
        text[k : k + r.choice(0, 1)] = r.rng.choice("()[]<>:,|*?{}=-0123456789ESCoi divx\n\0\u0663\u00b2")
    for parser in (L.parse, L.parse_layout, L.parse_tile, L.parse_int_tuple, L.parse_composed):
        y = attempt(parser, "".join(text))
        if y is not None and y is not False and not isinstance(y, (int, tuple)):
            assert L.parse(L.to_fly_type(y)) == y or isinstance(y, (L.Dyn, L.Basis)) or "basis" in L.to_fly_type(y)
