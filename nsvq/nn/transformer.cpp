#include "nsvq/nn/transformer.h"

#include <ATen/autocast_mode.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "nsvq/core/precision.h"
#include "nsvq/nn/gated_mlp.h"
#include "nsvq/nn/sampled_tokens.h"
#include "nsvq/ops/common/fast_path.h"
#include "nsvq/ops/transformer/add_rms_norm.h"
#include "nsvq/ops/transformer/cached_attention_inference.h"
#include "nsvq/ops/transformer/kept_bits.h"
#include "nsvq/ops/transformer/norms_inference.h"
#include "nsvq/ops/transformer/swiglu_inference.h"
#include "nsvq/ops/transformer/turn_heads.h"

namespace nsvq {

namespace {

std::shared_ptr<torch::nn::LinearImpl> make_linear(int64_t inputs, int64_t outputs, bool bias) {
  return std::make_shared<torch::nn::LinearImpl>(
      torch::nn::LinearOptions(inputs, outputs).bias(bias));
}

/// A linear layer of zeros from a condition to `parts` vectors for adaptive norms.
std::shared_ptr<torch::nn::LinearImpl> make_modulation(int64_t width, int64_t parts) {
  auto layer = make_linear(width, parts * width, /*bias=*/true);
  torch::nn::init::zeros_(layer->weight);
  torch::nn::init::zeros_(layer->bias);
  return layer;
}

TokenNormImpl::Shape block_norm(const TransformerOptions& options, int64_t width) {
  const bool layer = options.norm == NormKind::layer;
  return {width, options.norm, options.eps, /*weight=*/true, /*bias=*/layer};
}

torch::Tensor dropped(const torch::Tensor& x, double share, bool training) {
  return training && share > 0 ? at::dropout(x, share, /*train=*/true) : x;
}

torch::Tensor modulated(const torch::Tensor& x, const Modulation& by) {
  return by.shift.defined() ? x * (1 + by.scale) + by.shift : x;
}

torch::Tensor gated_by(const torch::Tensor& x, const Modulation& by) {
  return by.gate.defined() ? x * by.gate : x;
}

/// The type in which linear layers give their results.
at::ScalarType product_type(const torch::Tensor& x) {
  const auto device = x.device().type();
  return at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device)
                                                   : x.scalar_type();
}

/// Why the kernels for training do not apply at all; empty if they may.
std::string reason_against_kernels(const torch::Tensor& x) {
  if (!x.is_cuda()) return "not on a GPU";
  if (!at::GradMode::is_enabled()) return "no gradients are recorded";
  return autocast_precision(x.device()) == Precision::bf16 ? "" : "not in bf16";
}

/// What is added to scores of tokens at `places`: nothing for places up to theirs, else -inf.
torch::Tensor cache_mask(const KvCache& cache, const torch::Tensor& places, at::ScalarType type) {
  const auto all = at::arange(cache.positions, places.options());
  const auto later = all.unsqueeze(0).gt(places.unsqueeze(1));
  return at::zeros(later.sizes(), places.options().dtype(type)).masked_fill(later, -INFINITY);
}

/// What is kept of a layer, zeros at first: [rows, heads, positions, head width].
const torch::Tensor& kept_of(std::vector<torch::Tensor>& cached, size_t layer,
                             const std::vector<int64_t>& shape, const torch::TensorOptions& like) {
  if (cached.size() <= layer) cached.push_back(at::zeros(shape, like));
  return cached[layer];
}

/// Puts values [B, heads, T, head width] of a layer at their places, and returns all that is there.
torch::Tensor remembered(std::vector<torch::Tensor>& cached, size_t layer, int64_t positions,
                         const torch::Tensor& places, const torch::Tensor& values) {
  const auto& kept = kept_of(
      cached, layer, {values.size(0), values.size(1), positions, values.size(3)}, values.options());
  return kept.index_copy_(2, places, values);
}

/// fp32 numbers, as kernels take weights of norms.
torch::Tensor as_fp32(const torch::Tensor& x) { return x.defined() ? x.to(at::kFloat) : x; }

}  // namespace

torch::Tensor TokenResidual::settle() {
  if (branch.defined()) x = x + dropped(branch, dropout, /*training=*/true);
  branch.reset();
  return x;
}

TokenNormImpl::TokenNormImpl(const Shape& shape) : shape_(shape) {
  if (shape.weight) weight = register_parameter("weight", at::ones({shape.width}));
  if (shape.bias) bias = register_parameter("bias", at::zeros({shape.width}));
}

