#include "nsvq/quantizers/cvq.h"

#include "nsvq/ops/code_search/nearest_codes_cosine.h"

namespace nsvq {

namespace {

std::vector<Option> cvq_options(QuantizerConfig& config) {
  return {{"quantizer.cvq.distance", &config.of<CvqConfig>().distance,
           "cvq: what chooses a latent's code, and a code's anchor",
           Range::one_of({"cosine", "l2"})}};
}

}  // namespace

Distance ClusteringQuantizer::distance() const {
  return config_.of<CvqConfig>().distance == "l2" ? Distance::l2 : Distance::cosine;
}

/// Of vectors of length 1 the nearest has the least angle. Lengths count in the losses and for the
/// decoder, not here.
torch::Tensor ClusteringQuantizer::search(const torch::Tensor& rows, NonFinite policy) {
  if (distance() == Distance::l2) return VectorQuantizer::search(rows, policy);
  const torch::NoGradGuard no_grad;
  return nearest_indices(unit_vectors(rows), unit_vectors(codebook_), config_, policy);
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
