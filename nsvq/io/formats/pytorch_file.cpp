#include "nsvq/io/formats/pytorch_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/input_file.h"
#include "nsvq/io/formats/pickle.h"
#include "nsvq/io/formats/zip_archive.h"

namespace nsvq {

namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie there");

constexpr size_t kMostPickleBytes = size_t{1} << 25;  // the tensors' numbers lie beside it
constexpr size_t kMostValues = 1'000'000;             // that are looked at: they may be shared
constexpr int kMostLevels = 32;                       // of dicts within dicts
constexpr size_t kMostTensors = 200'000;
constexpr size_t kMostNameBytes = 512;           // of a tensor
constexpr size_t kMostDimensions = 64;           // torch's limit
constexpr int64_t kMostSpan = int64_t{1} << 48;  // product of a tensor's sizes, 0 as 1
constexpr std::string_view kRebuild = "torch._utils._rebuild_";

struct StorageType {
  std::string_view name;
  torch::ScalarType type;
};

constexpr std::array<StorageType, 10> kStorageTypes{{{"torch.FloatStorage", torch::kFloat},
                                                     {"torch.DoubleStorage", torch::kDouble},
                                                     {"torch.HalfStorage", torch::kHalf},
                                                     {"torch.BFloat16Storage", torch::kBFloat16},
                                                     {"torch.LongStorage", torch::kLong},
                                                     {"torch.IntStorage", torch::kInt},
                                                     {"torch.ShortStorage", torch::kShort},
                                                     {"torch.CharStorage", torch::kChar},
                                                     {"torch.ByteStorage", torch::kByte},
                                                     {"torch.BoolStorage", torch::kBool}}};

/// Functions, and modules of them, that a pickle names only to run something where Python reads it.
constexpr std::array<std::string_view, 10> kHostile = {
    "os.",    "posix.",  "nt.",     "subprocess.", "pty.",
    "runpy.", "socket.", "ctypes.", "importlib.",  "webbrowser."};
/// Those of Python itself, whose module has two names.
constexpr std::array<std::string_view, 5> kHostileBuiltins = {"eval", "exec", "open", "compile",
                                                              "__import__"};

bool is_hostile(std::string_view name) {
  for (const std::string_view module : {"builtins.", "__builtin__."}) {
    if (!name.starts_with(module)) continue;
    return std::ranges::find(kHostileBuiltins, name.substr(module.size())) !=
           kHostileBuiltins.end();
  }
  return std::ranges::any_of(kHostile, [&](auto begin) { return name.starts_with(begin); });
}

/// Throws UserError for a pickle that would run something, which is not done here.
void refuse_hostile(const Pickle& pickle) {
  for (const auto& value : pickle.values) {
    if (value.kind != PickleKind::global || !is_hostile(value.text)) continue;
    throw UserError(
        "it names {}, which would run where Python reads it; nothing of it was run, and it is "
        "refused",
        quote(value.text));
  }
}

/// Reads tensors out of a pickle's values.
class TensorFinder {
 public:
  explicit TensorFinder(const Pickle& pickle) : pickle_(pickle) {}

  PytorchContents find() {
    for (const auto* part : {"state_dict", "model", "model_state_dict", "module"}) {
      PytorchContents found{part, tensors_in(part)};
      if (found.tensors.empty()) continue;
      add_average(found);
      return found;
    }
    collect(value(pickle_.root), "", 0);
    return {"", std::move(tensors_)};
  }

 private:
  const PickleValue& value(size_t index) const { return pickle_.values.at(index); }
  const PickleValue& part(const PickleValue& of, size_t index) const {
    return value(of.parts.at(index));
  }

  /// What a dict holds under a name; null without.
  const PickleValue* item(const PickleValue& dict, std::string_view name) const {
    if (dict.kind != PickleKind::dict) return nullptr;
    for (size_t i = 0; i + 1 < dict.parts.size(); i += 2) {
      const auto& key = part(dict, i);
      if (key.kind == PickleKind::text && key.text == name) return &part(dict, i + 1);
    }
    return nullptr;
  }

