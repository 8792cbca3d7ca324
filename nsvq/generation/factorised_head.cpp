#include <algorithm>
#include <cmath>
#include <vector>

#include "nsvq/generation/sampling/token_sampling.h"
#include "nsvq/generation/token_head.h"
#include "nsvq/nn/transformer.h"

namespace nsvq {

namespace {

class FactorisedTable : public TokenTable {
 public:
  FactorisedTable(int64_t codes, int64_t extra, int64_t width)
      : split_(codes),
        first_(register_module("first", make_full_table(split_.first_codes + extra, width))),
        second_(register_module("second", make_full_table(split_.second_codes + 1, width))) {}

  /// The second part of tokens beyond the codes is a row that no code has.
  torch::Tensor forward(const torch::Tensor& tokens) override {
    const auto beyond = tokens.ge(split_.codes);
    const auto first = tokens.div(split_.second_codes, "floor");
    const auto second = tokens.remainder(split_.second_codes);
    const auto own = tokens - split_.codes + split_.first_codes;
    return first_->forward(at::where(beyond, own, first)) +
           second_->forward(second.masked_fill(beyond, split_.second_codes));
  }

 private:
  CodeSplit split_;
  std::shared_ptr<TokenTable> first_, second_;
};

class FactorisedHead : public TokenHead {
 public:
  FactorisedHead(int64_t codes, int64_t width, int64_t heads, int64_t depth)
      : split_(codes),
        transformer_(*this, {.width = width,
                             .depth = depth,
                             .heads = heads,
                             .hidden = gated_hidden_width(width),
                             .causal = true}) {
    fill_token_weights(*this, WeightFill::normal);
    const auto logits = [&](int64_t outputs) {
      return make_full_head({.width = width, .codes = outputs, .outputs = outputs});
    };
    told_ = register_module("told", make_full_table(split_.first_codes, width));
    norm_ = register_module("norm", std::make_shared<TokenNormImpl>(TokenNormImpl::Shape{width}));
    first_ = register_module("first", logits(split_.first_codes));
    second_ = register_module("second", logits(split_.second_codes));
  }

  torch::Tensor losses(const torch::Tensor& hidden, const torch::Tensor& tokens,
                       RowGradients rows) override {
    const auto first = tokens.div(split_.second_codes, "floor");
    const auto y = on_places(at::stack({hidden, told_->forward(first)}, 1)).unbind(1);
    return first_->losses(y[0], first, rows) +
           second_->losses(y[1], tokens.remainder(split_.second_codes), rows);
  }

  DrawnTokens draw(const torch::Tensor& hidden, const TokenDraw& how) override {
    const auto seen = at_least_fp32(hidden);  // the sampling of a bf16 network gives bf16
    const auto one = on_places(seen.unsqueeze(1)).squeeze(1);
    const auto first = first_->draw(one, how);
    const auto both = how.weight.defined() ? at::cat({first.tokens, first.tokens}) : first.tokens;
    const auto two = on_places(at::stack({seen, told_->forward(both)}, 1)).select(1, 1);
    auto next = how;
    next.seeds = numbered_seeds(how.seeds, at::zeros_like(how.seeds));
    const auto second = second_->draw(two, next);
    // Parts of no code, which training does not show, count as the last one.
    const auto tokens =
        (first.tokens * split_.second_codes + second.tokens).clamp_max(split_.codes - 1);
    return {tokens, how.with_chances ? first.chances + second.chances : torch::Tensor()};
  }

 private:
  /// Not all rows at once: fused attention takes fewer than 65,536.
  torch::Tensor on_places(const torch::Tensor& x) {
    constexpr int64_t kRowsAtOnce = 32768;
    std::vector<torch::Tensor> outputs;
    for (const auto& rows : x.split(kRowsAtOnce)) {
      outputs.push_back(norm_->forward(transformer_.forward(rows, {})));
    }
    return outputs.size() == 1 ? outputs.front() : at::cat(outputs);
  }

  CodeSplit split_;
  Transformer transformer_;
  std::shared_ptr<TokenTable> told_;
  std::shared_ptr<TokenNormImpl> norm_;
  std::shared_ptr<TokenHead> first_, second_;
};

}  // namespace

CodeSplit::CodeSplit(int64_t of_codes) : codes(of_codes) {
  const double bits = std::log2(static_cast<double>(codes));
  second_codes = int64_t{1} << std::max<int64_t>(std::llround(bits * 2 / 3), 1);
  first_codes = (codes + second_codes - 1) / second_codes;
}

std::shared_ptr<TokenTable> make_factorised_table(int64_t codes, int64_t extra, int64_t width) {
  return std::make_shared<FactorisedTable>(codes, extra, width);
}

std::shared_ptr<TokenHead> make_factorised_head(int64_t codes, int64_t width, int64_t heads,
                                                int64_t depth) {
  return std::make_shared<FactorisedHead>(codes, width, heads, depth);
}

}  // namespace nsvq
