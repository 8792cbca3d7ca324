#include "nsvq/tokenizer/exchange/foreign_weights.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/formats/pytorch/pytorch_file.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/io/formats/safetensors_header.h"

namespace nsvq {

namespace {

constexpr std::array<std::string_view, 4> kWrappers = {"module.", "model.", "_orig_mod.",
                                                       "state_dict."};
/// What larger models call their tokenizer: latent diffusion, DALL-E and its like.
constexpr std::array<std::string_view, 2> kTokenizers = {"first_stage_model.", "vqgan."};
constexpr std::array<const char*, 4> kUsualNames = {
    "diffusion_pytorch_model.safetensors", "model.safetensors", "diffusion_pytorch_model.bin",
    "pytorch_model.bin"};
constexpr auto kEncoder = "encoder.jit", kDecoder = "decoder.jit";

bool any_begins(const NamedShapes& shapes, std::string_view begins) {
  const auto found = shapes.lower_bound(std::string(begins));
  return found != shapes.end() && found->first.starts_with(begins);
}

/// What is before the names of the tokenizer's tensors; empty where they stand alone.
std::string prefix_in(const NamedShapes& unwrapped) {
  for (const auto tokenizer : kTokenizers) {
    if (any_begins(unwrapped, tokenizer)) return std::string(tokenizer);
  }
  if (any_begins(unwrapped, "encoder.") || any_begins(unwrapped, "decoder.")) return "";
  constexpr std::string_view first = "encoder.conv_in.weight";
  for (const auto& [name, shape] : unwrapped) {
    if (!name.ends_with(first)) continue;
    const auto prefix = name.substr(0, name.size() - first.size());
    if (prefix.ends_with('.') && any_begins(unwrapped, prefix + "quant")) return prefix;
  }
  return "";
}

}  // namespace

std::string without_wrappers(std::string_view name) {
  for (size_t i = 0; i < kWrappers.size();) {
    const bool has = name.starts_with(kWrappers[i]);
    if (has) name.remove_prefix(kWrappers[i].size());
    i = has ? 0 : i + 1;
  }
  return std::string(name);
}

std::vector<std::filesystem::path> usual_weights(const std::filesystem::path& folder) {
  std::error_code ignored;
  const auto has = [&](const char* name) {
    return std::filesystem::is_regular_file(folder / name, ignored);
  };
  for (const auto* name : kUsualNames) {
    if (has(name)) return {folder / name};
  }
  if (has(kEncoder) && has(kDecoder)) return {folder / kEncoder, folder / kDecoder};
  return {};
}

std::vector<std::filesystem::path> weights_files(const std::filesystem::path& named) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(named, ignored)) return {named};
  if (const auto files = usual_weights(named); !files.empty()) return files;
  throw UserError("{}: a folder without {} or {}; name a file of weights", named.string(),
                  kUsualNames[0], kUsualNames[1]);
}

TokenizerNames tokenizer_names(const NamedShapes& shapes) {
  NamedShapes unwrapped;
  for (const auto& [name, shape] : shapes) unwrapped.emplace(without_wrappers(name), shape);
  const auto prefix = prefix_in(unwrapped);
  TokenizerNames names;
  for (const auto& [original, shape] : shapes) {
    auto name = without_wrappers(original);
    if (!name.starts_with(prefix)) {
      ++names.outside[name.substr(0, name.find('.'))];
      continue;
    }
    name = without_wrappers(name.substr(prefix.size()));
    if (!names.originals.emplace(name, original).second) names.twice = name;
    names.shapes.emplace(name, shape);
  }
  return names;
}

ForeignWeights read_foreign_shapes(const std::filesystem::path& path) {
  ForeignWeights weights;
  if (!is_pytorch_file(path)) {
    for (auto& entry : read_safetensors_header(path).entries) {
      weights.shapes[entry.name] = std::move(entry.shape);
    }
    return weights;
  }
  auto contents = read_pytorch_names(path);
  weights.part = std::move(contents.part);
  weights.average = std::move(contents.average_part);
  for (auto& [name, tensor] : contents.tensors) weights.shapes[name] = std::move(tensor.shape);
  return weights;
}

TensorMap read_foreign_tensors(const std::filesystem::path& path, bool averaged) {
  if (is_pytorch_file(path)) return read_pytorch(path, averaged);
  return averaged ? TensorMap() : read_safetensors(path).tensors;
}

}  // namespace nsvq
