#include "nsvq/data/images/grid.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <sstream>

#include "nsvq/core/error.h"

namespace nsvq {
namespace {

constexpr uint8_t white = 255;

Image blank(int64_t width, int64_t height) {
  Image image;
  image.width = static_cast<int>(width);
  image.height = static_cast<int>(height);
  image.pixels.assign(static_cast<size_t>(width * height * 3), white);
  return image;
}

/// check_image for grids, in which images may be empty.
void require_whole(const Image& image, const char* where) {
  const bool whole = image.width >= 0 && image.height >= 0 &&
                     image.pixels.size() == size_t{3} * image.width * image.height;
  if (!whole)
    throw UserError("{}: an image of {} x {} has {} bytes of pixels", where, image.width,
                    image.height, image.pixels.size());
}

void paste(const Image& image, Image& onto, int64_t left, int64_t top) {
  for (int64_t y = 0; y < image.height && image.width > 0; ++y)
    std::memcpy(&onto.pixels[((top + y) * onto.width + left) * 3],
                &image.pixels[y * image.width * 3], size_t{3} * image.width);
}

/// Offset of each piece if pieces of these sizes lie side by side, then the end of the last.
std::vector<int64_t> offsets_of(const std::vector<int64_t>& sizes, int64_t gap) {
  std::vector<int64_t> offsets = {0};
  for (const int64_t size : sizes) offsets.push_back(offsets.back() + size + gap);
  if (!sizes.empty()) offsets.back() -= gap;
  return offsets;
}

}  // namespace

torch::Tensor to_bytes(const torch::Tensor& images) {
  // Half goes up, as in torchvision's save_image.
  return images.detach()
      .to(torch::kFloat)
      .add(1)
      .mul(127.5)
      .add(0.5)
      .floor()
      .nan_to_num(0, 255, 0)
      .clamp(0, 255)
      .to(torch::kByte);
}

torch::Tensor to_bytes_below(const torch::Tensor& images) {
  return images.detach()
      .to(torch::kFloat)
      .clamp(-1, 1)
      .add(1)
      .div(2)
      .mul(255)
      .nan_to_num(0)
      .floor()
      .to(torch::kByte);
}

torch::Tensor from_bytes(const torch::Tensor& bytes) {
  return bytes.to(torch::kFloat).div(127.5).sub(1);
}

Image to_image(const torch::Tensor& chw) {
  if (!chw.defined() || chw.dim() != 3 || chw.size(0) != 3) {
    std::ostringstream shape;
    if (chw.defined()) shape << chw.sizes();
    throw UserError("to_image: expected a tensor [3, H, W], got {}",
                    chw.defined() ? shape.str() : "none");
  }
  const auto bytes = to_bytes(chw.to(torch::kCPU)).permute({1, 2, 0}).contiguous();
  Image image;
  image.height = static_cast<int>(bytes.size(0));
  image.width = static_cast<int>(bytes.size(1));
  const uint8_t* data = bytes.data_ptr<uint8_t>();
  image.pixels.assign(data, data + bytes.numel());
  return image;
}

Image make_grid(const std::vector<std::vector<Image>>& rows, int gap) {
  if (gap < 0) throw UserError("make_grid: the gap is {}, expected 0 or more", gap);
  size_t columns = 0;
  for (const auto& row : rows) columns = std::max(columns, row.size());
  if (columns == 0) return {};
  std::vector<int64_t> widths(columns), heights(rows.size());
  for (size_t r = 0; r < rows.size(); ++r)
    for (size_t c = 0; c < rows[r].size(); ++c) {
      require_whole(rows[r][c], "make_grid");
      widths[c] = std::max<int64_t>(widths[c], rows[r][c].width);
      heights[r] = std::max<int64_t>(heights[r], rows[r][c].height);
    }
  for (size_t r = 0; r < rows.size(); ++r)
    if (rows[r].empty()) heights[r] = *std::max_element(heights.begin(), heights.end());
  const auto lefts = offsets_of(widths, gap), tops = offsets_of(heights, gap);
  Image grid = blank(lefts.back(), tops.back());
  for (size_t r = 0; r < rows.size(); ++r)
    for (size_t c = 0; c < rows[r].size(); ++c) paste(rows[r][c], grid, lefts[c], tops[r]);
  return grid;
}

int64_t square_columns(int64_t images) {
  return static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(images))));
}

Image make_square_grid(const std::vector<Image>& images) {
  const auto columns = static_cast<size_t>(square_columns(std::ssize(images)));
  std::vector<std::vector<Image>> rows;
  for (const auto& image : images) {
    if (rows.empty() || rows.back().size() == columns) rows.emplace_back();
    rows.back().push_back(image);
  }
  return make_grid(rows);
}

Image make_square_grid(const torch::Tensor& images) {
  std::vector<Image> all;
  for (const auto& image : images.unbind()) all.push_back(to_image(image));
  return make_square_grid(all);
}

Image enlarge(const Image& image, int factor) {
  if (factor < 1) throw UserError("enlarge: the factor is {}, expected 1 or more", factor);
  require_whole(image, "enlarge");
  Image out = blank(int64_t{image.width} * factor, int64_t{image.height} * factor);
  for (int64_t y = 0; y < out.height; ++y)
    for (int64_t x = 0; x < out.width; ++x)
      std::memcpy(&out.pixels[(y * out.width + x) * 3],
                  &image.pixels[(y / factor * image.width + x / factor) * 3], 3);
  return out;
}

}  // namespace nsvq
