#include "nsvq/train/steps/weight_average.h"

#include <utility>

#include "nsvq/nn/named_tensors.h"

namespace nsvq {

WeightAverage::WeightAverage(std::shared_ptr<torch::nn::Module> module,
                             std::shared_ptr<torch::nn::Module> average, double decay)
    : module_(std::move(module)), average_(std::move(average)), decay_(decay) {
  copy_all();
}

torch::Tensor WeightAverage::of(const torch::Tensor& tensor) const {
  const auto averages = named_tensors(*average_);
  for (const auto& [name, own] : named_tensors(*module_)) {
    if (own.is_same(tensor)) return averages.at(name);
  }
  TORCH_CHECK(false, "weight average: the tensor is not one of the module's");
}

void WeightAverage::copy_buffers() {
  const torch::NoGradGuard no_grad;
  const auto buffers = module_->buffers(), averages = average_->buffers();
  for (size_t i = 0; i < buffers.size(); ++i) averages[i].copy_(buffers[i]);
}

void WeightAverage::copy_rows(const torch::Tensor& tensor, const torch::Tensor& rows) {
  const torch::NoGradGuard no_grad;
  const auto average = of(tensor);
  average.copy_(at::where(rows.unsqueeze(1), tensor, average));
}

void WeightAverage::copy_all() { load_tensors(*average_, named_tensors(*module_), "the model"); }

}  // namespace nsvq
