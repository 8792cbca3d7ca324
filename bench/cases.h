#pragma once

// The cases that operators are tested, their gradients checked and their speed measured with, in
// one table: tests/ops/cases_test.cpp and `nsvq_bench ops` loop over it.

#include <torch/types.h>

#include <string>
#include <vector>

namespace nsvq {

enum class CaseUse {
  test,      ///< small enough for references in fp64
  time_cpu,  ///< a second or less for plain versions on a CPU
  time_gpu,
};

/// Latents and codes, for the search and the NS loss.
struct CodeCase {
  std::string name;
  int64_t latents, codes, dimension;
  std::string family;  ///< how values are drawn: a name of code_families()
  CaseUse use = CaseUse::test;
  at::ScalarType type = at::kFloat;

  /// Whether there is an NS loss: not of values whose squares fp32 does not hold.
  bool has_loss() const { return family != "huge values"; }
};

const std::vector<CodeCase>& code_cases();
/// In the order of the table.
const std::vector<std::string>& code_families();

struct DrawnCodes {
  torch::Tensor latents;   ///< [N, d]
  torch::Tensor codebook;  ///< [K, d]
};

/// Equal values for equal seeds on every device.
DrawnCodes draw(const CodeCase& one, uint64_t seed, c10::Device device);

/// Images, for group_norm_silu.
struct ImageCase {
  std::string name;
  int64_t images, channels, height, width, groups;
  CaseUse use = CaseUse::test;
  at::ScalarType type = at::kFloat;
};

const std::vector<ImageCase>& image_cases();

struct DrawnImages {
  torch::Tensor input, gradient;  ///< [N, C, H, W], channels-last; the gradient is the output's
  torch::Tensor weight, bias;     ///< [C]
};

DrawnImages draw(const ImageCase& one, uint64_t seed, c10::Device device);

}  // namespace nsvq
