#include "nsvq/ops/code_statistics/spectrum.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>
#include <utility>

namespace nsvq {

namespace {

/// Numbers that are widened to fp64 at a time: 8 MiB.
constexpr int64_t kWidenedAtATime = int64_t{1} << 20;

/// Length of the spectra that are logged.
constexpr size_t kMostShares = 32;

/// The matrix of sums over rows [n, d] of products of their components' differences to the mean,
/// [d, d]: n times the covariance. Exactly zero for equal rows, since differences to the first row
/// come first.
torch::Tensor scatter_matrix(const torch::Tensor& vectors) {
  const int64_t d = vectors.size(1);
  const auto pieces = vectors.split(std::max<int64_t>(1, kWidenedAtATime / d));
  const auto first = vectors[0].to(at::kDouble);
  auto mean = at::zeros_like(first);
  for (const auto& rows : pieces) mean += (rows.to(at::kDouble) - first).sum(0);
  mean /= vectors.size(0);
  auto sums = at::zeros({d, d}, first.options());
  for (const auto& rows : pieces) {
    const auto centred = rows.to(at::kDouble) - first - mean;
    sums.addmm_(centred.t(), centred);
  }
  return sums;
}

}  // namespace

std::vector<double> covariance_spectrum(const torch::Tensor& vectors) {
  const torch::NoGradGuard no_grad;
  TORCH_CHECK(vectors.dim() == 2, "covariance_spectrum: vectors must be [n, d], but they are ",
              vectors.sizes());
  if (vectors.numel() == 0) return {};
  const auto sums = scatter_matrix(vectors).cpu();
  if (!at::isfinite(sums).all().item<bool>()) return {};
  // Rounding makes eigenvalues of directions without variance negative.
  const auto values = at::linalg_eigvalsh(sums).clamp_min(0).flip(0).contiguous();
  const double total = values.sum().item<double>();
  if (!(total > 0)) return {};
  const auto shares = values / total;
  const auto* first = shares.const_data_ptr<double>();
  return {first, first + shares.numel()};
}

double participation_ratio(const std::vector<double>& spectrum) {
  double sum = 0, squares = 0;
  for (const double value : spectrum) {
    sum += value;
    squares += value * value;
  }
  return sum * sum / squares;  // 0 / 0 is NaN
}

Directions directions_of(const torch::Tensor& vectors) {
  auto spectrum = covariance_spectrum(vectors);
  const double participation = participation_ratio(spectrum);
  spectrum.resize(std::min(spectrum.size(), kMostShares));
  return {participation, std::move(spectrum)};
}

std::string participation_text(double vectors, double codes) {
  if (std::isnan(vectors)) return "";
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << "participation " << vectors;
  if (!std::isnan(codes)) text << " (codes " << codes << ')';
  return text.str();
}

}  // namespace nsvq
