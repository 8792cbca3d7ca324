#include "nsvq/metrics/frechet_file.h"

#include <fmt/ranges.h>

#include <cmath>

#include "nsvq/core/error.h"
#include "nsvq/io/npz.h"

namespace nsvq {

namespace {

constexpr const char* kCount = "image_count";

int64_t count_in(const std::filesystem::path& path, const TensorMap& arrays) {
  const auto found = arrays.find(kCount);
  if (found == arrays.end()) return 0;
  const auto& array = found->second;
  const double count = array.numel() == 1 ? array.item<double>() : -1;
  if (count >= 0 && count < 1e15 && count == std::floor(count)) return static_cast<int64_t>(count);
  throw UserError("{}: '{}' is not a number of images", path.string(), kCount);
}

}  // namespace

void write_gaussian(const std::filesystem::path& path, const Gaussian& gaussian) {
  const auto count = torch::full({1}, static_cast<double>(gaussian.count), torch::kDouble);
  write_npz(path, {{"mu", gaussian.mean}, {"sigma", gaussian.covariance}, {kCount, count}});
}

Gaussian read_gaussian(const std::filesystem::path& path) {
  const auto arrays = read_npz(path, {"mu", "sigma"}, {kCount});
  const Gaussian gaussian{arrays.at("mu").to(torch::kDouble), arrays.at("sigma").to(torch::kDouble),
                          count_in(path, arrays)};
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
  return gaussian;
}

}  // namespace nsvq
