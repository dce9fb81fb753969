//===- Tiled.cpp - thread-value views of tiled copies and MMAs --------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/Algebra/Algebra.h"

using namespace mlir;
using namespace mlir::fly;

static IntAttr sizeEntry(Algebra &algebra, MLIRContext *ctx, const Int &size) {
  if (!size.isStatic)
    algebra.fail("the shape of an atom must be static");
  return IntAttr::getStatic(ctx, size.value);
}

static TileAttr tileOf(MLIRContext *ctx, ArrayRef<Attribute> entries) {
  return TileAttr::get(ArrayAttr::get(ctx, entries));
}

// Column-major layout of the extents of a tile's entries.
static Layout extentsOf(Algebra &algebra, TileAttr tile) {
  std::vector<Tuple> extents;
  for (int32_t i = 0; i < tile.rank(); ++i) {
    Attribute entry = tile.at(i);
    if (auto layout = dyn_cast<LayoutAttr>(entry))
      extents.push_back(algebra.size(algebra.fromAttr(layout)));
    else if (auto size = dyn_cast<IntAttr>(entry); size && size.isStatic() && !size.isNone())
      extents.push_back(algebra.fromAttr(size));
    else
      algebra.fail("the tile of a tiled copy must give an extent for mode " + Twine(i));
  }
  if (extents.empty())
    return {Tuple(1), Tuple(0)};
  Tuple shape = tile.isLeaf() ? extents.front() : Tuple(std::move(extents));
  return {shape, algebra.compact(shape)};
}

namespace {
/// The copy atom's layouts in values, or placeholders after an error.
struct CopyAtomLayouts {
  Layout ref, side;
};
} // namespace

static std::optional<CopyAtomLayouts> atomLayouts(Algebra &algebra, TiledCopyType type,
                                                  Algebra::CopySide side) {
  auto atom = cast<CopyAtomType>(type.getCopyAtom());
  LayoutAttr ref = atom.getThrValLayoutRef();
  LayoutAttr sideLayout = side == Algebra::CopySide::Src ? atom.getThrValLayoutSrc()
                                                         : atom.getThrValLayoutDst();
  if (!ref || !sideLayout || ref.rank() != 2) {
    algebra.fail("the copy atom has no thread-value layouts in units of its values");
    return std::nullopt;
  }
  return CopyAtomLayouts{algebra.fromAttr(ref), algebra.fromAttr(sideLayout)};
}

// Steps 3 to 5 of the copy view: the tile and rest parts of the tensor, Z = (tile, rest).
static Layout viewTile(Algebra &algebra, MLIRContext *ctx, TiledCopyType type,
                       Algebra::CopySide side, const Layout &z) {
  std::optional<CopyAtomLayouts> atom = atomLayouts(algebra, type, side);
  if (!atom || algebra.failed())
    return z;
  Layout map = algebra.composition(algebra.rightInverse(atom->ref), atom->side);
  TileAttr threadsValues =
      tileOf(ctx, {sizeEntry(algebra, ctx, algebra.size(algebra.at(atom->ref, 0))),
                   sizeEntry(algebra, ctx, algebra.size(algebra.at(atom->ref, 1)))});
  Layout tv = algebra.fromAttr(type.getLayoutThrVal().getAttr());
  Layout q = algebra.zippedDivide(tv, threadsValues);
  Layout inAtom = algebra.composition(algebra.at(q, 0), map);
  Layout pairs = algebra.makeTuple({inAtom, algebra.at(q, 1)});
  Layout w{algebra.zip(pairs.shape), algebra.zip(pairs.stride)};
  Tuple profile = Tuple::of({Tuple(1), Tuple::of({Tuple(1), Tuple(1)})});
  Layout v = algebra.coalesce(w, profile);
  if (algebra.failed())
    return z;
  Layout r = algebra.composition(algebra.at(z, 0), v);
  return algebra.expand(algebra.makeTuple({r, algebra.at(z, 1)}), {0});
}

Layout Algebra::copyView(TiledCopyType type, CopySide side, const Layout &l) {
  Layout z = zippedDivide(l, type.getTileMN().getAttr());
  return failed() ? l : viewTile(*this, ctx, type, side, z);
}

