#include "nsvq/ops/transformer/turn_heads.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>
#include <torch/types.h>

#include "nsvq/core/fp32.h"
#include "nsvq/ops/common/dispatch.h"
#include "nsvq/ops/transformer/fits.h"

namespace nsvq {

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// x [B, T, heads, head width] turned.
Tensor turned_heads(const Tensor& x, const Tensor& rotation) {
  const auto pairs = at::view_as_complex(at_least_fp32(x).unflatten(-1, {-1, 2}).contiguous());
  return at::view_as_real(pairs * rotation.unsqueeze(1)).flatten(-2).to(x.scalar_type());
}

Heads heads_of(const Tensor& qkv) {
  const auto part = [&](int64_t i) { return qkv.select(2, i).transpose(1, 2); };
  return {part(0), part(1), part(2)};
}

class TurnHeads : public torch::autograd::Function<TurnHeads> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& qkv,
                               const Tensor& rotation) {
    using Turn = void(const Tensor&, const Tensor&);
    static const auto op = operator_named<Turn>("nsvq::turn_heads_");
    context->save_for_backward({rotation});
    // Autograd must not take the results for views of its input.
    const at::AutoDispatchBelowADInplaceOrView guard;
    op.call(qkv, rotation);
    const auto [query, key, value] = heads_of(qkv);
    return {query, key, value};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "turn_heads: has no second derivative");
    using Join = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&);
    static const auto op = operator_named<Join>("nsvq::join_heads");
    return {call_below_autograd(op, gradients[0], gradients[1], gradients[2],
                                context->get_saved_variables()[0]),
            Tensor()};
  }
};

// The operators on a CPU: plain tensor operations.

void turn_heads_cpu(const Tensor& qkv, const Tensor& rotation) {
  check_turn_heads(qkv, rotation);
  for (int64_t i = 0; i < 2; ++i) {
    auto part = qkv.select(2, i);
    part.copy_(turned_heads(part, rotation));
  }
}

Tensor join_heads_cpu(const Tensor& query, const Tensor& key, const Tensor& value,
                      const Tensor& rotation) {
  check_join_heads({query, key, value}, rotation);
  const auto back = [&](const Tensor& x) {
    return turned_heads(x.transpose(1, 2), rotation.conj().resolve_conj());
  };
  return at::stack({back(query), back(key), value.transpose(1, 2)}, 2);
}

}  // namespace

std::string turn_heads_unavailable_reason(const Tensor& qkv, const Tensor& rotation) {
  if (!qkv.is_cuda()) return "not on a GPU";
  if (qkv.scalar_type() != at::kBFloat16) return "not in bf16";
  if (!in_eights(qkv)) return "heads of no multiple of 8 channels";
  if (rotation.scalar_type() != at::kComplexFloat || !rotation.is_contiguous()) {
    return "rotations not in fp32";
  }
  return qkv.numel() < int64_t{1} << 34 ? "" : "more than 2^34 numbers";
}

void check_turn_heads(const Tensor& qkv, const Tensor& rotation) {
  TORCH_CHECK(
      qkv.dim() == 5 && qkv.size(2) == 3 && qkv.is_contiguous() && rotation.dim() == 2 &&
          rotation.is_complex() && rotation.size(0) == qkv.size(1) &&
          rotation.size(1) * 2 == qkv.size(4) && rotation.device() == qkv.device(),
      "turn_heads: needs qkv [B, T, 3, heads, head width], contiguous, and rotation [T, head "
      "width / 2], complex, on one device, got ",
      qkv.sizes(), " and ", rotation.sizes(), " ", rotation.scalar_type());
}

void check_join_heads(const Heads& heads, const Tensor& rotation) {
  const auto& [query, key, value] = heads;
  TORCH_CHECK(query.dim() == 4 && key.sizes() == query.sizes() && value.sizes() == query.sizes() &&
                  key.scalar_type() == query.scalar_type() &&
                  value.scalar_type() == query.scalar_type() && rotation.dim() == 2 &&
                  rotation.is_complex() && rotation.size(0) == query.size(2) &&
                  rotation.size(1) * 2 == query.size(3),
              "join_heads: needs three tensors [B, heads, T, head width] of one type and rotation "
              "[T, head width / 2], complex, got ",
              query.sizes(), ", ", key.sizes(), ", ", value.sizes(), " and ", rotation.sizes());
}

Heads turn_heads(const Tensor& qkv, const Tensor& rotation) {
  const auto results = TurnHeads::apply(qkv, rotation);
  return {results[0], results[1], results[2]};
}

Heads turn_heads_reference(const Tensor& qkv, const Tensor& rotation) {
  const auto turned = [&](int64_t i) {
    return turned_heads(qkv.select(2, i), rotation).transpose(1, 2);
  };
  return {turned(0), turned(1), qkv.select(2, 2).transpose(1, 2)};
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def("turn_heads_(Tensor(a!) qkv, Tensor rotation) -> ()");
  m.def("join_heads(Tensor query, Tensor key, Tensor value, Tensor rotation) -> Tensor");
}

TORCH_LIBRARY_IMPL(nsvq, CPU, m) {
  m.impl("turn_heads_", turn_heads_cpu);
  m.impl("join_heads", join_heads_cpu);
}

}  // namespace nsvq
