// Index arithmetic of the kernels for compute capability 8.0 and up, which needs no GPU: matrix
// instructions as PTX defines them, on tiles as the packing kernels make them.

#include <c10/util/Half.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <array>
#include <cstring>
#include <set>
#include <vector>

#include "nsvq/ops/code_search/hopper/tile_sizes.h"
#include "nsvq/ops/code_search/sm80/fragments.h"
#include "nsvq/ops/code_search/sm80/ring.h"

namespace nsvq::sm80_layout_test {
namespace {

using Register = std::array<c10::Half, 2>;
using Operand = std::vector<Register>;  ///< of 32 lanes, each with some registers

/// A tile [rows, 64 panels] of fp16, with the pieces of its rows permuted.
struct Tile {
  explicit Tile(int panels) : rows(tile_rows(panels)), bytes(body_bytes(panels)) {
    values = at::randint(-8, 9, {rows, panels * kPanelColumns}).to(at::kFloat);
    for (int r = 0; r < rows; ++r) {
      for (int k = 0; k < panels * kPanelColumns; ++k) {
        const c10::Half value = values[r][k].item<float>();
        const int column = k % kPanelColumns;
        const int panel = k / kPanelColumns;
        const int piece = (column / 8) ^ (r % 8);
        memcpy(&bytes[(panel * rows + r) * 128 + piece * 16 + column % 8 * 2], &value, 2);
      }
    }
  }
  Register at_offset(int offset) const {
    Register two;
    memcpy(two.data(), &bytes[offset], 4);
    return two;
  }
  int rows;
  std::vector<uint8_t> bytes;
  torch::Tensor values;
};

/// ldmatrix.x4: lane 8 m + i gives the address of row i of matrix m; a lane gets two neighbours of
/// row lane / 4 of each, or of a column if transposed.
template <typename Address>
Operand load_matrices(const Tile& tile, bool transposed, Address address) {
  Operand lanes(size_t{32} * 4);
  for (int lane = 0; lane < 32; ++lane) {
    for (int m = 0; m < 4; ++m) {
      const auto element = [&](int row, int column) {
        const auto pair = tile.at_offset(address(8 * m + row) + column / 2 * 4);
        return pair[column % 2];
      };
      const int across = lane / 4, along = lane % 4 * 2;
      lanes[lane * 4 + m] = transposed
                                ? Register{element(along, across), element(along + 1, across)}
                                : Register{element(across, along), element(across, along + 1)};
    }
  }
  return lanes;
}

/// mma.m16n8k16: where PTX has the operands' elements. Adds to results [16, 8].
void multiply(const Operand& a, const Operand& b, int first_b, torch::Tensor results) {
  auto left = at::zeros({16, 16}), right = at::zeros({16, 8});
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane / 4, place = lane % 4;
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 4; ++i) {
        left[group + i % 2 * 8][place * 2 + half + i / 2 * 8] =
            static_cast<float>(a[lane * 4 + i][half]);
      }
      for (int i = 0; i < 2; ++i) {
        right[place * 2 + half + i * 8][group] =
            static_cast<float>(b[lane * 4 + first_b + i][half]);
      }
    }
  }
  results += at::mm(left, right);
}

/// The left operand as Left::load (tile_ring.cuh) reads it.
Operand left_operand(const Tile& tile, int row, int step) {
  Operand lanes(size_t{32} * 4);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int column = sm80::left_column(lane, i);
      const int at = sm80::piece_offset(tile.rows, step / 4, row + sm80::left_row(lane, i),
                                        step % 4 * 2 + column / 8);
      lanes[lane * 4 + i] = tile.at_offset(at + column % 8 * 2);
    }
  }
  return lanes;
}

