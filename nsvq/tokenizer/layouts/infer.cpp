#include "nsvq/tokenizer/layouts/layout.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"

namespace nsvq {

namespace {

constexpr size_t kMostLevels = 64;      // beyond what the settings allow
constexpr int64_t kMostTransforms = 8;  // of Haar, also

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

  /// Levels that change the resolution, in the network with more of them.
  int64_t halving_levels(size_t levels) const {
    int64_t down = 0, up = 0;
    for (size_t level = 0; level < levels; ++level) {
      if (has(fmt::format("encoder.down.{}.downsample.weight", level))) ++down;
      if (has(fmt::format("decoder.up.{}.upsample.weight", level))) ++up;
    }
    return std::max(down, up);
  }

  /// How often Haar wavelets turn 3 channels into 4 times as many for the first convolution.
  int64_t haar_transforms() const {
    const int64_t inputs = size("encoder.conv_in.weight", 1);
    int64_t times = 0;
    while (times < kMostTransforms && inputs > int64_t{3} << (2 * times)) ++times;
    return times;
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

std::vector<std::string> inferred_settings(const Layout& layout, const NamedShapes& ours,
                                           const std::string& from) {
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
  const auto levels = multipliers.size();
  auto lines = layout.settings;
  const auto add = [&](const char* key, const auto& value) {
    lines.push_back(fmt::format("{}: {}", key, value));
  };
  const auto add_unless = [&](int64_t usual, const char* key, int64_t value) {
    if (value != usual) add(key, value);
  };
  add("model.width", width);
  add("model.multipliers", fmt::format("[{}]", fmt::join(multipliers, ", ")));
  add("model.blocks", shapes.count("encoder.down.0.block.", "conv1.weight"));
  add("model.latent_dim", latent_dim);
  add("model.attention",
      fmt::format("[{}]", fmt::join(shapes.levels_with_attention(levels), ", ")));
  add("model.mid_attention", shapes.has("encoder.mid.attn_1.q.weight"));
  add_unless(static_cast<int64_t>(levels) - 1, "model.halvings", shapes.halving_levels(levels));
  add_unless(0, "model.haar", shapes.haar_transforms());
  if (mapped) {
    add_unless(latent_dim, "model.z_channels", made);
    add_unless(1, "model.latent_kernel", shapes.size("encoder.quant_conv.weight", 2));
  }
  if (shapes.has("quantizer.codebook")) {
    add("quantizer.codes", shapes.size("quantizer.codebook", 0, 2));
  } else if (std::ranges::count(lines, "quantizer.type: lfq") > 0) {
    add("quantizer.lfq.bits", latent_dim);
  }
  return lines;
}

}  // namespace nsvq
