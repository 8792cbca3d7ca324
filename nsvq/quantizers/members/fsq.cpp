#include "nsvq/core/error.h"
#include "nsvq/quantizers/losses_of_codes.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/quantizer.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

namespace {

/// Finite scalar quantization: each channel is bounded and rounded to one of its levels. Nothing is
/// searched, nothing trains, and there is no loss.
class FiniteScalarQuantizer : public Quantizer {
 public:
  FiniteScalarQuantizer(const QuantizerConfig& config, int64_t latent_dim);

  torch::Tensor decode(const torch::Tensor& indices) override;
  int64_t codes() const override { return codes_; }
  // No code_vectors(): latents are bounded first, so that their distance to a code says nothing.

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
  torch::Tensor encode_wide(const torch::Tensor& latents) override;

 private:
  torch::Tensor bounded(const torch::Tensor& latents) const;
  torch::Tensor rounded(const torch::Tensor& bounded) const;
  torch::Tensor indices_of(const torch::Tensor& rounded) const;

  int64_t codes_;
  torch::Tensor levels_;  ///< [d, 1, 1]
};

int64_t product_of(const std::vector<int64_t>& levels) {
  int64_t product = 1;
  for (const int64_t level : levels) {
    product *= level;
    if (product > kMostCodes) {
      throw UserError("quantizer.fsq.levels: their product is above {}; take fewer", kMostCodes);
    }
  }
  return product;
}

int64_t levels_of(const QuantizerConfig& config) {
  return std::ssize(config.of<FsqConfig>().levels);
}

/// Levels below zero: a code's channel is its level over this number.
torch::Tensor half_width(const torch::Tensor& levels) { return (levels / 2).floor(); }

/// What an index gains by a step of each channel, the first channel's by 1.
torch::Tensor strides_of(const torch::Tensor& levels) {
  const auto whole = levels.to(at::kLong);
  return at::floor_divide(whole.cumprod(0), whole);
}

std::vector<Option> fsq_options(QuantizerConfig& config) {
  return {{"quantizer.fsq.levels", &config.of<FsqConfig>().levels,
           "fsq: levels of each channel; their product is the number of codes",
           Range::list(1, 24, Range::between(2, 65536))}};
}

}  // namespace

FiniteScalarQuantizer::FiniteScalarQuantizer(const QuantizerConfig& config, int64_t latent_dim)
    : codes_(product_of(config.of<FsqConfig>().levels)),
      levels_(register_buffer(
          "levels", at::tensor(config.of<FsqConfig>().levels, at::kFloat).view({-1, 1, 1}))) {
  if (levels_.size(0) != latent_dim) {
    throw UserError(
        "quantizer.fsq.levels has {} entries, but model.latent_dim is {}: fsq has one a channel; "
        "set model.latent_dim={}",
        levels_.size(0), latent_dim, levels_.size(0));
  }
}

/// An even number of levels has no middle: the bounds are shifted by half a level, and latents so
/// that 0 stays 0.
torch::Tensor FiniteScalarQuantizer::bounded(const torch::Tensor& latents) const {
  const auto half = (levels_ - 1) * (1.001 / 2);  // a little more than the outermost level
  const auto offset = 0.5 * (1 - levels_.remainder(2));
  return (latents + at::atanh(offset / half)).tanh() * half - offset;
}

/// In whole levels. Beyond some thousand of them the bounds are more than half a level outside.
torch::Tensor FiniteScalarQuantizer::rounded(const torch::Tensor& bounded) const {
  const auto least = -half_width(levels_);
  return bounded.detach().round().clamp(least, least + levels_ - 1);
}

torch::Tensor FiniteScalarQuantizer::indices_of(const torch::Tensor& rounded) const {
  // A NaN, which a GPU does not stop for, becomes level 0, so that the index is one.
  const auto steps = (rounded + half_width(levels_)).nan_to_num(0).to(at::kLong);
  return (steps * strides_of(levels_)).sum(1);
}

Quantized FiniteScalarQuantizer::quantize_wide(const torch::Tensor& latents,
                                               const QuantizerStep& /*step*/) {
  const auto inside = bounded(latents);
  const auto levels = rounded(inside);
  const auto width = half_width(levels_);
  const auto codes = levels / width;
  Quantized result;
  result.indices = indices_of(levels);
  result.latents = straight_through(codes, inside / width);
  result.loss = latents.sum() * 0;
  result.terms = {{"commitment", at::mse_loss(inside.detach() / width, codes)}};
  return result;
}

torch::Tensor FiniteScalarQuantizer::encode_wide(const torch::Tensor& latents) {
  return with_policy(indices_of(rounded(bounded(latents))), latents, NonFinite::mark);
}

torch::Tensor FiniteScalarQuantizer::decode(const torch::Tensor& indices) {
  const auto width = half_width(levels_);
  const auto steps =
      at::floor_divide(indices.unsqueeze(1), strides_of(levels_)).remainder(levels_.to(at::kLong));
  return (steps.to(levels_) - width) / width;
}

QuantizerKind fsq_kind() {
  return {.name = "fsq",
          .summary = "each channel rounded to a few levels",
          .make = make_member<FiniteScalarQuantizer>,
          .options = fsq_options,
          .rotates = false,
          .refuses_norms = "compares latents with no codes",
          .codebook = false,
          .latent_dim = levels_of,
          .channels = "quantizer.fsq.levels",
          .codes_are = "the product of quantizer.fsq.levels",
          .weighs_commitment = false,
          .small = {"model.latent_dim=6", "quantizer.fsq.levels=[4, 3, 5, 2, 3, 2]"},
          .straight_through = false,
          .any_codes = false};
}

}  // namespace nsvq
