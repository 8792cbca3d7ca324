#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

namespace nsvq {

/// How the variance of vectors [n, d] is spread over directions: the eigenvalues of their
/// covariance as shares of their sum, largest first, d of them, also where n < d. Empty where there
/// is no variance (no vectors, one, or equal ones) and for vectors that are not finite. Computed in
/// fp64, in pieces of the rows, so that memory stays bounded at any n; the eigenvalues on the CPU.
std::vector<double> covariance_spectrum(const torch::Tensor& vectors);

/// The participation ratio (sum of eigenvalues)^2 / (sum of their squares): in how many directions
/// the vectors vary, from 1 (along a line) to d (equally in all). NaN for an empty spectrum.
double participation_ratio(const std::vector<double>& spectrum);

/// Both of some vectors, as they are logged.
struct Directions {
  double participation = 0;
  std::vector<double> shares;  ///< the first of the spectrum, at most 32
};
Directions directions_of(const torch::Tensor& vectors);

/// "participation 3.09 (codes 5.10)", by the participation ratios of latents or other vectors and
/// of their codes. Without the parenthesis where the codes' is NaN, empty where the vectors' is.
std::string participation_text(double vectors, double codes);

}  // namespace nsvq
