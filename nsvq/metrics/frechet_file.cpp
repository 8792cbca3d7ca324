#include "nsvq/metrics/frechet_file.h"

#include <fmt/ranges.h>

#include "nsvq/core/error.h"
#include "nsvq/io/npz.h"

namespace nsvq {

void write_gaussian(const std::filesystem::path& path, const Gaussian& gaussian) {
  write_npz(path, {{"mu", gaussian.mean}, {"sigma", gaussian.covariance}});
}

Gaussian read_gaussian(const std::filesystem::path& path) {
  const auto arrays = read_npz(path, {"mu", "sigma"});
  const Gaussian gaussian{arrays.at("mu").to(torch::kDouble),
                          arrays.at("sigma").to(torch::kDouble)};
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
