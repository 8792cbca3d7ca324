#include "nsvq/tokenizer/import_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "nsvq/core/error.h"
#include "nsvq/core/tensor_map.h"
#include "nsvq/core/text.h"
#include "nsvq/tokenizer/foreign_weights.h"

namespace nsvq {

namespace {

/// Prefixes of tensors that only training needs.
constexpr std::array<std::string_view, 4> kLeftOut = {"loss.", "discriminator.", "lpips.",
                                                      "perceptual_loss."};
constexpr std::string_view kAverage = "model_ema.";

struct Rule {
  std::string_view theirs, ours;
};

/// Replacements in names, applied where the pattern starts a name or follows a dot.
constexpr std::array<Rule, 5> kRules = {{
    {"mid_block.0.", "mid.block_1."},
    {"mid_block.1.", "mid.block_2."},
    {"upsample.conv1.", "upsample."},
    {"quantize.embedding.weight", "quantizer.codebook"},
    {"quantize.embedding_proj.", "quantizer.projection."},
}};

std::string renamed(std::string name) {
  for (const auto& rule : kRules) {
    const size_t at = name.find(rule.theirs);
    if (at == std::string::npos || (at > 0 && name[at - 1] != '.')) continue;
    name.replace(at, rule.theirs.size(), rule.ours);
  }
  return name;
}

/// Looks up the moving average of a tensor; LitEma (latent diffusion) stores it under the name
/// without dots.
const torch::Tensor& average_of(const TensorMap& plain, const std::string& name,
                                const std::string& from) {
  auto undotted = name;
  std::erase(undotted, '.');
  const auto found = plain.find(std::string(kAverage) + undotted);
  if (found == plain.end()) {
    throw UserError("{}: no moving average of '{}' ({}{}); import without --ema", from, name,
                    kAverage, undotted);
  }
  return found->second;
}

/// SimVQ trains a linear projection of frozen codes; replaces the codes by the projected ones.
void fold_projection(TensorMap& tensors, const std::string& from) {
  const auto codes = tensors.find("quantizer.codebook");
  const auto weight = tensors.find("quantizer.projection.weight");
  const auto bias = tensors.find("quantizer.projection.bias");
  if (codes == tensors.end() || weight == tensors.end()) return;
  const auto &c = codes->second, &w = weight->second;
  const bool fits = c.dim() == 2 && w.dim() == 2 && w.size(1) == c.size(1) &&
                    (bias == tensors.end() || bias->second.sizes() == w.sizes().slice(0, 1));
  if (!fits) throw UserError("{}: the codes' projection does not fit the codes", from);
  auto projected = at::matmul(c.to(at::kDouble), w.to(at::kDouble).t());
  if (bias != tensors.end()) projected += bias->second.to(at::kDouble);
  codes->second = projected.to(at::kFloat);
  tensors.erase(weight);
  tensors.erase("quantizer.projection.bias");
}

/// "a, b, c and 4 more".
std::string listed(const std::vector<std::string>& names) {
  constexpr size_t shown = 3;
  const std::vector<std::string> first(names.begin(),
                                       names.begin() + std::min(shown, names.size()));
  const auto text = fmt::format("{}", fmt::join(first, ", "));
  return names.size() <= shown ? text : fmt::format("{} and {} more", text, names.size() - shown);
}

std::vector<std::string> names_only_in(const TensorMap& some, const TensorMap& others) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : some) {
    if (!others.contains(name)) names.push_back(quote(name));
  }
  return names;
}

}  // namespace

ImportedWeights import_weights(const TensorMap& tensors, bool averaged, const std::string& from) {
  TensorMap plain;
  for (const auto& [name, tensor] : tensors) {
    if (!plain.emplace(without_wrappers(name), tensor).second) {
      throw UserError("{}: two tensors are {} without their prefixes", from,
                      quote(without_wrappers(name)));
    }
  }
  ImportedWeights imported;
  for (const auto& [name, tensor] : plain) {
    // Named anew: clang 14 captures no name of a binding.
    const auto begins = [&whole = name](std::string_view part) { return whole.starts_with(part); };
    if (begins(kAverage) || std::any_of(kLeftOut.begin(), kLeftOut.end(), begins)) {
      ++imported.left_out[name.substr(0, name.find('.'))];
      continue;
    }
    // SimVQ's frozen codes have no moving average.
    const bool fixed =
        name == "quantize.embedding.weight" && plain.contains("quantize.embedding_proj.weight");
    const auto& value = averaged && !fixed ? average_of(plain, name, from) : tensor;
    if (!imported.tensors.emplace(renamed(name), value).second) {
      throw UserError("{}: two tensors become '{}'", from, renamed(name));
    }
  }
  fold_projection(imported.tensors, from);
  return imported;
}

void check_all_placed(const TensorMap& wanted, const TensorMap& given, const std::string& from) {
  const auto extra = names_only_in(given, wanted), missing = names_only_in(wanted, given);
  if (extra.empty() && missing.empty()) return;
  std::vector<std::string> parts;
  if (!extra.empty()) parts.push_back("unexpected: " + listed(extra));
  if (!missing.empty()) parts.push_back("missing: " + listed(missing));
  throw UserError("{}: {}; does the recipe describe this model?", from, fmt::join(parts, "; "));
}

}  // namespace nsvq
