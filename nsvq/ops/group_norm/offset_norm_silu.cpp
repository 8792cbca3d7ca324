#include "nsvq/ops/group_norm/offset_norm_silu.h"

#include <torch/library.h>
#include <torch/types.h>

#include <tuple>

#include "nsvq/ops/common/dispatch.h"
#include "nsvq/ops/common/optional_tensor.h"
#include "nsvq/ops/group_norm/group_norm_silu.h"

namespace nsvq {

namespace {

using torch::Tensor;
using Pair = std::tuple<Tensor, Tensor>;

Pair offset_norm_silu_cpu(const Tensor& a, const OptionalTensor& b, const OptionalTensor& shift,
                          const OptionalTensor& offset, const OptionalTensor& skip,
                          const Tensor& weight, const Tensor& bias, int64_t groups, double eps,
                          bool silu, bool keep_sum) {
  const NormOffsets offsets{tensor_of(b), tensor_of(shift), tensor_of(offset), tensor_of(skip)};
  check_offsets(a, offsets);
  const auto sum = sum_reference(a, offsets);
  return {keep_sum ? sum : at::empty({0}, a.options()),
          group_norm_silu(sum, weight, bias, groups, eps, silu)};
}

Tensor offset_norm_silu_in_place_cpu(const Tensor& a, const Tensor& b, const OptionalTensor& offset,
                                     const Tensor& weight, const Tensor& bias, int64_t groups,
                                     double eps, bool silu) {
  const NormOffsets offsets{b, {}, tensor_of(offset)};
  check_in_place(a, offsets);
  b.copy_(sum_reference(a, offsets));
  return group_norm_silu(b, weight, bias, groups, eps, silu);
}

}  // namespace

void check_offsets(const Tensor& a, const NormOffsets& offsets) {
  const auto& [b, shift, offset, skip] = offsets;
  if (b.defined()) check_addends(a, b);
  TORCH_CHECK(a.dim() == 4, "offset_norm_silu: a must be [N, C, H, W], but it is ", a.sizes());
  TORCH_CHECK(!shift.defined() ||
                  (shift.dim() == 2 && shift.size(0) == a.size(0) && shift.size(1) == a.size(1) &&
                   shift.scalar_type() == a.scalar_type() && shift.device() == a.device()),
              "offset_norm_silu: shift must be [", a.size(0), ", ", a.size(1), "] in ",
              a.scalar_type(), " on ", a.device(), ", but it is ", shift.sizes(), " in ",
              shift.scalar_type(), " on ", shift.device());
  TORCH_CHECK(
      !offset.defined() ||
          (offset.dim() == 1 && offset.size(0) == a.size(1) && offset.device() == a.device() &&
           (offset.scalar_type() == at::kFloat || offset.scalar_type() == a.scalar_type())),
      "offset_norm_silu: offset must be [", a.size(1), "] in fp32 or ", a.scalar_type(), " on ",
      a.device(), ", but it is ", offset.sizes(), " in ", offset.scalar_type(), " on ",
      offset.device());
  TORCH_CHECK(
      !skip.defined() || (skip.dim() == 4 && skip.size(0) == a.size(0) &&
                          skip.size(2) == a.size(2) && skip.size(3) == a.size(3) &&
                          skip.scalar_type() == a.scalar_type() && skip.device() == a.device()),
      "offset_norm_silu: skip must be [", a.size(0), ", D, ", a.size(2), ", ", a.size(3), "] in ",
      a.scalar_type(), " on ", a.device(), ", but it is ", skip.sizes(), " in ", skip.scalar_type(),
      " on ", skip.device());
}

void check_in_place(const Tensor& a, const NormOffsets& offsets) {
  check_offsets(a, offsets);
  TORCH_CHECK(offsets.b.is_contiguous(at::MemoryFormat::ChannelsLast) && !offsets.b.is_same(a),
              "offset_norm_silu_: b must be a tensor of its own with channels-last memory");
}

Tensor sum_reference(const Tensor& a, const NormOffsets& offsets) {
  auto sum = a.to(at::kFloat);
  if (offsets.b.defined()) sum = sum + offsets.b;
  Tensor constant;
  if (offsets.offset.defined()) constant = offsets.offset.to(at::kFloat).unsqueeze(0);
  if (offsets.shift.defined()) {
    const auto shift = offsets.shift.to(at::kFloat);
    constant = constant.defined() ? shift + constant : shift;
  }
  if (constant.defined()) sum = sum + constant.unsqueeze(2).unsqueeze(3);
  sum = sum.to(a.scalar_type());
  return offsets.skip.defined() ? at::cat({sum, offsets.skip}, 1) : sum;
}

SumAndNorm offset_norm_silu(const Tensor& a, const NormOffsets& offsets, const Tensor& weight,
                            const Tensor& bias, int64_t groups, double eps, bool silu,
                            bool keep_sum) {
  TORCH_CHECK(!at::GradMode::is_enabled(), "offset_norm_silu: has no gradient");
  using Operator =
      Pair(const Tensor&, const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
           const OptionalTensor&, const Tensor&, const Tensor&, int64_t, double, bool, bool);
  static const auto op = operator_named<Operator>("nsvq::offset_norm_silu");
  auto [sum, output] = call_below_autograd(
      op, a, optional_of(offsets.b), optional_of(offsets.shift), optional_of(offsets.offset),
      optional_of(offsets.skip), weight, bias, groups, eps, silu, keep_sum);
  return {keep_sum ? sum : Tensor(), output};
}

Tensor offset_norm_silu_(const Tensor& a, const Tensor& b, const Tensor& offset,
                         const Tensor& weight, const Tensor& bias, int64_t groups, double eps,
                         bool silu) {
  TORCH_CHECK(!at::GradMode::is_enabled(), "offset_norm_silu_: has no gradient");
  using Operator = Tensor(const Tensor&, const Tensor&, const OptionalTensor&, const Tensor&,
                          const Tensor&, int64_t, double, bool);
  static const auto op = operator_named<Operator>("nsvq::offset_norm_silu_");
  return call_below_autograd(op, a, b, optional_of(offset), weight, bias, groups, eps, silu);
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def(
      "offset_norm_silu(Tensor a, Tensor? b, Tensor? shift, Tensor? offset, Tensor? skip, Tensor "
      "weight, Tensor bias, int groups, float eps, bool silu, bool keep_sum) -> (Tensor sum, "
      "Tensor output)");
  m.def(
      "offset_norm_silu_(Tensor a, Tensor(b!) b, Tensor? offset, Tensor weight, Tensor bias, int "
      "groups, float eps, bool silu) -> Tensor");
}

TORCH_LIBRARY_IMPL(nsvq, CPU, m) {
  m.impl("offset_norm_silu", offset_norm_silu_cpu);
  m.impl("offset_norm_silu_", offset_norm_silu_in_place_cpu);
}

}  // namespace nsvq
