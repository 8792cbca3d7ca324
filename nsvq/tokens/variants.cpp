#include "nsvq/tokens/variants.h"

#include <fmt/format.h>

#include <algorithm>

namespace nsvq {

namespace {

constexpr auto kCentre = "center";

/// Half of `n`, ties to even, as Python rounds.
int64_t half_of(int64_t n) { return n / 2 + (n % 2 != 0 && n / 2 % 2 != 0); }

}  // namespace

std::vector<std::string> Variants::names() const {
  std::vector<std::string> names;
  for (const auto& variant : all) names.push_back(variant.name);
  return names;
}

torch::Tensor Variants::cut(const torch::Tensor& images, const Variant& variant) const {
  const auto seen = variant.mirrored ? images.flip({3}) : images;
  return seen.narrow(2, variant.top, height)
      .narrow(3, variant.left, width)
      .contiguous(images.suggest_memory_format());
}

TransformOptions enlarged(TransformOptions transform) {
  constexpr double factor = 1.1;
  const auto larger = [](int side) { return static_cast<int>(side * factor); };
  const int height = larger(transform.output_height()), width = larger(transform.output_width());
  transform.height = height;
  transform.width = width;
  return transform;
}

Variants ten_crops(const TransformOptions& transform) {
  const auto whole = enlarged(transform);
  Variants variants{.height = transform.output_height(), .width = transform.output_width()};
  const int64_t bottom = whole.height - variants.height, right = whole.width - variants.width;
  for (const bool mirrored : {false, true}) {
    const auto add = [&](const std::string& name, int64_t top, int64_t left) {
      variants.all.push_back({fmt::format("{} of {}x{}{}", name, whole.height, whole.width,
                                          mirrored ? ", mirrored" : ""),
                              mirrored, top, left});
    };
    add("top left", 0, 0);
    add("top right", 0, right);
    add("bottom left", bottom, 0);
    add("bottom right", bottom, right);
    add(kCentre, half_of(bottom), half_of(right));
  }
  return variants;
}

Variants with_mirror_image(const TransformOptions& transform) {
  return {.all = {{"unchanged"}, {"mirrored", true}},
          .height = transform.output_height(),
          .width = transform.output_width()};
}

int64_t central_variant(const std::vector<std::string>& names) {
  const auto found =
      std::ranges::find_if(names, [](const auto& name) { return name.starts_with(kCentre); });
  return found == names.end() ? 0 : found - names.begin();
}

}  // namespace nsvq
