#pragma once

#include <c10/util/BFloat16.h>

#include <cstdint>

namespace nsvq::group_norm_cpu {

/// What the channels of an image are normalised with: (x - mean) * scale + shift.
struct Affine {
  const float *mean, *scale, *shift;
};

/// What the statistics of the groups contribute to the gradient: level + (x - mean) * tilt.
struct Pull {
  const float *level, *tilt;
};

/// Sizes of numbers [rows, channels]. In the loops below x is what goes into the normalisation, u =
/// (x - mean) * scale + shift what goes into SiLU, du the gradient of u.
struct Block {
  int64_t rows, channels;
};

/// The loops that take the time, compiled for several instruction sets.
struct Loops {
  /// Means and sums of squared deviations of each channel.
  void (*moments)(const Block& block, const float* x, float* means, float* squares);

  void (*normalise)(const Block& block, const float* x, const Affine& affine, bool silu, float* y);

  /// Writes du, which may overwrite the dy that it is made of.
  void (*through_silu)(const Block& block, const float* x, const float* dy, const Affine& affine,
                       float* du);

  /// Adds du and du (x - mean) to the sums of each channel.
  void (*add_sums)(const Block& block, const float* x, const float* du, const Affine& affine,
                   float* sums, float* centred);

  void (*input_gradient)(const Block& block, const float* x, const float* du, const Affine& affine,
                         const Pull& pull, float* dx);

  void (*widen)(const c10::BFloat16* from, int64_t count, float* to);

  /// Rounds to the nearest, on ties to the even one.
  void (*narrow)(const float* from, int64_t count, c10::BFloat16* to);
};

/// The loops for the processor at hand (instruction_set_cpu.h), with vectors that divide rows of so
/// many numbers, if there are such.
const Loops& loops(int64_t channels);

}  // namespace nsvq::group_norm_cpu
