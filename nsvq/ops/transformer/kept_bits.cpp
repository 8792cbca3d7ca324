#include "nsvq/ops/transformer/kept_bits.h"

#include <torch/library.h>
#include <torch/types.h>

#include <cmath>

#include "nsvq/ops/common/dispatch.h"

namespace nsvq {

namespace {

using torch::Tensor;

/// The values of a byte's bits.
Tensor bit_values(const Tensor& like) {
  return at::pow(2, at::arange(8, like.options().dtype(at::kByte)));
}

Tensor kept_bits_cpu(const Tensor& values, double share) {
  check_kept_bits(values, share);
  auto shape = values.sizes().vec();
  shape.back() /= 8;
  shape.push_back(8);
  const auto kept = at::rand(shape, values.options().dtype(at::kDouble)).ge(dropped_share(share));
  return (kept.to(at::kByte) * bit_values(values)).sum(-1, /*keepdim=*/false, at::kByte);
}

}  // namespace

double dropped_share(double share) { return std::round(share * 65536) / 65536; }

void check_kept_bits(const Tensor& values, double share) {
  TORCH_CHECK(values.dim() > 0 && values.size(-1) % 8 == 0,
              "kept_bits: the last dimension must be a multiple of 8, but values are ",
              values.sizes());
  TORCH_CHECK(share >= 0 && share < 1, "kept_bits: share must be in [0, 1), but it is ", share);
}

Tensor kept_bits(const Tensor& values, double share) {
  using Bits = Tensor(const Tensor&, double);
  static const auto op = operator_named<Bits>("nsvq::kept_bits");
  return call_below_autograd(op, values, share);
}

Tensor bits_as_numbers(const Tensor& bits, at::ScalarType type) {
  return bits.unsqueeze(-1).bitwise_and(bit_values(bits)).ne(0).flatten(-2).to(type);
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) { m.def("kept_bits(Tensor values, float share) -> Tensor"); }
TORCH_LIBRARY_IMPL(nsvq, CPU, m) { m.impl("kept_bits", kept_bits_cpu); }

}  // namespace nsvq