torch::Tensor TokenNormImpl::forward(const torch::Tensor& x) {
  // Sums are in fp32 at least whatever the type of x, which only has to be that of the weights.
  const bool alike = !weight.defined() || weight.scalar_type() == x.scalar_type();
  const auto wide = alike ? x : at_least_fp32(x);
  const auto in_type = [&](const torch::Tensor& values) -> std::optional<torch::Tensor> {
    if (!values.defined()) return std::nullopt;
    return values.to(wide.scalar_type());
  };
  if (shape_.kind == NormKind::layer) {
    return at::layer_norm(wide, {shape_.width}, in_type(weight), in_type(bias), shape_.eps)
        .to(x.scalar_type());
  }
  auto normalised = at::rms_norm(wide, {shape_.width}, in_type(weight), shape_.eps);
  if (bias.defined()) normalised = normalised + bias;
  return normalised.to(x.scalar_type());
}

std::string TokenNormImpl::reason_against_one_pass(const TokenResidual& stream) const {
  if (auto reason = reason_against_kernels(stream.x); !reason.empty()) return reason;
  const bool plain = shape_.kind == NormKind::rms && weight.defined() && !bias.defined();
  if (!plain) return "not an RMSNorm with weights alone";
  return add_rms_norm_unavailable_reason(stream.x, stream.branch, weight);
}

torch::Tensor TokenNormImpl::forward(TokenResidual& stream) {
  if (!takes_fast_path("add_rms_norm", reason_against_one_pass(stream))) {
    return forward(stream.settle());
  }
  Branch branch{.values = stream.branch};
  if (branch.values.defined() && stream.dropout > 0) {
    branch.dropped = dropped_share(stream.dropout);
    branch.kept = kept_bits(branch.values, stream.dropout);
  }
  const auto [sum, output] = add_rms_norm(stream.x, branch, weight, shape_.eps);
  stream = {sum};
  return output;
}

TokenAttentionImpl::TokenAttentionImpl(const TransformerOptions& options) : options_(options) {
  const int64_t inner = options.heads * options.head_width();
  wqkv_ = register_module("wqkv", make_linear(options.width, 3 * inner, options.bias));
  wo_ = register_module("wo", make_linear(inner, options.width, options.bias));
  if (options.query_norm != QueryNorm::head) return;
  const auto shape = block_norm(options, options.head_width());
  q_norm_ = register_module("q_norm", std::make_shared<TokenNormImpl>(shape));
  k_norm_ = register_module("k_norm", std::make_shared<TokenNormImpl>(shape));
}

/// x [B, T, heads, head width].
torch::Tensor TokenAttentionImpl::normalised(const torch::Tensor& x, TokenNormImpl* norm) const {
  if (norm) return norm->forward(x);
  if (options_.query_norm == QueryNorm::none) return x;
  const auto joined = x.flatten(2);
  return at::rms_norm(joined, {joined.size(2)}, {}, options_.eps)
      .to(x.scalar_type())
      .view(x.sizes());
}

std::string TokenAttentionImpl::reason_against_turning(const torch::Tensor& parts,
                                                       const TokenContext& context) const {
  if (auto reason = reason_against_kernels(parts); !reason.empty()) return reason;
  if (context.cache) return "with a cache";
  if (!context.rotation.defined()) return "no rotary positions";
  if (options_.query_norm != QueryNorm::none) return "queries are normalised";
  return turn_heads_unavailable_reason(parts, context.rotation);
}

/// Turns queries and keys where they lie: `parts` is what the backward pass does not need.
torch::Tensor TokenAttentionImpl::mixed_in_place(const torch::Tensor& parts,
                                                 const TokenContext& context) const {
  const auto [query, key, value] = turn_heads(parts, context.rotation);
  const double share = context.training ? options_.dropout.attention : 0;
  return at::scaled_dot_product_attention(query, key, value, {}, share, options_.causal);
}

