#include "nsvq/nn/layers.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "nsvq/core/precision.h"
#include "nsvq/ops/common/layout.h"
#include "nsvq/ops/group_norm/add_norm_silu.h"
#include "nsvq/ops/group_norm/group_norm_silu.h"
#include "nsvq/ops/group_norm/offset_norm_silu.h"
#include "nsvq/ops/images/bias_relu.h"
#include "nsvq/ops/images/image_patches.h"
#include "nsvq/ops/images/residual_sum.h"

namespace nsvq {

namespace {

bool normalised_at_once(const torch::Tensor& x) {
  return channels_last(x) && x.scalar_type() != at::kDouble;
}

bool added_at_once(const Residual& residual) {
  const auto &x = residual.x, &h = residual.h;
  if (residual.skip.defined() && residual.skip.scalar_type() != x.scalar_type()) return false;
  if (!h.defined()) return true;
  return channels_last(h) && h.scalar_type() == x.scalar_type() && h.sizes() == x.sizes();
}

torch::Tensor summed(const Residual& residual, SumForm form) {
  const auto& [x, h, offset, skip] = residual;
  if (skip.defined()) return residual_sum_reference(residual.sum(), {}, {}, form);
  const bool at_once = !at::GradMode::is_enabled() && x.is_cuda() && normalised_at_once(x) &&
                       added_at_once(residual);
  return at_once ? residual_sum(x, h, offset, form) : residual_sum_reference(x, h, offset, form);
}

/// Set while a part runs that its backward pass will run again with a graph: no bias is left to the
/// next norm then, so that both give the same bits.
thread_local bool runs_again = false;

struct RunsAgain {
  RunsAgain() { runs_again = true; }
  ~RunsAgain() { runs_again = before; }
  RunsAgain(const RunsAgain&) = delete;
  RunsAgain& operator=(const RunsAgain&) = delete;

