#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "nsvq/core/tensor_map.h"

namespace nsvq {

/// Where a tensor lies in a file of torch.save.
struct PytorchTensor {
  torch::ScalarType type{};
  std::vector<int64_t> shape, strides;
  int64_t offset = 0;   ///< of its first number, in numbers
  std::string storage;  ///< name of the member below data/
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

/// What `data.pkl` in the zip file describes, without running anything that it names. Only the
/// state_dict (or "model", "model_state_dict", "module") of a training checkpoint counts. Throws
/// UserError.
PytorchContents parse_pytorch_pickle(std::span<const std::byte> pickle);

/// Names and shapes in a file of torch.save or torch.jit.save: .pt, .pth, .ckpt, .bin, .jit.
/// Throws UserError naming the file.
PytorchContents read_pytorch_names(const std::filesystem::path& path);

/// The tensors of such a file, or their moving average, each contiguous with memory of its own.
/// Throws UserError naming the file.
TensorMap read_pytorch(const std::filesystem::path& path, bool averaged = false);

}  // namespace nsvq