torch::Tensor TokenAttentionImpl::forward(const torch::Tensor& x, const TokenContext& context,
                                          size_t layer, const torch::Tensor& mask) {
  const auto projected = wqkv_->forward(x);
  if (context.one_query) return wo_->forward(of_one_query(projected, context, layer));
  const bool in_place = context.fused && options_.query_norm == QueryNorm::width &&
                        row_norms_take(projected.size(2) / 3);
  if (in_place) query_key_norm_inference(projected, options_.eps);
  const auto parts = projected.unflatten(2, {3, options_.heads, options_.head_width()});
  if (takes_fast_path("turn_heads", reason_against_turning(parts, context))) {
    return wo_->forward(mixed_in_place(parts, context).transpose(1, 2).flatten(2));
  }
  auto query = in_place ? parts.select(2, 0) : normalised(parts.select(2, 0), q_norm_.get());
  auto key = in_place ? parts.select(2, 1) : normalised(parts.select(2, 1), k_norm_.get());
  if (context.rotation.defined()) {
    const bool as_made = in_place || options_.query_norm == QueryNorm::none;
    const auto both = as_made ? parts.narrow(2, 0, 2) : at::stack({query, key}, 2);
    const auto turned = rotated(both, context.rotation).unbind(2);
    query = turned[0];
    key = turned[1];
  }
  query = query.transpose(1, 2);
  key = key.transpose(1, 2);
  auto value = parts.select(2, 2).transpose(1, 2);
  if (context.cache) {
    auto& cache = *context.cache;
    key = remembered(cache.keys, layer, cache.positions, context.places, key);
    value = remembered(cache.values, layer, cache.positions, context.places, value);
  }
  const double share = context.training ? options_.dropout.attention : 0;
  const auto added = mask.defined() ? std::optional<torch::Tensor>(mask) : std::nullopt;
  const auto mixed = at::scaled_dot_product_attention(query, key, value, added, share,
                                                      options_.causal && !context.cache);
  return wo_->forward(mixed.transpose(1, 2).flatten(2));
}

/// What the heads of one token give, [B, 1, heads * head width].
torch::Tensor TokenAttentionImpl::of_one_query(const torch::Tensor& projected,
                                               const TokenContext& context, size_t layer) const {
  auto& cache = *context.cache;
  const std::vector<int64_t> shape = {projected.size(0), options_.heads, cache.positions,
                                      options_.head_width()};
  const auto& keys = kept_of(cache.keys, layer, shape, projected.options());
  const auto& values = kept_of(cache.values, layer, shape, projected.options());
  HeadNorms norms{.eps = options_.eps};
  if (q_norm_) {
    norms = {options_.norm == NormKind::layer ? HeadNorm::layer : HeadNorm::rms,
             options_.eps,
             as_fp32(q_norm_->weight),
             as_fp32(q_norm_->bias),
             as_fp32(k_norm_->weight),
             as_fp32(k_norm_->bias)};
  }
  return cached_attention_inference(projected.squeeze(1), keys, values, context.places,
                                    context.rotation, norms)
      .unsqueeze(1);
}

TokenMlpImpl::TokenMlpImpl(const TransformerOptions& options)
    : hidden_dropout_(options.dropout.hidden) {
  w1_ = register_module("w1", make_linear(options.width, options.hidden, options.bias));
  w2_ = register_module("w2", make_linear(options.hidden, options.width, options.bias));
  if (!options.gated) return;
  w3_ = register_module("w3", make_linear(options.width, options.hidden, options.bias));
}

std::string TokenMlpImpl::reason_against_fused(const torch::Tensor& x, bool training) const {
  if (auto reason = reason_against_kernels(x); !reason.empty()) return reason;
  if (!w3_) return "not gated";
  if (w1_->bias.defined()) return "with biases";
  if (training && hidden_dropout_ > 0) return "with dropout inside";
  return w1_->weight.size(0) % 8 == 0 ? "" : "hidden channels are no multiple of 8";
}

void TokenMlpImpl::join_products() {
  if (!w3_) return;
  const torch::NoGradGuard no_grad;
  const auto joined = [&](torch::Tensor& one, torch::Tensor& other) {
    const auto both = at::cat({one, other});
    one.set_data(both.narrow(0, 0, one.size(0)));
    other.set_data(both.narrow(0, one.size(0), other.size(0)));
    return both;
  };
  joined_ = joined(w1_->weight, w3_->weight);
  if (w1_->bias.defined()) joined_bias_ = joined(w1_->bias, w3_->bias);
}

torch::Tensor TokenMlpImpl::gated(const torch::Tensor& x, const TokenContext& context) {
  const int64_t hidden = w1_->weight.size(0);
  if (!context.fused || hidden % 8 != 0) return at::silu(w1_->forward(x)) * w3_->forward(x);
  if (!joined_.defined()) return swiglu_inference(w1_->forward(x), w3_->forward(x));
  const auto both =
      joined_bias_.defined() ? at::linear(x, joined_, joined_bias_) : at::linear(x, joined_);
  return swiglu_inference(both.narrow(-1, 0, hidden), both.narrow(-1, hidden, hidden));
}

