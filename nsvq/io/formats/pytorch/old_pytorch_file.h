#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/io/files/input_file.h"
#include "nsvq/io/formats/pytorch/pickle.h"

namespace nsvq {

/// The parts of a file of torch.save. Methods throw UserError without the file's name.
class PytorchContainer {
 public:
  virtual ~PytorchContainer() = default;
  /// What it holds; the numbers of tensors lie outside.
  virtual Pickle pickle() const = 0;
  /// Such numbers, by their name in the pickle. Throws for more than `most` bytes.
  virtual std::vector<std::byte> storage(const std::string& key, uint64_t most) const = 0;
};

/// Whether a file begins as torch.save began it before version 1.6: pickles, one after the other,
/// then numbers; or, before 0.1.10, a tar of these.
bool is_old_pytorch_file(const InputFile& file);
/// Such a file, which must outlive the container.
std::unique_ptr<PytorchContainer> open_old_pytorch_file(const InputFile& file);

/// Whether a file begins as torch.save began it before version 0.1.10: a tar of a pickle, tensors
/// and storages.
bool is_tar_pytorch_file(const InputFile& file);
/// Such a file, which must outlive the container.
std::unique_ptr<PytorchContainer> open_tar_pytorch_file(const InputFile& file);

}  // namespace nsvq