TEST(Sm80Layout, ProductsOfRowsOfTwoTiles) {
  torch::manual_seed(0);
  for (const int panels : {1, 2, 4}) {
    const Tile left(panels), right(panels);
    const int row = left.rows - 16, code = right.rows - 48;
    auto results = at::zeros({16, 16});
    for (int step = 0; step < 4 * panels; ++step) {
      const auto b = load_matrices(right, false, [&](int lane) {
        return sm80::piece_offset(0, 0, sm80::right_row(lane),
                                  step % 4 * 2 + sm80::right_piece(lane)) +
               step / 4 * right.rows * 128 + code * 128;
      });
      const auto a = left_operand(left, row, step);
      multiply(a, b, 0, results.slice(1, 0, 8));
      multiply(a, b, 2, results.slice(1, 8, 16));
    }
    const auto expected =
        at::mm(left.values.slice(0, row, row + 16), right.values.slice(0, code, code + 16).t());
    EXPECT_TRUE(at::equal(results, expected)) << panels;
  }
}

/// Results of one product, in the registers of a lane, are the left operand of the next.
TEST(Sm80Layout, ProductsOfResultsAndATransposedTile) {
  torch::manual_seed(1);
  for (const int panels : {1, 2, 4}) {
    const Tile tile(panels);
    const auto weights = at::randint(0, 9, {16, 16}).to(at::kFloat);
    Operand a(size_t{32} * 4);
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 8; ++i) {  // two results [16, 8]; pairs as `weigh` packs them
        const int row = sm80::result_row(lane, i % 4);
        const int column = sm80::result_column(lane, i % 4) + i / 4 * 8;
        a[lane * 4 + i / 2][i % 2] = weights[row][column].item<float>();
      }
    }
    const int first = tile.rows - 32, columns = panels * kPanelColumns;
    auto results = at::zeros({16, columns});
    for (int n = 0; n < columns / 16; ++n) {
      const auto b = load_matrices(tile, true, [&](int lane) {
        return sm80::piece_offset(0, 0, sm80::transposed_row(lane),
                                  n % 4 * 2 + sm80::transposed_piece(lane)) +
               n / 4 * tile.rows * 128 + first * 128;
      });
      multiply(a, b, 0, results.slice(1, 16 * n, 16 * n + 8));
      multiply(a, b, 2, results.slice(1, 16 * n + 8, 16 * n + 16));
    }
    EXPECT_TRUE(at::equal(results, at::mm(weights, tile.values.slice(0, first, first + 16))))
        << panels;
  }
}

/// The 8 rows that ldmatrix reads at once lie in different banks.
TEST(Sm80Layout, RowsOfAMatrixShareNoBank) {
  for (int step = 0; step < 4; ++step) {
    for (int m = 0; m < 4; ++m) {
      std::set<int> direct, transposed;
      for (int lane = 8 * m; lane < 8 * m + 8; ++lane) {
        const auto banks = [&](int row, int piece) {
          return sm80::piece_offset(0, 0, row, 2 * step + piece) % 128;
        };
        direct.insert(banks(sm80::right_row(lane), sm80::right_piece(lane)));
        transposed.insert(banks(sm80::transposed_row(lane), sm80::transposed_piece(lane)));
      }
      EXPECT_EQ(direct.size(), 8u);
      EXPECT_EQ(transposed.size(), 8u);
    }
  }
}

/// A block has all of a product's rows, whole tiles are copied in steps of a warp, and two tiles
/// fit the least shared memory beside what the first pass needs.
TEST(Sm80Layout, RingsFitSharedMemory) {
  constexpr int64_t boards = int64_t{sm80::kWarps} * 8 * 72 * 4;
  for (const int64_t dimension : {1, 64, 65, 128, 129, 256}) {
    const int panels = panels_for(dimension);
    EXPECT_EQ(tile_bytes(panels) % 512, 0);
    EXPECT_EQ(256 % sm80::block_latents_for(panels), 0) << "latents are packed by 256";
    for (const int64_t limit : {99 << 10, 163 << 10, 227 << 10}) {
      for (const int64_t others : {int64_t{0}, boards}) {
        const int stages = sm80::stages_for(panels, limit, others);
        EXPECT_GE(stages, 2) << dimension << ", " << limit;
        EXPECT_LE(stages, sm80::kMostStages);
        EXPECT_LE(stages * tile_bytes(panels) + others + sm80::kStaticBytes, limit);
      }
    }
  }
}

}  // namespace
}  // namespace nsvq::sm80_layout_test
