#include "nsvq/core/error.h"
#include "nsvq/ops/soft_assignment/lfq_entropy.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/losses_of_codes.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/quantizer.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

namespace {

/// Lookup-free quantization: a code is the signs of a latent, one bit a channel. Nothing in it
/// trains; commitment and entropy terms move the encoder.
class LookupFreeQuantizer : public Quantizer {
 public:
  LookupFreeQuantizer(const QuantizerConfig& config, int64_t latent_dim);

  torch::Tensor decode(const torch::Tensor& indices) override;
  int64_t codes() const override { return int64_t{1} << settings_.bits; }
  // No code_vectors(): they are too many to list, and the nearest one is the signs.

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
  torch::Tensor encode_wide(const torch::Tensor& latents) override;

 private:
  LfqConfig settings_;
  double beta_;
};

/// 2^k along dimension 1, for the bits k of an index.
torch::Tensor bit_weights(int64_t bits, c10::Device device) {
  const auto numbers = at::arange(bits, at::device(device).dtype(at::kLong));
  return at::bitwise_left_shift(at::ones_like(numbers), numbers).view({-1, 1, 1});
}

torch::Tensor signs_as_index(const torch::Tensor& latents) {
  return (latents.gt(0) * bit_weights(latents.size(1), latents.device())).sum(1);
}

int64_t bits_of(const QuantizerConfig& config) { return config.of<LfqConfig>().bits; }

std::vector<Option> lfq_options(QuantizerConfig& config) {
  auto& lfq = config.of<LfqConfig>();
  return {
      {"quantizer.lfq.bits", &lfq.bits, "lfq: bits of a code, one a channel",
       Range::between(1, 24)},
      {"quantizer.lfq.entropy", &lfq.entropy, "weight of the entropy terms", Range::at_least(0)},
      {"quantizer.lfq.diversity", &lfq.diversity, "share of the batch's entropy in them",
       Range::at_least(0)},
      {"quantizer.lfq.temperature", &lfq.temperature, "temperature of their softmax",
       Range::above(0)},
  };
}

}  // namespace

LookupFreeQuantizer::LookupFreeQuantizer(const QuantizerConfig& config, int64_t latent_dim)
    : settings_(config.of<LfqConfig>()), beta_(config.beta) {
  if (settings_.bits != latent_dim) {
    throw UserError(
        "quantizer.lfq.bits is {}, but model.latent_dim is {}: lfq has one bit a channel; set "
        "model.latent_dim={}",
        settings_.bits, latent_dim, settings_.bits);
  }
}

Quantized LookupFreeQuantizer::quantize_wide(const torch::Tensor& latents,
                                             const QuantizerStep& step) {
  Quantized result;
  result.indices = signs_as_index(latents);
  const auto codes = at::where(latents.gt(0), 1.0, -1.0).to(latents);
  const auto commitment = at::mse_loss(latents, codes);
  result.latents = straight_through(codes, latents);
  result.terms["commitment"] = commitment.detach();
  result.loss = step.commitment ? beta_ * commitment : latents.sum() * 0;
  if (step.commitment && settings_.entropy > 0) {
    const auto entropy =
        lfq_entropy(flatten_latents(latents), settings_.temperature, mean_over(step.entropy_group));
    result.loss =
        result.loss + settings_.entropy * (entropy.sample - settings_.diversity * entropy.batch);
    result.terms["sample_entropy"] = entropy.sample.detach();
    result.terms["batch_entropy"] = entropy.batch.detach();
  }
  return result;
}

torch::Tensor LookupFreeQuantizer::encode_wide(const torch::Tensor& latents) {
  return with_policy(signs_as_index(latents), latents, NonFinite::mark);
}

torch::Tensor LookupFreeQuantizer::decode(const torch::Tensor& indices) {
  const auto set = indices.unsqueeze(1).bitwise_and(bit_weights(settings_.bits, indices.device()));
  return at::where(set.ne(0), 1.0, -1.0).to(at::kFloat);
}

QuantizerKind lfq_kind() {
  return {.name = "lfq",
          .summary = "the signs of a latent, with entropy terms",
          .make = make_member<LookupFreeQuantizer>,
          .options = lfq_options,
          .rotates = false,
          .refuses_norms = "compares latents with no codes",
          .codebook = false,
          .latent_dim = bits_of,
          .channels = "quantizer.lfq.bits",
          .codes_are = "2 to the power of quantizer.lfq.bits",
          .batch_entropy = true,
          .small = {"model.latent_dim=6", "quantizer.lfq.bits=6"},
          .any_codes = false};
}

}  // namespace nsvq
