"""Right and left inverses.

Layouts with dynamic leaves or basis strides follow the ``fly`` dialect's inference.  A result equals its definition, or
:class:`LayoutError` is raised.
"""

from __future__ import annotations

from typing import Any

from . import inttuple as it, scalar as sc
from .algebra import Pair, coalesce, coalesce_pair, plain, under_conditions
from .carries import Carries
from .core import ComposedLayout, Layout, Swizzle, make_pair, static_flat
from .errors import LayoutError
from .lattice import is_injective_sum
from .scalar import Basis, Dyn, Leaf
from .through import Modes, left_inverse_modes


def _leaf_list(layout: Layout) -> list[Pair]:
    c = coalesce(layout)
    return list(zip(it.leaves(c.shape), it.leaves(c.stride), strict=True))


def _static_stride(d: Leaf) -> int | None:
    """The static stride of a mode (a basis gives its coefficient), or None."""
    if type(d) is Basis:
        d = d.value
    return d if type(d) is int else None


def _unswizzled(layout: ComposedLayout, name: str) -> tuple[Swizzle, int, Layout]:
    """The parts of a swizzled layout whose swizzle is its own inverse."""
    if isinstance(layout.inner, Swizzle) and type(layout.outer) is Layout:
        w, offset = layout.inner, layout.offset
        if type(offset) is int and (w.mask == 0 or abs(w.shift) >= w.mask):
            return w, offset, layout.outer
    raise LayoutError(f"{name} needs a Layout, or one under a swizzle that is its own inverse, got {layout!r}")


def _right_inverse_swizzled(layout: ComposedLayout) -> ComposedLayout:
    w, offset, outer = _unswizzled(layout, "right_inverse")
    if offset:
        raise LayoutError(f"right_inverse({layout}): no coordinate has the index 0 for sure, because of the offset")
    inverse = right_inverse(outer)
    n = inverse.size()
    if type(n) is not int:
        raise LayoutError(f"right_inverse({layout}): a dynamic size under a swizzle")
    # layout(inverse(w(i))) == w(w(i)) == i as long as w(i) stays in the domain of the inverse.
    whole = n // w.period * w.period
    if not whole:
        whole = next(k for k in range(n, 0, -1) if all(w(i) < k for i in range(k)))
    return ComposedLayout(inverse, 0, ComposedLayout(w, 0, make_pair(whole, 1)))


def _by_stride(modes: list[Pair]) -> tuple[list[Leaf], list[tuple[int, int, Leaf]]]:
    """Products of the extents before each mode; (stride, mode, extent) of the modes of static stride in its order."""
    prefix: list[Leaf] = [1]
    for s, _ in modes:
        prefix.append(sc.mul(prefix[-1], s))
    found = []
    for i, (s, d) in enumerate(modes):
        k = _static_stride(d)
        if k is not None:
            found.append((k, i, s))
    return prefix, sorted(found, key=lambda m: m[0])


def right_inverse(layout: Any) -> Any:
    """The chain layout ``R`` with ``layout(R(i)) == i`` for ``i < size(R)``, built from the compact modes.

    The chain takes the first mode whose stride is what the modes before it reach, as CuTe's does; it ends where
    there is none, also if another of several modes of the same stride would have led further.

    Of a swizzled layout ``w o 0 o L`` it is ``right_inverse(L) o 0 o [w o 0 o n:1]``.
    """
    if isinstance(layout, ComposedLayout):
        return _right_inverse_swizzled(layout)
    layout = plain(layout, "right_inverse")
    prefix, found = _by_stride(_leaf_list(layout))
    current = 1
    out: list[Pair] = []
    for k, i, s in found:
        if type(s) is int and k == current:
            out.append((s, prefix[i]))
            current = s * k
    if not out:
        return make_pair(1, 0)
    return make_pair(*coalesce_pair(tuple([1] + [p[0] for p in out]), tuple([0] + [p[1] for p in out])))


