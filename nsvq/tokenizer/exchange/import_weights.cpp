#include "nsvq/tokenizer/exchange/import_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/random.h"
#include "nsvq/core/text.h"
#include "nsvq/nn/named_tensors.h"
#include "nsvq/settings/settings_reader.h"
#include "nsvq/tokenizer/exchange/foreign_weights.h"
#include "nsvq/tokenizer/exchange/their_weights.h"
#include "nsvq/tokenizer/layouts/layout.h"
#include "nsvq/tokenizer/open_model.h"

namespace nsvq {

namespace {

/// SimVQ trains a linear projection of frozen codes; replaces the codes by the projected ones.
void fold_projection(TensorMap& tensors, const std::string& file) {
  auto& codes = tensors.at("quantizer.codebook");
  const auto weight = tensors.at("quantizer.projection.weight").to(at::kDouble);
  const auto bias = tensors.find("quantizer.projection.bias");
  const bool suits = codes.dim() == 2 && weight.dim() == 2 && weight.size(1) == codes.size(1) &&
                     (bias == tensors.end() || bias->second.sizes() == weight.sizes().slice(0, 1));
  if (!suits) throw UserError("{}: the codes' projection does not fit the codes", file);
  auto projected = at::matmul(codes.to(at::kDouble), weight.t());
  if (bias != tensors.end()) projected += bias->second.to(at::kDouble);
  codes = projected.to(at::kFloat);
  tensors.erase("quantizer.projection.weight");
  tensors.erase("quantizer.projection.bias");
}

/// Whether codes that are a projection have to become plain ones.
bool folds_projection(const TheirWeights& weights, const TensorMap& ours,
                      const TokenizerConfig& config) {
  const auto& type = config.quantizer.type;
  return weights.tensors.contains("quantize.embedding_proj.weight") &&
         ours.contains("quantizer.codebook") && type != "simvq" && type != "simvq_ns";
}

/// The settings that the layout and the shapes tell, with defaults for all others.
TokenizerConfig inferred_config(const TheirWeights& weights, const NamedShapes& ours,
                                const std::vector<std::string>& overrides) {
  auto lines = inferred_settings(*weights.layout, ours, weights.file);
  if (weights.layout->told_by) {
    const auto told = weights.layout->told_by(weights.tensors, weights.file);
    lines.insert(lines.end(), told.begin(), told.end());
  }
  lines.push_back(fmt::format("data.size: {}", weights.layout->image_size));
  TokenizerConfig config;
  const auto table = option_table(config);
  SettingsReader reader(table);
  reader.read_text(fmt::format("{}\n", fmt::join(lines, "\n")),
                   weights.file + ": settings by its shapes");
  reader.read_overrides(overrides);
  reader.finish(weights.file + ": ");
  return config;
}

/// "'a' [3], 'b' [8, 4] and 4 more".
std::string listed(const std::vector<std::string>& names) {
  constexpr size_t shown = 3;
  const std::vector<std::string> first(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(shown, names.size())));
  const auto text = fmt::format("{}", fmt::join(first, ", "));
  return names.size() <= shown ? text : fmt::format("{} and {} more", text, names.size() - shown);
}

/// Refuses tensors that the model has not, and a model with tensors that are not there.
void check_all_placed(const TensorMap& wanted, const OurWeights& given, const TheirWeights& weights,
                      bool by_recipe) {
  std::vector<std::string> extra, missing, parts;
  for (const auto& [name, tensor] : given.tensors) {
    if (wanted.contains(name)) continue;
    extra.push_back(quote(given.theirs.at(name)) + " " + shown_sizes(tensor.sizes().vec()));
  }
  const Renaming to_theirs(rules_for(weights), Side::ours, names_in(shapes_of(wanted)));
  for (const auto& [name, tensor] : wanted) {
    if (given.tensors.contains(name)) continue;
    const auto there = to_theirs(name).value_or(Renaming::Result{name, Form::same});
    missing.push_back(quote(there.name) + " " +
                      shown_sizes(sizes_on(Side::theirs, there.form, tensor.sizes().vec())));
  }
  if (!extra.empty()) parts.push_back("unexpected: " + listed(extra));
  if (!missing.empty()) parts.push_back("missing: " + listed(missing));
  if (parts.empty()) return;
  const auto what = fmt::format("{}", fmt::join(parts, "; "));
  if (by_recipe) {
    throw UserError("{}: {}; does the recipe describe this model?", weights.file, what);
  }
  throw UserError("{}: not quite {}; {}", weights.file, weights.layout->name, what);
}

Tokenizer make_model(const TokenizerConfig& config, OurWeights& ours, const TheirWeights& weights,
                     bool by_recipe) {
  Tokenizer model{nullptr};
  {
    std::optional<TensorBudget> budget;  // inferred sizes may be any
    if (!by_recipe) {
      budget.emplace(
          memory_for(ours.tensors),
          weights.file + ": its shapes are those of a model far larger than its tensors");
    }
    const SeedGuard apart;
    model = Tokenizer(config);
  }
  const auto wanted = named_tensors(*model);
  if (weights.layout) {
    for (const auto& name : weights.layout->made) {
      if (wanted.contains(name)) ours.tensors.emplace(name, wanted.at(name));
    }
  }
  check_all_placed(wanted, ours, weights, by_recipe);
  load_tensors(*model, ours.tensors, weights.file);
  require_finite(named_tensors(*model), weights.file);
  model->eval();
  return model;
}

std::string taken(const TheirWeights& weights, const OurWeights& ours, bool last) {
  const auto name = average_name(weights);
  const auto count = count_of(ours.tensors.size(), "tensor");
  if (ours.averaged > 0) {
    return fmt::format("taken: {}, their moving average ({}); --last takes the last weights", count,
                       name);
  }
  return fmt::format(
      "taken: {}, the last weights{}", count,
      last && !name.empty() ? ", not their moving average" : "; there is no moving average");
}

std::string dropped(const TheirWeights& weights) {
  constexpr size_t shown = 8;
  std::vector<std::string> parts;
  for (const auto& [names, count] : weights.dropped) {
    if (parts.size() == shown) {
      parts.push_back(fmt::format("and {} more", weights.dropped.size() - shown));
      break;
    }
    const bool several = names.ends_with('*');
    parts.push_back(several ? fmt::format("{} of {}", count_of(count, "tensor"), names) : names);
  }
  return fmt::format("dropped: {}",
                     parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, ", ")));
}

