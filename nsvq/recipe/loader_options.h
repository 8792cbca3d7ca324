#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "nsvq/data/loader/loader.h"
#include "nsvq/recipe/run_config.h"

namespace nsvq {

/// The loader of images in order, as evaluation and inference use it.
LoaderOptions inference_loader_options(const RunConfig& config, c10::Device device = at::kCPU,
                                       int ranks = 1);

/// The images of data.train that are trained on, without what data.split holds out. Errors name the
/// key.
std::shared_ptr<const Source> open_training_source(const DataConfig& data);
/// The images of data.val.
std::shared_ptr<const Source> open_validation_source(const DataConfig& data);

}  // namespace nsvq
