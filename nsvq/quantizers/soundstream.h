#pragma once

#include "nsvq/quantizers/ema.h"

namespace nsvq {

/// As in SoundStream: codes are running means that start as clusters of the first batches' latents,
/// or, with config.init "data", as some of them.
class SoundStreamQuantizer : public EmaQuantizer {
 public:
  SoundStreamQuantizer(const QuantizerConfig& config, int64_t latent_dim)
      : EmaQuantizer(with_data(config), latent_dim) {}

 private:
  static QuantizerConfig with_data(QuantizerConfig config) {
    if (!starts_from_data(config.init)) config.init = "kmeans";
    return config;
  }
};

QuantizerKind soundstream_kind();

}  // namespace nsvq
