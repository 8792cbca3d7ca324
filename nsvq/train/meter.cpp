#include "nsvq/train/meter.h"

#include <fmt/format.h>

#include "nsvq/core/error.h"

namespace nsvq {

GatheredScalars gather_scalars(const Scalars& scalars) {
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

std::string describe_scalars(const std::map<std::string, double>& scalars) {
  std::string text;
  for (const auto& [name, value] : scalars) {
    text += fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ", name, value);
  }
  return text;
}

void Meter::add(const GatheredScalars& scalars, const torch::Tensor& skip) {
  auto& sums = sums_[scalars.names];
  if (!sums.values.defined()) {
    sums = {at::zeros_like(scalars.values), at::zeros({}, scalars.values.options())};
  } else if (sums.values.device() != scalars.values.device()) {  // they come from a file
    sums = {sums.values.to(scalars.values.device()), sums.count.to(scalars.values.device())};
  }
  sums.values.add_(scalars.values.masked_fill(skip, 0));
  sums.count.add_(skip.logical_not());
}

std::map<std::string, Meter::Total> Meter::totals() const {
  std::map<std::string, Total> totals;
  for (const auto& [names, sums] : sums_) {
    const auto values = sums.values.to(at::kCPU);
    const auto count = sums.count.item<double>();
    if (count == 0) continue;
    for (size_t i = 0; i < names.size(); ++i) {
      totals[names[i]].sum += values[static_cast<int64_t>(i)].item<double>();
      totals[names[i]].count += count;
    }
  }
  return totals;
}

std::map<std::string, double> Meter::means() const {
  std::map<std::string, double> means;
  for (const auto& [name, total] : totals()) means[name] = total.sum / total.count;
  return means;
}

double Meter::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Meter::reset() {
  // In place: a captured CUDA graph goes on writing to them.
  for (auto& [names, sums] : sums_) {
    sums.values.zero_();
    sums.count.zero_();
  }
  samples_ = 0;
  start_ = std::chrono::steady_clock::now();
}

TensorMap Meter::state() const {
  // By groups, so that sums keep their order.
  TensorMap state;
  int groups = 0;
  for (const auto& [names, sums] : sums_) {
    const auto values = sums.values.to(at::kCPU), count = sums.count.to(at::kCPU);
    if (count.item<double>() == 0) continue;
    const auto prefix = std::to_string(groups++) + ".";
    for (size_t i = 0; i < names.size(); ++i) {
      state[prefix + names[i]] = at::stack({values[static_cast<int64_t>(i)], count});
    }
  }
  return state;
}

void Meter::load(const TensorMap& state, const std::string& prefix) {
  sums_.clear();
  reset();
  std::map<std::string, TensorMap> groups;
  for (const auto& [key, value] : state) {
    const auto dot = key.find('.');
    if (dot == std::string::npos || value.dim() != 1 || value.size(0) != 2 ||
        !value.is_floating_point()) {
      throw UserError("{}{} is not a sum and a count; is the checkpoint damaged?", prefix, key);
    }
    groups[key.substr(0, dot)][key.substr(dot + 1)] = value.to(at::kDouble);
  }
  for (const auto& [number, group] : groups) {
    std::vector<std::string> names;
    std::vector<torch::Tensor> values;
    for (const auto& [name, value] : group) {
      names.push_back(name);
      values.push_back(value);
    }
    const auto both = at::stack(values);
    sums_[names] = {both.select(1, 0).clone(), both[0][1].clone()};
  }
}

}  // namespace nsvq
