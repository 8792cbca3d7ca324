#include "nsvq/report/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <exception>
#include <optional>
#include <system_error>

#include "nsvq/io/byte_order.h"
#include "nsvq/io/file.h"
#include "nsvq/report/html.h"

namespace nsvq {
namespace {

std::optional<int64_t> epoch_of(const std::string& name) {
  const std::string prefix = "epoch-", suffix = ".png";
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return {};
  int64_t epoch = 0;
  const char* end = name.data() + name.size() - suffix.size();
  const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, epoch);
  if (error != std::errc{} || stop != end || epoch < 0) return {};
  return epoch;
}

struct PngSize {
  uint32_t width, height;
};

/// From the header; the browser decodes the rest. Nothing if this is no PNG, or one cut short.
std::optional<PngSize> png_size(const std::vector<std::byte>& bytes) {
  static constexpr std::array<uint8_t, 8> signature = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  static constexpr std::array<uint8_t, 8> end = {'I', 'E', 'N', 'D', 0xae, 0x42, 0x60, 0x82};
  if (bytes.size() < 45 || std::memcmp(bytes.data(), signature.data(), 8) != 0 ||
      std::memcmp(bytes.data() + bytes.size() - 8, end.data(), 8) != 0)
    return {};
  const auto number = [&](size_t at) {
    return static_cast<uint32_t>(big_endian(std::span(bytes).subspan(at, 4)));
  };
  const PngSize size{number(16), number(20)};
  if (size.width == 0 || size.height == 0) return {};
  return size;
}

}  // namespace

std::vector<SampleFile> find_samples(const std::filesystem::path& run) {
  std::vector<SampleFile> samples;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(run / "samples", error))
    if (const auto epoch = epoch_of(entry.path().filename().string()))
      samples.push_back({*epoch, entry.path()});
  std::sort(samples.begin(), samples.end(),
            [](const SampleFile& a, const SampleFile& b) { return a.epoch < b.epoch; });
  return samples;
}

std::string sample_figure(const SampleFile& sample, const std::string& caption, uint32_t room) {
  const std::string name = sample.path.filename().string();
  std::vector<std::byte> bytes;
  try {
    bytes = read_file(sample.path);
  } catch (const std::exception&) {
  }
  const auto size = png_size(bytes);
  if (!size)
    return fmt::format("<p class=\"notice\">samples/{} cannot be shown: not a whole PNG.</p>\n",
                       escape_html(name));
  // In whole multiples, so that pixels stay pixels: smoothing would pass for the decoder's.
  const uint32_t factor = std::max(1u, room / size->width);
  return fmt::format(
      "<figure><img alt=\"{}\" width=\"{}\" height=\"{}\"{} "
      "src=\"{}\"/><figcaption>{}</figcaption></figure>\n",
      escape_html(caption), size->width * factor, size->height * factor,
      factor > 1 ? " class=\"pixels\"" : "", data_uri("image/png", bytes), escape_html(caption));
}

}  // namespace nsvq
