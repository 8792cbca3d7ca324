#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/members/ema.h"

namespace nsvq {

namespace {

/// SoundStream's: codes are running means that start as clusters of the first batches' latents,
/// or, with config.init "data", as some of them, or, with "model", as another model's.
class SoundStreamQuantizer : public EmaQuantizer {
 public:
  SoundStreamQuantizer(const QuantizerConfig& config, int64_t latent_dim)
      : EmaQuantizer(with_data(config), latent_dim) {}

 private:
  static QuantizerConfig with_data(QuantizerConfig config) {
    if (!starts_from_data(config.init) && config.init != "model") config.init = "kmeans";
    return config;
  }
};

}  // namespace

QuantizerKind soundstream_kind() {
  return {.name = "soundstream",
          .summary = "ema from k-means, unused codes restarted at latents",
          .make = make_member<SoundStreamQuantizer>,
          .options = running_means_options,
          .defaults = {"quantizer.init=kmeans", "replacement.threshold=2"},
          .replacement = "restart"};
}

}  // namespace nsvq
