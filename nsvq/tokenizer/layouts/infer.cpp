#include "nsvq/tokenizer/layouts/infer.h"

#include <fmt/ranges.h>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"

namespace nsvq {

namespace {

constexpr size_t kMostLevels = 64;  // beyond what the settings allow

/// Shapes of a tokenizer's tensors.
class TokenizerShapes {
 public:
  TokenizerShapes(const NamedShapes& shapes, const std::string& from)
      : shapes_(shapes), from_(from) {}

  bool has(const std::string& name) const { return shapes_.contains(name); }

  /// Size `axis` of a tensor of so many.
  int64_t size(const std::string& name, size_t axis, size_t axes = 4) const {
    const auto found = shapes_.find(name);
    if (found == shapes_.end()) throw UserError("{}: the tensor {} is missing", from_, quote(name));
    const auto& sizes = found->second;
    if (sizes.size() != axes || sizes[axis] < 1) {
      throw UserError("{}: the tensor {} of sizes {} is not that of a tokenizer", from_,
                      quote(name), shown_sizes(sizes));
    }
    return sizes[axis];
  }

  /// How many of PREFIX0.ENDING, PREFIX1.ENDING and so on there are.
  size_t count(const std::string& prefix, const std::string& ending) const {
    size_t number = 0;
    while (number < kMostLevels && has(fmt::format("{}{}.{}", prefix, number, ending))) ++number;
    return number;
  }

  std::vector<int64_t> multipliers(int64_t width) const {
    std::vector<int64_t> multipliers;
    const size_t levels = count("encoder.down.", "block.0.conv2.weight");
    for (size_t level = 0; level < levels; ++level) {
      const int64_t channels = size(fmt::format("encoder.down.{}.block.0.conv2.weight", level), 0);
      if (channels % width != 0) {
        throw UserError(
            "{}: level {} has {} channels, which is no multiple of the {} of encoder.conv_in",
            from_, level, channels, width);
      }
      multipliers.push_back(channels / width);
    }
    return multipliers;
  }

  std::vector<size_t> levels_with_attention(size_t levels) const {
    std::vector<size_t> with;
    for (size_t level = 0; level < levels; ++level) {
      if (has(fmt::format("encoder.down.{}.attn.0.q.weight", level))) with.push_back(level);
    }
    return with;
  }

 private:
  const NamedShapes& shapes_;
  const std::string& from_;
};

}  // namespace

std::vector<std::string> inferred_settings(const NamedShapes& ours, const std::string& from) {
  const TokenizerShapes shapes(ours, from);
  if (!shapes.has("decoder.conv_in.weight")) {
    throw UserError(
        "{}: there is no decoder in it, and a tokenizer needs both networks; name the file that "
        "has both",
        from);
  }
  const int64_t width = shapes.size("encoder.conv_in.weight", 0);
  const int64_t made = shapes.size("encoder.conv_out.weight", 0);
  const bool mapped = shapes.has("encoder.quant_conv.weight");
  const int64_t latent_dim = mapped ? shapes.size("encoder.quant_conv.weight", 0) : made;
  const auto multipliers = shapes.multipliers(width);
  std::vector<std::string> lines = {
      fmt::format("model.width: {}", width),
      fmt::format("model.multipliers: [{}]", fmt::join(multipliers, ", ")),
      fmt::format("model.blocks: {}", shapes.count("encoder.down.0.block.", "conv1.weight")),
      fmt::format("model.latent_dim: {}", latent_dim),
      fmt::format("model.attention: [{}]",
                  fmt::join(shapes.levels_with_attention(multipliers.size()), ", ")),
      fmt::format("model.mid_attention: {}", shapes.has("encoder.mid.attn_1.q.weight"))};
  if (mapped) {
    const int64_t kernel = shapes.size("encoder.quant_conv.weight", 2);
    if (made != latent_dim) lines.push_back(fmt::format("model.z_channels: {}", made));
    if (kernel != 1) lines.push_back(fmt::format("model.latent_kernel: {}", kernel));
  }
  if (shapes.has("quantizer.codebook")) {
    lines.push_back(fmt::format("quantizer.codes: {}", shapes.size("quantizer.codebook", 0, 2)));
  } else {
    lines.push_back(fmt::format("quantizer.lfq.bits: {}", latent_dim));
  }
  return lines;
}

}  // namespace nsvq
