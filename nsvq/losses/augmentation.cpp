#include "nsvq/losses/augmentation.h"

#include <algorithm>

#include "nsvq/ops/random/seeded_random.h"

namespace nsvq {

namespace {

using torch::Tensor;

// Numbers of draws of a step's noise seed from here on are the augmentations'; quantizers use small
// ones.
constexpr int64_t kFirstDraw = int64_t{1} << 20;
constexpr int64_t kMostNumbers = 4;  // uniform numbers of an image in one augmentation

/// Column `i` of uniform numbers [B, n], as [B, 1, 1, 1].
Tensor number(const Tensor& uniform, int64_t i) { return uniform.select(1, i).view({-1, 1, 1, 1}); }

/// Whole numbers [B] in [0, count).
Tensor whole_numbers(const Tensor& uniform, int64_t i, int64_t count) {
  return (uniform.select(1, i) * count).floor().clamp_max(count - 1).to(at::kLong);
}

/// Positions along a dimension of the images, less `by` [B]: [B, side].
Tensor positions_less(const Tensor& by, int64_t side) {
  return at::arange(side, by.options()).unsqueeze(0) - by.unsqueeze(1);
}

/// [B, side] along dimension `dim` of images [B, 3, H, W].
Tensor along(const Tensor& values, int64_t dim) {
  return dim == 2 ? values.view({values.size(0), 1, -1, 1})
                  : values.view({values.size(0), 1, 1, -1});
}

Tensor between(const Tensor& values, int64_t from, int64_t to) {
  return values.ge(from).logical_and(values.lt(to));
}

Tensor flipped(const Tensor& images, const Tensor& uniform) {
  return at::where(number(uniform, 0).lt(0.5), images.flip(3), images);
}

Tensor recoloured(const Tensor& images, const Tensor& uniform) {
  const auto brighter = images + (number(uniform, 0) - 0.5);
  const auto grey = brighter.mean(1, /*keepdim=*/true);
  const auto saturated = (brighter - grey) * (number(uniform, 1) * 2) + grey;
  const auto mean = saturated.mean({1, 2, 3}, /*keepdim=*/true);
  return (saturated - mean) * (number(uniform, 2) + 0.5) + mean;
}

/// Images moved by `by` [B] pixels along a dimension. They are rolled and what came around is
/// cleared: each pixel goes to one other, so that the gradient has no sums whose order could vary.
Tensor moved(const Tensor& images, int64_t dim, const Tensor& by) {
  const int64_t side = images.size(dim);
  const auto source = positions_less(by, side);
  const auto rolled = images.gather(dim, along(source.remainder(side), dim).expand_as(images));
  return rolled.masked_fill(along(between(source, 0, side).logical_not(), dim), 0);
}

Tensor shifted(const Tensor& images, const Tensor& uniform) {
  auto result = images;
  for (const int64_t dim : {2, 3}) {
    const int64_t most = (images.size(dim) + 4) / 8;
    result = moved(result, dim, whole_numbers(uniform, dim - 2, 2 * most + 1) - most);
  }
  return result;
}

Tensor cut_out(const Tensor& images, const Tensor& uniform) {
  Tensor inside;
  for (const int64_t dim : {2, 3}) {
    const int64_t side = images.size(dim), cut = (side + 1) / 2;
    const auto centre = whole_numbers(uniform, dim - 2, side + 1 - cut % 2);
    const auto covered = along(between(positions_less(centre - cut / 2, side), 0, cut), dim);
    inside = inside.defined() ? inside.logical_and(covered) : covered;
  }
  return images.masked_fill(inside, 0);
}

struct Augmentation {
  const char* name;
  Tensor (*apply)(const Tensor& images, const Tensor& uniform);
};

constexpr Augmentation kAugmentations[] = {
    {"flip", flipped}, {"colour", recoloured}, {"shift", shifted}, {"cutout", cut_out}};

}  // namespace

std::vector<std::string> augmentation_names() {
  std::vector<std::string> names = {"none"};
  for (const auto& one : kAugmentations) names.emplace_back(one.name);
  return names;
}

Tensor augmented(const Tensor& images, const std::vector<std::string>& names, const Tensor& seed,
                 int64_t first, Judged judged) {
  const int64_t count = images.size(0);
  auto draw = kFirstDraw + static_cast<int64_t>(judged) * std::ssize(kAugmentations);
  auto result = images;
  for (const auto& one : kAugmentations) {
    const int64_t own_draw = draw++;
    if (std::find(names.begin(), names.end(), one.name) == names.end()) continue;
    const auto all = uniform_values(seed, own_draw, (first + count) * kMostNumbers);
    result = one.apply(result, all.view({-1, kMostNumbers}).narrow(0, first, count));
  }
  return result;
}

}  // namespace nsvq