  bool before = runs_again;
};

bool takes_patches(const torch::nn::Conv2dImpl& conv, const torch::Tensor& x) {
  const auto& options = conv.options;
  const auto all_are = [](const torch::ExpandingArray<2>& pair, int64_t number) {
    return pair->at(0) == number && pair->at(1) == number;
  };
  const auto* padding = std::get_if<torch::ExpandingArray<2>>(&options.padding());
  const auto precision = autocast_precision(x.device());
  return x.is_cuda() && !at::GradMode::is_enabled() && !runs_again &&
         (precision == Precision::bf16 || precision == Precision::fp16) &&
         x.size(1) <= kMostPatchChannels && has_kernels_type(x) && channels_last(conv.weight) &&
         all_are(options.kernel_size(), 3) && all_are(options.stride(), 1) && padding &&
         all_are(*padding, 1);
}

/// conv(x) without its bias as one matrix product, channels-last.
torch::Tensor by_patches(const torch::nn::Conv2dImpl& conv, const torch::Tensor& x) {
  const auto taps = conv.weight.flatten(1);
  const auto weight = at::constant_pad_nd(taps, {0, kPatchNumbers - taps.size(1)});
  const auto type = autocast_precision(x.device()) == Precision::bf16 ? at::kBFloat16 : at::kHalf;
  const auto rows = at::linear(image_patches(x, type), weight);
  return rows.view({x.size(0), x.size(2), x.size(3), -1}).permute({0, 3, 1, 2});
}

/// Whether nothing else refers to the branch.
bool owns_branch(const Residual& residual) {
  const auto& h = residual.h;
  return h.use_count() == 1 && h.storage().use_count() == 1 &&
         h.is_contiguous(at::MemoryFormat::ChannelsLast);
}

/// add_and_normalise where the sum takes the branch's place in memory; an undefined sum where that
/// cannot be.
Normalised normalised_in_place(torch::nn::GroupNormImpl& norm, Residual& residual,
                               Activation activation) {
  const auto& [x, h, offset, skip] = residual;
  if (at::GradMode::is_enabled() || !x.is_cuda() || !h.defined() || skip.defined()) return {};
  if (!normalised_at_once(x) || !added_at_once(residual) || !owns_branch(residual)) return {};
  const auto& options = norm.options;
  const auto output = offset_norm_silu_(x, h, offset, norm.weight, norm.bias, options.num_groups(),
                                        options.eps(), activation == Activation::silu);
  return {std::move(residual.h), output};
}

/// 32 groups, or fewer where 32 does not divide the channels (see make_norm).
int64_t norm_groups(int64_t channels) {
  int64_t groups = 32;
  if (channels % groups == 0) return groups;
  groups = std::clamp<int64_t>(channels / 4, 1, 32);
  while (channels % groups != 0) --groups;
  return groups;
}

}  // namespace

std::shared_ptr<torch::nn::Conv2dImpl> make_conv(const ConvShape& shape) {
  return std::make_shared<torch::nn::Conv2dImpl>(
      torch::nn::Conv2dOptions(shape.inputs, shape.outputs, shape.kernel)
          .stride(shape.stride)
          .padding(shape.padded ? shape.kernel / 2 : 0)
          .bias(shape.bias));
}

bool defers_bias(const torch::nn::Conv2dImpl& conv, const torch::Tensor& x) {
  return x.is_cuda() && conv.bias.defined() && x.scalar_type() != at::kDouble &&
         (channels_last(x) || channels_last(conv.weight));
}

torch::Tensor without_bias(const torch::nn::Conv2dImpl& conv, const torch::Tensor& x) {
  const auto& options = conv.options;
  const auto padding = std::get<torch::ExpandingArray<2>>(options.padding());
  return at::conv2d(x, conv.weight, std::optional<torch::Tensor>(), options.stride(),
                    at::IntArrayRef(*padding));
}

bool leaves_bias_to_norm(const torch::nn::Conv2dImpl& conv, const torch::Tensor& x) {
  return !at::GradMode::is_enabled() && !runs_again && channels_last(x) && defers_bias(conv, x);
}

torch::Tensor normalise_shifted(torch::nn::GroupNormImpl& norm, const torch::nn::Conv2dImpl& conv,
                                const torch::Tensor& x, const torch::Tensor& shift,
                                Activation activation) {
  const auto y = without_bias(conv, x);
  const auto& options = norm.options;
  const NormOffsets offsets{{}, shift.to(y.scalar_type()), conv.bias};
  return offset_norm_silu(y, offsets, norm.weight, norm.bias, options.num_groups(), options.eps(),
                          activation == Activation::silu, /*keep_sum=*/false)
      .output;
}

Residual convolved(torch::nn::Conv2dImpl& conv, const torch::Tensor& x) {
  if (takes_patches(conv, x)) return {by_patches(conv, x), {}, conv.bias};
  if (!leaves_bias_to_norm(conv, x)) return {conv.forward(x), {}};
  return {without_bias(conv, x), {}, conv.bias};
}

Residual with_branch(const torch::Tensor& x, torch::nn::Conv2dImpl* shortcut,
                     torch::nn::Conv2dImpl& conv, const torch::Tensor& inner) {
  if (!shortcut) {
    const auto branch = convolved(conv, inner);
    return {x, branch.x, branch.offset};
  }
  if (!defers_bias(conv, inner)) {
    const auto h = conv.forward(inner);
    return {shortcut->forward(x), h};
  }
  const auto h = without_bias(conv, inner), y = without_bias(*shortcut, x);
  const auto bias = conv.bias + shortcut->bias;
  if (leaves_bias_to_norm(conv, inner)) return {y, h, bias};
  // One pass for both biases, and one sum of their gradient.
  return {y, h + bias.view({1, -1, 1, 1}).to(h.scalar_type())};
}

Residual joined(const Residual& x, const torch::Tensor& skip) {
  Residual both = x;
  both.skip = skip;
  if (at::GradMode::is_enabled()) return {both.sum(), {}};
  return both;
}

torch::Tensor Residual::sum() const {
  if (skip.defined()) return at::cat({Residual{x, h, offset}.sum(), skip}, 1);
  return h.defined() || offset.defined() ? summed(*this, SumForm::plain) : x;
}

torch::Tensor doubled(const Residual& x) { return summed(x, SumForm::doubled); }

torch::Tensor padded_after(const Residual& x) { return summed(x, SumForm::padded_after); }

torch::Tensor conv_relu(torch::nn::Conv2dImpl& conv, const torch::Tensor& x) {
  if (defers_bias(conv, x)) return bias_relu(without_bias(conv, x), conv.bias);
  return at::relu(conv.forward(x));
}

std::shared_ptr<torch::nn::GroupNormImpl> make_norm(int64_t channels, double eps) {
  return std::make_shared<torch::nn::GroupNormImpl>(
      torch::nn::GroupNormOptions(norm_groups(channels), channels).eps(eps));
}

torch::Tensor normalise(torch::nn::GroupNormImpl& norm, const torch::Tensor& x,
                        Activation activation) {
  const bool silu = activation == Activation::silu;
  const auto& options = norm.options;
  if (normalised_at_once(x)) {
    return group_norm_silu(x, norm.weight, norm.bias, options.num_groups(), options.eps(), silu);
  }
  const auto normalised = norm.forward(x);
  return silu ? at::silu(normalised) : normalised;
}

torch::Tensor normalise(torch::nn::GroupNormImpl& norm, Residual residual, Activation activation) {
  const auto in_place = normalised_in_place(norm, residual, activation);
  if (in_place.output.defined()) return in_place.output;
  const auto& [x, h, offset, skip] = residual;
  if (!h.defined() && !offset.defined() && !skip.defined()) return normalise(norm, x, activation);
  if (!offset.defined() || !normalised_at_once(x) || !added_at_once(residual)) {
    return add_and_normalise(norm, residual, activation).output;
  }
  const auto& options = norm.options;
  return offset_norm_silu(x, {h, {}, offset, skip}, norm.weight, norm.bias, options.num_groups(),
                          options.eps(), activation == Activation::silu, /*keep_sum=*/false)
      .output;
}

torch::Tensor normalise_without_weights(const torch::Tensor& x) {
  const int64_t channels = x.size(1), groups = norm_groups(channels);
  if (!normalised_at_once(x)) return at::group_norm(x, groups, {}, {}, kNormEps);
  const auto fp32 = x.options().dtype(at::kFloat);
  return group_norm_silu(x, at::ones({channels}, fp32), at::zeros({channels}, fp32), groups,
                         kNormEps, /*silu=*/false);
}

Normalised add_and_normalise(torch::nn::GroupNormImpl& norm, Residual residual,
                             Activation activation, Offset left_over) {
  auto in_place = normalised_in_place(norm, residual, activation);
  if (in_place.output.defined()) return in_place;
  const auto& [x, h, offset, skip] = residual;
  if (!normalised_at_once(x) || !added_at_once(residual)) {
    const auto sum = residual.sum();
    return {sum, normalise(norm, sum, activation)};
  }
  const auto& options = norm.options;
  if (left_over == Offset::left && offset.defined() && !h.defined() && !skip.defined()) {
    return {x, normalise(norm, residual, activation), offset};
  }
  if (offset.defined() || skip.defined()) {
    const auto [sum, output] =
        offset_norm_silu(x, {h, {}, offset, skip}, norm.weight, norm.bias, options.num_groups(),
                         options.eps(), activation == Activation::silu, /*keep_sum=*/true);
    return {sum, output};
  }
  const auto [sum, output] = add_norm_silu(x, h, norm.weight, norm.bias, options.num_groups(),
                                           options.eps(), activation == Activation::silu);
  return {sum, output};
}

void make_channels_last(torch::nn::Module& module) {
  for (auto& parameter : module.parameters()) {
    if (parameter.dim() != 4) continue;
    parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
  }
}

void use_gpu_layout(torch::nn::Module& module) {
  const auto parameters = module.parameters();
  if (!parameters.empty() && parameters.front().is_cuda()) make_channels_last(module);
}

int64_t parameter_count(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Saved for the backward pass, besides the input.
struct KeptPart : torch::CustomClassHolder {
  NetworkPart call;
  Precision precision = Precision::fp32;  ///< of autocast in the forward pass
};

class Recompute : public torch::autograd::Function<Recompute> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x,
                               const c10::intrusive_ptr<KeptPart>& part) {
    context->save_for_backward({x});
    context->saved_data["part"] = c10::IValue::make_capsule(part);
    const RunsAgain guard;
    return part->call(x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "recomputed: double backward is not supported");
    const auto part =
        c10::static_intrusive_pointer_cast<KeptPart>(context->saved_data["part"].toCapsule());
    const auto x = context->get_saved_variables()[0].detach().requires_grad_();
    torch::Tensor result;
    {
      const at::AutoGradMode with_graph(true);
      const AutocastGuard autocast(part->precision, x.device());
      result = part->call(x);
    }
    torch::autograd::backward({result}, {gradients[0]});
    return {x.grad(), {}};
  }
};

}  // namespace

torch::Tensor recomputed(NetworkPart part, const torch::Tensor& x) {
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return part(x);
  const auto kept = c10::make_intrusive<KeptPart>();
  kept->call = std::move(part);
  kept->precision = autocast_precision(x.device());
  return Recompute::apply(x, kept);
}

}  // namespace nsvq
