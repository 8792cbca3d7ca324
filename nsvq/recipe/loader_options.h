#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>

#include "nsvq/data/loader/loader.h"
#include "nsvq/recipe/run_config.h"

namespace nsvq {

/// The loader of images in order, as evaluation and inference use it.
LoaderOptions inference_loader_options(const RunConfig& config, c10::Device device = at::kCPU,
                                       int ranks = 1);

/// The source that a key of the recipe names; its errors name the key.
std::shared_ptr<const Source> open_source_of(const std::string& key, const Sources& sources,
                                             const DataConfig& data);

}  // namespace nsvq
