#include "nsvq/tokenizer/foreign_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "nsvq/io/formats/pytorch_file.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/io/formats/safetensors_header.h"
#include "nsvq/io/formats/zip_archive.h"

namespace nsvq {

namespace {

constexpr std::array<std::string_view, 6> kWrappers = {
    "module.", "model.", "_orig_mod.", "state_dict.", "vqgan.", "first_stage_model."};

bool is_layout(const ForeignLayout& layout, const NamedShapes& plain) {
  const auto is_there = [&](const std::string& begins, int64_t inputs) {
    auto found = plain.lower_bound(begins);
    for (; found != plain.end() && found->first.starts_with(begins); ++found) {
      const auto& shape = found->second;
      if (inputs == 0 || (shape.size() > 1 && shape[1] == inputs)) return true;
    }
    return false;
  };
  return std::all_of(layout.has.begin(), layout.has.end(),
                     [&](const auto& key) { return is_there(key.begins, key.inputs); }) &&
         std::none_of(layout.lacks.begin(), layout.lacks.end(),
                      [&](const auto& begins) { return is_there(begins, 0); });
}

}  // namespace

const std::vector<ForeignLayout>& foreign_layouts() {
  // Haar wavelets of patches of 4x4 pixels make 48 channels of 3.
  constexpr int64_t kCosmosInputs = 48;
  static const std::vector<ForeignLayout> layouts = {
      {"TiTok", {{"latent_tokens"}, {"encoder.latent_token_positional_embedding"}}, {}},
      {"VAR's multi-scale VQVAE", {{"quantize.quant_resi."}, {"encoder.down."}}, {}},
      {"LlamaGen's VQ", {{"encoder.conv_blocks."}, {"quantize."}}, {}},
      {"Emu3's vision tokenizer", {{"encoder.time_conv."}, {"quantize."}}, {}},
      {"Cosmos' tokenizer", {{"encoder.patcher"}}, {}},
      {"Cosmos' tokenizer", {{"decoder.unpatcher"}}, {}},
      {"Cosmos' tokenizer", {{"encoder.conv_in.weight", kCosmosInputs}}, {}},
      {"Open-MAGVIT2", {{"encoder.mid_block."}, {"decoder.adaptive."}}, {}},
      {"SimVQ", {{"encoder.mid_block."}, {"decoder.mid_block."}, {"encoder.down."}}, {}, true},
      {"MoVQ", {{"decoder.norm_out.conv_y."}, {"quantize."}}, {}},
      {"MoVQ (diffusers' VQModel)", {{"decoder.conv_norm_out.conv_y."}, {"quantize."}}, {}},
      {"diffusers' VQModel", {{"encoder.down_blocks."}, {"quantize."}}, {}},
      {"diffusers' AutoencoderKL",
       {{"encoder.down_blocks."}, {"decoder.up_blocks."}},
       {"quantize."}},
      {"MaskGIT's VQGAN", {{"encoder.mid.0."}, {"decoder.up.1.upsample_conv."}}, {}},
      // The next ones have taming's names: its convolutions have biases, nsvq's have none.
      {"IBQ", {{"encoder.down.0.block.3.conv1.bias"}, {"quantize."}}, {}},
      {"taming-transformers' VQGAN with Gumbel codes",
       {{"encoder.down.0.block.0.conv1.bias"}, {"quantize.embed.weight"}},
       {}},
      {"taming-transformers' VQGAN", {{"encoder.down.0.block.0.conv1.bias"}, {"quantize."}}, {}},
      {"Stable Diffusion's AutoencoderKL",
       {{"encoder.down.0.block.0.conv1.bias"}, {"quant_conv."}},
       {"quantize."}},
  };
  return layouts;
}

std::string without_wrappers(std::string name) {
  for (size_t i = 0; i < kWrappers.size();) {
    const bool has = name.starts_with(kWrappers[i]);
    if (has) name.erase(0, kWrappers[i].size());
    i = has ? 0 : i + 1;
  }
  return name;
}

const ForeignLayout* recognise_layout(const NamedShapes& shapes) {
  NamedShapes plain;
  for (const auto& [name, shape] : shapes) plain.emplace(without_wrappers(name), shape);
  for (const auto& layout : foreign_layouts()) {
    if (is_layout(layout, plain)) return &layout;
  }
  return nullptr;
}

std::string describe_layout(const ForeignLayout& layout) {
  return fmt::format(
      "{} is recognised; its backbone is {}", layout.name,
      layout.importable ? "nsvq's, so that `nsvq import` takes it" : "not supported yet");
}

ForeignWeights read_foreign_shapes(const std::filesystem::path& path) {
  ForeignWeights weights;
  if (!is_zip_file(path)) {
    for (auto& entry : read_safetensors_header(path).entries) {
      weights.shapes[entry.name] = std::move(entry.shape);
    }
    return weights;
  }
  auto contents = read_pytorch_names(path);
  weights.part = std::move(contents.part);
  for (auto& [name, tensor] : contents.tensors) weights.shapes[name] = std::move(tensor.shape);
  return weights;
}

TensorMap read_foreign_tensors(const std::filesystem::path& path) {
  return is_zip_file(path) ? read_pytorch(path) : read_safetensors(path).tensors;
}

}  // namespace nsvq
