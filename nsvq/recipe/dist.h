#pragma once

#include <string>
#include <vector>

#include "nsvq/losses/adversarial.h"
#include "nsvq/quantizers/quantizer_config.h"
#include "nsvq/settings/option.h"

namespace nsvq {

/// Settings dist.*: how the processes of a run work together.
struct DistConfig {
  double timeout = 60;
  std::string gradients = "fp32";
  std::string backend = "auto";
  std::string entropy = "own";
  std::string batch_norm = "own";
};

std::vector<Option> dist_options(DistConfig& dist);

/// Throws UserError for settings without effect on a run with this quantizer and adversary. Checked
/// when training begins: models may be stored with such settings.
void check_dist(const DistConfig& dist, const QuantizerConfig& quantizer,
                const AdversarialConfig& adversarial);

}  // namespace nsvq
