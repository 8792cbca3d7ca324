#include "nsvq/generation/token_head.h"

#include <torch/nn/modules/embedding.h>

#include <optional>

#include "nsvq/generation/sampling/token_sampling.h"
#include "nsvq/ops/random/seeded_random.h"
#include "nsvq/ops/transformer/draw_tokens_inference.h"

namespace nsvq {

namespace {

class FullHead : public TokenHead {
 public:
  explicit FullHead(const TokenHeadShape& shape) : codes_(shape.codes), weight_(shape.tied) {
    if (!weight_.defined()) {
      weight_ = register_parameter("weight", at::zeros({shape.outputs, shape.width}));
    }
    if (shape.bias) bias_ = register_parameter("bias", at::zeros({shape.outputs}));
  }

  torch::Tensor losses(const torch::Tensor& hidden, const torch::Tensor& tokens,
                       RowGradients rows) override {
    return linear_cross_entropy(hidden, weight_, bias_, tokens, rows);
  }

  DrawnTokens draw(const torch::Tensor& hidden, const TokenDraw& how) override {
    if (hidden.is_cuda() && takes_kernel(how)) return {drawn_by_kernel(hidden, how), {}};
    const auto bias = bias_.defined() ? std::optional<torch::Tensor>(bias_) : std::nullopt;
    auto logits = at_least_fp32(at::linear(hidden, weight_, bias)).narrow(1, 0, codes_);
    if (how.weight.defined()) logits = guided(logits, how.weight);
    if (how.factor.defined()) logits = logits * how.factor;
    DrawnTokens drawn;
    drawn.tokens = drawn_codes(filtered_logits(logits, how.sampling), how.seeds);
    if (how.with_chances) {
      const auto chances = at::log_softmax(logits / how.sampling.temperature, 1);
      drawn.chances = chances.gather(1, drawn.tokens.unsqueeze(1)).squeeze(1);
    }
    return drawn;
  }

  /// Tied weights stay as they are in the table.
  void cast_products(at::ScalarType type) override {
    weight_ = weight_.detach().to(type);
    if (bias_.defined()) bias_ = bias_.detach().to(type);
  }

 private:
  static bool takes_kernel(const TokenDraw& how) {
    return !how.with_chances && how.sampling.top_k == 0 && how.sampling.top_p == 1;
  }

  /// Logits beyond the codes are not made: rows of an odd number of them would slow the product.
  torch::Tensor drawn_by_kernel(const torch::Tensor& hidden, const TokenDraw& how) const {
    const auto weight = weight_.narrow(0, 0, codes_);
    const auto logits = bias_.defined() ? at::linear(hidden, weight, bias_.narrow(0, 0, codes_))
                                        : at::linear(hidden, weight);
    return draw_tokens_inference(
        logits, {how.seeds, how.weight, how.factor, how.sampling.temperature, how.wanted});
  }

  int64_t codes_;
  torch::Tensor weight_, bias_;
};

class FullTable : public TokenTable {
 public:
  FullTable(int64_t rows, int64_t width)
      : weight_(register_parameter("weight", at::randn({rows, width}) * 0.02)) {}

  torch::Tensor forward(const torch::Tensor& tokens) override {
    return at::embedding(weight_, tokens);
  }

 private:
  torch::Tensor weight_;
};

}  // namespace

std::shared_ptr<TokenTable> make_full_table(int64_t rows, int64_t width) {
  return std::make_shared<FullTable>(rows, width);
}

std::shared_ptr<TokenHead> make_full_head(const TokenHeadShape& shape) {
  return std::make_shared<FullHead>(shape);
}

ClassTableImpl::ClassTableImpl(int64_t classes, int64_t width)
    : table_(register_module("embedding_table",
                             std::make_shared<torch::nn::EmbeddingImpl>(classes + 1, width))) {}

torch::Tensor ClassTableImpl::forward(const torch::Tensor& labels) {
  return table_->forward(labels);
}

torch::Tensor one_uniform_each(const torch::Tensor& seeds, TokenImageDraw draw) {
  return uniform_rows(seeds, draw, 1).squeeze(1);
}

torch::Tensor shown_labels(const TokenImages& images, int64_t classes, double dropout) {
  if (!images.labels.defined()) return at::full_like(images.seeds, classes);
  if (dropout == 0) return images.labels;
  return images.labels.masked_fill(one_uniform_each(images.seeds, kLabelDraw).lt(dropout), classes);
}

torch::Tensor sampled_labels(const TokenRequest& request, int64_t classes, bool guidance) {
  const auto none = at::full_like(request.seeds, classes);
  const auto told = request.labels.defined() ? request.labels : none;
  return guidance ? at::cat({told, none}) : told;
}

}  // namespace nsvq
