#include "nsvq/quantizers/quantizer_config.h"

#include <algorithm>

#include "nsvq/core/lookup.h"
#include "nsvq/quantizers/quantizer.h"

namespace nsvq {

std::vector<Option> quantizer_options(QuantizerConfig& config) {
  std::vector<Option> rows = {
      {"quantizer.type", &config.type, "quantizer, by its name (docs/quantizers.md)",
       Range::one_of(names_of(quantizer_kinds()))},
      {"quantizer.codes", &config.codes, "size K of the codebook", Range::between(1, kMostCodes)},
      {"quantizer.init", &config.init,
       "first values of the codebook: gaussian N(0, 1/d), uniform U(-1/K, 1/K), normal "
       "N(0, init_scale^2), data: latents of the first batches, kmeans: their clusters, model: the "
       "whole quantizer of train.init_from",
       Range::one_of({"gaussian", "uniform", "normal", "data", "kmeans", "model"})},
      {"quantizer.init_scale", &config.init_scale,
       "normal: standard deviation of the codebook's numbers", Range::between(1e-15, 1e9)},
      {"quantizer.beta", &config.beta, "weight of the commitment loss", Range::at_least(0)},
      {"quantizer.alpha", &config.alpha, "weight of the non-stationary (NS) loss",
       Range::at_least(0)},
      {"quantizer.alpha_relative", &config.alpha_relative,
       "quantizer.alpha is no weight but the norm of the NS loss's gradient for the codes as a "
       "share of the embedding term's",
       Range::yes_no()},
      {"quantizer.tau", &config.tau, "temperature of the NS loss", Range::between(1e-30, 1e30)},
      {"quantizer.tau_of_nearest", &config.tau_of_nearest,
       "temperature as a multiple of the running mean of the squared distance to the nearest code; "
       "0: quantizer.tau",
       Range::between(0, 1e9)},
      {"quantizer.kernel", &config.kernel,
       "weights of codes in the NS loss: their softmax, or exp(-squared distance / tau) itself "
       "(gaussian)",
       Range::one_of({"softmax", "gaussian"})},
      {"quantizer.decorrelation", &config.decorrelation,
       "weight of the mean squared correlation between channels of the latents",
       Range::at_least(0)},
      {"quantizer.participation", &config.participation,
       "weight of 1 / participation ratio of the latents, the number of directions that they use",
       Range::at_least(0)},
      {"quantizer.rotation", &config.rotation,
       "gradients to the encoder by rotation and scaling, not straight through", Range::yes_no()},
      {"quantizer.normalise", &config.normalise,
       "latents and codes are divided by their norms before search, losses and decoding",
       Range::yes_no()},
      {"quantizer.operators", &config.operators,
       "search and NS loss: streaming (exact indices, no N x K matrix), or plain tensor operations",
       Range::one_of({"streaming", "plain"})},
  };
  std::vector<QuantizerOptions> added;  // kinds share some
  for (const auto& kind : quantizer_kinds()) {
    if (!kind.options || std::find(added.begin(), added.end(), kind.options) != added.end()) {
      continue;
    }
    added.push_back(kind.options);
    for (auto& row : kind.options(config)) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace nsvq
