#include "nsvq/data/sources/dead_leaves.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "nsvq/core/random.h"
#include "nsvq/data/sources/value_noise.h"

namespace nsvq {

namespace {

constexpr int min_leaves = 20;
constexpr int max_leaves = 70;
constexpr double min_radius = 1.0 / 24;  // as a fraction of the image's side
constexpr double max_radius = 1.0 / 2;
constexpr double max_shade = 0.35;
constexpr double max_texture = 0.55;

using Color = std::array<float, 3>;

/// A bell-shaped random number in [-1, 1] with standard deviation 1/3: a sum of uniforms, since
/// libm's log differs between machines.
double bell(Random& random) {
  return (random.uniform() + random.uniform() + random.uniform()) / 1.5 - 1;
}

/// Colour statistics shared by the leaves of one picture.
struct Palette {
  double light, contrast, warm, green;

  explicit Palette(Random& random)
      : light(random.uniform(0.35, 0.65)),
        contrast(random.uniform(0.4, 0.9)),
        warm(0.02 + 0.15 * bell(random)),
        green(0.08 * bell(random)) {}

  /// Varies mostly in brightness, less along orange-blue, least along green-magenta: the principal
  /// axes of colours in photographs.
  Color draw(Random& random) const {
    const double l = std::clamp(light + contrast * bell(random), 0.1, 0.9);
    const double w = warm + 0.22 * bell(random);
    const double g = green + 0.1 * bell(random);
    return {static_cast<float>(l + w - g), static_cast<float>(l + 0.2 * w + g),
            static_cast<float>(l - w - g)};
  }
};

struct Leaf {
  bool box = false;
  float x = 0, y = 0;              // centre in pixels
  float ux = 1, uy = 0;            // unit vector along the first axis
  float a = 0, b = 0;              // half lengths of the axes
  Color color{};                   // 0 is black, 1 is white
  float shade_x = 0, shade_y = 0;  // change of brightness per pixel
  Color texture{};                 // amplitude of the noise in each channel
};

/// A random unit vector: a normalised point of the unit disc, since libm's sin and cos differ
/// between machines.
void draw_direction(Random& random, float& x, float& y) {
  double dx, dy, square;
  do {
    dx = random.uniform(-1, 1);
    dy = random.uniform(-1, 1);
    square = dx * dx + dy * dy;
  } while (square > 1 || square < 1e-4);
  x = static_cast<float>(dx / std::sqrt(square));
  y = static_cast<float>(dy / std::sqrt(square));
}

/// Radii with density r^-3, which makes pictures scale-invariant.
double draw_radius(Random& random, int size) {
  const double low = min_radius * size, high = max_radius * size;
  const double at_low = 1 / (low * low), at_high = 1 / (high * high);
  return 1 / std::sqrt(at_low + (at_high - at_low) * random.uniform());
}

void draw_surface(Random& random, const Palette& palette, double extent, Leaf& leaf) {
  leaf.color = palette.draw(random);
  float dx, dy;
  draw_direction(random, dx, dy);
  const auto slope = static_cast<float>(max_shade * random.uniform() / extent);
  leaf.shade_x = slope * dx;
  leaf.shade_y = slope * dy;
  const double roughness = random.uniform();
  for (float& amplitude : leaf.texture) {
    amplitude = static_cast<float>(max_texture * roughness * random.uniform(0.75, 1));
  }
}

Leaf draw_leaf(Random& random, const Palette& palette, int size) {
  Leaf leaf;
  leaf.box = random.uniform() < 0.4;
  leaf.x = static_cast<float>(size * random.uniform(-0.1, 1.1));
  leaf.y = static_cast<float>(size * random.uniform(-0.1, 1.1));
  draw_direction(random, leaf.ux, leaf.uy);
  const double radius = draw_radius(random, size);
  leaf.a = static_cast<float>(radius);
  leaf.b = static_cast<float>(radius * random.uniform(0.35, 1));
  draw_surface(random, palette, radius, leaf);
  return leaf;
}

Leaf draw_background(Random& random, const Palette& palette, int size) {
  Leaf leaf;
  leaf.box = true;
  leaf.x = leaf.y = 0.5F * static_cast<float>(size);
  leaf.a = leaf.b = static_cast<float>(size);
  draw_surface(random, palette, 0.5 * size, leaf);
  return leaf;
}

/// The fraction of the pixel at (dx, dy) from the leaf's centre that the leaf covers: its signed
/// distance to the outline plus 0.5, clamped to [0, 1].
float coverage(const Leaf& leaf, float dx, float dy) {
  const float u = dx * leaf.ux + dy * leaf.uy;
  const float v = dy * leaf.ux - dx * leaf.uy;
  if (leaf.box) {
    const float inside = std::min(leaf.a - std::fabs(u), leaf.b - std::fabs(v));
    return std::clamp(inside + 0.5F, 0.0F, 1.0F);
  }
  const float p = u / leaf.a, q = v / leaf.b;
  const float level = 1 - p * p - q * q;
  const float gradient = 2 * std::sqrt(p * p / (leaf.a * leaf.a) + q * q / (leaf.b * leaf.b));
  return std::clamp(level / (gradient + 1e-6F) + 0.5F, 0.0F, 1.0F);
}

struct Window {
  int left, top, right, bottom;
};

/// Bounding box of a leaf, clipped to the image.
Window window_of(const Leaf& leaf, int size) {
  // A rotated box's corners extend further than its half lengths; the sum of both axes' projections
  // bounds them.
  const float x = std::fabs(leaf.ux) * leaf.a + std::fabs(leaf.uy) * leaf.b + 1;
  const float y = std::fabs(leaf.uy) * leaf.a + std::fabs(leaf.ux) * leaf.b + 1;
  const auto clip = [size](float at) { return std::clamp(static_cast<int>(at), 0, size); };
  return {clip(leaf.x - x), clip(leaf.y - y), clip(leaf.x + x + 1), clip(leaf.y + y + 1)};
}

/// A picture onto which leaves are painted, back to front.
class Canvas {
 public:
  explicit Canvas(int size) : size_(size), noise_(size), row_(size), pixels_(3 * size * size) {}

