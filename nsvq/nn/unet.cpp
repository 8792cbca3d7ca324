#include "nsvq/nn/unet.h"

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "nsvq/core/error.h"

namespace nsvq {

std::vector<Option> unet_options(UnetConfig& unet) {
  return {
      {"unet.width", &unet.width, "channels of the first level", Range::between(2, 4096)},
      {"unet.multipliers", &unet.multipliers,
       "channels of each level as multiples of the width; each level after the first halves the "
       "resolution",
       Range::list(1, 8, Range::between(1, 64))},
      {"unet.blocks", &unet.blocks,
       "residual blocks per level on the way down, one more on the "
       "way up",
       Range::between(1, 16)},
      {"unet.attention", &unet.attention,
       "levels with attention, counted from 0; the middle always has it",
       Range::list(0, 8, Range::between(0, 7))},
      {"unet.heads", &unet.heads, "heads of the attention", Range::between(1, 64)},
  };
}

void check_unet(UnetConfig unet) {
  require_in_range(unet_options(unet));
  const auto levels = std::ssize(unet.multipliers);
  if (unet.width % 2 != 0) {
    throw UserError("unet.width must be even, for sines and cosines of the time, but is {}",
                    unet.width);
  }
  auto attended = unet.attention;
  attended.push_back(levels - 1);  // the middle
  for (const int64_t level : attended) {
    if (level >= levels) {
      throw UserError("unet.attention names level {}, but unet.multipliers has levels 0..{}", level,
                      levels - 1);
    }
    const int64_t channels = unet.width * unet.multipliers[level];
    if (channels % unet.heads == 0) continue;
    throw UserError("unet.heads {} does not divide the {} channels of level {}", unet.heads,
                    channels, level);
  }
}

namespace {

/// Channels of the time's embedding.
int64_t condition_width(const UnetConfig& config) { return 4 * config.width; }

/// Heads of the attention of a level; 0 if it has none.
int64_t heads_at(const UnetConfig& config, int64_t level) {
  const auto& levels = config.attention;
  return std::find(levels.begin(), levels.end(), level) == levels.end() ? 0 : config.heads;
}

/// Adds a module to a list, as torch.nn.ModuleList names its members.
template <typename Member>
std::shared_ptr<Member> append(torch::nn::Module& list, std::shared_ptr<Member> member) {
  return list.register_module(std::to_string(list.children().size()), std::move(member));
}

}  // namespace

UnetImpl::UnetImpl(const UnetConfig& config, const UnetInputs& inputs)
    : inputs_(inputs), width_(config.width), stride_(config.stride()) {
  check_unet(config);
  const int64_t wide = condition_width(config);
  const auto time = add_group(*this, "time_embed");
  time1_ = time->register_module("0", std::make_shared<torch::nn::LinearImpl>(width_, wide));
  time2_ = time->register_module("2", std::make_shared<torch::nn::LinearImpl>(wide, wide));
  if (inputs.labels > 0) {
    label_emb_ = register_module("label_emb",
                                 std::make_shared<torch::nn::EmbeddingImpl>(inputs.labels, wide));
  }
  const auto down = add_group(*this, "input_blocks");
  conv_in_ = append(*down, std::make_shared<torch::nn::Module>())
                 ->register_module("0", make_conv({.inputs = inputs.channels, .outputs = width_}));
  std::vector<int64_t> skip_widths = {width_};
  const int64_t lowest = add_down(*down, config, skip_widths);
  middle_ =
      register_module("middle_block", std::make_shared<UnetMiddleImpl>(lowest, wide, config.heads));
  const auto up = add_group(*this, "output_blocks");
  add_up(*up, config, lowest, std::move(skip_widths));
  const int64_t last = config.width * config.multipliers.front();
  const auto out = add_group(*this, "out");
  norm_out_ = out->register_module("0", make_unet_norm(last));
  conv_out_ =
      out->register_module("2", make_zero_conv({.inputs = last, .outputs = inputs.channels}));
}

/// The levels from full resolution down; notes the channels of all that has a skip connection.
/// Returns the channels of the lowest level.
int64_t UnetImpl::add_down(torch::nn::Module& list, const UnetConfig& config,
                           std::vector<int64_t>& skip_widths) {
  const auto levels = std::ssize(config.multipliers);
  int64_t width = config.width;
  for (int64_t level = 0; level < levels; ++level) {
    for (int64_t block = 0; block < config.blocks; ++block) {
      const int64_t next = config.width * config.multipliers[level];
      down_.push_back({append(list, std::make_shared<UnetStageImpl>(UnetStageImpl::Shape{
                                        .block = {width, next, condition_width(config)},
                                        .heads = heads_at(config, level)})),
                       nullptr});
      width = next;
      skip_widths.push_back(width);
    }
    if (level + 1 == levels) break;
    const auto group = append(list, std::make_shared<torch::nn::Module>());
    down_.push_back(
        {nullptr, group->register_module("0", std::make_shared<UnetDownsampleImpl>(width))});
    skip_widths.push_back(width);
  }
  return width;
}

/// The levels from the lowest resolution up: a block more each, for the skips of the level and that
/// of the resampling before it.
void UnetImpl::add_up(torch::nn::Module& list, const UnetConfig& config, int64_t width,
                      std::vector<int64_t> skip_widths) {
  for (int64_t level = std::ssize(config.multipliers) - 1; level >= 0; --level) {
    for (int64_t block = 0; block <= config.blocks; ++block) {
      const int64_t next = config.width * config.multipliers[level];
      const int64_t joined = width + skip_widths.back();
      skip_widths.pop_back();
      up_.push_back(append(list, std::make_shared<UnetStageImpl>(UnetStageImpl::Shape{
                                     .block = {joined, next, condition_width(config)},
                                     .heads = heads_at(config, level),
                                     .upsample = level > 0 && block == config.blocks})));
      width = next;
    }
  }
}

void UnetImpl::check(const torch::Tensor& latents, const torch::Tensor& times,
                     const torch::Tensor& labels) const {
  TORCH_CHECK(latents.dim() == 4 && latents.size(1) == inputs_.channels,
              "U-Net: needs latents [B, ", inputs_.channels, ", h, w], got ", latents.sizes());
  TORCH_CHECK(latents.size(2) > 0 && latents.size(3) > 0 && latents.size(2) % stride_ == 0 &&
                  latents.size(3) % stride_ == 0,
              "U-Net: latents of ", latents.size(2), "x", latents.size(3),
              " are not a multiple of the stride, which is ", stride_);
  const auto one_each = [&](const torch::Tensor& values) {
    return values.dim() == 1 && values.size(0) == latents.size(0);
  };
  TORCH_CHECK(one_each(times), "U-Net: needs a time for each of ", latents.size(0),
              " latents, got ", times.sizes());
  TORCH_CHECK(labels.defined() == (inputs_.labels > 0), "U-Net: has ",
              inputs_.labels > 0 ? "classes, so it needs labels" : "no classes, so no labels");
  TORCH_CHECK(!labels.defined() || (one_each(labels) && labels.scalar_type() == at::kLong),
              "U-Net: needs an int64 label for each of ", latents.size(0), " latents");
}

/// SiLU of the embedding [B, 4 width] of time and class, which every block takes.
torch::Tensor UnetImpl::condition(const torch::Tensor& times, const torch::Tensor& labels) {
  const auto waves = time_embedding(times, width_).to(time1_->weight.scalar_type());
  auto embedding = time2_->forward(at::silu(time1_->forward(waves)));
  if (label_emb_) embedding = embedding + label_emb_->forward(labels);
  return at::silu(embedding);
}

torch::Tensor UnetImpl::forward(const torch::Tensor& latents, const torch::Tensor& times,
                                const torch::Tensor& labels) {
  check(latents, times, labels);
  const AutocastGuard autocast(precision, latents.device());
  const auto embedding = condition(times, labels);
  std::vector<Residual> skips = {convolved(*conv_in_, latents)};
  for (const auto& part : down_) {
    auto& input = skips.back();
    auto output =
        part.stage ? part.stage->forward(input, embedding) : part.downsample->forward(input);
    skips.push_back(std::move(output));
  }
  auto x = middle_->forward(skips.back(), embedding);
  for (const auto& stage : up_) {
    auto input = joined(x, skips.back().sum());
    skips.pop_back();
    x = stage->forward(input, embedding);
  }
  const auto normalised = add_and_normalise(*norm_out_, x, Activation::silu).output;
  return at_least_fp32(conv_out_->forward(normalised));
}

}  // namespace nsvq
