#include "nsvq/tokenizer/exchange/their_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <ranges>
#include <string_view>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/tokenizer/exchange/foreign_weights.h"

namespace nsvq {

namespace {

/// Patterns of tensors that only training needs.
constexpr std::array<std::string_view, 5> kTraining = {"loss.*", "discriminator.*", "lpips.*",
                                                       "perceptual_loss.*", "colorize"};
constexpr std::string_view kAverage = "model_ema.";

/// "encoder.jit and decoder.jit" with their folders.
std::string named(const std::vector<std::filesystem::path>& files) {
  return fmt::format(
      "{}", fmt::join(files | std::views::transform([](const auto& file) { return file.string(); }),
                      " and "));
}

const Layout* layout_of(const NamedShapes& shapes, const std::vector<std::filesystem::path>& files,
                        bool any_layout) {
  const auto file = named(files);
  const auto* layout = recognise_layout(shapes);
  if (layout && !layout->refused.empty()) throw UserError("{}: {}", file, describe_layout(*layout));
  if (layout && layout->check_beside) layout->check_beside(files[0]);
  if (layout || any_layout) return layout;
  const auto own = shapes.lower_bound("quantizer.");
  if (own != shapes.end() && own->first.starts_with("quantizer.")) {
    throw UserError(
        "{}: its names are nsvq's own; commands open a model file as it is, and of bare tensors "
        "--recipe RECIPE says what they are of",
        file);
  }
  throw UserError(
      "{}: its layout is not known; {}; --recipe RECIPE takes tensors with nsvq's names", file,
      nearest_layout(shapes));
}

/// The moving average of a tensor, in a dict of its own or as LitEma (latent diffusion) stores it,
/// under the name without dots.
std::optional<torch::Tensor> average_of(const TheirWeights& weights, const std::string& name) {
  if (const auto found = weights.average.find(name); found != weights.average.end()) {
    return found->second;
  }
  auto undotted = name;
  std::erase(undotted, '.');
  const auto found = weights.tensors.find(std::string(kAverage) + undotted);
  if (found == weights.tensors.end()) return std::nullopt;
  return found->second;
}

/// What a tensor that is dropped is counted as; nullopt for one that is kept.
std::optional<std::string> dropped_as(const TheirWeights& weights, const std::string& name) {
  const auto is_name = [&](const auto& pattern) { return fits(pattern, name); };
  if (weights.layout) {
    const auto found = std::ranges::find_if(weights.layout->dropped, is_name);
    if (found != weights.layout->dropped.end()) return *found;
  }
  if (!name.starts_with(kAverage) && std::ranges::none_of(kTraining, is_name)) return std::nullopt;
  const size_t dot = name.find('.');
  return dot == std::string::npos ? name : name.substr(0, dot) + ".*";
}

/// SimVQ's codes do not train, so that they have no moving average.
bool is_frozen(const TheirWeights& weights, const std::string& name) {
  return name == "quantize.embedding.weight" &&
         weights.tensors.contains("quantize.embedding_proj.weight");
}

struct NamedTensor {
  std::string name;
  torch::Tensor tensor;
};

/// One of their tensors as ours: one, or the queries, keys and values that are one there.
std::vector<NamedTensor> as_ours(const Renaming::Result& here, const torch::Tensor& theirs,
                                 const std::string& file) {
  const auto sizes = theirs.sizes().vec();
  if (here.form != Form::fused_there) {
    return {{here.name, theirs.reshape(sizes_on(Side::ours, here.form, sizes))}};
  }
  constexpr std::string_view fused = ".qkv.";
  constexpr std::array<const char*, 3> layers = {".q.", ".k.", ".v."};
  const size_t at = here.name.rfind(fused);
  if (sizes.empty() || sizes[0] % std::ssize(layers) != 0) {
    throw UserError("{}: the tensor {} of sizes {} is not that of queries, keys and values", file,
                    quote(here.name), shown_sizes(sizes));
  }
  std::vector<NamedTensor> ours;
  const auto parts = theirs.chunk(std::ssize(layers));
  for (size_t i = 0; i < layers.size(); ++i) {
    auto name = here.name;
    ours.push_back({name.replace(at, fused.size(), layers[i]), parts[i].contiguous()});
  }
  return ours;
}

}  // namespace

TheirWeights read_their_weights(const std::vector<std::filesystem::path>& files, bool any_layout) {
  ForeignWeights held;
  TensorMap tensors, average;
  for (const auto& file : files) {
    auto one = read_foreign_shapes(file);
    for (auto& [name, shape] : one.shapes) {
      if (held.shapes.emplace(name, std::move(shape)).second) continue;
      throw UserError("{}: {} is in both; name files that make one tokenizer together",
                      named(files), quote(name));
    }
    if (file == files.front()) held.part = one.part, held.average = one.average;
  }
  const auto names = tokenizer_names(held.shapes);
  TheirWeights weights{.file = named(files),
                       .part = held.part,
                       .layout = layout_of(names.shapes, files, any_layout),
                       .average_part = held.average};
  if (!names.twice.empty()) {
    throw UserError("{}: two tensors are {} without their prefixes", weights.file,
                    quote(names.twice));
  }
  for (const auto& [part, count] : names.outside) weights.dropped[part + ".*"] = count;
  for (const auto& file : files) {
    tensors.merge(read_foreign_tensors(file));
    if (!held.average.empty()) average.merge(read_foreign_tensors(file, true));
  }
  for (const auto& [name, original] : names.originals) {
    const auto found = tensors.find(original);
    if (found == tensors.end()) throw UserError("{}: changed while it was read", weights.file);
    weights.tensors[name] = found->second;
    if (average.contains(original)) weights.average[name] = average.at(original);
  }
  return weights;
}

OurWeights with_our_names(TheirWeights& weights, bool last) {
  const Renaming renamed(rules_for(weights), Side::theirs, names_in(shapes_of(weights.tensors)));
  OurWeights ours;
  std::string without_average;
  for (const auto& [name, tensor] : weights.tensors) {
    if (const auto as = dropped_as(weights, name)) {
      ++weights.dropped[*as];
      continue;
    }
    const auto average = last ? std::nullopt : average_of(weights, name);
    if (average) ++ours.averaged;
    if (!average && !is_frozen(weights, name) && without_average.empty()) without_average = name;
    const auto here = renamed(name).value_or(Renaming::Result{name, Form::same});
    const auto& value = average ? *average : tensor;
    for (const auto& one : as_ours(here, value, weights.file)) {
      if (!ours.tensors.emplace(one.name, one.tensor).second) {
        throw UserError("{}: two tensors become {}", weights.file, quote(one.name));
      }
      ours.theirs[one.name] = name;
    }
  }
  if (ours.averaged > 0 && !without_average.empty()) {
    throw UserError("{}: no moving average of {} in {}; --last takes the last weights",
                    weights.file, quote(without_average), average_name(weights));
  }
  if (ours.averaged > 0) weights.dropped.erase(std::string(kAverage) + "*");
  return ours;
}

const std::vector<NameRule>& rules_for(const TheirWeights& weights) {
  return weights.layout ? weights.layout->rules : find_layout("SimVQ").rules;
}

std::string average_name(const TheirWeights& weights) {
  if (!weights.average_part.empty()) return weights.average_part;
  const auto found = weights.tensors.lower_bound(std::string(kAverage));
  const bool has = found != weights.tensors.end() && found->first.starts_with(kAverage);
  return has ? std::string(kAverage) + "*" : "";
}

NamedShapes shapes_of(const TensorMap& tensors) {
  NamedShapes shapes;
  for (const auto& [name, tensor] : tensors) shapes[name] = tensor.sizes().vec();
  return shapes;
}

}  // namespace nsvq
