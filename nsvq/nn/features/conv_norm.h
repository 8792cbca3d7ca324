#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <string>

namespace torch::nn {
class Module;
}

namespace nsvq {

struct ConvNormShape {
  int64_t inputs, outputs;
  std::array<int64_t, 2> kernel;  ///< height, width
  int64_t stride = 1;
  bool padded = true;  ///< so that stride 1 keeps the size
};

/// A convolution without bias, then batch norm by running statistics, frozen: a pretrained network
/// in evaluation mode. The statistics are parameters here, so that load_parameters fills them.
class ConvNorm {
 public:
  /// Registers the kernel as <conv>.weight and the norm's tensors under <norm> in `parent`.
  ConvNorm(torch::nn::Module& parent, const std::string& conv, const std::string& norm,
           const ConvNormShape& shape, double epsilon);
  torch::Tensor forward(const torch::Tensor& x) const;
  /// Once the tensors are loaded: lets kernel and bias do the norm's work, which saves a pass over
  /// the activations. Results are the same but for rounding.
  void fold();

 private:
  torch::Tensor kernel_, scale_, bias_, mean_, variance_;
  bool folded_ = false;
  int64_t stride_;
  std::array<int64_t, 2> padding_;
  double epsilon_;
};

}  // namespace nsvq
