#include "nsvq/ops/code_search/nearest_codes_cosine.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/members/vq.h"

namespace nsvq {

namespace {

/// CVQ-VAE (Zheng and Vedaldi, 2023): plain vector quantization whose unused codes the policy
/// `anchor` moves to latents. One distance chooses a latent's code and a code's anchor.
class ClusteringQuantizer : public VectorQuantizer {
 public:
  using VectorQuantizer::VectorQuantizer;

  Distance distance() const override;

 protected:
  torch::Tensor search(const torch::Tensor& rows, const torch::Tensor& codes,
                       NonFinite policy) override;

 private:
  bool by_angle() const { return config_.of<CvqConfig>().distance == "cosine"; }
};

std::vector<Option> cvq_options(QuantizerConfig& config) {
  return {{"quantizer.cvq.distance", &config.of<CvqConfig>().distance,
           "cvq: what chooses a latent's code, and a code's anchor",
           Range::one_of({"cosine", "l2"})}};
}

}  // namespace

Distance ClusteringQuantizer::distance() const {
  return by_angle() ? Distance::cosine : VectorQuantizer::distance();
}

/// The nearest of unit vectors has the least angle. Lengths count in the losses and for the
/// decoder, not here.
torch::Tensor ClusteringQuantizer::search(const torch::Tensor& rows, const torch::Tensor& codes,
                                          NonFinite policy) {
  const bool scaled_already = config_.normalise;
  if (scaled_already || !by_angle()) return VectorQuantizer::search(rows, codes, policy);
  const torch::NoGradGuard no_grad;
  return nearest_indices(unit_vectors(rows), unit_vectors(codes), config_, policy);
}

QuantizerKind cvq_kind() {
  return {.name = "cvq",
          .summary = "plain vector quantization, unused codes moved to anchors",
          .make = make_member<ClusteringQuantizer>,
          .options = cvq_options,
          .defaults = {"quantizer.init=uniform", "replacement.reset_moments=false"},
          .replacement = "anchor"};
}

}  // namespace nsvq