/// The networks, the codes and the tokens of an image.
std::string described(const TokenizerConfig& config, Tokenizer& model) {
  const auto& network = config.model;
  const int64_t size = config.data.size, grid = size / network.stride();
  return fmt::format(
      "model: family {}, width {}, multipliers {}, {}; {} of {} of {}; images of {}x{} as {}",
      network.family, network.width, fmt::join(network.multipliers, ","),
      count_of(network.blocks, "block"), config.quantizer.type,
      count_of(model->quantizer->codes(), "code"), count_of(network.latent_dim, "channel"), size,
      size, shown_grids(model->quantizer->grids(grid, grid)));
}

}  // namespace

ImportedModel import_model(const ImportRequest& request) {
  const bool by_recipe = !request.recipe.empty();
  auto files = weights_files(request.file);
  if (!request.second.empty()) files.push_back(request.second);
  auto weights = read_their_weights(files, by_recipe);
  auto ours = with_our_names(weights, request.last);
  ImportedModel made;
  made.config = by_recipe ? load_config(request.recipe, request.overrides)
                          : inferred_config(weights, shapes_of(ours.tensors), request.overrides);
  const bool folds = folds_projection(weights, ours.tensors, made.config);
  const auto as_taken = taken(weights, ours, request.last);
  if (folds) fold_projection(ours.tensors, weights.file);
  made.tokenizer = make_model(made.config, ours, weights, by_recipe);
  made.notes = {fmt::format("{}: {}{}", weights.file,
                            weights.layout ? weights.layout->name : "nsvq's names, or SimVQ's",
                            weights.part.empty() ? "" : fmt::format(", in its {}", weights.part)),
                as_taken};
  if (folds) made.notes.emplace_back("folded: SimVQ's projection into its codes");
  made.notes.push_back(dropped(weights));
  made.notes.push_back(described(made.config, made.tokenizer));
  return made;
}

}  // namespace nsvq