  /// The tensors of a part of the file.
  std::map<std::string, PytorchTensor> tensors_in(const char* part) {
    const auto* inner = item(value(pickle_.root), part);
    if (inner) collect(*inner, "", 0);
    return std::exchange(tensors_, {});
  }

  void add_average(PytorchContents& found) {
    for (const auto* part : {"ema", "model_ema", "ema_state_dict"}) {
      auto average = tensors_in(part);
      const bool equal_names = std::ranges::all_of(
          average, [&](const auto& tensor) { return found.tensors.contains(tensor.first); });
      if (average.empty() || !equal_names) continue;
      found.average_part = part;
      found.average = std::move(average);
      return;
    }
  }

  /// The function that a call is of; empty for other values.
  std::string_view callee(const PickleValue& call) const {
    if (call.kind != PickleKind::call || part(call, 0).kind != PickleKind::global) return "";
    return part(call, 0).text;
  }

  void collect(const PickleValue& from, const std::string& name, int level) {
    if (++looked_at_ > kMostValues || level > kMostLevels) {
      throw UserError("its dicts are too many or too deep for a file of weights");
    }
    if (name.size() > kMostNameBytes) {
      throw UserError("a name of {} bytes is none of a tensor", name.size());
    }
    if (callee(from).starts_with(kRebuild)) {
      if (tensors_.size() == kMostTensors) {
        throw UserError("it has more than {} tensors", kMostTensors);
      }
      if (!tensors_.emplace(name, tensor(from, name)).second) {
        throw UserError("two tensors are called {}", quote(name));
      }
    } else if (from.kind == PickleKind::call && from.parts.size() > 2) {
      collect(part(from, 2), name, level + 1);  // a module of TorchScript
    } else if (from.kind == PickleKind::dict) {
      for (size_t i = 0; i + 1 < from.parts.size(); i += 2) {
        const auto& key = part(from, i);
        if (key.kind != PickleKind::text && key.kind != PickleKind::number) continue;
        const auto text = key.kind == PickleKind::text ? key.text : std::to_string(key.number);
        collect(part(from, i + 1), name.empty() ? text : name + "." + text, level + 1);
      }
    }
  }

  PytorchTensor tensor(const PickleValue& call, const std::string& name) const {
    const auto function = callee(call).substr(kRebuild.size());
    const auto& arguments = part(call, 1);
    if (function.starts_with("parameter") && !arguments.parts.empty()) {
      const auto& inner = part(arguments, 0);
      if (callee(inner).starts_with("torch._utils._rebuild_tensor")) return tensor(inner, name);
    }
    const bool plain = function == "tensor" || function == "tensor_v2";
    if (!plain || arguments.parts.size() < 4) {
      throw UserError("tensor {} is made by {}, which is not read", quote(name),
                      quote(callee(call)));
    }
    auto made = storage(part(arguments, 0), name);
    made.offset = part(arguments, 1).number;
    made.shape = numbers(part(arguments, 2), name);
    made.strides = numbers(part(arguments, 3), name);
    if (made.offset < 0 || made.shape.size() != made.strides.size()) refuse(name);
    int64_t span = 1;
    for (const auto size : made.shape) {
      if (size > kMostSpan / span) refuse(name);
      span *= std::max<int64_t>(size, 1);
    }
    return made;
  }

  /// ("storage", its type, its name, a device, its numbers).
  PytorchTensor storage(const PickleValue& outside, const std::string& name) const {
    if (outside.kind != PickleKind::outside) refuse(name);
    const auto& description = part(outside, 0);
    if (description.kind != PickleKind::sequence || description.parts.size() < 3) refuse(name);
    const auto &type = part(description, 1), &key = part(description, 2);
    if (type.kind != PickleKind::global || key.kind != PickleKind::text) refuse(name);
    for (const auto& known : kStorageTypes) {
      if (type.text == known.name) return {known.type, {}, {}, 0, key.text};
    }
    throw UserError("tensor {}: {} is not supported", quote(name), quote(type.text));
  }

  std::vector<int64_t> numbers(const PickleValue& sequence, const std::string& name) const {
    if (sequence.kind != PickleKind::sequence || sequence.parts.size() > kMostDimensions)
      refuse(name);
    std::vector<int64_t> numbers;
    for (const size_t index : sequence.parts) {
      const auto& number = value(index);
      if (number.kind != PickleKind::number || number.number < 0) refuse(name);
      numbers.push_back(number.number);
    }
    return numbers;
  }

