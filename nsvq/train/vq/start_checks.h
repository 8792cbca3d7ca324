#pragma once

#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/tokenizer.h"

namespace nsvq {

/// Throws UserError, as training does at its start, where weights that losses and metrics need are
/// not in the store.
void check_weights(const TokenizerConfig& config);
/// Throws UserError, as a new run does, where a file that the recipe names is missing or does not
/// fit.
void check_files(const TokenizerConfig& config);

/// What a new run reads into its model: files that the quantizer names, and encoder and decoder of
/// the model that train.init_from names, with its quantizer where quantizer.init is model. Throws
/// UserError where a file is missing or has other settings.
void start_weights(TokenizerImpl& model, const TokenizerConfig& config);

}  // namespace nsvq
