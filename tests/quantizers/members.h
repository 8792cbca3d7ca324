#pragma once

#include "nsvq/quantizers/quantizer.h"
#include "tests/seed_of.h"

namespace nsvq {

/// A small member of the family for tests that go through all of them, and what may be asked of it.
struct Member {
  QuantizerConfig config;
  int64_t dim = 6;               ///< channels of its latents
  bool straight_through = true;  ///< the encoder's gradient is the decoder's, unchanged
  bool any_count = true;         ///< config.codes may be any number and is the number of codes
  bool unit_codes = false;       ///< codes drawn from data are latents scaled to length 1
  double rate = 5;               ///< of plain gradient steps that reduce its loss
};

inline Member member(const std::string& type) {
  Member result;
  result.config.type = type;
  result.config.codes = 37;
  if (type == "factorised") {
    result.straight_through = false;
    result.unit_codes = true;
  }
  if (type == "fsq") {
    result.config.fsq.levels = {4, 3, 5, 2, 3, 2};
    result.straight_through = result.any_count = false;
  }
  if (type == "lfq") {
    result.config.lfq.bits = result.dim;
    result.any_count = false;
  }
  if (type == "affine") {
    result.config.beta = 0.95;
    result.config.affine.rate = 0.5;
    result.rate = 4;
  }
  if (type == "simvq" || type == "simvq_ns") result.rate = 0.5;
  result.config.features.dim = 9;
  result.config.bridge = {.patch = 2, .width = 8, .heads = 2, .blocks = 2};
  if (type == "fvq") {
    result.config.codes = 36;
    result.any_count = false;
    result.rate = 0.2;
  }
  if (type == "gumbel") result.rate = 1000;
  if (type == "gumbel" || type == "ibq") result.straight_through = false;
  return result;
}

inline std::shared_ptr<Quantizer> make(const Member& member) {
  torch::manual_seed(3);
  auto quantizer = make_quantizer(member.config, member.dim);
  // A run reads them from a file.
  if (auto* features = quantizer->named_buffers().find("features")) features->normal_();
  return quantizer;
}

/// Latents [batch, dim, h, w] that are the same in every call.
inline torch::Tensor latents_for(const Member& member, int64_t batch = 2, int64_t h = 5,
                                 int64_t w = 3) {
  torch::manual_seed(4);
  return at::randn({batch, member.dim, h, w}) * 0.5;
}

}  // namespace nsvq
