#include "nsvq/tokenizer/layouts/layout.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "nsvq/core/lookup.h"
#include "nsvq/core/text.h"

namespace nsvq {

namespace {

bool has_shape(const std::vector<int64_t>& shape, const std::vector<int64_t>& wanted) {
  return wanted.empty() || std::ranges::equal(shape, wanted, [](auto size, auto want) {
           return want == 0 || size == want;
         });
}

bool is_there(const NamedShapes& shapes, const Layout::Mark& mark) {
  auto found = shapes.lower_bound(mark.begins);
  for (; found != shapes.end() && found->first.starts_with(mark.begins); ++found) {
    if (has_shape(found->second, mark.shape)) return true;
  }
  return false;
}

bool is_layout(const Layout& layout, const NamedShapes& shapes) {
  return std::ranges::all_of(layout.has,
                             [&](const auto& mark) { return is_there(shapes, mark); }) &&
         std::ranges::none_of(layout.lacks,
                              [&](const auto& begins) { return is_there(shapes, {begins}); });
}

/// Tensors of which no rule of a layout has the name.
std::vector<std::string> strangers(const Layout& layout, const NamedShapes& shapes) {
  const Renaming renamed(layout.rules, Side::theirs, names_in(shapes));
  std::vector<std::string> names;
  for (const auto& [name, shape] : shapes) {
    const auto is_name = [&whole = name](const auto& pattern) { return fits(pattern, whole); };
    if (!renamed(name) && std::ranges::none_of(layout.dropped, is_name)) names.push_back(name);
  }
  return names;
}

/// The first of these names, with their shapes where there are any, and how many follow.
std::vector<std::string> first_of(const std::vector<std::string>& names,
                                  const NamedShapes& shapes) {
  constexpr size_t shown = 3;
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min(shown, names.size()); ++i) {
    const auto found = shapes.find(names[i]);
    parts.push_back(quote(names[i]));
    if (found != shapes.end()) parts.back() += " " + shown_sizes(found->second);
  }
  if (names.size() > shown) parts.push_back(fmt::format("and {} more", names.size() - shown));
  return parts;
}

}  // namespace

const std::vector<Layout>& known_layouts() {
  static const std::vector<Layout> layouts = [] {
    std::vector<Layout> all;
    for (const auto& members :
         {cosmos_layouts(), refused_layouts(), magvit2_layouts(), simvq_layouts(),
          diffusers_layouts(), llamagen_layouts(), maskgit_layouts(), taming_layouts()}) {
      all.insert(all.end(), members.begin(), members.end());
    }
    return all;
  }();
  return layouts;
}

const Layout& find_layout(const std::string& name) {
  return find_named(known_layouts(), "layout", name);
}

const Layout* recognise_layout(const NamedShapes& shapes) {
  const auto found = std::ranges::find_if(
      known_layouts(), [&](const auto& layout) { return is_layout(layout, shapes); });
  return found == known_layouts().end() ? nullptr : &*found;
}

std::string describe_layout(const Layout& layout) {
  if (!layout.refused.empty()) {
    return fmt::format("{} is recognised; {}", layout.name, layout.refused);
  }
  return fmt::format("{} is recognised; `nsvq import FILE` makes a model of it", layout.name);
}

std::string nearest_layout(const NamedShapes& shapes) {
  constexpr size_t most = 20'000;  // names that are compared with every layout
  if (shapes.size() > most) return fmt::format("no tokenizer has {} tensors", shapes.size());
  const Layout* nearest = nullptr;
  std::vector<std::string> differ;
  for (const auto& layout : known_layouts()) {
    if (!layout.refused.empty()) continue;
    auto names = strangers(layout, shapes);
    if (nearest && names.size() >= differ.size()) continue;
    nearest = &layout;
    differ = std::move(names);
  }
  if (differ.size() == shapes.size()) return "no tensor is named as in a layout that is known";
  if (differ.empty()) {
    for (const auto& mark : nearest->has) {
      if (!is_there(shapes, mark)) differ.push_back(mark.begins);
    }
    return fmt::format("the nearest is {}, of which it lacks {}", nearest->name,
                       fmt::join(first_of(differ, {}), ", "));
  }
  return fmt::format("the nearest is {}, which has no {}", nearest->name,
                     fmt::join(first_of(differ, shapes), ", "));
}

std::string shown_sizes(const std::vector<int64_t>& sizes) {
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

std::vector<std::string> names_in(const NamedShapes& shapes) {
  std::vector<std::string> names;
  for (const auto& [name, shape] : shapes) names.push_back(name);
  return names;
}

}  // namespace nsvq
