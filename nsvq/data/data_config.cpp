#include "nsvq/data/data_config.h"

namespace nsvq {

std::vector<Option> data_options(DataConfig& data) {
  return {
      {"data.train", &data.train,
       "training images: builtin:..., folders, tar shards, pipe:COMMAND; one or a list",
       Range::not_empty(), kNotOnResult},
      {"data.val", &data.val,
       "evaluation images: builtin:..., folders, tar shards, pipe:COMMAND; one or a list",
       Range::not_empty(), kNotOnResult},
      {"data.size", &data.size, "side in pixels to which images are scaled and cropped",
       Range::between(8, 4096)},
      {"data.crop", &data.crop, "which square of a training image to take",
       Range::one_of({"random", "center"})},
      {"data.flip", &data.flip, "mirror half of the training images", Range::yes_no()},
      {"data.on_error", &data.on_error, "what to do about an unreadable image",
       Range::one_of({"skip", "stop"}), kNotOnResult},
      {"data.max_pixels", &data.max_pixels, "an image of more pixels counts as unreadable",
       Range::between(1, 1e12), kNotOnResult},
      {"data.threads", &data.threads,
       "threads that read and decode images; 0: two, and for a GPU all cores but two",
       Range::between(0, 256), kNotOnResult},
      {"data.prefetch", &data.prefetch, "batches kept ready", Range::between(1, 64), kNotOnResult},
      {"data.shuffle_buffer", &data.shuffle_buffer,
       "encoded images held to shuffle those of pipe:COMMAND", Range::between(1, 1e7)},
      {"data.retries", &data.retries, "times that a failing pipe:COMMAND is run again",
       Range::between(0, 1000), kNotOnResult},
  };
}

}  // namespace nsvq
