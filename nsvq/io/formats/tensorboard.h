#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "nsvq/io/files/append_file.h"
#include "nsvq/io/images/image.h"

namespace nsvq {

/// Prefix of the names of event files.
inline constexpr auto kEventFilePrefix = "events.out.tfevents.";

/// Writes a TensorBoard event file (`events.out.tfevents...`) into `folder`: TFRecord framing with
/// masked CRC-32C around hand-encoded protobuf messages. Throws RunError when a write fails.
class EventWriter {
 public:
  /// Opens a new file with a unique name.
  explicit EventWriter(const std::filesystem::path& folder);
  /// Continues `file` after its first `length` bytes; the rest is cut off.
  EventWriter(std::filesystem::path file, uint64_t length);
  /// Flushes and ignores errors; call flush() before to see them.
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  void scalar(const std::string& tag, int64_t step, double value);
  void image(const std::string& tag, int64_t step, const Image& image);
  /// Shown as markdown in the Text tab.
  void text(const std::string& tag, int64_t step, const std::string& markdown);
  /// Writes all buffered records to the file, so that TensorBoard sees them. Records that cannot be
  /// written are dropped: half a record would end the file for its readers.
  void flush();
  /// Waits until everything flushed is on the disk.
  void sync() { file_.sync(); }

  const std::filesystem::path& path() const { return file_.path(); }
  /// Bytes written and flushed.
  uint64_t length() const { return length_; }

 private:
  void add_value(int64_t step, const std::string& value);
  void write_record(const std::string& event);

  AppendFile file_;
  std::string unflushed_;
  uint64_t length_ = 0;
};

}  // namespace nsvq
