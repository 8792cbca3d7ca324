#include "nsvq/recipe/loader_options.h"

#include <algorithm>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"

namespace nsvq {

namespace {

/// A CPU that computes needs its cores for that; a GPU has to be kept fed by them.
int loader_threads(const RunConfig& config, c10::Device device, int ranks) {
  if (config.data.threads > 0) return static_cast<int>(config.data.threads);
  constexpr int fewest = 2;
  if (device.is_cpu()) return fewest;
  return std::max(usable_cores() / ranks - 2, fewest);
}

/// Errors name the key.
std::shared_ptr<const Source> open_source_of(const std::string& key, const Sources& sources,
                                             const DataConfig& data) {
  try {
    return open_source(sources, {.pixels = static_cast<uint64_t>(data.max_pixels)}, data.retries);
  } catch (const UserError& error) {
    throw UserError(
        "{}: {}; set {}=PATH to a folder of pictures, tar shards ('a-{{00..03}}.tar') or "
        "builtin:dead-leaves",
        key, error.what(), key);
  }
}

}  // namespace

LoaderOptions inference_loader_options(const RunConfig& config, c10::Device device, int ranks) {
  LoaderOptions options;
  options.transform = {
      .size = static_cast<int>(config.data.size), .crop = Crop::center, .flip = false};
  options.batch_size = config.train.batch_size;
  options.shuffle = false;
  options.threads = loader_threads(config, device, ranks);
  options.prefetch = static_cast<int>(config.data.prefetch);
  options.on_error = config.data.on_error == "stop" ? OnError::stop : OnError::skip;
  options.device = device;
  options.shuffle_buffer = config.data.shuffle_buffer;
  return options;
}

std::shared_ptr<const Source> open_training_source(const DataConfig& data) {
  return open_source_of("data.train", training_sources(data), data);
}

std::shared_ptr<const Source> open_validation_source(const DataConfig& data) {
  return open_source_of("data.val", validation_sources(data), data);
}

}  // namespace nsvq
