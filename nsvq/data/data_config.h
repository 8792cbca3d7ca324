#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/settings/option.h"
#include "nsvq/settings/sources.h"

namespace nsvq {

/// Settings data.*: images to train on and to evaluate with.
struct DataConfig {
  Sources train = "builtin:dead-leaves?size=64&count=2048";
  Sources val = "builtin:dead-leaves?size=64&count=256&seed=1";
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

}  // namespace nsvq
