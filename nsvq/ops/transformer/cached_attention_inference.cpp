#include "nsvq/ops/transformer/cached_attention_inference.h"

#include <torch/library.h>
#include <torch/types.h>

#include <cmath>

#include "nsvq/core/fp32.h"
#include "nsvq/ops/common/dispatch.h"
#include "nsvq/ops/common/optional_tensor.h"

namespace nsvq {

namespace {

using CachedAttention = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                   const at::Tensor&, const OptionalTensor&, const OptionalTensor&,
                                   const OptionalTensor&, const OptionalTensor&,
                                   const OptionalTensor&, int64_t, double);

at::Tensor normalised_heads(const at::Tensor& x, const HeadNorms& norms, const at::Tensor& weight,
                            const at::Tensor& bias) {
  if (norms.kind == HeadNorm::none) return x;
  auto y = norms.kind == HeadNorm::layer ? x - x.mean(-1, /*keepdim=*/true) : x;
  y = y * (y.square().mean(-1, /*keepdim=*/true) + norms.eps).rsqrt();
  if (weight.defined()) y = y * weight;
  return bias.defined() ? y + bias : y;
}

/// x [..., D], whose neighbouring channels are turned as pairs.
at::Tensor turned_pairs(const at::Tensor& x, const at::Tensor& rotation) {
  if (!rotation.defined()) return x;
  const auto pairs = at::view_as_complex(x.contiguous().unflatten(-1, {-1, 2}));
  return at::view_as_real(pairs * rotation.flatten()).flatten(-2);
}

at::Tensor cached_attention_cpu(const at::Tensor& qkv, const at::Tensor& keys,
                                const at::Tensor& values, const at::Tensor& place,
                                const OptionalTensor& rotation, const OptionalTensor& query_weight,
                                const OptionalTensor& query_bias, const OptionalTensor& key_weight,
                                const OptionalTensor& key_bias, int64_t norm, double eps) {
  const HeadNorms norms{static_cast<HeadNorm>(norm), eps,
                        tensor_of(query_weight),     tensor_of(query_bias),
                        tensor_of(key_weight),       tensor_of(key_bias)};
  check_cached_attention(qkv, keys, values, place, tensor_of(rotation), norms);
  return cached_attention_reference(qkv, keys, values, place, tensor_of(rotation), norms);
}

}  // namespace

void check_cached_attention(const at::Tensor& qkv, const at::Tensor& keys, const at::Tensor& values,
                            const at::Tensor& place, const at::Tensor& rotation,
                            const HeadNorms& norms) {
  constexpr auto op = "cached_attention_inference: ";
  TORCH_CHECK(keys.dim() == 4 && keys.sizes() == values.sizes(), op,
              "keys and values must be [B, heads, positions, D], but they are ", keys.sizes(),
              " and ", values.sizes());
  const int64_t heads = keys.size(1), width = keys.size(3);
  TORCH_CHECK(qkv.dim() == 2 && qkv.size(0) == keys.size(0) && qkv.size(1) == 3 * heads * width, op,
              "qkv must be [", keys.size(0), ", ", 3 * heads * width, "], but it is ", qkv.sizes());
  TORCH_CHECK(cached_attention_takes(width), op,
              "the head's width must be a multiple of 8 up to 128, but it is ", width);
  for (const auto& one : {qkv, keys, values}) {
    TORCH_CHECK(one.scalar_type() == at::kBFloat16 && one.is_contiguous() &&
                    one.device() == qkv.device() &&
                    reinterpret_cast<uintptr_t>(one.const_data_ptr()) % 16 == 0,
                op, "qkv, keys and values must be contiguous bf16 on one device");
  }
  TORCH_CHECK(
      place.scalar_type() == at::kLong && place.numel() == 1 && place.device() == qkv.device(), op,
      "the place must be one int64 on ", qkv.device());
  TORCH_CHECK(!rotation.defined() ||
                  (rotation.scalar_type() == at::kComplexFloat && rotation.numel() == width / 2 &&
                   rotation.is_contiguous() && rotation.device() == qkv.device()),
              op, "the rotation must be ", width / 2, " complex numbers of fp32 on ", qkv.device());
  for (const auto& one : {norms.query_weight, norms.query_bias, norms.key_weight, norms.key_bias}) {
    TORCH_CHECK(!one.defined() || (one.scalar_type() == at::kFloat && one.numel() == width &&
                                   one.is_contiguous() && one.device() == qkv.device()),
                op, "weights of norms must be ", width, " numbers of fp32 on ", qkv.device());
  }
}

at::Tensor cached_attention_inference(const at::Tensor& qkv, const at::Tensor& keys,
                                      const at::Tensor& values, const at::Tensor& place,
                                      const at::Tensor& rotation, const HeadNorms& norms) {
  static const auto op = operator_named<CachedAttention>("nsvq::cached_attention_inference");
  return op.call(qkv, keys, values, place, optional_of(rotation), optional_of(norms.query_weight),
                 optional_of(norms.query_bias), optional_of(norms.key_weight),
                 optional_of(norms.key_bias), static_cast<int64_t>(norms.kind), norms.eps);
}

at::Tensor cached_attention_reference(const at::Tensor& qkv, const at::Tensor& keys,
                                      const at::Tensor& values, const at::Tensor& place,
                                      const at::Tensor& rotation, const HeadNorms& norms) {
  const int64_t heads = keys.size(1), positions = keys.size(2), width = keys.size(3);
  const auto parts = at_least_fp32(qkv).view({qkv.size(0), 3, heads, 1, width}).unbind(1);
  const auto query = turned_pairs(
      normalised_heads(parts[0], norms, norms.query_weight, norms.query_bias), rotation);
  const auto key =
      turned_pairs(normalised_heads(parts[1], norms, norms.key_weight, norms.key_bias), rotation);
  const auto where = place.view({1});
  keys.index_copy_(2, where, key.to(keys.scalar_type()));
  values.index_copy_(2, where, parts[2].to(values.scalar_type()));
  const auto later = at::arange(positions, place.options()).gt(where);
  const auto scores = at::matmul(query, at_least_fp32(keys).transpose(2, 3)) /
                      std::sqrt(static_cast<double>(width));
  const auto shares = scores.masked_fill(later, -INFINITY).softmax(-1);
  return at::matmul(shares, at_least_fp32(values)).flatten(1).to(qkv.scalar_type());
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def(
      "cached_attention_inference(Tensor qkv, Tensor(a!) keys, Tensor(b!) values, Tensor place, "
      "Tensor? rotation, Tensor? query_weight, Tensor? query_bias, Tensor? key_weight, Tensor? "
      "key_bias, int norm, float eps) -> Tensor");
}
TORCH_LIBRARY_IMPL(nsvq, CPU, m) { m.impl("cached_attention_inference", cached_attention_cpu); }

}  // namespace nsvq
