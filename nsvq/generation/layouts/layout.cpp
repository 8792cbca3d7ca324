#include "nsvq/generation/layouts/layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/nn/transformer.h"

namespace nsvq {

const std::vector<GeneratorLayout>& generator_layouts() {
  static const std::vector<GeneratorLayout> layouts = [] {
    std::vector<GeneratorLayout> all;
    for (const auto& members : {llamagen_generators(), halton_generators(), rar_generators()}) {
      all.insert(all.end(), members.begin(), members.end());
    }
    return all;
  }();
  return layouts;
}

std::vector<std::string> generator_programs() {
  std::vector<std::string> programs;
  for (const auto& layout : generator_layouts()) {
    if (layout.refused.empty()) programs.push_back(layout.program);
  }
  return programs;
}

const GeneratorLayout* recognise_generator(const std::vector<std::string>& names) {
  const auto any_begins = [&](const std::string& begins) {
    return std::ranges::any_of(names, [&](const auto& name) { return name.starts_with(begins); });
  };
  for (const auto& layout : generator_layouts()) {
    if (std::ranges::all_of(layout.has, any_begins)) return &layout;
  }
  return nullptr;
}

std::string describe_generator(const GeneratorLayout& layout) {
  if (!layout.refused.empty()) {
    return fmt::format("{} is recognised; {}", layout.name, layout.refused);
  }
  return fmt::format("{} is recognised; `nsvq generate import FILE` makes a generator of it",
                     layout.name);
}

std::string why_not_square_and_gated(const GeneratorConfig& config, const GridShape& grid) {
  if (grid.height != grid.width) return "its grids are square";
  if (config.hidden > 0 && config.hidden != gated_hidden_width(config.width)) {
    return fmt::format("generator.hidden is {}, and it has {}", config.hidden,
                       gated_hidden_width(config.width));
  }
  return "";
}

int64_t size_of_tensor(const TensorMap& tensors, const std::string& name, int64_t axis,
                       const std::string& from) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) throw UserError("{}: the tensor {} is missing", from, quote(name));
  if (found->second.dim() > axis) return found->second.size(axis);
  throw UserError("{}: the tensor {} has {} dimensions", from, quote(name), found->second.dim());
}

}  // namespace nsvq
