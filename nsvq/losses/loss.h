#pragma once

#include <c10/core/Device.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/settings/option.h"

namespace nsvq {

/// Settings loss.*. Each term that compares images has a struct of its own: `of<L1LossConfig>()`.
struct LossConfig : MemberSettings {
  double vq = 1;
};

struct L1LossConfig {
  double weight = 1;
};

struct L2LossConfig {
  double weight = 0;
};

struct ChromaLossConfig {
  double weight = 0;
};

struct PerceptualLossConfig {
  double weight = 0;
  std::string net = "vgg";
};

struct LogitsLossConfig {
  double weight = 0;
};

/// A term that compares reconstructions with images, both [B, 3, H, W] in [-1, 1].
class Loss {
 public:
  virtual ~Loss() = default;
  /// Scalar, differentiable with respect to the reconstructions.
  virtual torch::Tensor operator()(const torch::Tensor& reconstructions,
                                   const torch::Tensor& images) = 0;
};

/// A member of the family. Each .cpp of a loss defines its kind; registry.cpp lists them.
struct LossKind {
  std::string name;                             ///< in logs
  double (*weight)(const LossConfig&);          ///< by its settings
  std::vector<Option> (*options)(LossConfig&);  ///< rows of its settings, loss.*
  /// For images of `size` pixels a side.
  std::function<std::unique_ptr<Loss>(const LossConfig&, int64_t size, c10::Device)> make;
  /// Throws what `make` throws for sizes and missing weights, without reading them; null if neither
  /// matters.
  void (*check)(const LossConfig&, int64_t size) = nullptr;
};

LossKind l1_loss_kind();          // pixel.cpp
LossKind l2_loss_kind();          // pixel.cpp
LossKind chroma_loss_kind();      // pixel.cpp
LossKind perceptual_loss_kind();  // perceptual.cpp
LossKind logits_loss_kind();      // logits.cpp

const std::vector<LossKind>& loss_kinds();

/// All settings loss.*: those of each member and the weight of the quantizer's loss.
std::vector<Option> loss_options(LossConfig& config);

/// A term of a run's objective.
struct WeightedLoss {
  std::string name;
  double weight;
  std::unique_ptr<Loss> loss;
};

/// The members whose weight is not zero, with what they hold on `device`. Throws UserError where
/// one does not work on images of `size` pixels a side.
std::vector<WeightedLoss> make_losses(const LossConfig& config, int64_t size, c10::Device device);
/// Throws UserError where make_losses would, also for weights that are not in the store.
void check_losses(const LossConfig& config, int64_t size);
/// Throws UserError where no term asks for reconstruction.
void check_loss_weights(const LossConfig& config);

}  // namespace nsvq
