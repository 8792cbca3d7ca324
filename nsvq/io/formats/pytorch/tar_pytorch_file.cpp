#include "nsvq/io/formats/pytorch/old_pytorch_file.h"

#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/formats/pytorch/pickle_reading.h"
#include "nsvq/io/formats/pytorch/pytorch_pickle.h"
#include "nsvq/io/formats/tar.h"

namespace nsvq {

namespace {

constexpr std::string_view kFirstMember = "sys_info";
constexpr int64_t kMostListed = 200'000;
constexpr int64_t kMostListedDimensions = 64;

/// The name that a number or a text is.
std::string text_or_number(const PickleValue& value) {
  return value.kind == PickleKind::text ? value.text : std::to_string(value.number);
}

/// The member `index` of the tuple that a pickle is.
const PickleValue& part_of_tuple(const Pickle& tuple, size_t index) {
  const auto& parts = tuple.values.at(tuple.root).parts;
  if (index >= parts.size()) throw UserError("a description in it does not add up");
  return tuple.values.at(parts[index]);
}

/// How many follow.
int64_t count_in(PickleReading& reading) {
  const auto pickle = reading.pickle(kMostSmallBytes);
  const int64_t count = pickle.values.at(pickle.root).number;
  if (count < 0 || count > kMostListed) throw UserError("it has more than {} tensors", kMostListed);
  return count;
}

struct Storage {
  std::string type;  ///< "torch.FloatStorage"
  Stretch numbers;
};

/// A tensor as it is described beside the pickle.
struct Described {
  std::string storage;
  std::vector<int64_t> sizes = {}, strides = {};
  int64_t offset = 0;
};

class TarContainer : public PytorchContainer {
 public:
  explicit TarContainer(const InputFile& file) : file_(file) {
    const TarReader tar(file.path());
    for (const auto& entry : tar.entries())
      begins_[entry.name] = static_cast<uint64_t>(entry.offset);
    auto storages = reading_of("storages");
    for (int64_t i = count_in(storages); i > 0; --i) read_storage(storages);
    auto tensors = reading_of("tensors");
    for (int64_t i = count_in(tensors); i > 0; --i) read_tensor(tensors);
  }

  /// With the calls that later versions make tensors by, in place of tensors' names.
  Pickle pickle() const override {
    auto pickle = reading_of("pickle").pickle(kMostPickleBytes);
    const size_t count = pickle.values.size();
    std::map<std::string, PickleValue> calls;  // one a tensor, however often it is named
    for (size_t i = 0; i < count; ++i) {
      if (pickle.values[i].kind != PickleKind::outside) continue;
      const auto name = text_or_number(pickle.values.at(pickle.values[i].parts.at(0)));
      const auto found = tensors_.find(name);
      if (found == tensors_.end()) throw UserError("it has no tensor called {}", quote(name));
      if (!calls.contains(name)) calls[name] = call_for(pickle, found->second);
      pickle.values[i] = calls.at(name);
    }
    return pickle;
  }

  std::vector<std::byte> storage(const std::string& key, uint64_t most) const override {
    return read_stretch(file_, storage_of(key).numbers, most, key);
  }

 private:
  PickleReading reading_of(const std::string& name) const {
    const auto found = begins_.find(name);
    if (found == begins_.end()) throw UserError("a tar without {}", quote(name));
    return {file_, found->second};
  }

  const Storage& storage_of(const std::string& key) const {
    const auto found = storages_.find(key);
    if (found == storages_.end()) throw UserError("it has no numbers called {}", quote(key));
    return found->second;
  }

  /// (name, device, type), a count and the numbers.
  void read_storage(PickleReading& reading) {
    const auto described = reading.pickle(kMostSmallBytes);
    const auto& type = part_of_tuple(described, 2).text;
    const auto known = storage_type(type);
    if (!known) throw UserError("{} is not supported", quote(type));
    storages_[text_or_number(part_of_tuple(described, 0))] = {
        type, pass_numbers(reading, torch::elementSize(*known))};
  }

  /// (name, name of the storage, type), the number of dimensions, sizes, strides, offset.
  void read_tensor(PickleReading& reading) {
    const auto described = reading.pickle(kMostSmallBytes);
    constexpr int64_t low = 0xffffffff;  // 4 bytes are a number, 4 are unused
    const int64_t dimensions = reading.number() & low;
    if (dimensions > kMostListedDimensions) throw UserError("a description in it does not add up");
    Described tensor{.storage = text_or_number(part_of_tuple(described, 1))};
    tensor.sizes = reading.numbers(static_cast<uint64_t>(dimensions));
    tensor.strides = reading.numbers(static_cast<uint64_t>(dimensions));
    tensor.offset = reading.number();
    tensors_[text_or_number(part_of_tuple(described, 0))] = tensor;
  }

  /// A call of torch._utils._rebuild_tensor.
  PickleValue call_for(Pickle& pickle, const Described& tensor) const {
    const auto add = [&](PickleValue value) {
      pickle.values.push_back(std::move(value));
      return pickle.values.size() - 1;
    };
    const auto number = [&](int64_t value) { return add({PickleKind::number, value, "", {}}); };
    const auto text = [&](PickleKind kind, const std::string& value) {
      return add({kind, 0, value, {}});
    };
    const auto sequence = [&](std::vector<size_t> parts) {
      return add({PickleKind::sequence, 0, "", std::move(parts)});
    };
    const auto numbers = [&](const std::vector<int64_t>& values) {
      std::vector<size_t> parts;
      for (const auto value : values) parts.push_back(number(value));
      return sequence(parts);
    };
    const size_t described = sequence({text(PickleKind::text, "storage"),
                                       text(PickleKind::global, storage_of(tensor.storage).type),
                                       text(PickleKind::text, tensor.storage)});
    const size_t storage = add({PickleKind::outside, 0, "", {described}});
    const size_t arguments =
        sequence({storage, number(tensor.offset), numbers(tensor.sizes), numbers(tensor.strides)});
    return {PickleKind::call,
            0,
            "",
            {text(PickleKind::global, "torch._utils._rebuild_tensor"), arguments}};
  }

  const InputFile& file_;
  std::map<std::string, uint64_t> begins_;  ///< of the tar's members
  std::map<std::string, Storage> storages_;
  std::map<std::string, Described> tensors_;
};

}  // namespace

bool is_tar_pytorch_file(const InputFile& file) {
  constexpr size_t kMark = 257;
  std::string header(512, '\0');
  if (file.size() < header.size()) return false;
  file.read(0, std::as_writable_bytes(std::span(header)));
  return std::strcmp(header.c_str(), kFirstMember.data()) == 0 &&
         header.compare(kMark, 5, "ustar") == 0;
}

std::unique_ptr<PytorchContainer> open_tar_pytorch_file(const InputFile& file) {
  return std::make_unique<TarContainer>(file);
}

}  // namespace nsvq
