#include "nsvq/recipe/dist.h"

#include "nsvq/core/error.h"
#include "nsvq/nn/discriminator_kinds.h"
#include "nsvq/quantizers/quantizer.h"

namespace nsvq {

std::vector<Option> dist_options(DistConfig& dist) {
  return {
      {"dist.timeout", &dist.timeout,
       "seconds without a sign of life of a process after which the others end", Range::above(0),
       kNotOnResult},
      {"dist.gradients", &dist.gradients, "type in which gradients are summed over processes",
       Range::one_of({"fp32", "bf16"})},
      {"dist.backend", &dist.backend,
       "how processes sum tensors on GPUs; auto: by NCCL where each has a GPU of its own, else by "
       "Gloo through the host's memory",
       Range::one_of({"auto", "nccl", "gloo"}), kNotOnResult},
      {"dist.entropy", &dist.entropy,
       "lfq, ibq: entropy of each process's latents, as the references have it, or of all",
       Range::one_of({"own", "all"})},
      {"dist.batch_norm", &dist.batch_norm,
       "the discriminator's batch norms: by each process's images, as the references have it, or "
       "by all",
       Range::one_of({"own", "all"})},
  };
}

void check_dist(const DistConfig& dist, const QuantizerConfig& quantizer,
                const AdversarialConfig& adversarial) {
  const auto& kind = quantizer_kind(quantizer.type);
  if (dist.entropy == "all" && !kind.batch_entropy) {
    throw UserError(
        "dist.entropy is all, but quantizer {} has no entropy of a batch; set dist.entropy=own",
        kind.name);
  }
  if (dist.batch_norm == "all" && adversarial.weight == 0) {
    throw UserError(
        "dist.batch_norm is all, but there is no discriminator (adversarial.weight is 0); leave it "
        "out");
  }
  if (dist.batch_norm == "all" && !discriminator_kind(adversarial.network).batch_norm) {
    throw UserError(
        "dist.batch_norm is all, but the discriminator has no batch norms (adversarial.network is "
        "{}); leave it out",
        adversarial.network);
  }
  if (dist.batch_norm == "all" && adversarial.r1 > 0) {
    throw UserError(
        "adversarial.r1 is {}, but dist.batch_norm is all, whose batch norms have no second "
        "derivative; set one of them to its default",
        adversarial.r1);
  }
}

}  // namespace nsvq
