#include "nsvq/train/vq/start_checks.h"

#include <string>

#include "nsvq/core/error.h"
#include "nsvq/losses/loss.h"
#include "nsvq/metrics/metric_set.h"
#include "nsvq/tokenizer/open_model.h"

namespace nsvq {

namespace {

/// Throws UserError for a model.* setting in which two configurations differ.
void require_equal_models(TokenizerConfig here, TokenizerConfig there, const std::string& file) {
  const auto ours = option_table(here).rows, theirs = option_table(there).rows;
  for (size_t i = 0; i < ours.size(); ++i) {
    if (!ours[i].key.starts_with("model.") || ours[i].value() == theirs[i].value()) continue;
    throw UserError("train.init_from: {} has {} {}, and the recipe {}; they must be equal", file,
                    ours[i].key, theirs[i].value(), ours[i].value());
  }
}

}  // namespace

void check_weights(const TokenizerConfig& config) {
  check_losses(config.loss, config.data.size);
  try {
    describe_weights(config.train.metrics);
  } catch (const UserError& error) {
    throw UserError("train.metrics: {}", error.what());
  }
}

void check_files(const TokenizerConfig& config) {
  make_quantizer(config.quantizer, config.model.latent_dim)->begin();
  if (config.train.init_from.empty()) return;
  Tokenizer model(config);
  load_networks(*model, config);
}

void load_networks(TokenizerImpl& model, const TokenizerConfig& config) {
  LoadedModel from;
  try {
    from = load_model(config.train.init_from);
  } catch (const UserError& error) {
    throw UserError("train.init_from: {}", error.what());
  }
  require_equal_models(config, from.config, from.file.string());
  load_tensors(*model.encoder, named_tensors(*from.tokenizer->encoder), from.file.string());
  load_tensors(*model.decoder, named_tensors(*from.tokenizer->decoder), from.file.string());
}

}  // namespace nsvq