torch::Tensor TokenMlpImpl::forward(const torch::Tensor& x, const TokenContext& context) {
  if (takes_fast_path("gated_mlp", reason_against_fused(x, context.training))) {
    return gated_mlp(x.to(at::kBFloat16), autocast_weight(w1_->weight),
                     autocast_weight(w2_->weight), autocast_weight(w3_->weight));
  }
  const auto inner = w3_ ? gated(x, context) : at::gelu(w1_->forward(x));
  return w2_->forward(dropped(inner, hidden_dropout_, context.training));
}

TokenBlockImpl::TokenBlockImpl(const TransformerOptions& options) : dropout_(options.dropout) {
  attention_ = register_module("attention", std::make_shared<TokenAttentionImpl>(options));
  feed_forward_ = register_module("feed_forward", std::make_shared<TokenMlpImpl>(options));
  const auto norm = block_norm(options, options.width);
  attention_norm_ = register_module("attention_norm", std::make_shared<TokenNormImpl>(norm));
  ffn_norm_ = register_module("ffn_norm", std::make_shared<TokenNormImpl>(norm));
  if (!options.modulated) return;
  if (options.shared_modulation) {
    offset_ = register_parameter("modulation_offset", at::zeros({6 * options.width}));
  } else {
    modulation_ = register_module("modulation", make_modulation(options.width, 6));
  }
}

std::array<Modulation, 2> TokenBlockImpl::modulations(const TokenContext& context) const {
  if (!modulation_ && !offset_.defined()) return {};
  // [B, 1 or T, 6 width]
  const auto all =
      modulation_ ? modulation_->forward(context.condition) : context.modulation + offset_;
  const auto parts = all.chunk(6, -1);
  return {Modulation{parts[0], parts[1], parts[2]}, Modulation{parts[3], parts[4], parts[5]}};
}

void TokenBlockImpl::forward(TokenResidual& stream, const TokenContext& context, size_t layer,
                             const torch::Tensor& mask) {
  const auto [first, second] = modulations(context);
  const auto add = [&](const torch::Tensor& branch, double share, const Modulation& by) {
    stream.branch = branch;
    stream.dropout = context.training ? share : 0;
    if (!by.gate.defined()) return;
    stream.branch = gated_by(dropped(branch, share, context.training), by);
    stream.dropout = 0;
  };
  const auto normalised = [&](TokenNormImpl& norm, const Modulation& by) {
    return by.shift.defined() ? modulated(norm.forward(stream.settle()), by) : norm.forward(stream);
  };
  const auto seen = normalised(*attention_norm_, first);
  add(attention_->forward(seen, context, layer, mask), dropout_.projection, first);
  const auto inner = normalised(*ffn_norm_, second);
  add(feed_forward_->forward(inner, context), dropout_.output, second);
}

void TokenBlockImpl::forward_fused(SampledTokens& tokens, const TokenContext& context, size_t layer,
                                   const torch::Tensor& mask) {
  const auto [first, second] = modulations(context);
  const auto seen = tokens.normed(*attention_norm_, first);
  tokens.add(attention_->forward(seen, context, layer, mask), first.gate);
  const auto inner = tokens.normed(*ffn_norm_, second);
  tokens.add(feed_forward_->forward(inner, context), second.gate);
}

ModulatedNormImpl::ModulatedNormImpl(const TokenNormImpl::Shape& shape) {
  norm = register_module("norm", std::make_shared<TokenNormImpl>(shape));
  modulation = register_module("modulation", make_modulation(shape.width, 2));
}

torch::Tensor ModulatedNormImpl::forward(const torch::Tensor& x, const torch::Tensor& condition) {
  return modulated(norm->forward(x), modulation_by(condition));
}

Modulation ModulatedNormImpl::modulation_by(const torch::Tensor& condition) const {
  const auto parts = modulation->forward(condition).chunk(2, -1);
  return {parts[0], parts[1], {}};
}

Transformer::Transformer(torch::nn::Module& owner, const TransformerOptions& options)
    : options_(options) {
  const auto list = owner.register_module("layers", std::make_shared<torch::nn::Module>());
  for (int64_t i = 0; i < options.depth; ++i) {
    layers_.push_back(
        list->register_module(std::to_string(i), std::make_shared<TokenBlockImpl>(options)));
  }
  if (options.modulated && options.shared_modulation) {
    modulation_ = owner.register_module("modulation", make_modulation(options.width, 6));
  }
}

