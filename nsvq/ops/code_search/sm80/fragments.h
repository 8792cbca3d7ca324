// Where the operands of mma.sync.m16n8k16 lie, in the lanes of a warp and in tiles: shared by the
// kernels of this folder and by a test that needs no GPU.
//
// A row of a tile has 128 bytes a panel, 8 pieces of 16 bytes permuted by xor with row % 8
// (tile_layout.h), so that the 8 rows which ldmatrix reads at once lie in different banks. ldmatrix
// takes the address of row i of its matrix m from lane 8 m + i.
#pragma once

#include <c10/macros/Macros.h>

#include <cstdint>

namespace nsvq::sm80 {

/// Offset in a tile with `rows` rows of a piece (8 columns) of a row.
C10_HOST_DEVICE constexpr int piece_offset(int rows, int panel, int row, int piece) {
  return (panel * rows + row) * 128 + (piece ^ row % 8) * 16;
}

/// A lane's place in the left operand [16, 16], two columns in each of four registers.
C10_HOST_DEVICE constexpr int left_row(int lane, int i) { return lane / 4 + i % 2 * 8; }
C10_HOST_DEVICE constexpr int left_column(int lane, int i) { return lane % 4 * 2 + i / 2 * 8; }

/// A lane's place in the results [16, 8], four of them.
C10_HOST_DEVICE constexpr int result_row(int lane, int i) { return lane / 4 + i / 2 * 8; }
C10_HOST_DEVICE constexpr int result_column(int lane, int i) { return lane % 4 * 2 + i % 2; }

/// The row among 16, and the piece of two, whose address a lane gives so that four matrices are the
/// right operands of 16 rows of a tile by 16 columns: registers 0 and 1 for the first 8 rows.
C10_HOST_DEVICE constexpr int right_row(int lane) { return lane / 16 * 8 + lane % 8; }
C10_HOST_DEVICE constexpr int right_piece(int lane) { return lane / 8 % 2; }

/// Read transposed: 16 rows are multiplied over, registers 0 and 1 for the first 8 of 16
/// columns.
C10_HOST_DEVICE constexpr int transposed_row(int lane) { return lane / 8 % 2 * 8 + lane % 8; }
C10_HOST_DEVICE constexpr int transposed_piece(int lane) { return lane / 16; }

}  // namespace nsvq::sm80
