#include "nsvq/report/samples.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <exception>
#include <span>
#include <system_error>

#include "nsvq/core/interrupt.h"
#include "nsvq/io/files/byte_order.h"
#include "nsvq/io/files/file.h"
#include "nsvq/runs/layout/layout.h"

namespace nsvq {
namespace {

/// Checks its first and last bytes and its header; the browser decodes the rest.
bool is_whole_png(const std::vector<std::byte>& bytes) {
  static constexpr std::array<uint8_t, 8> signature = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  static constexpr std::array<uint8_t, 8> end = {'I', 'E', 'N', 'D', 0xae, 0x42, 0x60, 0x82};
  if (bytes.size() < 45 || std::memcmp(bytes.data(), signature.data(), 8) != 0 ||
      std::memcmp(bytes.data() + bytes.size() - 8, end.data(), 8) != 0)
    return false;
  const auto side = [&](size_t at) { return big_endian(std::span(bytes).subspan(at, 4)); };
  return side(16) > 0 && side(20) > 0;
}

}  // namespace

std::vector<SampleFile> find_samples(const std::filesystem::path& run) {
  std::vector<SampleFile> samples;
  std::error_code error;
  for (const auto& entry : entries_of(run / kSamplesFolder, error))
    if (const auto epoch = epoch_of_sample(entry.path())) samples.push_back({*epoch, entry.path()});
  std::sort(samples.begin(), samples.end(),
            [](const SampleFile& a, const SampleFile& b) { return a.epoch < b.epoch; });
  return samples;
}

std::optional<std::vector<std::byte>> read_sample(const SampleFile& sample) {
  try {
    auto bytes = read_file(sample.path);
    if (is_whole_png(bytes)) return bytes;
  } catch (const std::exception&) {
  }
  return std::nullopt;
}

std::vector<SampleFile> chosen_samples(const std::vector<SampleFile>& samples, size_t most) {
  if (samples.size() <= most) return samples;
  std::vector<SampleFile> out;
  // Distances from the first sample grow by one factor.
  size_t next = 0;
  for (size_t i = 0; i < most; ++i) {
    const double share = most > 1 ? static_cast<double>(i) / static_cast<double>(most - 1) : 1;
    const double index = std::pow(static_cast<double>(samples.size()), share) - 1;
    next = std::max(next, static_cast<size_t>(std::lround(index)));
    out.push_back(samples[next++]);
  }
  return out;
}

}  // namespace nsvq
