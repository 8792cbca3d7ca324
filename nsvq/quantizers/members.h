#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/quantizers/quantizer.h"

namespace nsvq {

// The members of the family: each one's own settings and its kind, which registry.cpp lists. The
// quantizers are in their .cpp files.

struct FsqConfig {
  std::vector<int64_t> levels = {8, 8, 8, 5, 5, 5};
};

struct LfqConfig {
  int64_t bits = 16;
  double entropy = 0.1;
  double diversity = 1;
  double temperature = 0.01;
};

/// The frozen features.
struct FeaturesConfig {
  std::string file;
  int64_t dim = 768;
};

struct AffineConfig {
  std::string variant = "learned";
  double rate = 10;
  double momentum = 0.1;
};

struct CvqConfig {
  std::string distance = "cosine";
};

struct SqvaeConfig {
  double variance = 21;
  double anneal = 1e-5;
};

struct GumbelConfig {
  double temperature = 0.9;
  double last_temperature = 1e-6;
  int64_t anneal_steps = 1000000;
  double kl = 5e-4;
};

struct IbqConfig {
  double entropy = 0.05;
  double entropy_temperature = 0.01;
  double temperature = 1;
};

struct VarConfig {
  std::vector<int64_t> scales = {1, 2, 3, 4, 5, 6, 8, 10, 13, 16};
};

/// From `temperature` to `last_temperature` in `anneal_steps`, along half a cosine.
torch::Tensor gumbel_temperature(const GumbelConfig& config, const torch::Tensor& step);

QuantizerKind ema_kind();
QuantizerKind jukebox_kind();
QuantizerKind vq_kind();
QuantizerKind factorised_kind();
QuantizerKind fsq_kind();
QuantizerKind lfq_kind();
QuantizerKind vqgan_lc_kind();
QuantizerKind simvq_kind();
QuantizerKind simvq_ns_kind();
QuantizerKind fvq_kind();
QuantizerKind nsvq_kind();
QuantizerKind affine_kind();
QuantizerKind cvq_kind();
QuantizerKind soundstream_kind();
QuantizerKind sqvae_kind();
QuantizerKind gumbel_kind();
QuantizerKind ibq_kind();
QuantizerKind var_kind();
QuantizerKind none_kind();

}  // namespace nsvq
