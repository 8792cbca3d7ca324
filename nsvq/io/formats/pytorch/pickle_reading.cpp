#include "nsvq/io/formats/pytorch/pickle_reading.h"

#include <algorithm>
#include <span>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"

namespace nsvq {

void PickleReading::skip(uint64_t bytes) {
  if (at_ > file_.size() || bytes > file_.size() - at_) throw UserError("it is cut off");
  at_ += bytes;
}

int64_t PickleReading::number() { return numbers(1).front(); }

std::vector<int64_t> PickleReading::numbers(uint64_t count) {
  const uint64_t from = at_;
  if (count > file_.size()) throw UserError("it is cut off");
  skip(count * sizeof(int64_t));
  std::vector<int64_t> values(count);
  file_.read(from, std::as_writable_bytes(std::span(values)));
  return values;
}

Pickle PickleReading::pickle(uint64_t most) {
  skip(0);
  std::vector<std::byte> bytes(std::min(file_.size() - at_, most));
  file_.read(at_, bytes);
  auto found = parse_pickle(bytes);
  at_ += found.bytes;
  return found;
}

Stretch pass_numbers(PickleReading& reading, uint64_t width) {
  constexpr int64_t beyond = int64_t{1} << 48;  // any file
  const int64_t count = reading.number();
  if (count < 0 || count > beyond) throw UserError("it is cut off");
  const Stretch stretch{reading.at(), static_cast<uint64_t>(count) * width};
  reading.skip(stretch.size);
  return stretch;
}

std::vector<std::byte> read_stretch(const InputFile& file, const Stretch& stretch, uint64_t most,
                                    const std::string& name) {
  if (stretch.size > most) {
    throw UserError("{} has {} bytes, more than {}", quote(name), stretch.size, most);
  }
  std::vector<std::byte> bytes(stretch.size);
  file.read(stretch.begin, bytes);
  return bytes;
}

}  // namespace nsvq
