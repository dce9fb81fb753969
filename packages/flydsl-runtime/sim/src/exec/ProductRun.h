//===- ProductRun.h - products that run together, as sums ------*- C++ -*-===//
//
// A matrix loop is a run of products: each adds A times B to a tile of registers. What no product of the run writes
// can be unpacked before all of them, tiles can be computed in any order, and those that share A side by side, each
// from its first product to its last without going back to the registers. The steps of one sum keep their order, so
// that the result has the same bits.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_EXEC_PRODUCTRUN_H
#define FLYSIM_EXEC_PRODUCTRUN_H

#include "exec/Matrix.h"
#include "exec/Wave.h"

#include <memory>
#include <vector>

namespace flysim {

/// Products of a run of which none reads as A or B what another has written.
struct ProductPart {
  static constexpr unsigned kMostColumns = 4; ///< of 16 elements, side by side
  static constexpr unsigned kMostPlanes = 1024; ///< of all A, and of all B

  /// One product of a tile: its planes among those of all A and all B.
  struct Factor {
    uint32_t a, b[kMostColumns];
  };
  /// Columns of 16 elements that share the A of every product.
  struct Tile {
    uint32_t columns = 0;
    uint32_t d[kMostColumns] = {}; ///< places of their elements in the registers
    uint32_t first = 0, count = 0; ///< the products, among `factors`
  };

  std::vector<uint32_t> operands[2]; ///< first registers of each A and each B
  std::vector<const Inst *> starts;  ///< products that begin a sum with something else than their D
  std::vector<Tile> tiles;
  std::vector<Factor> factors;
};

/// True for products that can be parts: they add floats to registers of 32 bits, blocks of 16 columns.
bool isSum(const MatrixDesc &desc);

/// The runs that a wave has come through.
class ProductRuns {
public:
  /// What the products from `first` on compute, with the registers that the wave's row offsets select now.
  const std::vector<ProductPart> &of(const Wave &w, const Inst &first);

private:
  struct Run {
    uint32_t msb[4];
    std::vector<ProductPart> parts;
  };
  std::vector<std::unique_ptr<Run>> known; ///< by the number of the first instruction
};

} // namespace flysim

#endif