TokenContext Transformer::prepared(const torch::Tensor& x, TokenContext context) const {
  if (modulation_) context.modulation = modulation_->forward(context.condition);
  TORCH_CHECK(x.dim() == 3 && x.size(2) == options_.width, "Transformer: needs tokens [B, T, ",
              options_.width, "], got ", x.sizes());
  TORCH_CHECK(!context.cache || options_.causal, "Transformer: a cache needs causal blocks");
  return context;
}

torch::Tensor Transformer::forward(const torch::Tensor& x, const TokenContext& context) {
  return stream(x, context).settle();
}

TokenResidual Transformer::stream(const torch::Tensor& x, const TokenContext& given) {
  const auto context = prepared(x, given);
  torch::Tensor mask;
  if (context.cache) mask = cache_mask(*context.cache, context.places, product_type(x));
  TokenResidual tokens{x};
  for (size_t i = 0; i < layers_.size(); ++i) layers_[i]->forward(tokens, context, i, mask);
  return tokens;
}

torch::Tensor Transformer::sampled(const torch::Tensor& x, const TokenContext& given,
                                   TokenNormImpl& norm, const Modulation& by) {
  if (given.training || !SampledTokens::takes(x)) {
    return modulated(norm.forward(forward(x, given)), by);
  }
  auto context = prepared(x, given);
  context.fused = true;
  context.one_query = context.cache && x.size(1) == 1 && options_.query_norm != QueryNorm::width &&
                      cached_attention_takes(options_.head_width());
  torch::Tensor mask;
  if (context.cache && !context.one_query) {
    mask = cache_mask(*context.cache, context.places, product_type(x));
  }
  SampledTokens stream(x);
  for (size_t i = 0; i < layers_.size(); ++i) layers_[i]->forward_fused(stream, context, i, mask);
  return stream.normed(norm, by);
}

torch::Tensor grid_rotation(int64_t height, int64_t width, int64_t head_width,
                            const torch::TensorOptions& options) {
  TORCH_CHECK(head_width % 4 == 0, "grid_rotation: the head's width must be a multiple of 4, but ",
              "it is ", head_width);
  const auto wide = options.dtype(at::kDouble);
  const int64_t waves = head_width / 4;
  const auto frequencies = at::pow(1e-4, at::arange(waves, wide) / static_cast<double>(waves));
  const auto angles = [&](int64_t side) { return at::outer(at::arange(side, wide), frequencies); };
  const auto rows = angles(height).unsqueeze(1).expand({height, width, waves});
  const auto columns = angles(width).unsqueeze(0).expand({height, width, waves});
  const auto turned = at::cat({rows, columns}, 2).flatten(0, 1);
  const auto type = options.dtype().toScalarType();
  return at::complex(turned.cos().to(type), turned.sin().to(type));
}

torch::Tensor rotated(const torch::Tensor& x, const torch::Tensor& rotation) {
  const auto pairs = at::view_as_complex(at_least_fp32(x).unflatten(-1, {-1, 2}));
  std::vector<int64_t> shape(x.dim() - 1, 1);
  shape[0] = rotation.size(0);
  shape.back() = rotation.size(1);
  return at::view_as_real(pairs * rotation.view(shape)).flatten(-2).to(x.scalar_type());
}

int64_t gated_hidden_width(int64_t width) { return (8 * width / 3 + 255) / 256 * 256; }

void fill_token_weights(torch::nn::Module& module, WeightFill fill) {
  const torch::NoGradGuard no_grad;
  constexpr double kDeviation = 0.02;
  for (const auto& item : module.named_modules("", /*include_self=*/false)) {
    const auto& name = item.key();
    if (auto* table = item.value()->as<torch::nn::EmbeddingImpl>()) {
      table->weight.normal_(0, kDeviation);
    }
    auto* linear = item.value()->as<torch::nn::LinearImpl>();
    if (!linear || name.ends_with("modulation")) continue;
    if (linear->bias.defined()) linear->bias.zero_();
    if (fill == WeightFill::normal) {
      linear->weight.normal_(0, kDeviation);
      continue;
    }
    for (auto& part : linear->weight.chunk(name.ends_with("wqkv") ? 3 : 1)) {
      torch::nn::init::xavier_uniform_(part);
    }
  }
}

}  // namespace nsvq
