#include "nsvq/metrics/sets/frechet.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/io/formats/npz.h"

namespace nsvq {

namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

/// F with F F^T = S by Cholesky, the largest remaining variance first: few images have few
/// directions, and the time follows their number. Nothing if S has more than `most`.
std::optional<torch::Tensor> factor_of_few(const torch::Tensor& covariance, int64_t most) {
  const auto remaining = covariance.diagonal().clone();
  const auto rows = torch::zeros({most, covariance.size(0)}, torch::kDouble);
  double rounding = 0;
  for (int64_t rank = 0; rank <= most; ++rank) {
    const auto [largest, at] = remaining.max(/*dim=*/0);
    const auto variance = largest.item<double>();
    if (rank == 0) rounding = variance * kEpsilon * static_cast<double>(covariance.size(0));
    if (!(variance > rounding)) return rows.narrow(0, 0, rank).t();
    if (rank == most) break;
    const auto pivot = at.item<int64_t>();
    const auto before = rows.narrow(0, 0, rank);
    const auto row =
        (covariance[pivot] - before.select(1, pivot).matmul(before)) / std::sqrt(variance);
    rows[rank].copy_(row);
    remaining.sub_(row.square());
  }
  return std::nullopt;
}

/// F with F F^T = S, one column for each direction in which S is not zero to rounding. The root of
/// a rounding error is no rounding error: kept, those directions would cost half the digits.
torch::Tensor factor(const torch::Tensor& covariance) {
  if (covariance.numel() == 0) return covariance;
  if (const auto few = factor_of_few(covariance, covariance.size(0) / 4)) return *few;
  const auto [values, vectors] = at::linalg_eigh(covariance);  // rising
  const double rounding = kEpsilon * static_cast<double>(values.numel());
  const auto kept = values > std::max(values[-1].item<double>(), 0.0) * rounding;
  return vectors.index({torch::indexing::Slice(), kept}) * values.index({kept}).sqrt();
}

/// tr (S1 S2)^(1/2). The eigenvalues of S1 S2 are those of the symmetric F1^T S2 F1, which are the
/// squared singular values of F1^T F2. Those come with twice the digits of a squared product.
double trace_of_root(const torch::Tensor& a, const torch::Tensor& b) {
  const auto product = factor(a).t().mm(factor(b));
  if (product.numel() == 0) return 0;
  return at::linalg_svdvals(product).sum().item<double>();
}

bool is_finite(const Gaussian& gaussian) {
  return gaussian.mean.isfinite().all().item<bool>() &&
         gaussian.covariance.isfinite().all().item<bool>();
}

constexpr const char* kCountKey = "image_count";
constexpr const char* kSizeKey = "image_size";
constexpr const char* kResizeKey = "tensorflow_resize";

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

FrechetStatistics::FrechetStatistics(int64_t channels) {
  TORCH_CHECK(channels > 0, "frechet: needs at least one channel, got ", channels);
  count_ = torch::zeros({1}, torch::kDouble);
  sum_ = torch::zeros({channels}, torch::kDouble);
  outer_ = torch::zeros({channels, channels}, torch::kDouble);
  shift_ = torch::zeros({channels}, torch::kDouble);
}

int64_t FrechetStatistics::count() const { return count_.item<int64_t>(); }

void FrechetStatistics::add(const torch::Tensor& features) {
  const torch::NoGradGuard no_grad;
  TORCH_CHECK(features.dim() == 2 && features.size(1) == sum_.size(0), "frechet: needs [B, ",
              sum_.size(0), "], got ", features.sizes());
  if (features.size(0) == 0) return;
  if (count() == 0) {
    sum_ = sum_.to(features.device());
    outer_ = outer_.to(features.device());
    shift_ = features.to(torch::kDouble).mean(0);
  }
  const auto centred = features.to(sum_.device(), torch::kDouble) - shift_;
  count_ += features.size(0);
  sum_ += centred.sum(0);
  outer_.addmm_(centred.t(), centred);
}

std::vector<torch::Tensor> FrechetStatistics::sums() {
  const auto n = count_.item<double>();
  outer_ += at::outer(sum_, shift_) + at::outer(shift_, sum_) + n * at::outer(shift_, shift_);
  sum_ += n * shift_;
  sum_ = sum_.cpu();
  outer_ = outer_.cpu();
  shift_ = torch::zeros_like(sum_);
  return {count_, sum_, outer_};
}

torch::Tensor FrechetStatistics::mean() const {
  if (count() == 0) throw UserError("a Fréchet distance needs at least 2 images, got none");
  return (sum_ / count_.item<double>() + shift_).cpu();
}

torch::Tensor FrechetStatistics::covariance() const {
  const auto n = count_.item<double>();
  if (n < 2) throw UserError("a Fréchet distance needs at least 2 images, got {}", count());
  const auto centred = outer_ - at::outer(sum_, sum_ / n);
  return ((centred + centred.t()) / (2 * (n - 1))).cpu();
}

double frechet_distance(const Gaussian& a, const Gaussian& b) {
  if (a.mean.size(0) != b.mean.size(0)) {
    throw UserError("a Fréchet distance needs features of one network, got {} and {} channels",
                    a.mean.size(0), b.mean.size(0));
  }
  if (!is_finite(a) || !is_finite(b)) return std::numeric_limits<double>::quiet_NaN();
  const auto means = (a.mean - b.mean).square().sum().item<double>();
  const auto traces = (a.covariance.trace() + b.covariance.trace()).item<double>();
  return std::max(0.0, means + traces - 2 * trace_of_root(a.covariance, b.covariance));
}

double frechet_distance(const FrechetStatistics& a, const FrechetStatistics& b) {
  return frechet_distance(a.gaussian(), b.gaussian());
}

GaussianArrays gaussian_arrays(const std::string& metric) {
  return metric == "sfid" ? GaussianArrays{"mu_s", "sigma_s"} : GaussianArrays{};
}

void write_gaussians(const std::filesystem::path& path,
                     const std::map<std::string, Gaussian>& gaussians) {
  TensorMap arrays;
  for (const auto& [metric, gaussian] : gaussians) {
    const auto names = gaussian_arrays(metric);
    arrays[names.mean] = gaussian.mean;
    arrays[names.covariance] = gaussian.covariance;
    arrays[kCountKey] = one_number(gaussian.count);
    arrays[kSizeKey] = one_number(gaussian.size);
    if (gaussian.resize == InceptionResize::tensorflow) arrays[kResizeKey] = one_number(1);
  }
  write_npz(path, arrays);
}

namespace {

/// ADM's files are those with spatial statistics and without a number of images.
std::optional<InceptionResize> resize_of(const std::filesystem::path& path,
                                         const TensorMap& arrays) {
  if (number_in(path, arrays, kResizeKey) != 0) return InceptionResize::tensorflow;
  if (arrays.contains(kCountKey)) return InceptionResize::pytorch_fid;
  return arrays.contains(gaussian_arrays("sfid").mean) ? std::optional(InceptionResize::tensorflow)
                                                       : std::nullopt;
}

/// Throws UserError, naming the file, unless it is the mean and covariance of something.
void check_gaussian(const std::filesystem::path& path, const GaussianArrays& names,
                    const Gaussian& gaussian) {
  const auto &mean = gaussian.mean, &covariance = gaussian.covariance;
  const auto channels = mean.numel();
  if (mean.dim() != 1 || channels == 0 ||
      covariance.sizes() != torch::IntArrayRef({channels, channels})) {
    throw UserError("{}: '{}' is [{}] and '{}' is [{}], where [C] and [C, C] were due",
                    path.string(), names.mean, fmt::join(mean.sizes().vec(), ", "),
                    names.covariance, fmt::join(covariance.sizes().vec(), ", "));
  }
  for (const auto& [name, array] :
       {std::pair(names.mean, mean), std::pair(names.covariance, covariance)}) {
    if (array.isfinite().all().item<bool>()) continue;
    throw UserError("{}: '{}' holds numbers that are not finite", path.string(), name);
  }
  if (may_be_covariance(covariance)) return;
  throw UserError("{}: '{}' is not a covariance (symmetric, variances on its diagonal)",
                  path.string(), names.covariance);
}

}  // namespace

Gaussian read_gaussian(const std::filesystem::path& path, const std::string& metric) {
  const auto names = gaussian_arrays(metric);
  const auto arrays = read_npz(path, {names.mean, names.covariance},
                               {kCountKey, kSizeKey, kResizeKey, gaussian_arrays("sfid").mean});
  const Gaussian gaussian{arrays.at(names.mean).to(torch::kDouble),
                          arrays.at(names.covariance).to(torch::kDouble),
                          number_in(path, arrays, kCountKey), number_in(path, arrays, kSizeKey),
                          resize_of(path, arrays)};
  check_gaussian(path, names, gaussian);
  return gaussian;
}

}  // namespace nsvq
