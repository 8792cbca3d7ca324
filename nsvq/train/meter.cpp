#include "nsvq/train/meter.h"

namespace nsvq {

void Meter::add(const std::map<std::string, torch::Tensor>& scalars, int64_t images) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, scalar] : scalars) {
    auto& sum = sums_[name];
    sum = sum.defined() ? sum + scalar.detach() : scalar.detach().to(at::kDouble);
  }
  ++steps_;
  images_ += images;
}

std::map<std::string, double> Meter::means(Group& group) const {
  std::map<std::string, double> means;
  for (const auto& [name, sum] : sums_) {
    auto total = sum.clone();
    group.sum({total});
    means[name] = total.item<double>() / static_cast<double>(steps_ * group.size());
  }
  return means;
}

double Meter::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Meter::reset() { *this = Meter(); }

}  // namespace nsvq
