#include "nsvq/train/vq/start_checks.h"

#include <string>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/losses/loss.h"
#include "nsvq/metrics/metric_set.h"
#include "nsvq/tokenizer/open_model.h"

namespace nsvq {

void check_weights(const TokenizerConfig& config) {
  check_losses(config.loss, config.data.size);
  try {
    describe_weights(config.train.metrics);
  } catch (const UserError& error) {
    throw UserError("train.metrics: {}", error.what());
  }
}

void check_files(const TokenizerConfig& config) {
  if (config.train.init_from.empty()) {
    return make_quantizer(config.quantizer, config.model.latent_dim)->begin();
  }
  Tokenizer model(config);
  start_weights(*model, config);
}

void start_weights(TokenizerImpl& model, const TokenizerConfig& config) {
  if (!keeps_quantizer(config)) model.quantizer->begin();
  if (config.train.init_from.empty()) return;
  LoadedModel from;
  try {
    from = load_model(config.train.init_from);
  } catch (const UserError& error) {
    throw UserError("train.init_from: {}", error.what());
  }
  const auto file = from.file.string();
  require_fitting_start(config, from.config, file);
  load_tensors(*model.encoder, named_tensors(*from.tokenizer->encoder), file);
  load_tensors(*model.decoder, named_tensors(*from.tokenizer->decoder), file);
  if (!keeps_quantizer(config)) return;
  load_tensors(*model.quantizer, named_tensors(*from.tokenizer->quantizer), file);
  if (begins_with_decoder(config.schedule) && config.train.precision != from.config.train.precision)
    log("train.precision is {}, and was {} for {}: where a latent is about as close to two codes, "
        "an image may get another token",
        config.train.precision, from.config.train.precision, file);
}

}  // namespace nsvq
