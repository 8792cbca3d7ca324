#include "nsvq/quantizers/members/code_bridge.h"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

#include "nsvq/core/error.h"

namespace nsvq {

namespace {

/// Patches along a side of the square of codes.
int64_t patches_along(const BridgeConfig& config, int64_t codes) {
  const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(codes)));
  const int64_t patches = side / config.patch;
  const auto squared = [&](int64_t count) { return count * count * config.patch * config.patch; };
  if (squared(patches) != codes) {
    throw UserError(
        "quantizer.codes is {}, but the codes of fvq make a square of patches of {} x {} "
        "(quantizer.bridge.patch); use {}{}",
        codes, config.patch, config.patch,
        patches > 0 ? fmt::format("{} or ", squared(patches)) : "", squared(patches + 1));
  }
  if (config.width % config.heads != 0) {
    throw UserError("quantizer.bridge.heads is {}, which does not divide quantizer.bridge.width {}",
                    config.heads, config.width);
  }
  if (config.variant == "dit" && config.width % 4 != 0) {
    throw UserError(
        "quantizer.bridge.width is {}, but positions take a multiple of 4; change it, or set "
        "quantizer.bridge.variant to vit",
        config.width);
  }
  return patches;
}

}  // namespace

CodeBridgeImpl::CodeBridgeImpl(const BridgeConfig& config, int64_t codes, int64_t dim)
    : patch_(config.patch), patches_(patches_along(config, codes)), dim_(dim) {
  const int64_t numbers = patch_ * patch_ * dim;
  embed_ = register_module("embed", make_xavier_linear(numbers, config.width));
  const auto blocks = register_module("blocks", torch::nn::ModuleList());
  for (int64_t i = 0; i < config.blocks; ++i) {
    blocks_.push_back(std::make_shared<VitBlockImpl>(
        VitBlockShape{.width = config.width, .heads = config.heads}));
    blocks->push_back(blocks_.back());
  }
  last_ = register_module("last", make_zero_linear(config.width, numbers));
  if (config.variant == "dit") add_modulation(config.width);
}

void CodeBridgeImpl::add_modulation(int64_t width) {
  condition_ = register_parameter("condition", at::randn({width}).mul_(0.02));
  const auto layers = register_module("modulation", torch::nn::ModuleList());
  for (size_t i = 0; i <= blocks_.size(); ++i) {
    const int64_t rows = i < blocks_.size() ? 6 : 2;  // the last norm has shift and scale alone
    modulation_.push_back(make_zero_linear(width, rows * width));
    layers->push_back(modulation_.back());
  }
}

/// Code r * side + c lies in row r, column c; a patch is flattened as (row, column, channel).
torch::Tensor CodeBridgeImpl::to_patches(const torch::Tensor& codebook) const {
  return codebook.view({patches_, patch_, patches_, patch_, dim_})
      .permute({0, 2, 1, 3, 4})
      .reshape({patches_ * patches_, patch_ * patch_ * dim_});
}

torch::Tensor CodeBridgeImpl::from_patches(const torch::Tensor& patches) const {
  return patches.view({patches_, patches_, patch_, patch_, dim_})
      .permute({0, 2, 1, 3, 4})
      .reshape({-1, dim_});
}

torch::Tensor CodeBridgeImpl::forward(const torch::Tensor& codebook) {
  auto tokens = embed_->forward(to_patches(codebook));
  if (condition_.defined()) return from_patches(last_->forward(modulated(tokens)));
  for (const auto& block : blocks_) tokens = block->forward(tokens);
  return from_patches(last_->forward(plain_layer_norm(tokens)));
}

/// Positions are made anew each time: some 10 small operators beside products of all codes, and
/// nothing fixed in the model file.
torch::Tensor CodeBridgeImpl::modulated(torch::Tensor tokens) {
  const int64_t width = tokens.size(1);
  const auto given = at::silu(condition_);
  tokens = tokens + sincos_positions(patches_, width, tokens.options());
  for (size_t i = 0; i < blocks_.size(); ++i) {
    tokens = blocks_[i]->forward(tokens, modulation_[i]->forward(given).view({6, width}));
  }
  const auto last = modulation_.back()->forward(given).view({2, width});
  return modulated_layer_norm(tokens, last[0], last[1]);
}

}  // namespace nsvq
