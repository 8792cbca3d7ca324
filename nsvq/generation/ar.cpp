// LlamaGen (Sun et al. 2024): a class token, then the tokens row by row, each by those before it.

#include "nsvq/generation/members.h"
#include "nsvq/generation/sampling/token_sequence.h"
#include "nsvq/generation/token_head.h"
#include "nsvq/nn/transformer.h"

namespace nsvq {

namespace {

TransformerOptions ar_options(const GeneratorConfig& config) {
  return {.width = config.width,
          .depth = config.depth,
          .heads = config.heads,
          .hidden = config.hidden > 0 ? config.hidden : gated_hidden_width(config.width),
          .causal = true,
          .dropout = {.projection = config.dropout, .output = config.dropout}};
}

class ArGenerator : public Generator {
 public:
  ArGenerator(const GeneratorConfig& config, const GridShape& grid)
      : config_(config), grid_(grid), transformer_(*this, ar_options(config)) {
    const int64_t width = config.width;
    tokens_ = register_module("tok_embeddings", make_token_table(config, grid.codes, 0));
    classes_ =
        register_module("cls_embedding", std::make_shared<ClassTableImpl>(grid.classes, width));
    norm_ = register_module("norm", std::make_shared<TokenNormImpl>(TokenNormImpl::Shape{width}));
    fill_token_weights(*this, WeightFill::normal);
    head_ = register_module("output", make_token_head(config, grid.codes));
  }

  torch::Tensor loss(const TokenImages& images, bool training) override {
    const AutocastGuard autocast(precision, images.tokens.device());
    const auto labels = shown_labels(images, grid_.classes, training ? config_.label_dropout : 0);
    const int64_t seen = grid_.positions() - 1;
    auto x = at::cat({classes_->forward(labels).unsqueeze(1),
                      tokens_->forward(images.tokens.narrow(1, 0, seen))},
                     1);
    if (training && config_.dropout > 0) x = at::dropout(x, config_.dropout, /*train=*/true);
    const TokenContext context{.rotation = rotation(x).narrow(0, 0, seen + 1),
                               .training = training};
    auto stream = transformer_.stream(x, context);
    const auto hidden = norm_->forward(stream);
    return head_->losses(hidden.flatten(0, 1), images.tokens.flatten(), images.gradients)
        .view(images.tokens.sizes())
        .mean(1);
  }

  torch::Tensor sample(const TokenRequest& request, const SamplingConfig& sampling) override {
    check_sampling(sampling, config_, grid_);
    refuse_given(request, "ar");
    const auto at_places = [this](const torch::Tensor& x, const torch::Tensor& places,
                                  KvCache& cache) {
      const TokenContext context{
          .rotation = rotation(x).index_select(0, places), .cache = &cache, .places = places};
      return transformer_.sampled(x.unsqueeze(1), context, *norm_).squeeze(1);
    };
    const SequenceNetwork network{
        .begin =
            [&](const torch::Tensor& labels, KvCache& cache) {
              return at_places(classes_->forward(labels), at::zeros({1}, labels.options()), cache);
            },
        .next =
            [&](const torch::Tensor& tokens, const torch::Tensor& number,
                const torch::Tensor& /*labels*/,
                KvCache& cache) { return at_places(tokens_->forward(tokens), number + 1, cache); },
        .head = *head_,
        .prefix = 1,
        .tokens = grid_.positions(),
        .classes = grid_.classes,
        .precision = precision};
    return sequence_.sample(network, request, sampling);
  }

 private:
  /// [1 + positions, head width / 2]. The class token's is 0, as in the original: its query and its
  /// key are 0.
  const torch::Tensor& rotation(const torch::Tensor& like) {
    const auto type = like.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const auto complex = c10::toComplexType(type);
    if (!rotation_.defined() || rotation_.device() != like.device() ||
        rotation_.scalar_type() != complex) {
      const auto turned =
          grid_rotation(grid_.height, grid_.width, transformer_.options().head_width(),
                        like.options().dtype(type).requires_grad(false));
      rotation_ = at::cat({at::zeros_like(turned.narrow(0, 0, 1)), turned});
    }
    return rotation_;
  }

  GeneratorConfig config_;
  GridShape grid_;
  Transformer transformer_;
  std::shared_ptr<TokenTable> tokens_;
  std::shared_ptr<ClassTableImpl> classes_;
  std::shared_ptr<TokenNormImpl> norm_;
  std::shared_ptr<TokenHead> head_;
  torch::Tensor rotation_;
  TokenSequence sequence_;
};

}  // namespace

GeneratorKind ar_kind() {
  return {.name = "ar",
          .summary = "LlamaGen: tokens row by row, each by those before it",
          .make = [](const GeneratorConfig& config, const GridShape& grid)
              -> std::shared_ptr<Generator> { return std::make_shared<ArGenerator>(config, grid); },
          .fills_gaps = false,
          .check = [](const GeneratorConfig& config) { check_heads(config, 4); }};
}

}  // namespace nsvq
