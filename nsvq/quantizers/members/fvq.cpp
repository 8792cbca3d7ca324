#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/members/code_bridge.h"
#include "nsvq/quantizers/members/mapped.h"

namespace nsvq {

namespace {

/// FVQ (Chang et al., 2025): plain vector quantization with codes that a network makes of a trained
/// codebook, so that a gradient of one code moves all of them.
class BridgedQuantizer : public MappedQuantizer {
 public:
  BridgedQuantizer(const QuantizerConfig& config, int64_t latent_dim);

  int64_t codes() const override { return embedding_.size(0); }

 protected:
  torch::Tensor mapped_codes() override { return bridge_->forward(embedding_); }

 private:
  std::shared_ptr<CodeBridgeImpl> bridge_;
  torch::Tensor embedding_;  ///< [K, d], what the bridge is given
};

std::vector<Option> bridge_options(QuantizerConfig& config) {
  auto& bridge = config.of<BridgeConfig>();
  return {
      {"quantizer.bridge.patch", &bridge.patch,
       "fvq: codes along the side of a patch; the codebook is a square of patches",
       Range::between(1, 256)},
      {"quantizer.bridge.width", &bridge.width, "channels of its blocks", Range::between(1, 8192)},
      {"quantizer.bridge.heads", &bridge.heads, "heads of their attention", Range::between(1, 256)},
      {"quantizer.bridge.blocks", &bridge.blocks, "number of blocks", Range::between(1, 64)},
      {"quantizer.bridge.variant", &bridge.variant,
       "dit: with fixed positions and modulated norms, as the authors train; vit: with neither",
       Range::one_of({"dit", "vit"})},
  };
}

}  // namespace

BridgedQuantizer::BridgedQuantizer(const QuantizerConfig& config, int64_t latent_dim)
    : MappedQuantizer(config),
      bridge_(register_module("bridge", std::make_shared<CodeBridgeImpl>(
                                            config.of<BridgeConfig>(), config.codes, latent_dim))),
      embedding_(
          register_parameter("embedding", initial_codebook("uniform", config.codes, latent_dim))) {}

QuantizerKind fvq_kind() {
  return {.name = "fvq",
          .summary = "codes through a small vision transformer (VQBridge)",
          .make = make_member<BridgedQuantizer>,
          .options = bridge_options,
          .refuses_norms = "begins with codes of 0, which have no direction",
          .codebook = false,
          .small = {"quantizer.codes=36", "quantizer.bridge.patch=2", "quantizer.bridge.width=8",
                    "quantizer.bridge.heads=2"},
          .any_codes = false};
}

}  // namespace nsvq
