#include "nsvq/quantizers/kept_codes.h"

namespace nsvq {

torch::Tensor KeptCodes::get(const torch::nn::Module& module,
                             const std::function<torch::Tensor()>& make) {
  const torch::NoGradGuard no_grad;
  std::vector<std::pair<const void*, uint32_t>> now;
  for (const auto& tensors : {module.parameters(), module.buffers()}) {
    for (const auto& tensor : tensors) {
      now.emplace_back(tensor.const_data_ptr(), tensor._version());
    }
  }
  if (now != made_of_) {
    codes_ = make();
    made_of_ = std::move(now);
  }
  return codes_;
}

}  // namespace nsvq