  [[noreturn]] static void refuse(const std::string& name) {
    throw UserError("the description of tensor {} does not add up", quote(name));
  }

  const Pickle& pickle_;
  std::map<std::string, PytorchTensor> tensors_;
  size_t looked_at_ = 0;
};

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

/// Numbers that tensors share: one of the archive's members below data/.
class StoredNumbers {
 public:
  explicit StoredNumbers(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}

  torch::Tensor tensor(const PytorchTensor& from, const std::string& name) {
    if (std::count(from.shape.begin(), from.shape.end(), 0) > 0) {
      return at::empty(from.shape, from.type);
    }
    const auto width = torch::elementSize(from.type);
    const auto stored = static_cast<int64_t>(bytes_.size() / width);
    if (!lies_within(from, stored)) {
      throw UserError("tensor {} is larger than its storage", quote(name));
    }
    if (from.type == torch::kBool && std::any_of(bytes_.begin(), bytes_.end(), [](auto byte) {
          return byte > std::byte{1};  // any other value is undefined behaviour for its users
        })) {
      throw UserError("tensor {}: a bool is neither 0 nor 1", quote(name));
    }
    return at::from_blob(bytes_.data(), {stored}, from.type)
        .as_strided(from.shape, from.strides, from.offset)
        .clone(at::MemoryFormat::Contiguous);
  }

 private:
  std::vector<std::byte> bytes_;
};

/// The folder in the archive in which everything lies, with its slash.
std::string root_of(const ZipArchive& archive) {
  constexpr std::string_view kPickle = "data.pkl";
  for (const auto& name : archive.names()) {
    const auto slash = name.find('/');
    if (slash != std::string::npos && name.substr(slash + 1) == kPickle) {
      return name.substr(0, slash + 1);
    }
  }
  throw UserError("a zip file without data.pkl, so none of torch.save");
}

PytorchContents read_contents(const ZipArchive& archive, const std::string& root) {
  const auto order = root + "byteorder";
  if (archive.contains(order)) {
    const auto bytes = archive.read(order);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text == "big") throw UserError("its numbers are big-endian, which is not read");
  }
  const auto pickle = archive.read(root + "data.pkl");
  if (pickle.size() > kMostPickleBytes) {
    throw UserError("its data.pkl has {} bytes, more than {}", pickle.size(), kMostPickleBytes);
  }
  return parse_pytorch_pickle(pickle);
}

/// Calls read(archive, root), with errors that name the file.
template <typename Read>
auto with_archive(const std::filesystem::path& path, const Read& read) {
  const InputFile file(path);
  try {
    const ZipArchive archive(file);
    return read(archive, root_of(archive));
  } catch (const UserError& error) {
    throw UserError("cannot read {}, a PyTorch file or another zip archive: {}", path.string(),
                    error.what());
  }
}

}  // namespace

PytorchContents parse_pytorch_pickle(std::span<const std::byte> pickle) {
  const auto parsed = parse_pickle(pickle);
  refuse_hostile(parsed);
  return TensorFinder(parsed).find();
}

PytorchContents read_pytorch_names(const std::filesystem::path& path) {
  return with_archive(path, [](const ZipArchive& archive, const std::string& root) {
    return read_contents(archive, root);
  });
}

TensorMap read_pytorch(const std::filesystem::path& path, bool averaged) {
  return with_archive(path, [averaged](const ZipArchive& archive, const std::string& root) {
    const auto contents = read_contents(archive, root);
    const auto& wanted = averaged ? contents.average : contents.tensors;
    std::map<std::string, std::vector<std::string>> by_storage;
    for (const auto& [name, tensor] : wanted) by_storage[tensor.storage].push_back(name);
    TensorMap tensors;
    for (const auto& [key, names] : by_storage) {
      StoredNumbers storage(archive.read(root + "data/" + key));
      for (const auto& name : names) {
        tensors[name] = storage.tensor(wanted.at(name), name);
      }
    }
    return tensors;
  });
}

}  // namespace nsvq
