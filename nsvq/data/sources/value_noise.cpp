#include "nsvq/data/sources/value_noise.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace nsvq {

ValueNoise::ValueNoise(int image_size) {
  const auto largest = std::bit_floor(static_cast<unsigned>(std::max(image_size / 4, 2)));
  for (int cell = static_cast<int>(largest); cell >= 1; cell /= 2) {
    Octave octave;
    octave.cell = cell;
    for (int i = 0; i < cell; ++i) {
      const float t = (static_cast<float>(i) + 0.5F) / static_cast<float>(cell);
      octave.weights.push_back(t * t * (3 - 2 * t));
    }
    octaves_.push_back(std::move(octave));
  }
  line_.resize(image_size + 2);
  // An octave has a variance of about 0.17.
  scale_ = 1 / (3 * std::sqrt(0.17F * static_cast<float>(octaves_.size())));
}

void ValueNoise::draw(Random& random, int width, int height) {
  for (Octave& octave : octaves_) {
    octave.phase_x = static_cast<int>(random.below(octave.cell));
    octave.phase_y = static_cast<int>(random.below(octave.cell));
    octave.columns = (width - 1 + octave.phase_x) / octave.cell + 2;
    const int rows = (height - 1 + octave.phase_y) / octave.cell + 2;
    octave.lattice.resize(static_cast<size_t>(octave.columns) * rows);
    for (float& value : octave.lattice) {
      value = scale_ * static_cast<float>(random.uniform(-1, 1));
    }
  }
}

void ValueNoise::row(int y, std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0F);
  for (const Octave& octave : octaves_) {
    const int at = y + octave.phase_y;
    const float* above = &octave.lattice[static_cast<size_t>(at / octave.cell) * octave.columns];
    const float* below = above + octave.columns;
    const float weight = octave.weights[at % octave.cell];
    for (int i = 0; i < octave.columns; ++i) line_[i] = above[i] + weight * (below[i] - above[i]);
    int column = 0, inside = octave.phase_x;
    for (float& value : out) {
      value += line_[column] + octave.weights[inside] * (line_[column + 1] - line_[column]);
      if (++inside == octave.cell) {
        inside = 0;
        ++column;
      }
    }
  }
}

}  // namespace nsvq
