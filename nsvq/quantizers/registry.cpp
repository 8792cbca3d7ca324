#include <fmt/ranges.h>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/quantizers/affine.h"
#include "nsvq/quantizers/ema.h"
#include "nsvq/quantizers/factorised.h"
#include "nsvq/quantizers/fsq.h"
#include "nsvq/quantizers/fvq.h"
#include "nsvq/quantizers/gumbel.h"
#include "nsvq/quantizers/ibq.h"
#include "nsvq/quantizers/lfq.h"
#include "nsvq/quantizers/nsvq.h"
#include "nsvq/quantizers/quantizer.h"
#include "nsvq/quantizers/simvq.h"
#include "nsvq/quantizers/soundstream.h"
#include "nsvq/quantizers/sqvae.h"
#include "nsvq/quantizers/vq.h"
#include "nsvq/quantizers/vqgan_lc.h"

namespace nsvq {

namespace {

template <typename Member>
QuantizerKind kind(std::string name, std::string summary, std::string replacement = "none") {
  return {std::move(name), std::move(summary), std::move(replacement),
          [](const QuantizerConfig& config, int64_t latent_dim) {
            return std::make_shared<Member>(config, latent_dim);
          }};
}

}  // namespace

const std::vector<QuantizerKind>& quantizer_kinds() {
  static const std::vector<QuantizerKind> kinds = {
      kind<VectorQuantizer>("vq", "plain vector quantization, as in VQGAN"),
      kind<EmaQuantizer>("ema", "codes as running means of their latents, as in VQ-VAE"),
      kind<FactorisedQuantizer>("factorised", "latents and codes of length 1, as in VQGAN-FC"),
      kind<FiniteScalarQuantizer>("fsq", "each channel rounded to a few levels"),
      kind<LookupFreeQuantizer>("lfq", "the signs of a latent, with entropy terms"),
      kind<FeatureQuantizer>("vqgan_lc", "frozen features behind a trained projection (VQGAN-LC)"),
      kind<SimVq>("simvq", "a trained linear map of a frozen codebook"),
      kind<BridgedQuantizer>("fvq", "codes through a small vision transformer (VQBridge)"),
      kind<NonStationarySimVq>("simvq_ns", "simvq plus the NS loss"),
      kind<NonStationaryQuantizer>("nsvq", "plain vector quantization plus the NS loss", "copy"),
      kind<AffineQuantizer>("affine", "a codebook behind a shared scale and shift"),
      kind<VectorQuantizer>("cvq", "plain vector quantization, unused codes moved to anchors",
                            "anchor"),
      kind<EmaQuantizer>("jukebox", "ema, unused codes restarted at latents", "restart"),
      kind<SoundStreamQuantizer>(
          "soundstream", "ema from k-means, unused codes restarted (replacement.threshold: 2)",
          "restart"),
      kind<StochasticQuantizer>("sqvae", "a soft choice of codes that hardens (SQ-VAE)"),
      kind<GumbelQuantizer>("gumbel", "codes drawn by Gumbel noise, straight through"),
      kind<IndexBackpropagationQuantizer>("ibq", "every code has a gradient through its index"),
  };
  return kinds;
}

const QuantizerKind& quantizer_kind(const std::string& type) {
  std::vector<std::string> names;
  for (const auto& kind : quantizer_kinds()) {
    if (kind.name == type) return kind;
    names.push_back(kind.name);
  }
  throw UserError("quantizer.type: '{}' is no quantizer; did you mean '{}'? (there are: {})", type,
                  nearest(type, names), fmt::join(names, ", "));
}

std::shared_ptr<Quantizer> make_quantizer(const QuantizerConfig& config, int64_t latent_dim) {
  return quantizer_kind(config.type).make(config, latent_dim);
}

}  // namespace nsvq
