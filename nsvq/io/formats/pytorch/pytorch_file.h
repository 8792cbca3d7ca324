#pragma once

#include <filesystem>

#include "nsvq/core/tensor_map.h"
#include "nsvq/io/formats/pytorch/pytorch_pickle.h"

namespace nsvq {

/// Whether a file begins as those of torch.save do, of today's version or of one before 1.6. Throws
/// UserError naming a file that cannot be read.
bool is_pytorch_file(const std::filesystem::path& path);

/// Names and shapes in a file of torch.save or torch.jit.save: .pt, .pth, .ckpt, .bin, .jit.
/// Throws UserError naming the file.
PytorchContents read_pytorch_names(const std::filesystem::path& path);

/// The tensors of such a file, or their moving average, each contiguous with memory of its own.
/// Throws UserError naming the file, also for tensors that take far more memory than the file.
TensorMap read_pytorch(const std::filesystem::path& path, bool averaged = false);

}  // namespace nsvq
