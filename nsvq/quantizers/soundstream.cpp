#include "nsvq/quantizers/soundstream.h"

namespace nsvq {

QuantizerKind soundstream_kind() {
  return {.name = "soundstream",
          .summary = "ema from k-means, unused codes restarted at latents",
          .make = make_member<SoundStreamQuantizer>,
          .options = running_means_options,
          .defaults = {"quantizer.init=kmeans", "replacement.threshold=2"},
          .replacement = "restart"};
}

}  // namespace nsvq
