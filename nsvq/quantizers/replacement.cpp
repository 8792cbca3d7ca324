#include "nsvq/quantizers/replacement.h"

#include "nsvq/core/error.h"
#include "nsvq/quantizers/anchor_replacement.h"
#include "nsvq/quantizers/copy_replacement.h"
#include "nsvq/quantizers/restart_replacement.h"

namespace nsvq {

std::unique_ptr<Replacement> make_replacement(const Config& config, Quantizer& quantizer) {
  auto policy = config.replacement.policy;
  if (policy == "auto") policy = quantizer_kind(config.quantizer.type).replacement;
  if (policy == "none") return nullptr;
  const auto codebook = quantizer.codebook();
  if (!codebook.defined()) {
    throw UserError(
        "replacement.policy is {}, but quantizer {} has no codebook to replace codes of; set it to "
        "auto or none",
        policy, config.quantizer.type);
  }
  if (policy == "copy") return std::make_unique<CopyReplacement>(config.replacement);
  if (policy == "restart") {
    return std::make_unique<RestartReplacement>(config.replacement, codebook);
  }
  if (policy == "anchor") return std::make_unique<AnchorReplacement>(config.replacement, codebook);
  throw UserError("replacement.policy: '{}' is no policy", policy);
}

}  // namespace nsvq
