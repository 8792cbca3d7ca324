#include "nsvq/quantizers/soundstream.h"

namespace nsvq {

QuantizerKind soundstream_kind() {
  return {.name = "soundstream",
          .summary = "ema from k-means, unused codes restarted (replacement.threshold: 2)",
          .make = make_member<SoundStreamQuantizer>,
          .options = running_means_options,
          .replacement = "restart"};
}

}  // namespace nsvq
