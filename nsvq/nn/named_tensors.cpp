#include "nsvq/nn/named_tensors.h"

#include <fmt/ranges.h>

#include "nsvq/core/error.h"

namespace nsvq {

TensorMap named_tensors(const torch::nn::Module& module) {
  TensorMap tensors;
  for (const auto& item : module.named_parameters()) tensors[item.key()] = item.value();
  for (const auto& item : module.named_buffers()) tensors[item.key()] = item.value();
  return tensors;
}

void load_tensors(torch::nn::Module& module, const TensorMap& tensors, const std::string& from) {
  copy_tensors(named_tensors(module), tensors, from);
}

std::string first_nonfinite(const TensorMap& tensors) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.is_floating_point() && !at::isfinite(tensor).all().item<bool>()) return name;
  }
  return "";
}

void require_finite(const TensorMap& tensors, const std::string& from) {
  const auto name = first_nonfinite(tensors);
  if (name.empty()) return;
  throw UserError("{}: tensor '{}' holds NaN or infinity; take an earlier checkpoint", from, name);
}

void add_prefixed(TensorMap& all, const std::string& prefix, const TensorMap& part) {
  for (const auto& [name, tensor] : part) all[prefix + name] = tensor;
}

TensorMap with_prefix(const TensorMap& all, const std::string& prefix) {
  TensorMap part;
  for (const auto& [name, tensor] : all) {
    if (name.starts_with(prefix)) part[name.substr(prefix.size())] = tensor;
  }
  return part;
}

void copy_tensors(TensorMap targets, const TensorMap& tensors, const std::string& from) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, value] : tensors) {
    const auto target = targets.find(name);
    if (target == targets.end()) {
      throw UserError(
          "{}: tensor '{}' is not part of this model; does it belong to another recipe?", from,
          name);
    }
    if (target->second.sizes() != value.sizes()) {
      throw UserError("{}: tensor '{}' is [{}], but the recipe's model has [{}]", from, name,
                      fmt::join(value.sizes().vec(), ", "),
                      fmt::join(target->second.sizes().vec(), ", "));
    }
    if (target->second.is_floating_point() != value.is_floating_point()) {
      throw UserError("{}: tensor '{}' is of {}, but the recipe's model has {}", from, name,
                      c10::toString(value.scalar_type()),
                      c10::toString(target->second.scalar_type()));
    }
    target->second.copy_(value);
    targets.erase(target);
  }
  if (!targets.empty()) {
    throw UserError("{}: tensor '{}' is missing ({} in all)", from, targets.begin()->first,
                    targets.size());
  }
}

}  // namespace nsvq
