// Halton-MaskGIT (Besnier et al. 2025): a bidirectional transformer that finds masked tokens.

#include <torch/nn/init.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <numbers>

#include "nsvq/generation/members.h"
#include "nsvq/generation/sampling/masked_sampling.h"
#include "nsvq/nn/sampled_tokens.h"
#include "nsvq/nn/transformer.h"
#include "nsvq/ops/random/seeded_random.h"

namespace nsvq {

namespace {

TransformerOptions masked_options(const GeneratorConfig& config) {
  const double dropout = config.dropout;
  return {.width = config.width,
          .depth = config.depth,
          .heads = config.heads,
          .hidden = config.hidden > 0 ? config.hidden : gated_hidden_width(config.width),
          .query_norm = QueryNorm::width,
          .modulated = true,
          .shared_modulation = config.modulation == "shared",
          .dropout = {.attention = dropout, .projection = dropout, .hidden = dropout}};
}

int64_t masked_steps(const SamplingConfig& sampling, const GridShape& grid) {
  constexpr int64_t kUsual = 32;
  return sampling.steps > 0 ? sampling.steps : std::min(kUsual, grid.positions());
}

class MaskedGenerator : public Generator {
 public:
  MaskedGenerator(const GeneratorConfig& config, const GridShape& grid)
      : config_(config), grid_(grid), transformer_(*this, masked_options(config)) {
    const int64_t width = config.width;
    const auto table = [&](const char* name, int64_t rows) {
      return register_module(name, std::make_shared<torch::nn::EmbeddingImpl>(rows, width));
    };
    classes_ = register_module("cls_emb", std::make_shared<ClassTableImpl>(grid.classes, width));
    const bool full = config.head == "full";
    tokens_ = register_module("tok_emb", make_token_table(config, grid.codes, 1));
    positions_ = table("pos_emb", grid.positions());
    if (config.registers > 0) registers_ = table("reg_tokens", config.registers);
    norm_ = register_module("last_norm", std::make_shared<ModulatedNormImpl>(
                                             TokenNormImpl::Shape{.width = width, .bias = true}));
    fill_token_weights(*this, WeightFill::xavier);
    torch::nn::init::xavier_uniform_(norm_->modulation->weight);
    head_ = register_module("output", full ? tied_head() : make_token_head(config, grid.codes));
  }

  torch::Tensor loss(const TokenImages& images, bool training) override {
    const AutocastGuard autocast(precision, images.tokens.device());
    const auto labels = shown_labels(images, grid_.classes, training ? config_.label_dropout : 0);
    const auto share =
        one_uniform_each(images.seeds, kMaskShareDraw).acos() / (std::numbers::pi / 2);
    const auto masked =
        uniform_rows(images.seeds, kMaskDraw, grid_.positions()).lt(share.unsqueeze(1));
    const auto hidden =
        hidden_states(inputs(images.tokens.masked_fill(masked, grid_.codes)), labels, {}, training);
    return head_->losses(hidden.flatten(0, 1), images.tokens.flatten(), images.gradients)
        .view(images.tokens.sizes())
        .mean(1);
  }

  torch::Tensor surprise(const TokenImages& images) override {
    const torch::NoGradGuard no_grad;
    const AutocastGuard autocast(precision, images.tokens.device());
    const auto labels = shown_labels(images, grid_.classes, /*dropout=*/0);
    const auto orders = halton_orders(grid_, images.seeds);
    auto seen = at::full_like(images.tokens, grid_.codes);
    torch::Tensor sum;
    for (int64_t i = 0; i < grid_.positions(); ++i) {
      const auto place = orders.narrow(1, i, 1);
      const auto token = images.tokens.gather(1, place);
      const auto loss =
          head_->losses(hidden_states(inputs(seen), labels, place, /*training=*/false).squeeze(1),
                        token.squeeze(1));
      sum = sum.defined() ? sum + loss : loss;
      seen.scatter_(1, place, token);
    }
    return sum / static_cast<double>(grid_.positions());
  }

  torch::Tensor sample(const TokenRequest& request, const SamplingConfig& sampling) override {
    check_sampling(sampling, config_, grid_);
    const MaskedNetwork network{
        .hidden =
            [this](const torch::Tensor& tokens, const torch::Tensor& labels,
                   const torch::Tensor& places) { return sampled_states(tokens, labels, places); },
        .head = *head_,
        .grid = grid_,
        .mask = grid_.codes,
        .precision = precision};
    return sampler_.sample(network, request, sampling, masked_steps(sampling, grid_));
  }

 private:
  std::shared_ptr<TokenHead> tied_head() const {
    return make_full_head({.width = config_.width,
                           .codes = grid_.codes,
                           .outputs = grid_.codes + 1,
                           .bias = true,
                           .tied = tokens_->named_parameters()["weight"]});
  }

  /// From `inputs` x: [B, n, width] at positions `places` [B, n]; at all where they are undefined.
  torch::Tensor hidden_states(const torch::Tensor& x, const torch::Tensor& labels,
                              const torch::Tensor& places, bool training) {
    const auto condition = class_vectors(labels);
    const auto y = transformer_.forward(x, {.condition = condition, .training = training});
    return norm_->forward(at_places(y, places), condition);
  }

  /// hidden_states by the kernels of sampling.
  torch::Tensor sampled_states(const torch::Tensor& tokens, const torch::Tensor& labels,
                               const torch::Tensor& places) {
    const auto x = inputs(tokens);
    if (!SampledTokens::takes(x)) return hidden_states(x, labels, places, /*training=*/false);
    const auto condition = class_vectors(labels);
    const auto by = norm_->modulation_by(condition);
    return at_places(transformer_.sampled(x, {.condition = condition}, *norm_->norm, by), places);
  }

  torch::Tensor inputs(const torch::Tensor& tokens) {
    const auto x = tokens_->forward(tokens) + positions_->weight;
    if (!registers_) return x;
    return at::cat({x, registers_->weight.unsqueeze(0).expand({x.size(0), -1, -1})}, 1);
  }

  torch::Tensor class_vectors(const torch::Tensor& labels) {
    return at::silu(classes_->forward(labels)).unsqueeze(1);
  }

  /// x [B, positions and registers, width] at positions `places` [B, n]; undefined: at all.
  torch::Tensor at_places(const torch::Tensor& x, const torch::Tensor& places) const {
    if (!places.defined()) return x.narrow(1, 0, grid_.positions());
    return x.gather(1, places.unsqueeze(2).expand({-1, -1, x.size(2)}));
  }

  GeneratorConfig config_;
  GridShape grid_;
  Transformer transformer_;
  std::shared_ptr<ClassTableImpl> classes_;
  std::shared_ptr<TokenTable> tokens_;
  std::shared_ptr<torch::nn::EmbeddingImpl> positions_, registers_;
  std::shared_ptr<ModulatedNormImpl> norm_;
  std::shared_ptr<TokenHead> head_;
  MaskedSampler sampler_;
};

}  // namespace

GeneratorKind masked_kind() {
  return {.name = "masked",
          .summary = "Halton-MaskGIT: masked tokens, many in each step",
          .make = [](const GeneratorConfig& config,
                     const GridShape& grid) -> std::shared_ptr<Generator> {
            return std::make_shared<MaskedGenerator>(config, grid);
          },
          .fills_gaps = true,
          .check = [](const GeneratorConfig& config) { check_heads(config, 0); },
          .steps = masked_steps};
}

}  // namespace nsvq
