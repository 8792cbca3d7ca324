#include <algorithm>
#include <cmath>
#include <vector>

#include "nsvq/core/precision.h"
#include "nsvq/generation/sampling/token_sampling.h"
#include "nsvq/generation/token_head.h"

namespace nsvq {

namespace {

/// Bits that so many codes need.
int64_t bits_of_codes(int64_t codes) {
  int64_t bits = 1;
  while (int64_t{1} << bits < codes) ++bits;
  return bits;
}

/// 1 and -1 for the bits of tokens [...], the lowest first: [..., bits] of `type`.
torch::Tensor signs_of(const torch::Tensor& tokens, int64_t bits, at::ScalarType type) {
  const auto all = at::arange(bits, tokens.options());
  const auto set = tokens.unsqueeze(-1).bitwise_right_shift(all).bitwise_and(1);
  return (2 * set - 1).to(type);
}

class BitsTable : public TokenTable {
 public:
  BitsTable(int64_t codes, int64_t extra, int64_t width)
      : codes_(codes), bits_(bits_of_codes(codes)) {
    const double deviation = 0.02 / std::sqrt(static_cast<double>(bits_));
    weight_ = register_parameter("weight", at::randn({bits_, width}) * deviation);
    bias_ = register_parameter("bias", at::zeros({width}));
    if (extra > 0) beyond_ = register_module("beyond", make_full_table(extra, width));
  }

  torch::Tensor forward(const torch::Tensor& tokens) override {
    const auto type = weight_.scalar_type();
    const auto vectors = at::matmul(signs_of(tokens, bits_, type), weight_).to(type) + bias_;
    if (!beyond_) return vectors;
    const auto is_beyond = tokens.ge(codes_);
    const auto own = beyond_->forward((tokens - codes_).clamp_min(0));
    return at::where(is_beyond.unsqueeze(-1), own, vectors);
  }

 private:
  int64_t codes_, bits_;
  torch::Tensor weight_, bias_;
  std::shared_ptr<TokenTable> beyond_;
};

/// The logit of a bit is linear in gelu(what is read of the hidden state + a vector of the bit +
/// one of each bit before it, with its sign).
class BitsHead : public TokenHead {
 public:
  BitsHead(int64_t codes, int64_t width) : codes_(codes), bits_(bits_of_codes(codes)) {
    const int64_t channels = (width / 8 + 7) / 8 * 8;
    const auto random = [&](const char* name, int64_t rows, int64_t columns, double deviation) {
      return register_parameter(name, at::randn({rows, columns}) * deviation);
    };
    read_ = random("read", channels, width, 0.02);
    told_ = random("told", bits_, channels, 1 / std::sqrt(static_cast<double>(bits_)));
    place_ = random("place", bits_, channels, 0.5);
    weight_ = register_parameter("weight", at::zeros({bits_, channels}));
    bias_ = register_parameter("bias", at::zeros({bits_}));
  }

  torch::Tensor losses(const torch::Tensor& hidden, const torch::Tensor& tokens,
                       RowGradients /*rows*/) override {
    const auto signs = signs_of(tokens, bits_, hidden.scalar_type());
    const auto earlier = at::ones({bits_, bits_}, signs.options()).tril(-1);
    const auto before = at::matmul(signs.unsqueeze(1) * earlier, told_);  // [N, bits, channels]
    const auto logits = logits_of(read(hidden).unsqueeze(1) + before, place_, weight_, bias_);
    return at::softplus(-signs.to(logits.scalar_type()) * logits).sum(1);
  }

  DrawnTokens draw(const torch::Tensor& hidden, const TokenDraw& how) override {
    const bool guidance = how.weight.defined();
    auto state = read(hidden);
    const auto noise = gumbel_rows(how.seeds, 2 * bits_);
    auto tokens = at::zeros_like(how.seeds);
    torch::Tensor chances;
    for (int64_t bit = 0; bit < bits_; ++bit) {
      auto logits = logits_of(state, place_[bit], weight_[bit], bias_[bit]);
      if (guidance) logits = guided(logits, how.weight);
      if (how.factor.defined()) logits = logits * how.factor;
      logits = logits / how.sampling.temperature;
      const auto set = (logits + noise.select(1, 2 * bit)).gt(noise.select(1, 2 * bit + 1));
      const auto signs = 2 * set.to(logits.scalar_type()) - 1;
      if (how.with_chances) {
        const auto chance = at::softplus(-signs * logits).neg();
        chances = chances.defined() ? chances + chance : chance;
      }
      tokens = tokens + set.to(at::kLong) * (int64_t{1} << bit);
      const auto both = guidance ? at::cat({signs, signs}) : signs;
      state = state + both.unsqueeze(1) * told_[bit];
    }
    // Numbers of no code, which training does not show, count as the last one.
    return {tokens.clamp_max(codes_ - 1), chances};
  }

 private:
  torch::Tensor read(const torch::Tensor& hidden) const { return at::linear(hidden, read_); }

  /// Logits for states [..., channels], in fp32 at least.
  static torch::Tensor logits_of(const torch::Tensor& states, const torch::Tensor& place,
                                 const torch::Tensor& weight, const torch::Tensor& bias) {
    const auto inner = at::gelu(states + place.to(states.scalar_type()));
    return at_least_fp32(inner * weight.to(states.scalar_type())).sum(-1) + bias;
  }

  int64_t codes_, bits_;
  torch::Tensor read_, told_, place_, weight_, bias_;
};

}  // namespace

std::shared_ptr<TokenTable> make_bits_table(int64_t codes, int64_t extra, int64_t width) {
  return std::make_shared<BitsTable>(codes, extra, width);
}

std::shared_ptr<TokenHead> make_bits_head(int64_t codes, int64_t width) {
  return std::make_shared<BitsHead>(codes, width);
}

std::shared_ptr<TokenTable> make_token_table(const GeneratorConfig& config, int64_t codes,
                                             int64_t extra) {
  if (config.head == "full") return make_full_table(codes + extra, config.width);
  if (config.head == "bits") return make_bits_table(codes, extra, config.width);
  return make_factorised_table(codes, extra, config.width);
}

std::shared_ptr<TokenHead> make_token_head(const GeneratorConfig& config, int64_t codes) {
  if (config.head == "full") {
    return make_full_head({.width = config.width, .codes = codes, .outputs = codes});
  }
  if (config.head == "bits") return make_bits_head(codes, config.width);
  return make_factorised_head(codes, config.width, config.heads, config.head_depth);
}

}  // namespace nsvq
