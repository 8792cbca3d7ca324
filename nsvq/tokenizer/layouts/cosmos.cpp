// Cosmos' tokenizers of images: taming's networks on Haar wavelets, and FSQ. They come as
// TorchScript, in one file or as an encoder and a decoder.
#include <fmt/ranges.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/tokenizer/layouts/layout.h"

namespace nsvq {

namespace {

constexpr int64_t kMostChannels = 64;  // of FSQ, beyond what the settings allow

/// Throws UserError where patches of pixels are not made by Haar's wavelet.
void check_wavelets(const TensorMap& theirs, const std::string& from) {
  const auto haar = at::full({2}, std::sqrt(0.5));
  for (const auto* name : {"encoder.patcher.wavelets", "decoder.unpatcher.wavelets"}) {
    const auto found = theirs.find(name);
    if (found == theirs.end()) continue;
    const auto wavelet = found->second.to(at::kFloat);
    constexpr double rounding = 1e-2;  // they may be bf16
    if (wavelet.sizes() == haar.sizes() && at::allclose(wavelet, haar, rounding, 0)) continue;
    throw UserError("{}: {} is not Haar's wavelet, which nsvq has alone", from, name);
  }
}

/// The levels of FSQ: those that the file has, else those of all published ones.
std::vector<std::string> told_by_tensors(const TensorMap& theirs, const std::string& from) {
  check_wavelets(theirs, from);
  std::vector<int64_t> levels = {8, 8, 8, 5, 5, 5};
  for (const auto* name : {"quantizer._levels", "inv_quant.quantizer._levels"}) {
    const auto found = theirs.find(name);
    if (found == theirs.end()) continue;
    const auto& tensor = found->second;
    if (tensor.dim() != 1 || tensor.numel() > kMostChannels || tensor.is_floating_point()) {
      throw UserError("{}: {} is no list of levels", from, name);
    }
    const auto numbers = tensor.to(at::kLong).contiguous();
    levels.assign(numbers.const_data_ptr<int64_t>(),
                  numbers.const_data_ptr<int64_t>() + numbers.numel());
    break;
  }
  return {fmt::format("quantizer.fsq.levels: [{}]", fmt::join(levels, ", "))};
}

Layout half(std::string name, Layout::Mark mark, std::string lacks) {
  return {.name = std::move(name),
          .has = {std::move(mark)},
          .lacks = {std::move(lacks)},
          .refused =
              "import takes it with its other half: `nsvq import encoder.jit decoder.jit`, or "
              "the folder of both"};
}

Layout whole(int64_t inputs) {
  // One channel for each of FSQ's levels, in all that are published; the continuous ones have 16.
  constexpr int64_t kChannels = 6;
  return {.name = "Cosmos' tokenizer of images",
          .has = {{"encoder.conv_in.weight", {0, inputs, 0, 0}},
                  {"quant_conv.weight", {kChannels, 0, 1, 1}},
                  {"decoder.conv_out.weight", {inputs, 0, 0, 0}}},
          .rules = taming_networks(),
          .dropped = {"encoder.patcher.*", "decoder.unpatcher.*", "quantizer.*", "inv_quant.*"},
          .settings = {"model.family: taming", "quantizer.type: fsq"},
          .made = {"quantizer.levels"},
          .told_by = told_by_tensors};
}

}  // namespace

std::vector<Layout> cosmos_layouts() {
  // Haar wavelets of patches of 4x4 and 2x2 pixels make 48 and 12 channels of 3.
  std::vector<Layout> layouts;
  for (const int64_t inputs : {48, 12}) {
    const Layout::Mark first{"encoder.conv_in.weight", {0, inputs, 0, 0}};
    const Layout::Mark last{"decoder.conv_out.weight", {inputs, 0, 0, 0}};
    layouts.push_back(whole(inputs));
    layouts.push_back(half("Cosmos' encoder", first, "decoder."));
    layouts.push_back(half("Cosmos' decoder", last, "encoder."));
    layouts.push_back({.name = "Cosmos' continuous tokenizer of images",
                       .has = {first, last},
                       .refused = "it has no codes, so it makes no tokens"});
  }
  return layouts;
}

}  // namespace nsvq