// The part of every thread in a tile with this layout.
static Layout threadsAndValues(Algebra &algebra, MLIRContext *ctx, TiledCopyType type,
                               Algebra::CopySide side, const Layout &tile) {
  Layout z = algebra.makeTuple({tile, {Tuple(1), Tuple(0)}});
  if (algebra.failed())
    return z;
  Layout view = viewTile(algebra, ctx, type, side, z);
  Tuple coord = Tuple::of({Tuple(Int::none()), Tuple(Int::none()), Tuple(0)});
  return algebra.slice(view, coord);
}

Tuple Algebra::tileExtents(TiledCopyType type) {
  return extentsOf(*this, type.getTileMN().getAttr()).shape;
}

Layout Algebra::tiledCopyTV(TiledCopyType type, CopySide side) {
  return threadsAndValues(*this, ctx, type, side, extentsOf(*this, type.getTileMN().getAttr()));
}

Layout Algebra::tiledCopyCoordinates(TiledCopyType type, CopySide side) {
  Tuple extents = tileExtents(type);
  std::vector<Tuple> strides;
  for (int32_t i = 0; i < extents.rank(); ++i)
    strides.push_back(Tuple(Int::constant(1), {i}));
  Tuple stride = extents.isLeaf ? strides.front() : Tuple(std::move(strides));
  return threadsAndValues(*this, ctx, type, side, {extents, stride});
}

Layout Algebra::retile(TiledCopyType type, const Layout &l) {
  auto atom = cast<CopyAtomType>(type.getCopyAtom());
  LayoutAttr refAttr = atom.getThrValLayoutRef();
  if (!refAttr || refAttr.rank() != 2) {
    fail("the copy atom has no thread-value layouts in units of its values");
    return l;
  }
  Int values = size(at(fromAttr(refAttr), 1));
  Layout tv = fromAttr(type.getLayoutThrVal().getAttr());
  Int perThread = size(at(l, 0));
  Int factor = mul(size(at(tv, 0)), perThread);
  Layout extents = extentsOf(*this, type.getTileMN().getAttr());
  if (failed())
    return l;
  if (!factor.isStatic || !perThread.isStatic) {
    fail("retile needs a fragment with a static value mode");
    return l;
  }
  Layout fragments = recast(composition(rightInverse(tv), extents), 1, factor.value);
  if (failed())
    return l;
  Layout ordering = logicalProduct({Tuple(perThread), Tuple(1)}, rightInverse(fragments));
  Layout k = zippedDivide(ordering, Layout{Tuple(values), Tuple(1)});
  SmallVector<Attribute> entries{sizeEntry(*this, ctx, perThread)};
  for (int32_t i = 0; i < fragments.rank(); ++i)
    entries.push_back(sizeEntry(*this, ctx, size(at(fragments, i))));
  if (failed())
    return l;
  Layout z = zippedDivide(l, Attribute(tileOf(ctx, entries)));
  if (failed())
    return l;
  // ((value part, rest of the value part), then the rests of the other modes).
  Layout rest = at(z, 1);
  SmallVector<Layout> modes{composition(at(z, 0), k)};
  for (int32_t i = 1; i < rest.rank(); ++i)
    modes.push_back(at(rest, i));
  Layout result = makeTuple(modes);
  return result;
}

//===------------------------------------------------------------------------===//
// Tiled MMA
//===------------------------------------------------------------------------===//

// The positions in MNK of an operand's two modes.
static std::pair<int32_t, int32_t> operandModes(MmaOperand operand) {
  if (operand == MmaOperand::A)
    return {0, 2};
  if (operand == MmaOperand::B)
    return {1, 2};
  return {0, 1};
}

namespace {
/// Extents of the atom and of the atom layout in M, N and K.
struct MmaExtents {
  int32_t atom[3] = {1, 1, 1}, atoms[3] = {1, 1, 1};
};
} // namespace

static std::optional<MmaExtents> mmaExtents(Algebra &algebra, TiledMmaType type) {
  auto atom = cast<MmaAtomType>(type.getMmaAtom());
  IntTupleAttr shape = atom.getShapeMNK();
  LayoutAttr atoms = type.getAtomLayout().getAttr();
  if (!shape || shape.rank() != 3) {
    algebra.fail("the MMA atom has no MNK shape");
    return std::nullopt;
  }
  if (atoms.rank() > 3) {
    algebra.fail("the atom layout has rank " + Twine(atoms.rank()) + ", at most 3 (MNK) expected");
    return std::nullopt;
  }
  MmaExtents extents;
  for (int32_t i = 0; i < 3; ++i) {
    extents.atom[i] = algebra.size(algebra.fromAttr(shape.at(i))).value;
    if (i < atoms.rank())
      extents.atoms[i] = algebra.size(algebra.fromAttr(atoms.getShape().at(i))).value;
  }
  return extents;
}

