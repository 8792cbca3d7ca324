#include "nsvq/io/formats/pytorch/pytorch_file.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/input_file.h"
#include "nsvq/io/formats/pytorch/old_pytorch_file.h"
#include "nsvq/io/formats/pytorch/pickle_reading.h"
#include "nsvq/io/formats/zip_archive.h"

namespace nsvq {

namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie there");

/// Whether the numbers of a tensor, which is not empty, lie within its storage of so many, none
/// twice.
bool lies_within(const PytorchTensor& tensor, int64_t stored) {
  int64_t count = 1, last = tensor.offset;
  if (last > stored) return false;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    const int64_t size = tensor.shape[i], stride = tensor.strides[i];
    if (size > stored / count) return false;
    count *= size;
    if (size > 1 && stride > (stored - last) / (size - 1)) return false;
    if (size > 1) last += (size - 1) * stride;
  }
  return last < stored;
}

/// Numbers that tensors share.
class StoredNumbers {
 public:
  explicit StoredNumbers(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}

  /// How many bytes a tensor takes. Throws UserError for one that they do not hold.
  uint64_t bytes_of(const PytorchTensor& tensor, const std::string& name) {
    if (std::ranges::count(tensor.shape, 0) > 0) return 0;
    const auto width = torch::elementSize(tensor.type);
    if (!lies_within(tensor, static_cast<int64_t>(bytes_.size() / width))) {
      throw UserError("tensor {} is larger than its storage", quote(name));
    }
    if (tensor.type == torch::kBool && !are_flags()) {
      throw UserError("tensor {}: a bool is neither 0 nor 1", quote(name));
    }
    uint64_t bytes = width;
    for (const auto size : tensor.shape) bytes *= static_cast<uint64_t>(size);
    return bytes;
  }

  /// One that `bytes_of` let pass.
  torch::Tensor tensor(const PytorchTensor& from) {
    if (std::ranges::count(from.shape, 0) > 0) return at::empty(from.shape, from.type);
    const auto stored = static_cast<int64_t>(bytes_.size() / torch::elementSize(from.type));
    return at::from_blob(bytes_.data(), {stored}, from.type)
        .as_strided(from.shape, from.strides, from.offset)
        .clone(at::MemoryFormat::Contiguous);
  }

 private:
  /// Whether all bytes are 0 or 1: any other bool is undefined behaviour for its users.
  bool are_flags() {
    if (!flags_) {
      flags_ = std::ranges::none_of(bytes_, [](auto byte) { return byte > std::byte{1}; });
    }
    return *flags_;
  }

  std::vector<std::byte> bytes_;
  std::optional<bool> flags_;
};

/// A zip file, as torch.save and torch.jit.save write it.
class ZipContainer : public PytorchContainer {
 public:
  explicit ZipContainer(const InputFile& file) : archive_(file), root_(root_of(archive_)) {}

  Pickle pickle() const override {
    const auto order = root_ + "byteorder";
    if (archive_.contains(order)) {
      const auto bytes = archive_.read(order);
      const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      if (text == "big") throw UserError("its numbers are big-endian, which is not read");
    }
    return parse_pickle(archive_.read(root_ + "data.pkl", kMostPickleBytes));
  }
  std::vector<std::byte> storage(const std::string& key, uint64_t most) const override {
    return archive_.read(root_ + "data/" + key, most);
  }

 private:
  /// The folder in the archive in which everything lies, with its slash.
  static std::string root_of(const ZipArchive& archive) {
    constexpr std::string_view kPickle = "data.pkl";
    for (const auto& name : archive.names()) {
      const auto slash = name.find('/');
      if (slash != std::string::npos && name.substr(slash + 1) == kPickle) {
        return name.substr(0, slash + 1);
      }
    }
    throw UserError("a zip file without data.pkl, so none of torch.save");
  }

  ZipArchive archive_;
  std::string root_;
};

/// Calls read(container, file), with errors that name the file.
template <typename Read>
auto with_container(const std::filesystem::path& path, const Read& read) {
  const InputFile file(path);
  try {
    if (is_old_pytorch_file(file)) return read(*open_old_pytorch_file(file), file);
    return read(ZipContainer(file), file);
  } catch (const UserError& error) {
    throw UserError("cannot read {}, a PyTorch file or another zip archive: {}", path.string(),
                    error.what());
  }
}

/// Tensors may share their numbers, and a compressed member may be of any size: memory is taken for
/// a few times what the file holds, and for any small one.
class MemoryLimit {
 public:
  explicit MemoryLimit(uint64_t file_bytes) : left_(kTimes * file_bytes + kSmall) {}

  uint64_t left() const { return left_; }
  void take(uint64_t bytes) {
    if (bytes > left_) throw UserError("its tensors take far more memory than the file has bytes");
    left_ -= bytes;
  }

 private:
  static constexpr uint64_t kTimes = 4, kSmall = uint64_t{256} << 20;
  uint64_t left_;
};

}  // namespace

bool is_pytorch_file(const std::filesystem::path& path) {
  return is_zip_file(path) || is_old_pytorch_file(InputFile(path));
}

PytorchContents read_pytorch_names(const std::filesystem::path& path) {
  return with_container(path, [](const PytorchContainer& container, const InputFile&) {
    return tensors_described(container.pickle());
  });
}

TensorMap read_pytorch(const std::filesystem::path& path, bool averaged) {
  return with_container(path, [averaged](const PytorchContainer& container, const InputFile& file) {
    const auto contents = tensors_described(container.pickle());
    const auto& wanted = averaged ? contents.average : contents.tensors;
    std::map<std::string, std::vector<std::string>> by_storage;
    for (const auto& [name, tensor] : wanted) by_storage[tensor.storage].push_back(name);
    MemoryLimit limit(file.size());
    TensorMap tensors;
    for (const auto& [key, names] : by_storage) {
      StoredNumbers storage(container.storage(key, limit.left()));
      for (const auto& name : names) {
        const auto& tensor = wanted.at(name);
        limit.take(storage.bytes_of(tensor, name));
        tensors[name] = storage.tensor(tensor);
      }
    }
    return tensors;
  });
}

}  // namespace nsvq
