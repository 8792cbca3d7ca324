#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace nsvq {

struct SampleFile {
  int64_t epoch = 0;
  std::filesystem::path path;
};

/// The samples/epoch-NNNN.png of a run, by epoch.
std::vector<SampleFile> find_samples(const std::filesystem::path& run);

/// The picture inside a <figure> with its caption, or a line that says why it cannot be shown.
/// Small pictures are enlarged while `room` pixels hold them.
std::string sample_figure(const SampleFile& sample, const std::string& caption, uint32_t room);

}  // namespace nsvq
