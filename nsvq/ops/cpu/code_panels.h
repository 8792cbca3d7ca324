#pragma once

#include <torch/types.h>

#include <cstdint>

// One function, compiled for several instruction sets and chosen when the program starts. aarch64
// has NEON in every processor.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define NSVQ_FOR_EACH_CPU __attribute__((target_clones("avx512f", "avx2,fma", "default")))
#else
#define NSVQ_FOR_EACH_CPU
#endif

namespace nsvq {

/// Codes beside each other in a panel, and latents that meet a panel at a time: the products of a
/// tile stay in registers.
constexpr int64_t kPanel = 16, kRows = 6;

/// As many numbers as a register of the processors meant holds; wider ones go through memory.
#if defined(__x86_64__)
typedef float Vector __attribute__((vector_size(32)));
#else
typedef float Vector __attribute__((vector_size(16)));
#endif
constexpr int64_t kVectors = kPanel * sizeof(float) / sizeof(Vector);

/// A number for each latent and code of a tile.
struct alignas(64) Tile {
  Vector rows[kRows][kVectors];
  const float* row(int64_t r) const { return reinterpret_cast<const float*>(rows[r]); }
};

/// A codebook [K, d] for tiled products: panels of 16 codes, the same component of all sixteen
/// adjacent. The last panel is filled up with zeros.
class CodePanels {
 public:
  explicit CodePanels(const torch::Tensor& codebook);

  int64_t codes() const { return codes_; }
  int64_t panels() const { return values_.size(0); }
  int64_t dimension() const { return dimension_; }
  const float* panel(int64_t index) const {
    return values_.const_data_ptr<float>() + index * dimension_ * kPanel;
  }
  /// Squared norms of a panel's codes; infinite where there is no code, so that none is chosen.
  const float* norms(int64_t index) const {
    return norms_.const_data_ptr<float>() + index * kPanel;
  }
  /// The largest norm of a code.
  double largest() const { return largest_; }

 private:
  int64_t codes_, dimension_;
  torch::Tensor values_;  // [panels, d, 16], aligned to 64 bytes as every tensor
  torch::Tensor norms_;   // [panels, 16]
  double largest_ = 0;
};

/// Products of `rows` (at most kRows) latents with the codes of a panel. Latents that are missing
/// count as the first.
void tile_products(const float* latents, int64_t rows, int64_t dimension, const float* panel,
                   Tile& products);

}  // namespace nsvq
