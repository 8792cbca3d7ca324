#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/data/sources/part.h"
#include "nsvq/settings/option.h"
#include "nsvq/settings/sources.h"

namespace nsvq {

/// Settings data.*: images to train on and to evaluate with.
struct DataConfig {
  Sources train = "builtin:dead-leaves?size=64&count=2048";
  Sources val = "builtin:dead-leaves?size=64&count=256&seed=1";
  Split split;
  bool on_training_images = false;
  int64_t size = 128;
  std::string crop = "random";
  bool flip = false;
  std::string on_error = "skip";
  int64_t max_pixels = 1 << 27;
  int64_t threads = 0;
  int64_t prefetch = 4;
  int64_t shuffle_buffer = 4096;
  int64_t retries = 3;
};

std::vector<Option> data_options(DataConfig& data);
/// Throws UserError if data.split leaves no images to train on.
void check_data(const DataConfig& data);
/// With data.split.tune: data.val is that part of data.train, for OptionTable::dependent_defaults.
std::vector<std::string> data_defaults(const DataConfig& data);

/// data.train with hashes in place of names of parts; sources without a part mean their part train.
Sources training_sources(const DataConfig& data);
/// data.val with hashes; with data.split, a source that data.train has too means its part tune.
/// Throws UserError for a part that data.split leaves empty.
Sources validation_sources(const DataConfig& data);

/// Whether a run's training images are among those that it is judged by; called `name` in a line
/// of the log. Throws UserError if so, unless that is done `on_purpose` or by
/// data.on_training_images.
bool judges_training_images(const Sources& judged, const std::string& name, const DataConfig& run,
                            bool on_purpose);
/// Logs a warning if data.val has images that are trained on, unless data.on_training_images.
void warn_of_seen_validation(const DataConfig& data);

}  // namespace nsvq
