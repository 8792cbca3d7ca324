#include <fmt/ranges.h>

#include <algorithm>

#include "nsvq/core/error.h"
#include "nsvq/core/lookup.h"
#include "nsvq/quantizers/affine.h"
#include "nsvq/quantizers/cvq.h"
#include "nsvq/quantizers/ema.h"
#include "nsvq/quantizers/factorised.h"
#include "nsvq/quantizers/fsq.h"
#include "nsvq/quantizers/fvq.h"
#include "nsvq/quantizers/gumbel.h"
#include "nsvq/quantizers/ibq.h"
#include "nsvq/quantizers/lfq.h"
#include "nsvq/quantizers/none.h"
#include "nsvq/quantizers/nsvq.h"
#include "nsvq/quantizers/quantizer.h"
#include "nsvq/quantizers/simvq.h"
#include "nsvq/quantizers/soundstream.h"
#include "nsvq/quantizers/sqvae.h"
#include "nsvq/quantizers/vq.h"
#include "nsvq/quantizers/vqgan_lc.h"

namespace nsvq {

const std::vector<QuantizerKind>& quantizer_kinds() {
  static const std::vector<QuantizerKind> kinds = {
      vq_kind(),       ema_kind(),   factorised_kind(), fsq_kind(),         lfq_kind(),
      vqgan_lc_kind(), simvq_kind(), fvq_kind(),        simvq_ns_kind(),    nsvq_kind(),
      affine_kind(),   cvq_kind(),   jukebox_kind(),    soundstream_kind(), sqvae_kind(),
      gumbel_kind(),   ibq_kind(),   none_kind(),
  };
  return kinds;
}

const QuantizerKind& quantizer_kind(const std::string& type) {
  return find_named(quantizer_kinds(), "quantizer", type, "quantizer.type");
}

std::string other_kinds_of(const std::string& key, const std::string& type) {
  QuantizerConfig config;
  std::vector<std::string> kinds;
  for (const auto& kind : quantizer_kinds()) {
    if (!kind.options) continue;
    for (const auto& row : kind.options(config)) {
      if (row.key == key) kinds.push_back(kind.name);
    }
  }
  const bool own = std::find(kinds.begin(), kinds.end(), type) != kinds.end();
  return own ? "" : fmt::format("{}", fmt::join(kinds, ", "));
}

std::shared_ptr<Quantizer> make_quantizer(const QuantizerConfig& config, int64_t latent_dim) {
  const auto& kind = quantizer_kind(config.type);
  if (config.rotation && !kind.rotates) {
    throw UserError(
        "quantizer.rotation: {} has no nearest code to rotate a latent to; leave it false",
        config.type);
  }
  return kind.make(config, latent_dim);
}

std::vector<Option> quantizer_options(QuantizerConfig& config) {
  std::vector<Option> rows = {
      {"quantizer.type", &config.type, "quantizer, by its name (docs/quantizers.md)",
       Range::one_of(names_of(quantizer_kinds()))},
      {"quantizer.codes", &config.codes, "size K of the codebook", Range::between(1, 16777216)},
      {"quantizer.init", &config.init,
       "first values of the codebook: gaussian N(0, 1/d), uniform U(-1/K, 1/K), normal "
       "N(0, init_scale^2), data: latents of the first batches, kmeans: their clusters",
       Range::one_of({"gaussian", "uniform", "normal", "data", "kmeans"})},
      {"quantizer.init_scale", &config.init_scale,
       "normal: standard deviation of the codebook's numbers", Range::between(1e-15, 1e9)},
      {"quantizer.beta", &config.beta, "weight of the commitment loss", Range::at_least(0)},
      {"quantizer.alpha", &config.alpha, "weight of the non-stationary (NS) loss",
       Range::at_least(0)},
      {"quantizer.tau", &config.tau, "temperature of the NS loss", Range::between(1e-30, 1e30)},
      {"quantizer.rotation", &config.rotation,
       "gradients to the encoder by rotation and scaling, not straight through", Range::yes_no()},
      {"quantizer.operators", &config.operators,
       "search and NS loss: streaming (exact indices, no N x K matrix), or plain tensor operations",
       Range::one_of({"streaming", "plain"})},
  };
  std::vector<QuantizerOptions> added;  // kinds share some
  for (const auto& kind : quantizer_kinds()) {
    if (!kind.options || std::find(added.begin(), added.end(), kind.options) != added.end()) {
      continue;
    }
    added.push_back(kind.options);
    for (auto& row : kind.options(config)) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace nsvq
