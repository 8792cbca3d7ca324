#pragma once

#include <memory>

#include "nsvq/io/formats/pytorch/old_pytorch_file.h"

namespace nsvq {

/// Whether a file begins as torch.save began it before version 0.1.10: a tar of a pickle, tensors
/// and storages.
bool is_tar_pytorch_file(const InputFile& file);
/// Such a file, which must outlive the container.
std::unique_ptr<PytorchContainer> open_tar_pytorch_file(const InputFile& file);

}  // namespace nsvq
