// RAR (Yu et al. 2024): tokens in random orders at first, row by row in the end of training; each
// place is told the position of the token that it is to find.

#include <torch/nn/modules/embedding.h>

#include "nsvq/generation/members.h"
#include "nsvq/generation/sampling/token_sequence.h"
#include "nsvq/generation/token_head.h"
#include "nsvq/nn/transformer.h"
#include "nsvq/ops/random/seeded_random.h"

namespace nsvq {

namespace {

/// Before the tokens stand a learned vector and the class.
constexpr int64_t kPrefix = 2;
/// Rows that the original's tables have beyond those it uses.
constexpr int64_t kSpareSteps = 100, kSparePositions = 1024;
constexpr double kRarEps = 1e-6;

TransformerOptions rar_options(const GeneratorConfig& config) {
  return {.width = config.width,
          .depth = config.depth,
          .heads = config.heads,
          .hidden = config.hidden > 0 ? config.hidden : 4 * config.width,
          .norm = NormKind::layer,
          .eps = kRarEps,
          .query_norm = QueryNorm::head,
          .gated = false,
          .bias = true,
          .modulated = true,
          .shared_modulation = config.modulation == "shared",
          .causal = true,
          .dropout = {config.dropout, config.dropout, config.dropout, config.dropout}};
}

class RarGenerator : public Generator {
 public:
  RarGenerator(const GeneratorConfig& config, const GridShape& grid)
      : config_(config), grid_(grid), transformer_(*this, rar_options(config)) {
    const int64_t width = config.width;
    const auto table = [&](const char* name, int64_t rows) {
      return register_module(name, std::make_shared<torch::nn::EmbeddingImpl>(rows, width));
    };
    // Codes, a mask that nothing uses, classes, none.
    const int64_t extra = 1 + grid.classes + 1;
    const bool full = config.head == "full";
    if (full) {
      all_tokens_ = table("embeddings", grid.codes + extra);
    } else {
      many_tokens_ = register_module("embeddings", make_token_table(config, grid.codes, extra));
    }
    positions_ = table("pos_embed", grid.positions() + kSparePositions);
    targets_ = table("target_aware_pos_embed", grid.positions() + kSparePositions);
    steps_ = table("timesteps_embeddings", grid.positions() + kSpareSteps);
    norm_ = register_module(
        "adaln_before_head",
        std::make_shared<ModulatedNormImpl>(TokenNormImpl::Shape{
            .width = width, .kind = NormKind::layer, .eps = kRarEps, .weight = false}));
    fill_token_weights(*this, WeightFill::normal);
    first_ = register_parameter("cls_token", at::zeros({1, 1, width}));
    head_ = register_module("lm_head",
                            full ? make_full_head({width, grid.codes, grid.codes, /*bias=*/true})
                                 : make_token_head(config, grid.codes));
    if (!full) return;
    const torch::NoGradGuard no_grad;
    for (auto& item : head_->named_parameters()) {
      if (item.key() == "weight") item.value().normal_(0, 0.02);
    }
  }

  torch::Tensor loss(const TokenImages& images, bool training) override {
    const AutocastGuard autocast(precision, images.tokens.device());
    const auto labels = shown_labels(images, grid_.classes, training ? config_.label_dropout : 0);
    const auto order = orders(images, training);
    const auto tokens = images.tokens.gather(1, order);
    const int64_t seen = grid_.positions() - 1;
    const auto classes = class_vectors(labels);  // [B, 1, width]
    auto x = at::cat({classes + positions_->weight.narrow(0, 1, 1),
                      vectors(tokens.narrow(1, 0, seen)) +
                          positions_->forward(order.narrow(1, 0, seen) + kPrefix)},
                     1) +
             targets_->forward(order + kPrefix);
    x = at::cat({first_vectors(labels), x}, 1);
    const auto condition = at::silu(classes + steps_->weight.narrow(0, 0, x.size(1)));
    const auto y = transformer_.forward(x, {.condition = condition, .training = training});
    const auto hidden = norm_->forward(y.narrow(1, 1, seen + 1), condition.narrow(1, 1, seen + 1));
    return head_->losses(hidden.flatten(0, 1), tokens.flatten(), images.gradients)
        .view(tokens.sizes())
        .mean(1);
  }

