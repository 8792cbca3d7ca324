#include "nsvq/quantizers/fvq.h"

#include "nsvq/quantizers/codebook.h"

namespace nsvq {

BridgedQuantizer::BridgedQuantizer(const QuantizerConfig& config, int64_t latent_dim)
    : MappedQuantizer(config),
      bridge_(register_module(
          "bridge", std::make_shared<CodeBridgeImpl>(config.bridge, config.codes, latent_dim))),
      embedding_(
          register_parameter("embedding", initial_codebook("uniform", config.codes, latent_dim))) {}

}  // namespace nsvq
