#include "nsvq/io/formats/old_pytorch_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <span>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/formats/pytorch_pickle.h"

namespace nsvq {

namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie there");

constexpr uint64_t kMostPickleBytes = uint64_t{1} << 25;
constexpr uint64_t kMostSmallBytes = 4096;  // of a pickle with some numbers
constexpr int64_t kVersion = 1001;          // of the format
/// A pickle of torch's magic number.
constexpr std::array<unsigned char, 15> kMagic = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
                                                  0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, 0x2e};

/// A file that is read from `begin` on.
class Reading {
 public:
  Reading(const InputFile& file, uint64_t begin) : file_(file), at_(begin) {}

  uint64_t at() const { return at_; }
  void skip(uint64_t bytes) {
    if (bytes > file_.size() - at_) throw UserError("it is cut off");
    at_ += bytes;
  }
  int64_t number() {
    int64_t value = 0;
    const uint64_t from = at_;
    skip(sizeof(value));
    file_.read(from, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  /// Pickles do not say how long they are.
  Pickle pickle(uint64_t most) {
    std::vector<std::byte> bytes(std::min(file_.size() - at_, most));
    file_.read(at_, bytes);
    auto found = parse_pickle(bytes);
    at_ += found.bytes;
    return found;
  }

 private:
  const InputFile& file_;
  uint64_t at_;
};

/// Throws UserError for another version, and for numbers that are big-endian.
void check_system(Reading& reading) {
  const auto version = reading.pickle(kMostSmallBytes), system = reading.pickle(kMostSmallBytes);
  if (version.values.at(version.root).number != kVersion) {
    throw UserError("a file of torch.save of another version than {}", kVersion);
  }
  const auto& parts = system.values.at(system.root).parts;
  for (size_t i = 0; i + 1 < parts.size(); i += 2) {
    const bool little = system.values.at(parts[i + 1]).number == 1;
    if (system.values.at(parts[i]).text == "little_endian" && !little) {
      throw UserError("its numbers are big-endian, which is not read");
    }
  }
}

class OldContainer : public PytorchContainer {
 public:
  explicit OldContainer(const InputFile& file) : file_(file) {
    Reading reading(file, kMagic.size());
    check_system(reading);
    pickle_ = reading.pickle(kMostPickleBytes);
    const auto types = storages_named(pickle_);
    const auto keys = reading.pickle(kMostPickleBytes);
    for (const size_t index : keys.values.at(keys.root).parts) {
      const auto& key = keys.values.at(index).text;
      const auto type = types.find(key);
      if (type == types.end()) throw UserError("it has numbers that belong to no tensor");
      const auto width = torch::elementSize(type->second);
      const auto count = static_cast<uint64_t>(std::max<int64_t>(reading.number(), 0));
      if (count > file.size() / width) throw UserError("it is cut off");
      numbers_[key] = {reading.at(), count * width};
      reading.skip(count * width);
    }
  }

  Pickle pickle() const override { return pickle_; }
  std::vector<std::byte> storage(const std::string& key, uint64_t most) const override {
    const auto found = numbers_.find(key);
    if (found == numbers_.end()) throw UserError("it has no numbers called {}", quote(key));
    const auto [begin, size] = found->second;
    if (size > most) throw UserError("{} has {} bytes, more than {}", quote(key), size, most);
    std::vector<std::byte> bytes(size);
    file_.read(begin, bytes);
    return bytes;
  }

 private:
  const InputFile& file_;
  Pickle pickle_;
  std::map<std::string, std::pair<uint64_t, uint64_t>> numbers_;  ///< begin and size in the file
};

}  // namespace

bool is_old_pytorch_file(const InputFile& file) {
  std::array<unsigned char, kMagic.size()> start{};
  if (file.size() < start.size()) return false;
  file.read(0, std::as_writable_bytes(std::span(start)));
  return start == kMagic;
}

std::unique_ptr<PytorchContainer> open_old_pytorch_file(const InputFile& file) {
  return std::make_unique<OldContainer>(file);
}

}  // namespace nsvq
