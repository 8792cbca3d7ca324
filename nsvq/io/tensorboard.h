#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "nsvq/io/image.h"

namespace nsvq {

/// Writes a TensorBoard event file (`events.out.tfevents...`) into `folder`: TFRecord framing with
/// masked CRC-32C around hand-encoded protobuf messages. Each writer opens a file of its own, so a
/// resumed run adds to its folder. Throws RunError when a write fails.
class EventWriter {
 public:
  explicit EventWriter(const std::filesystem::path& folder);

  void scalar(const std::string& tag, int64_t step, double value);
  void image(const std::string& tag, int64_t step, const Image& image);
  /// Shown as markdown in the Text tab.
  void text(const std::string& tag, int64_t step, const std::string& markdown);
  /// Hands everything to the system, so that TensorBoard sees it.
  void flush();

  const std::filesystem::path& path() const { return path_; }

 private:
  void add_value(int64_t step, const std::string& value);
  void write_record(const std::string& event);

  std::filesystem::path path_;
  std::ofstream out_;
};

}  // namespace nsvq