def _left_inverse_swizzled(layout: ComposedLayout) -> ComposedLayout:
    w, offset, outer = _unswizzled(layout, "left_inverse")
    flat = static_flat(outer)
    if flat is None or offset < 0 or min(flat[1]) < 0:
        raise LayoutError(f"left_inverse({layout}): needs static integer strides and no negative index under a swizzle")
    reach = offset + outer.cosize()
    return ComposedLayout(
        left_inverse(outer), -offset, ComposedLayout(w, 0, make_pair(-(-reach // w.period) * w.period, 1))
    )


def left_inverse(layout: Any) -> Any:
    """A layout ``R`` with ``R(layout(c))`` = the linear index of ``c`` (zero-stride modes count as extent 1).

    Where every stride is a multiple of the one before it and clears the mode before it, ``R`` has CuTe's profile.  The
    other static layouts are searched for an answer, which exists more often than not: ``(2,2):(2,3)`` has
    ``(2,3):(1,1)``.

    Raises :class:`LayoutError` if the layout is not injective or no layout is a left inverse; also if the strides do
    not nest and some of them are dynamic, and where the search has to stop undecided (thousands of coordinates, or
    strides of many digits, that have no common structure).

    Modes of dynamic stride are left out, as by the ``fly`` dialect: what is known of them is too little to answer more.
    So the result speaks of the coordinates that are 0 there; that is the whole layout only where such a mode has
    extent 1 or stride 0.  With named symbols :func:`substitute` refuses all other values; a result without a leaf
    that could remember to is an error at once.

    Of a swizzled layout ``w o t o L`` it is ``left_inverse(L) o -t o [w o 0 o n:1]``.
    """
    if isinstance(layout, ComposedLayout):
        return _left_inverse_swizzled(layout)
    layout = plain(layout, "left_inverse")
    modes = _leaf_list(layout)
    prefix, known = _by_stride(modes)
    found = [mode for mode in known if mode[0]]
    left_out = _left_out(layout, modes)
    conditions = list(left_out)
    reach = 1
    shapes: list[Leaf] = []
    strides: list[Leaf] = [0]
    top: Leaf = 1
    previous: Leaf = 1
    for k, i, s in found:
        if k < 0 or k % reach or (type(previous) is int and k < previous * reach):
            if static_flat(layout) is not None:
                return _searched(layout, [(k, s, prefix[i]) for k, i, s in found])
            raise LayoutError(
                f"left_inverse({layout}): the mode {it.to_text(s)}:{k} does not clear the modes of smaller stride (the"
                " layout may not be injective)"
            )
        if type(previous) is Dyn:
            conditions.append((f"left_inverse({layout})", "nests", (k, sc.mul(previous, reach))))
        g = k // reach
        shapes.append(g)
        strides.append(prefix[i])
        reach *= g
        top = previous = s
    shapes.append(top)
    answer = under_conditions(conditions, *coalesce_pair(tuple(shapes), tuple(strides)))
    if sc.named(left_out) and not sc.conditions_of((answer.shape, answer.stride)):
        raise LayoutError(
            f"left_inverse({layout}): a mode has a dynamic stride, and {answer}, which leaves it out, is an inverse of"
            " the other modes only"
        )
    return answer


def _left_out(layout: Layout, modes: list[Pair]) -> list[sc.Condition]:
    """The dialect leaves modes of dynamic stride out of a left inverse; that is right where they have one element."""
    dynamic = [(s, d) for s, d in modes if type(d) is Dyn]
    return [(f"left_inverse({layout})", "alone", (s, d)) for s, d in dynamic]


def _searched(layout: Layout, modes: list[tuple[int, int, int]]) -> Layout:
    """The left inverse of static modes (stride, extent, linear step), sorted by stride, that do not nest."""
    if not is_injective_sum([(d, s) for d, s, _ in modes]):
        raise LayoutError(f"left_inverse({layout}): the layout is not injective, even without its zero-stride modes")
    strides, shapes, targets = zip(*modes, strict=True)
    answer = _by_formula(modes)
    if answer is None or not _undoes(answer, modes):
        try:
            answer = left_inverse_modes(shapes, strides, targets)
        except LayoutError as e:
            raise LayoutError(f"left_inverse({layout}): {e}") from None
    if answer is None:
        raise LayoutError(f"left_inverse({layout}): the layout is injective, but no layout maps its indices back")
    return make_pair(*coalesce_pair(tuple(s for s, _ in answer), tuple(d for _, d in answer)))


def _by_formula(modes: list[tuple[int, int, int]]) -> Modes | None:
    """CuTe's formula where its quotients are not exact: right now and then."""
    reach, extents = 1, []
    for d, _, _ in modes:
        extents.append(d // reach)
        if d < reach:
            return None
        reach *= extents[-1]
    return [*zip([*extents, modes[-1][1]], [0, *(t for _, _, t in modes)], strict=True)]


def _undoes(answer: Modes, modes: list[tuple[int, int, int]]) -> bool:
    """Whether ``answer`` takes every mode (of non-negative stride) to its linear step, and sums to sums."""
    carries = Carries([s for s, _ in answer[:-1]], [[d for _, d in answer]])
    r = make_pair(tuple(s for s, _ in answer), tuple(d for _, d in answer))
    steps = [(s, d) for d, s, _ in modes]
    return (
        all(r(d) == t for d, _, t in modes)
        and all(carries.digits(s, d) == [(s, d)] for s, d in steps)
        and carries.witness(steps) is None
    )
