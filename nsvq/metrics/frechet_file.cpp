#include "nsvq/metrics/frechet_file.h"

#include <fmt/ranges.h>

#include <cmath>

#include "nsvq/core/error.h"
#include "nsvq/io/formats/npz.h"

namespace nsvq {

namespace {

constexpr const char* kCount = "image_count";
constexpr const char* kSize = "image_size";

torch::Tensor one_number(int64_t number) {
  return torch::full({1}, static_cast<double>(number), torch::kDouble);
}

/// 0 where the file has none.
int64_t number_in(const std::filesystem::path& path, const TensorMap& arrays, const char* name) {
  const auto found = arrays.find(name);
  if (found == arrays.end()) return 0;
  const auto& array = found->second;
  const double value = array.numel() == 1 ? array.item<double>() : -1;
  if (value >= 0 && value < 1e15 && value == std::floor(value)) return static_cast<int64_t>(value);
  throw UserError("{}: '{}' is not one whole number", path.string(), name);
}

/// Symmetric, and no element above what the variances allow: |s_ij|^2 <= s_ii s_jj.
bool may_be_covariance(const torch::Tensor& sigma) {
  const auto variances = sigma.diagonal();
  if (variances.lt(0).any().item<bool>()) return false;
  const double rounding = 1e-6 * variances.max().item<double>();
  const auto most = (variances.unsqueeze(0) * variances.unsqueeze(1)).sqrt() + rounding;
  return (sigma - sigma.t()).abs().le(rounding).all().item<bool>() &&
         sigma.abs().le(most).all().item<bool>();
}

}  // namespace

void write_gaussian(const std::filesystem::path& path, const Gaussian& gaussian) {
  write_npz(path, {{"mu", gaussian.mean},
                   {"sigma", gaussian.covariance},
                   {kCount, one_number(gaussian.count)},
                   {kSize, one_number(gaussian.size)}});
}

Gaussian read_gaussian(const std::filesystem::path& path) {
  const auto arrays = read_npz(path, {"mu", "sigma"}, {kCount, kSize});
  const Gaussian gaussian{arrays.at("mu").to(torch::kDouble), arrays.at("sigma").to(torch::kDouble),
                          number_in(path, arrays, kCount), number_in(path, arrays, kSize)};
  const auto& mean = gaussian.mean;
  const auto channels = mean.numel();
  if (mean.dim() != 1 || channels == 0 ||
      gaussian.covariance.sizes() != torch::IntArrayRef({channels, channels})) {
    throw UserError("{}: 'mu' is [{}] and 'sigma' is [{}], where [C] and [C, C] were due",
                    path.string(), fmt::join(mean.sizes().vec(), ", "),
                    fmt::join(gaussian.covariance.sizes().vec(), ", "));
  }
  for (const auto& [name, array] : arrays) {
    if (array.isfinite().all().item<bool>()) continue;
    throw UserError("{}: '{}' holds numbers that are not finite", path.string(), name);
  }
  if (!may_be_covariance(gaussian.covariance)) {
    throw UserError("{}: 'sigma' is not a covariance (symmetric, variances on its diagonal)",
                    path.string());
  }
  return gaussian;
}

}  // namespace nsvq
