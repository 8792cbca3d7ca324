#pragma once

#include <vector>

#include "nsvq/settings/config.h"
#include "nsvq/settings/option.h"

namespace nsvq {

/// Settings of encoder and decoder, model.*.
std::vector<Option> model_options(ModelConfig& config);
/// Settings of the discriminator's network: adversarial.width, adversarial.layers.
std::vector<Option> discriminator_options(AdversarialConfig& config);

/// Throws UserError, naming the key, for what no network can be made of.
void check_model(ModelConfig config);
void check_discriminator(AdversarialConfig config);

}  // namespace nsvq