  torch::Tensor sample(const TokenRequest& request, const SamplingConfig& sampling) override {
    check_sampling(sampling, config_, grid_);
    refuse_given(request, "rar");
    const SequenceNetwork network{
        .begin = [this](const torch::Tensor& labels,
                        KvCache& cache) { return begin(labels, cache); },
        .next = [this](const torch::Tensor& tokens, const torch::Tensor& number,
                       const torch::Tensor& labels,
                       KvCache& cache) { return next(tokens, number, labels, cache); },
        .head = *head_,
        .prefix = kPrefix,
        .tokens = grid_.positions(),
        .classes = grid_.classes,
        .precision = precision};
    return sequence_.sample(network, request, sampling);
  }

 private:
  torch::Tensor vectors(const torch::Tensor& tokens) {
    return all_tokens_ ? all_tokens_->forward(tokens) : many_tokens_->forward(tokens);
  }

  torch::Tensor class_vectors(const torch::Tensor& labels) {
    return vectors(labels + (grid_.codes + 1)).unsqueeze(1);
  }

  torch::Tensor first_vectors(const torch::Tensor& labels) {
    return (first_ + positions_->weight.narrow(0, 0, 1)).expand({labels.size(0), -1, -1});
  }

  /// Positions [B, positions] in the order in which tokens are found: in training a random one for
  /// a share of the images, which falls from 1 to 0.
  torch::Tensor orders(const TokenImages& images, bool training) const {
    const auto raster = at::arange(grid_.positions(), images.tokens.options());
    if (!training) return raster.expand_as(images.tokens);
    const double from = config_.anneal_from, to = config_.anneal_to;
    const auto share = ((to - images.progress) / (to - from)).clamp(0, 1);
    const auto shuffled = uniform_rows(images.seeds, kOrderDraw, grid_.positions())
                              .argsort(/*stable=*/true, /*dim=*/1, /*descending=*/false);
    const auto is_random = one_uniform_each(images.seeds, kOrderChoiceDraw).lt(share);
    return at::where(is_random.unsqueeze(1), shuffled, raster);
  }

  /// Hidden states [rows, width] at the last of the places, to which x [rows, T, width] belongs.
  torch::Tensor at_places(const torch::Tensor& x, const torch::Tensor& classes,
                          const torch::Tensor& places, KvCache& cache) {
    const auto condition = at::silu(classes + steps_->forward(places));
    const TokenContext context{.condition = condition, .cache = &cache, .places = places};
    const auto y = transformer_.sampled(x, context, *norm_->norm, norm_->modulation_by(condition));
    return y.select(1, y.size(1) - 1);
  }

  torch::Tensor begin(const torch::Tensor& labels, KvCache& cache) {
    const auto classes = class_vectors(labels);
    const auto second =
        classes + positions_->weight.narrow(0, 1, 1) + targets_->weight.narrow(0, kPrefix, 1);
    return at_places(at::cat({first_vectors(labels), second}, 1), classes,
                     at::arange(kPrefix, labels.options()), cache);
  }

  torch::Tensor next(const torch::Tensor& tokens, const torch::Tensor& number,
                     const torch::Tensor& labels, KvCache& cache) {
    const auto place = number + kPrefix;
    const auto x =
        vectors(tokens).unsqueeze(1) + positions_->forward(place) + targets_->forward(place + 1);
    return at_places(x, class_vectors(labels), place, cache);
  }

  GeneratorConfig config_;
  GridShape grid_;
  Transformer transformer_;
  std::shared_ptr<torch::nn::EmbeddingImpl> all_tokens_;  ///< of head full
  std::shared_ptr<TokenTable> many_tokens_;               ///< of the others
  std::shared_ptr<torch::nn::EmbeddingImpl> positions_, targets_, steps_;
  std::shared_ptr<ModulatedNormImpl> norm_;
  std::shared_ptr<TokenHead> head_;
  torch::Tensor first_;
  TokenSequence sequence_;
};

}  // namespace

GeneratorKind rar_kind() {
  return {.name = "rar",
          .summary = "RAR: tokens in random orders that training turns into row by row",
          .make = [](const GeneratorConfig& config,
                     const GridShape& grid) -> std::shared_ptr<Generator> {
            return std::make_shared<RarGenerator>(config, grid);
          },
          .fills_gaps = false,
          .check = [](const GeneratorConfig& config) { check_heads(config, 1); }};
}

}  // namespace nsvq
