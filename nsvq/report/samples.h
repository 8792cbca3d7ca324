#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace nsvq {

struct SampleFile {
  int64_t epoch = 0;
  std::filesystem::path path;
};

/// The samples/epoch-NNNN.png of a run, by epoch.
std::vector<SampleFile> find_samples(const std::filesystem::path& run);

/// The bytes of a sample; nullopt if it is not a whole PNG of a possible size.
std::optional<std::vector<std::byte>> read_sample(const SampleFile& sample);

/// At most `most` of the samples, the first and the last among them and more of the early ones,
/// between which most of the change lies.
std::vector<SampleFile> chosen_samples(const std::vector<SampleFile>& samples, size_t most);

}  // namespace nsvq
