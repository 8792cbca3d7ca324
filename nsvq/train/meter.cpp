#include "nsvq/train/meter.h"

#include "nsvq/train/state.h"

namespace nsvq {

void Meter::add(const std::map<std::string, torch::Tensor>& scalars, int64_t images) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, scalar] : scalars) {
    auto& sum = sums_[name];
    sum = sum.defined() ? sum + scalar.detach() : scalar.detach().to(at::kDouble);
    ++counts_[name];
  }
  images_ += images;
}

std::map<std::string, double> Meter::means(Group& group) const {
  std::map<std::string, double> means;
  for (const auto& [name, sum] : sums_) {
    auto total = sum.clone();
    group.sum({total});
    means[name] = total.item<double>() / static_cast<double>(counts_.at(name) * group.size());
  }
  return means;
}

double Meter::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Meter::reset() { *this = Meter(); }

std::map<std::string, torch::Tensor> Meter::state() const {
  TensorMap state;
  add_prefixed(state, "sum.", sums_);
  for (const auto& [name, count] : counts_) {
    state["count." + name] = at::scalar_tensor(count, at::kLong);
  }
  return state;
}

void Meter::load(const std::map<std::string, torch::Tensor>& state) {
  reset();
  sums_ = with_prefix(state, "sum.");
  for (const auto& [name, count] : with_prefix(state, "count.")) {
    counts_[name] = count.item<int64_t>();
  }
}

}  // namespace nsvq
