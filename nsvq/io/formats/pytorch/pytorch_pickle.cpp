#include "nsvq/io/formats/pytorch/pytorch_pickle.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"

namespace nsvq {

namespace {

constexpr size_t kMostLookedAt = 1'000'000;  // values: they may be shared
constexpr int kMostLevels = 32;              // of dicts within dicts
constexpr size_t kMostTensors = 200'000;
constexpr size_t kMostTensorName = 512;          // bytes
constexpr size_t kMostTensorDimensions = 64;     // torch's limit
constexpr int64_t kMostSpan = int64_t{1} << 48;  // product of a tensor's sizes, 0 as 1
constexpr std::string_view kRebuild = "torch._utils._rebuild_";
constexpr std::string_view kRebuildOfType = "torch._tensor._rebuild_from_type_v2";

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

}  // namespace

std::optional<torch::ScalarType> storage_type(std::string_view name) {
  for (const auto& known : kStorageTypes) {
    if (name == known.name) return known.type;
  }
  return std::nullopt;
}

namespace {

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

  /// A name within another; those of what a module keeps its tensors in are left out.
  static std::string joined(const std::string& name, const std::string& text) {
    if (text == "_parameters" || text == "_buffers" || text == "_modules") return name;
    return name.empty() ? text : name + "." + text;
  }

  void collect(const PickleValue& from, const std::string& name, int level) {
    if (++looked_at_ > kMostLookedAt || level > kMostLevels) {
      throw UserError("its dicts are too many or too deep for a file of weights");
    }
    if (name.size() > kMostTensorName) {
      throw UserError("a name of {} bytes is none of a tensor", name.size());
    }
    if (makes_tensor(from)) {
      if (tensors_.size() == kMostTensors) {
        throw UserError("it has more than {} tensors", kMostTensors);
      }
      if (!tensors_.emplace(name, tensor(callee(from), part(from, 1), name)).second) {
        throw UserError("two tensors are called {}", quote(name));
      }
    } else if (from.kind == PickleKind::call && from.parts.size() > 2) {
      collect(part(from, 2), name, level + 1);  // a module, of TorchScript or of Python
    } else if (from.kind == PickleKind::dict) {
      for (size_t i = 0; i + 1 < from.parts.size(); i += 2) {
        const auto& key = part(from, i);
        if (key.kind != PickleKind::text && key.kind != PickleKind::number) continue;
        const auto text = key.kind == PickleKind::text ? key.text : std::to_string(key.number);
        collect(part(from, i + 1), joined(name, text), level + 1);
      }
    }
  }

  bool makes_tensor(const PickleValue& call) const {
    const auto function = callee(call);
    return function.starts_with(kRebuild) || function == kRebuildOfType;
  }

  /// `wrappers`: how many calls it may be wrapped in, which give it a class or attributes.
  PytorchTensor tensor(std::string_view function, const PickleValue& arguments,
                       const std::string& name, int wrappers = 2) const {
    const bool parameter = function == "torch._utils._rebuild_parameter" ||
                           function == "torch._utils._rebuild_parameter_with_state";
    if (parameter && wrappers > 0 && !arguments.parts.empty()) {
      const auto& inner = part(arguments, 0);
      if (makes_tensor(inner)) return tensor(callee(inner), part(inner, 1), name, wrappers - 1);
    }
    if (function == kRebuildOfType && wrappers > 0 && arguments.parts.size() > 2) {
      return tensor(part(arguments, 0).text, part(arguments, 2), name, wrappers - 1);
    }
    const bool plain =
        function == "torch._utils._rebuild_tensor" || function == "torch._utils._rebuild_tensor_v2";
    if (!plain || arguments.parts.size() < 4) {
      throw UserError("tensor {} is made by {}, which is not read", quote(name), quote(function));
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
    const auto known = storage_type(type.text);
    if (known) return {*known, {}, {}, 0, key.text};
    throw UserError("tensor {}: {} is not supported", quote(name), quote(type.text));
  }

  std::vector<int64_t> numbers(const PickleValue& sequence, const std::string& name) const {
    if (sequence.kind != PickleKind::sequence || sequence.parts.size() > kMostTensorDimensions)
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

}  // namespace

PytorchContents tensors_described(const Pickle& pickle) {
  refuse_hostile(pickle);
  return TensorFinder(pickle).find();
}

PytorchContents parse_pytorch_pickle(std::span<const std::byte> pickle) {
  return tensors_described(parse_pickle(pickle));
}

std::map<std::string, torch::ScalarType> storages_named(const Pickle& pickle) {
  std::map<std::string, torch::ScalarType> types;
  const auto part = [&](const PickleValue& of, size_t index) -> const PickleValue& {
    return pickle.values.at(of.parts.at(index));
  };
  for (const auto& value : pickle.values) {
    if (value.kind != PickleKind::outside) continue;
    const auto& description = part(value, 0);
    if (description.parts.size() < 3) throw UserError("a storage's description does not add up");
    const auto& type = part(description, 1).text;
    const auto known = storage_type(type);
    if (!known) throw UserError("{} is not supported", quote(type));
    types.emplace(part(description, 2).text, *known);
  }
  return types;
}

}  // namespace nsvq
