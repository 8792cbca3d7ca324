#include "nsvq/ops/soft_assignment/soft_assignment.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/losses_of_codes.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/members/softmax_codes.h"
#include "nsvq/quantizers/members/vq.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

namespace {

/// Index backpropagation quantization (Shi et al., 2024): the code of the largest dot product with
/// the latent, one-hot straight through the softmax of the products, so that every code has a
/// gradient. Loss: the double quantization loss, |z_q - z|^2 + |sg c - z|^2 + beta |c - sg z|^2
/// with z_q through the softmax and c the winning code, and the entropy loss, mean H(p) - H(mean
/// p).
class IndexBackpropagationQuantizer : public VectorQuantizer {
 public:
  IndexBackpropagationQuantizer(const QuantizerConfig& config, int64_t latent_dim);

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
  torch::Tensor encode_wide(const torch::Tensor& latents) override;

 private:
  torch::Tensor entropy_loss(const torch::Tensor& flat, Group* group);
  torch::Tensor no_offsets() const;

  IbqConfig settings_;
};

std::vector<Option> ibq_options(QuantizerConfig& config) {
  auto& ibq = config.of<IbqConfig>();
  return {
      {"quantizer.ibq.entropy", &ibq.entropy, "ibq: weight of the entropy terms",
       Range::at_least(0)},
      {"quantizer.ibq.entropy_temperature", &ibq.entropy_temperature,
       "temperature of their softmax", Range::above(0)},
      {"quantizer.ibq.temperature", &ibq.temperature,
       "temperature of the softmax that gradients pass", Range::above(0)},
  };
}

}  // namespace

IndexBackpropagationQuantizer::IndexBackpropagationQuantizer(const QuantizerConfig& config,
                                                             int64_t latent_dim)
    : VectorQuantizer(config, latent_dim), settings_(config.of<IbqConfig>()) {}

torch::Tensor IndexBackpropagationQuantizer::no_offsets() const {
  return at::zeros({codes()}, codebook_.options().requires_grad(false));
}

/// mean H(p) - H(mean p), the latter with the reference's 1e-5 in the logarithm.
torch::Tensor IndexBackpropagationQuantizer::entropy_loss(const torch::Tensor& flat, Group* group) {
  const auto assigned =
      soft_assignment_of_logits(flat, codebook_ / settings_.entropy_temperature, no_offsets());
  const auto rows = static_cast<double>(flat.size(0));
  auto mean = assigned.usage / rows;
  if (const auto over_ranks = mean_over(group)) {
    // The other ranks' latents have their gradient there.
    const auto of_all = mean.detach().clone();
    over_ranks(of_all);
    mean = mean + (of_all - mean.detach());
  }
  return assigned.entropy / rows + (mean * (mean + 1e-5).log()).sum();
}

Quantized IndexBackpropagationQuantizer::quantize_wide(const torch::Tensor& latents,
                                                       const QuantizerStep& step) {
  const auto given = step.commitment ? latents : latents.detach();
  const auto flat = flatten_latents(given);
  const auto temperature = at::full({}, settings_.temperature, flat.options());
  const auto chosen = winning_codes(flat, {codebook_, no_offsets()}, codebook_, {temperature, {}});
  Quantized result;
  result.latents = to_nchw(chosen.codes, latents);
  result.indices = to_grid(chosen.indices, latents);
  const auto winners = look_up(codebook_, result.indices);
  const auto embedding = at::mse_loss(winners, given.detach());
  const auto commitment = at::mse_loss(given, winners.detach());
  result.loss = at::mse_loss(result.latents, given) + config_.beta * embedding;
  if (step.commitment) result.loss = result.loss + commitment;
  result.terms = {{"embedding", embedding.detach()}, {"commitment", commitment.detach()}};
  if (step.extra_codebook_terms && settings_.entropy > 0) {
    const auto entropy = entropy_loss(flat, step.entropy_group);
    result.loss = result.loss + settings_.entropy * entropy;
    result.terms["entropy"] = entropy.detach();
  }
  return result;
}

torch::Tensor IndexBackpropagationQuantizer::encode_wide(const torch::Tensor& latents) {
  const auto found = largest_logits(flatten_latents(latents), {codebook_, no_offsets()});
  return with_policy(to_grid(found, latents), latents, NonFinite::mark);
}

QuantizerKind ibq_kind() {
  return {.name = "ibq",
          .summary = "every code has a gradient through its index",
          .make = make_member<IndexBackpropagationQuantizer>,
          .options = ibq_options,
          .defaults = {"quantizer.init=normal"},
          .rotates = false,
          .refuses_norms = "chooses by the products of latents and codes, in which lengths count",
          .batch_entropy = true,
          .weighs_commitment = false,
          .straight_through = false};
}

}  // namespace nsvq
