#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "nsvq/io/files/append_file.h"
#include "nsvq/io/images/image.h"

namespace nsvq {

/// Writes a TensorBoard event file (`events.out.tfevents...`) into `folder`: TFRecord framing with
/// masked CRC-32C around hand-encoded protobuf messages. Throws RunError when a write fails.
class EventWriter {
 public:
  /// Opens a new file, with a name of its own.
  explicit EventWriter(const std::filesystem::path& folder);
  /// Goes on in `file` behind its first `length` bytes and drops the rest.
  EventWriter(std::filesystem::path file, uint64_t length);
  /// Flushes; whoever wants to know whether that succeeds calls flush() before.
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  void scalar(const std::string& tag, int64_t step, double value);
  void image(const std::string& tag, int64_t step, const Image& image);
  /// Shown as markdown in the Text tab.
  void text(const std::string& tag, int64_t step, const std::string& markdown);
  /// Hands everything to the system, so that TensorBoard sees it. What cannot be written is
  /// dropped: half a record would end the file for its readers.
  void flush();
  /// Waits until all that was flushed is on the disk.
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
