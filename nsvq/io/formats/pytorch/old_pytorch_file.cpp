#include "nsvq/io/formats/pytorch/old_pytorch_file.h"

#include <array>
#include <map>
#include <span>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/formats/pytorch/pickle_reading.h"
#include "nsvq/io/formats/pytorch/pytorch_pickle.h"

namespace nsvq {

namespace {

constexpr int64_t kOldVersion = 1001;  // of the format
/// A pickle of torch's magic number.
constexpr std::array<unsigned char, 15> kOldMagic = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
                                                     0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, 0x2e};

/// Throws UserError for another version.
void check_version(PickleReading& reading) {
  const auto version = reading.pickle(kMostSmallBytes);
  if (version.values.at(version.root).number == kOldVersion) return;
  throw UserError("a file of torch.save of another version than {}", kOldVersion);
}

/// Throws UserError for numbers that are big-endian.
void check_system(PickleReading& reading) {
  const auto system = reading.pickle(kMostSmallBytes);
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
    PickleReading reading(file, kOldMagic.size());
    check_version(reading);
    check_system(reading);
    pickle_ = reading.pickle(kMostPickleBytes);
    const auto types = storages_named(pickle_);
    const auto keys = reading.pickle(kMostPickleBytes);
    for (const size_t index : keys.values.at(keys.root).parts) {
      const auto& key = keys.values.at(index).text;
      const auto type = types.find(key);
      if (type == types.end()) throw UserError("it has numbers that belong to no tensor");
      numbers_[key] = pass_numbers(reading, torch::elementSize(type->second));
    }
  }

  Pickle pickle() const override { return pickle_; }
  std::vector<std::byte> storage(const std::string& key, uint64_t most) const override {
    const auto found = numbers_.find(key);
    if (found == numbers_.end()) throw UserError("it has no numbers called {}", quote(key));
    return read_stretch(file_, found->second, most, key);
  }

 private:
  const InputFile& file_;
  Pickle pickle_;
  std::map<std::string, Stretch> numbers_;
};

}  // namespace

bool is_old_pytorch_file(const InputFile& file) {
  std::array<unsigned char, kOldMagic.size()> start{};
  if (file.size() < start.size()) return false;
  file.read(0, std::as_writable_bytes(std::span(start)));
  return start == kOldMagic || is_tar_pytorch_file(file);
}

std::unique_ptr<PytorchContainer> open_old_pytorch_file(const InputFile& file) {
  if (is_tar_pytorch_file(file)) return open_tar_pytorch_file(file);
  return std::make_unique<OldContainer>(file);
}

}  // namespace nsvq
