#pragma once

#include <filesystem>
#include <string>

#include "nsvq/io/formats/safetensors.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/quantizer.h"
#include "tests/train/tiny.h"

namespace nsvq {

/// tiny_config_of(type) with the file of features that some quantizers read, for tests that go
/// through all of quantizer_kinds(). Nothing but training is done.
inline TokenizerConfig tiny_config_with_files(const std::string& type,
                                              const std::filesystem::path& folder) {
  auto config = tiny_config_of(type);
  config.train.eval_every = 0;
  config.train.samples_every = 0;
  config.drift.images = 0;
  auto& features = config.quantizer.of<FeaturesConfig>();
  features.file = folder / "features.safetensors";
  write_safetensors(features.file,
                    {{{"features", at::randn({config.quantizer.codes, features.dim})}}, {}});
  return config;
}

/// With all that makes the NS loss depend on the step's latents, and with the penalties on them.
inline TokenizerConfig with_relative_ns_loss(TokenizerConfig config, const std::string& kernel) {
  config.quantizer.kernel = kernel;
  config.quantizer.tau_of_nearest = 1;
  config.quantizer.alpha_relative = true;
  config.quantizer.decorrelation = config.quantizer.participation = 0.1;
  config.optimizer.eps_quantizer = 1e-12;
  config.replacement.of<CopyReplacementConfig>().sigma_relative = 0.01;
  return config;
}

}  // namespace nsvq
