#include "nsvq/train/rank_check.h"

#include <vector>

#include "nsvq/core/error.h"

namespace nsvq {

namespace {

/// A checksum of a tensor's bytes and their positions, on its device.
torch::Tensor fingerprint(const torch::Tensor& tensor) {
  if (tensor.numel() == 0) return at::zeros({}, tensor.options().dtype(at::kLong));
  const auto words = tensor.detach().contiguous().reshape({-1}).view(at::kByte).to(at::kLong);
  // Odd factors, which differ from byte to byte; sums of int64 wrap around.
  const auto factors = at::arange(words.numel(), words.options()) * 0x9E3779B97F4A7C1 * 2 + 1;
  return (words * factors).sum();
}

}  // namespace

std::string first_difference(Group& group, const TensorMap& tensors) {
  const torch::NoGradGuard no_grad;
  if (tensors.empty()) return "";
  std::vector<torch::Tensor> mine;
  for (const auto& [name, tensor] : tensors) mine.push_back(fingerprint(tensor).cpu());
  const auto all = gather(group, at::stack(mine));
  const auto differs = all.ne(all[0]).any(0);
  int64_t index = 0;
  for (const auto& [name, tensor] : tensors) {
    if (differs[index++].item<bool>()) return name;
  }
  return "";
}

void require_equal_ranks(Group& group, const TensorMap& tensors, const std::string& when) {
  if (group.size() == 1) return;
  const auto name = first_difference(group, tensors);
  if (name.empty()) return;
  throw RunError(
      "{}: ranks differ, first in {}; all ranks must run the same program, recipe and data", when,
      name);
}

}  // namespace nsvq
