#pragma once

#include "nsvq/quantizers/quantizer.h"
#include "tests/quantizers/settings.h"
#include "tests/seed_of.h"

namespace nsvq {

/// A small member of the family for tests that go through all of them.
struct Member {
  const QuantizerKind& kind;
  QuantizerConfig config;
  int64_t dim;  ///< channels of its latents
};

inline Member member(const std::string& type) {
  QuantizerSettings config;
  config.quantizer.type = type;
  config.quantizer.codes = 37;
  config.model.latent_dim = 6;
  const auto& kind = quantizer_kind(type);
  apply_settings(config, kind.small);
  return {kind, config.quantizer, config.model.latent_dim};
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
