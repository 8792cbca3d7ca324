#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nsvq/io/formats/pytorch/pickle.h"

namespace nsvq {

/// Where a tensor lies in a file of torch.save.
struct PytorchTensor {
  torch::ScalarType type{};
  std::vector<int64_t> shape, strides;
  int64_t offset = 0;   ///< of its first number, in numbers
  std::string storage;  ///< name of the numbers that it is a part of
};

/// The tensors of such a file, by name: names of nested dicts and modules are joined by dots.
struct PytorchContents {
  /// The dict that they are of, where the file has others beside it ("state_dict"); else empty.
  std::string part;
  std::map<std::string, PytorchTensor> tensors;
  /// A dict beside it with their moving average, under names that they have too ("ema"); empty, as
  /// are its tensors, where there is none.
  std::string average_part = {};
  std::map<std::string, PytorchTensor> average = {};
};

/// What a pickle of torch.save describes, without running anything that it names. Only the
/// state_dict (or "model", "model_state_dict", "module") of a training checkpoint counts. Throws
/// UserError.
PytorchContents tensors_described(const Pickle& pickle);
PytorchContents parse_pytorch_pickle(std::span<const std::byte> pickle);

/// The type of the numbers of "torch.FloatStorage" and its like; nullopt for another name.
std::optional<torch::ScalarType> storage_type(std::string_view name);

/// The type of each storage that a pickle names, also of those that no tensor above is a part of.
/// Throws UserError for a type that is not read.
std::map<std::string, torch::ScalarType> storages_named(const Pickle& pickle);

}  // namespace nsvq
