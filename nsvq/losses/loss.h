#pragma once

#include <c10/core/Device.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/settings/config.h"
#include "nsvq/settings/option.h"

namespace nsvq {

/// A term that compares reconstructions with images, both [B, 3, H, W] in [-1, 1].
class Loss {
 public:
  virtual ~Loss() = default;
  /// Scalar, differentiable with respect to the reconstructions.
  virtual torch::Tensor operator()(const torch::Tensor& reconstructions,
                                   const torch::Tensor& images) = 0;
};

/// A member of the family. Each file of a loss defines its kind; registry.cpp lists them.
struct LossKind {
  std::string name;                             ///< in logs
  double (*weight)(const LossConfig&);          ///< in a recipe
  std::vector<Option> (*options)(LossConfig&);  ///< rows of its settings, loss.*
  std::function<std::unique_ptr<Loss>(const Config&, c10::Device)> make;
  /// Throws what `make` throws for sizes and missing weights, without reading them; null if neither
  /// matters.
  void (*check)(const Config&) = nullptr;
};

const std::vector<LossKind>& loss_kinds();

/// All settings loss.*: those of each member and the weight of the quantizer's loss.
std::vector<Option> loss_options(LossConfig& config);

/// A term of a run's objective.
struct WeightedLoss {
  std::string name;
  double weight;
  std::unique_ptr<Loss> loss;
};

/// The members whose weight in the recipe is not zero, with what they hold on `device`. Throws
/// UserError where one cannot take images of the recipe's size.
std::vector<WeightedLoss> make_losses(const Config& config, c10::Device device);
/// Throws UserError where make_losses would, also for weights that are not in the store.
void check_losses(const Config& config);

}  // namespace nsvq