  void paint(const Leaf& leaf, Random& random) {
    const Window window = window_of(leaf, size_);
    if (window.left >= window.right || window.top >= window.bottom) return;
    const int width = window.right - window.left;
    noise_.draw(random, width, window.bottom - window.top);
    for (int y = window.top; y < window.bottom; ++y) {
      const std::span<float> texture(row_.data(), width);
      noise_.row(y - window.top, texture);
      paint_row(leaf, window.left, y, texture);
    }
  }

  Image image() const {
    Image image{size_, size_, std::vector<uint8_t>(pixels_.size())};
    for (size_t i = 0; i < pixels_.size(); ++i) {
      image.pixels[i] = static_cast<uint8_t>(std::clamp(pixels_[i], 0.0F, 1.0F) * 255 + 0.5F);
    }
    return image;
  }

 private:
  void paint_row(const Leaf& leaf, int left, int y, std::span<const float> texture) {
    const float dy = static_cast<float>(y) + 0.5F - leaf.y;
    float* pixel = &pixels_[3 * (static_cast<size_t>(y) * size_ + left)];
    for (size_t i = 0; i < texture.size(); ++i, pixel += 3) {
      const float dx = static_cast<float>(left + static_cast<int>(i)) + 0.5F - leaf.x;
      const float alpha = coverage(leaf, dx, dy);
      if (alpha == 0) continue;
      const float shade = dx * leaf.shade_x + dy * leaf.shade_y;
      for (int c = 0; c < 3; ++c) {
        const float value = leaf.color[c] + shade + leaf.texture[c] * texture[i];
        pixel[c] += alpha * (value - pixel[c]);
      }
    }
  }

  int size_;
  ValueNoise noise_;
  std::vector<float> row_;
  std::vector<float> pixels_;  // [size, size, 3]
};

}  // namespace

Image dead_leaves(uint64_t seed, int64_t index, int size) {
  Random random(combine_seeds({seed, static_cast<uint64_t>(index)}));
  const Palette palette(random);
  Canvas canvas(size);
  canvas.paint(draw_background(random, palette, size), random);
  const int64_t leaves = min_leaves + random.below(max_leaves - min_leaves + 1);
  for (int64_t i = 0; i < leaves; ++i) canvas.paint(draw_leaf(random, palette, size), random);
  return canvas.image();
}

}  // namespace nsvq
