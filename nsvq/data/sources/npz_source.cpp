#include "nsvq/data/sources/npz_source.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <stdexcept>

#include "nsvq/core/error.h"
#include "nsvq/io/files/input_file.h"
#include "nsvq/io/formats/npy.h"

namespace nsvq {

namespace {

std::string member_of(const std::string& array) { return array + ".npy"; }

StoredMember open_images(const std::filesystem::path& path) {
  const auto member = member_of(kNpzImages);
  try {
    ZipArchive archive{InputFile(path)};
    if (!archive.contains(member)) {
      throw UserError("it holds no array '{}' of images (there are: {})", kNpzImages,
                      fmt::join(archive.names(), ", "));
    }
    return StoredMember(std::move(archive), member);
  } catch (const UserError& error) {
    throw UserError("cannot read images from {}: {}", path.string(), error.what());
  }
}

NpyHeader read_header(const StoredMember& member) {
  constexpr uint64_t most = 4096;  // numpy writes some 100 bytes
  std::vector<std::byte> start(std::min(member.size(), most));
  member.read(0, start);
  const auto header = parse_npy_header(start, NpyNumbers::integer);
  const auto& shape = header.shape;
  if (header.type != torch::kByte || shape.size() != 4 || shape[3] != 3 || header.by_columns) {
    throw UserError("'{}' is [{}] of {}, where uint8 [N, H, W, 3] by rows was due", kNpzImages,
                    fmt::join(shape, ", "), c10::toString(header.type));
  }
  if (header.bytes() != member.size() - header.end) {
    throw UserError("'{}' of shape [{}] has {} bytes of pixels", kNpzImages, fmt::join(shape, ", "),
                    member.size() - header.end);
  }
  return header;
}

/// Empty where there are none.
std::vector<int64_t> read_labels(const std::filesystem::path& path, int64_t images) {
  const ZipArchive archive{InputFile(path)};
  const auto member = member_of("arr_1");
  if (!archive.contains(member)) return {};
  try {
    const auto labels =
        parse_npy(archive.read(member), NpyNumbers::integer).to(torch::kLong).contiguous();
    const std::span values(labels.data_ptr<int64_t>(), static_cast<size_t>(labels.numel()));
    const bool classes = labels.dim() == 1 && labels.numel() == images &&
                         std::ranges::all_of(values, [](int64_t label) { return label >= 0; });
    return classes ? std::vector<int64_t>(values.begin(), values.end()) : std::vector<int64_t>();
  } catch (const UserError&) {
    return {};  // an array of something else
  }
}

}  // namespace

NpzSource::NpzSource(std::filesystem::path path, const ImageLimits& limits)
    : path_(std::move(path)), images_(open_images(path_)) {
  try {
    const auto header = read_header(images_);
    const auto& shape = header.shape;
    check_picture_size(static_cast<uint64_t>(shape[2]), static_cast<uint64_t>(shape[1]), limits,
                       "array", kNpzImages);
    size_ = shape[0];
    height_ = static_cast<int>(shape[1]);
    width_ = static_cast<int>(shape[2]);
    start_ = header.end;
    labels_ = read_labels(path_, size_);
  } catch (const UserError& error) {
    throw UserError("cannot read images from {}: {}", path_.string(), error.what());
  }
}

std::string NpzSource::key(int64_t index) const { return fmt::format("{:06}", index); }

int64_t NpzSource::label(int64_t index) const { return labels_.empty() ? -1 : labels_.at(index); }

Image NpzSource::load(int64_t index) const {
  if (index < 0 || index >= size_) throw std::out_of_range("an image beyond the array's end");
  Image image{width_, height_, {}};
  image.pixels.resize(static_cast<size_t>(width_) * height_ * 3);
  try {
    images_.read(start_ + static_cast<uint64_t>(index) * image.pixels.size(),
                 std::as_writable_bytes(std::span(image.pixels)));
  } catch (const UserError& error) {
    throw UserError("{}: image {}: {}", path_.string(), key(index), error.what());
  }
  return image;
}

}  // namespace nsvq
