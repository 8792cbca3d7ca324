#include "nsvq/io/formats/tensorboard.h"

#include <unistd.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "nsvq/core/environment.h"
#include "nsvq/core/error.h"
#include "nsvq/io/files/crc32c.h"
#include "nsvq/io/files/file.h"

namespace nsvq {

namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

// Field numbers of event.proto, summary.proto, tensor.proto and tensor_shape.proto.
namespace proto {
constexpr int event_wall_time = 1, event_step = 2, event_file_version = 3, event_summary = 5;
constexpr int summary_value = 1;
constexpr int value_tag = 1, value_simple = 2, value_image = 4, value_tensor = 8;
constexpr int value_metadata = 9;
constexpr int image_height = 1, image_width = 2, image_colorspace = 3, image_encoded = 4;
constexpr int metadata_plugin = 1, metadata_data_class = 4;
constexpr int plugin_name = 1;
constexpr int tensor_dtype = 1, tensor_shape = 2, tensor_string = 8;
}  // namespace proto

constexpr int kRgb = 3;
constexpr int string_dtype = 7;       // DT_STRING
constexpr int tensor_data_class = 2;  // DATA_CLASS_TENSOR

/// A protobuf message under construction.
class Message {
 public:
  Message& integer(int field, int64_t value) {
    key(field, 0);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message& number(int field, double value) {
    key(field, 1);
    return raw(&value, sizeof(value));
  }
  Message& number(int field, float value) {
    key(field, 5);
    return raw(&value, sizeof(value));
  }
  Message& bytes(int field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    return raw(value.data(), value.size());
  }
  Message& message(int field, const Message& value) { return bytes(field, value.text_); }

  const std::string& text() const { return text_; }

 private:
  void key(int field, int wire_type) { varint(static_cast<uint64_t>(field << 3 | wire_type)); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }
  Message& raw(const void* data, size_t size) {
    text_.append(static_cast<const char*>(data), size);
    return *this;
  }

  std::string text_;
};

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string file_name() {
  static std::atomic<int> counter{0};
  return fmt::format("{}{}.{}.{}.{}", kEventFilePrefix, static_cast<int64_t>(wall_time()),
                     host_name(), ::getpid(), counter++);
}

std::filesystem::path new_file_in(const std::filesystem::path& folder) {
  make_folders(folder);
  return folder / file_name();
}

std::span<const std::byte> record_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

EventWriter::EventWriter(const std::filesystem::path& folder) : file_(new_file_in(folder)) {
  write_record(Message()
                   .number(proto::event_wall_time, wall_time())
                   .bytes(proto::event_file_version, "brain.Event:2")
                   .text());
  flush();
}

EventWriter::EventWriter(std::filesystem::path file, uint64_t length)
    : file_(std::move(file)), length_(length) {
  file_.cut(length);
}

EventWriter::~EventWriter() {
  try {
    flush();
  } catch (const RunError&) {
    // A destructor cannot report it.
  }
}

void EventWriter::scalar(const std::string& tag, int64_t step, double value) {
  add_value(step, Message()
                      .bytes(proto::value_tag, tag)
                      .number(proto::value_simple, static_cast<float>(value))
                      .text());
}

void EventWriter::image(const std::string& tag, int64_t step, const Image& image) {
  const std::vector<std::byte> png = encode_png(image);
  const auto* data = reinterpret_cast<const char*>(png.data());
  add_value(step,
            Message()
                .bytes(proto::value_tag, tag)
                .message(proto::value_image, Message()
                                                 .integer(proto::image_height, image.height)
                                                 .integer(proto::image_width, image.width)
                                                 .integer(proto::image_colorspace, kRgb)
                                                 .bytes(proto::image_encoded, {data, png.size()}))
                .text());
}

// A string tensor without dimensions that the text plugin claims.
void EventWriter::text(const std::string& tag, int64_t step, const std::string& markdown) {
  const Message plugin = Message().bytes(proto::plugin_name, "text");
  add_value(step, Message()
                      .bytes(proto::value_tag, tag)
                      .message(proto::value_tensor, Message()
                                                        .integer(proto::tensor_dtype, string_dtype)
                                                        .message(proto::tensor_shape, Message())
                                                        .bytes(proto::tensor_string, markdown))
                      .message(proto::value_metadata,
                               Message()
                                   .message(proto::metadata_plugin, plugin)
                                   .integer(proto::metadata_data_class, tensor_data_class))
                      .text());
}

void EventWriter::flush() {
  const auto records = std::exchange(unflushed_, {});
  file_.append(records);
  length_ += records.size();
}

void EventWriter::add_value(int64_t step, const std::string& value) {
  write_record(Message()
                   .number(proto::event_wall_time, wall_time())
                   .integer(proto::event_step, step)
                   .message(proto::event_summary, Message().bytes(proto::summary_value, value))
                   .text());
}

// A TFRecord: length, its CRC, the data, its CRC.
void EventWriter::write_record(const std::string& event) {
  const auto length = static_cast<uint64_t>(event.size());
  const uint32_t length_crc = masked_crc32c(std::as_bytes(std::span(&length, 1)));
  const uint32_t data_crc = masked_crc32c(record_bytes(event));
  unflushed_.append(reinterpret_cast<const char*>(&length), sizeof(length));
  unflushed_.append(reinterpret_cast<const char*>(&length_crc), sizeof(length_crc));
  unflushed_ += event;
  unflushed_.append(reinterpret_cast<const char*>(&data_crc), sizeof(data_crc));
}

}  // namespace nsvq
