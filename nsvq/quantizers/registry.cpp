#include <fmt/ranges.h>

#include <algorithm>

#include "nsvq/core/error.h"
#include "nsvq/core/lookup.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/quantizer.h"

namespace nsvq {

const std::vector<QuantizerKind>& quantizer_kinds() {
  static const std::vector<QuantizerKind> kinds = {
      vq_kind(),       ema_kind(),   factorised_kind(), fsq_kind(),         lfq_kind(),
      vqgan_lc_kind(), simvq_kind(), fvq_kind(),        simvq_ns_kind(),    nsvq_kind(),
      affine_kind(),   cvq_kind(),   jukebox_kind(),    soundstream_kind(), sqvae_kind(),
      gumbel_kind(),   ibq_kind(),   var_kind(),        none_kind(),
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

void require_trained(const QuantizerConfig& config) {
  const auto& reason = quantizer_kind(config.type).untrained;
  if (!reason.empty()) throw UserError("quantizer.type: {} {}", config.type, reason);
}

std::shared_ptr<Quantizer> make_quantizer(const QuantizerConfig& config, int64_t latent_dim) {
  const auto& kind = quantizer_kind(config.type);
  if (config.rotation && !kind.rotates) {
    throw UserError(
        "quantizer.rotation: {} has no nearest code to rotate a latent to; set "
        "quantizer.rotation=false",
        config.type);
  }
  if (config.normalise && !kind.refuses_norms.empty()) {
    throw UserError("quantizer.normalise: {} {}; set quantizer.normalise=false", config.type,
                    kind.refuses_norms);
  }
  auto quantizer = kind.make(config, latent_dim);
  quantizer->set_penalties({config.decorrelation, config.participation});
  return quantizer;
}

}  // namespace nsvq