Attribute Algebra::tileSizeMNK(TiledMmaType type, int32_t mode) {
  Attribute entry = type.getPermutation().getAttr().at(mode);
  auto number = dyn_cast_or_null<IntAttr>(entry);
  if (entry && !(number && number.isNone()))
    return entry;
  std::optional<MmaExtents> extents = mmaExtents(*this, type);
  if (!extents)
    return IntAttr::getStatic(ctx, 1);
  return toAttr(mul(Int::constant(extents->atom[mode]), Int::constant(extents->atoms[mode])));
}

Layout Algebra::mmaView(TiledMmaType type, MmaOperand operand, const Layout &l) {
  int32_t i, j;
  std::tie(i, j) = operandModes(operand);
  std::optional<MmaExtents> extents = mmaExtents(*this, type);
  auto atom = cast<MmaAtomType>(type.getMmaAtom());
  LayoutAttr atomTV = atom.getThrValLayout(operand);
  if (!extents || !atomTV || atomTV.rank() != 2) {
    fail("the MMA atom has no thread-value layout for this operand");
    return l;
  }
  if (l.rank() < 2) {
    fail("an MMA operand needs two modes");
    return l;
  }
  auto pair = [&](const int32_t (&sizes)[3]) {
    return tileOf(ctx, {IntAttr::getStatic(ctx, sizes[i]), IntAttr::getStatic(ctx, sizes[j])});
  };
  TileAttr permutation = tileOf(ctx, {tileSizeMNK(type, i), tileSizeMNK(type, j)});
  Layout a = zippedDivide(logicalDivide(l, permutation), Attribute(pair(extents->atom)));
  if (failed())
    return l;
  Layout c = composition(at(a, 0), fromAttr(atomTV));
  Layout t = zippedDivide(at(a, 1), Attribute(pair(extents->atoms)));
  if (failed())
    return l;
  return makeTuple({makeTuple({at(c, 0), at(t, 0)}), makeTuple({at(c, 1), at(t, 1)})});
}

Layout Algebra::thrLayoutVMNK(TiledMmaType type) {
  LayoutAttr threads = cast<MmaAtomType>(type.getMmaAtom()).getThrLayout();
  if (!threads) {
    fail("the MMA atom has no thread layout");
    return {Tuple(1), Tuple(0)};
  }
  return tiledProduct(fromAttr(threads), fromAttr(type.getAtomLayout().getAttr()));
}

Layout Algebra::tiledMmaTV(TiledMmaType type, MmaOperand operand) {
  auto [i, j] = operandModes(operand);
  auto extentOf = [&](int32_t mode) -> Tuple {
    Attribute entry = tileSizeMNK(type, mode);
    if (auto layout = dyn_cast<LayoutAttr>(entry))
      return size(fromAttr(layout));
    if (auto number = dyn_cast<IntAttr>(entry))
      return fromAttr(number);
    return fail("a nested permutation entry has no extent");
  };
  Tuple shape = Tuple::of({extentOf(i), extentOf(j)});
  Layout view = mmaView(type, operand, {shape, compact(shape)});
  Layout vmnk = thrLayoutVMNK(type);
  if (failed() || vmnk.rank() < 3) {
    fail("the atom layout needs M and N modes");
    return view;
  }
  Layout threads = at(view, 0);
  if (operand == MmaOperand::A || operand == MmaOperand::B) {
    // Threads along the mode that the operand lacks all see the same data.
    bool isA = operand == MmaOperand::A;
    Tuple mn = Tuple::of({Tuple(size(at(vmnk.shape, 1))), Tuple(size(at(vmnk.shape, 2)))});
    Layout pick{mn, Tuple::of({Tuple(isA ? 1 : 0), Tuple(isA ? 0 : 1)})};
    TileAttr inner = tileOf(ctx, {toAttr(pick), IntAttr::getNone(ctx)});
    threads = composition(threads, tileOf(ctx, {IntAttr::getNone(ctx), inner}));
  }
  Layout covered = makeTuple({vmnk, complement(vmnk)});
  Layout linear{Tuple::of({Tuple(size(vmnk)), Tuple(1)}), Tuple::of({Tuple(1), Tuple(0)})};
  Layout order = composition(linear, rightInverse(covered));
  if (failed())
    return view;
  return makeTuple({composition(threads, order), at(view, 1)});
}
