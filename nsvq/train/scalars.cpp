#include "nsvq/train/scalars.h"

namespace nsvq {

GatheredScalars gather(const Scalars& scalars) {
  const torch::NoGradGuard no_grad;
  GatheredScalars result;
  std::vector<torch::Tensor> values;
  for (const auto& [name, scalar] : scalars) {
    result.names.push_back(name);
    values.push_back(scalar.detach().to(at::kDouble));
  }
  result.values = at::stack(values);
  return result;
}

}  // namespace nsvq
