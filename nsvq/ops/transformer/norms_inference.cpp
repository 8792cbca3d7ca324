#include "nsvq/ops/transformer/norms_inference.h"

#include <torch/library.h>
#include <torch/types.h>

#include "nsvq/core/fp32.h"
#include "nsvq/ops/common/dispatch.h"
#include "nsvq/ops/common/optional_tensor.h"

namespace nsvq {

namespace {

using ResidualNorm = std::tuple<at::Tensor, at::Tensor>(
    const at::Tensor&, const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
    const OptionalTensor&, const OptionalTensor&, const OptionalTensor&, bool, double);

at::Tensor rms_rows(const at::Tensor& x, double eps) {
  return x * (x.square().mean(-1, /*keepdim=*/true) + eps).rsqrt();
}

std::tuple<at::Tensor, at::Tensor> residual_norm_cpu(
    const at::Tensor& x, const OptionalTensor& branch, const OptionalTensor& gate,
    const OptionalTensor& shift, const OptionalTensor& scale, const OptionalTensor& weight,
    const OptionalTensor& bias, bool layer, double eps) {
  const auto [sum, normed] = residual_norm_reference(
      x, {tensor_of(branch), tensor_of(gate), tensor_of(shift), tensor_of(scale)},
      {layer, eps, tensor_of(weight), tensor_of(bias)});
  return {branch ? sum : at::empty({0}, x.options()), normed};
}

void query_key_norm_cpu(const at::Tensor& qkv, double eps) {
  check_query_key_norm(qkv);
  qkv.copy_(query_key_norm_reference(qkv, eps));
}

void check_part(const at::Tensor& part, const at::Tensor& x, const char* name) {
  if (!part.defined()) return;
  const bool shaped = part.dim() == 3 && part.size(0) == x.size(0) && part.size(2) == x.size(2) &&
                      (part.size(1) == x.size(1) || part.size(1) == 1);
  TORCH_CHECK(shaped, "residual_norm_inference: ", name, " must be ", x.sizes(),
              " or one row for each of the first, but it is ", part.sizes());
  const auto type = part.scalar_type();
  TORCH_CHECK((type == at::kFloat || type == at::kBFloat16) && part.stride(2) == 1 &&
                  part.stride(0) % 8 == 0 && part.stride(1) % 8 == 0 &&
                  part.device() == x.device() &&
                  reinterpret_cast<uintptr_t>(part.const_data_ptr()) % 16 == 0,
              "residual_norm_inference: ", name, " must be fp32 or bf16 rows of adjacent numbers");
}

}  // namespace

void check_residual_norm(const at::Tensor& x, const NormedBranch& parts, const RowNorm& norm) {
  constexpr auto op = "residual_norm_inference: ";
  TORCH_CHECK(x.dim() == 3 && x.scalar_type() == at::kFloat && x.is_contiguous() &&
                  row_norms_take(x.size(2)) &&
                  reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0,
              op, "x must be contiguous fp32 [B, T, C], C a multiple of 8 up to 8192, but it is ",
              x.scalar_type(), " ", x.sizes());
  check_part(parts.branch, x, "the branch");
  check_part(parts.gate, x, "the gate");
  check_part(parts.shift, x, "the shift");
  check_part(parts.scale, x, "the scale");
  TORCH_CHECK(parts.shift.defined() == parts.scale.defined(), op, "shift and scale go together");
  TORCH_CHECK(parts.branch.defined() || !parts.gate.defined(), op, "a gate needs a branch");
  for (const auto& one : {norm.weight, norm.bias}) {
    TORCH_CHECK(!one.defined() || (one.scalar_type() == at::kFloat && one.is_contiguous() &&
                                   one.numel() == x.size(2) && one.device() == x.device()),
                op, "weight and bias must be ", x.size(2), " numbers of fp32");
  }
}

std::tuple<at::Tensor, at::Tensor> residual_norm_inference(const at::Tensor& x,
                                                           const NormedBranch& parts,
                                                           const RowNorm& norm) {
  static const auto op = operator_named<ResidualNorm>("nsvq::residual_norm_inference");
  return op.call(x, optional_of(parts.branch), optional_of(parts.gate), optional_of(parts.shift),
                 optional_of(parts.scale), optional_of(norm.weight), optional_of(norm.bias),
                 norm.layer, norm.eps);
}

std::tuple<at::Tensor, at::Tensor> residual_norm_reference(const at::Tensor& x,
                                                           const NormedBranch& parts,
                                                           const RowNorm& norm) {
  auto sum = x;
  if (parts.branch.defined()) {
    const auto branch = parts.branch.to(x.scalar_type());
    sum = x + (parts.gate.defined() ? branch * parts.gate : branch);
  }
  auto y = rms_rows(norm.layer ? sum - sum.mean(-1, /*keepdim=*/true) : sum, norm.eps);
  if (norm.weight.defined()) y = y * norm.weight;
  if (norm.bias.defined()) y = y + norm.bias;
  if (parts.scale.defined()) y = y * (1 + parts.scale.to(x.scalar_type())) + parts.shift;
  return {sum, x.scalar_type() == at::kDouble ? y : y.to(at::kBFloat16)};
}

void check_query_key_norm(const at::Tensor& qkv) {
  TORCH_CHECK(qkv.dim() > 0 && qkv.scalar_type() == at::kBFloat16 && qkv.is_contiguous() &&
                  qkv.size(-1) % 3 == 0 && row_norms_take(qkv.size(-1) / 3) &&
                  reinterpret_cast<uintptr_t>(qkv.const_data_ptr()) % 16 == 0,
              "query_key_norm_inference: qkv must be contiguous bf16 [..., 3 C], C a multiple of 8 "
              "up to 8192, but it is ",
              qkv.scalar_type(), " ", qkv.sizes());
}

void query_key_norm_inference(const at::Tensor& qkv, double eps) {
  using QueryKeyNorm = void(const at::Tensor&, double);
  static const auto op = operator_named<QueryKeyNorm>("nsvq::query_key_norm_inference_");
  op.call(qkv, eps);
}

at::Tensor query_key_norm_reference(const at::Tensor& qkv, double eps) {
  const auto parts = at_least_fp32(qkv).chunk(3, -1);
  return at::cat({rms_rows(parts[0], eps), rms_rows(parts[1], eps), parts[2]}, -1)
      .to(qkv.scalar_type());
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def(
      "residual_norm_inference(Tensor x, Tensor? branch, Tensor? gate, Tensor? shift, Tensor? "
      "scale, Tensor? weight, Tensor? bias, bool layer, float eps) -> (Tensor, Tensor)");
  m.def("query_key_norm_inference_(Tensor(a!) qkv, float eps) -> ()");
}
TORCH_LIBRARY_IMPL(nsvq, CPU, m) {
  m.impl("residual_norm_inference", residual_norm_cpu);
  m.impl("query_key_norm_inference_", query_key_norm_cpu);
}

}  // namespace nsvq
