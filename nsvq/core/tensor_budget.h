#pragma once

#include <cstdint>
#include <string>

namespace nsvq {

/// Limits the memory of tensors that this thread allocates on the CPU while it lives: `bytes` in
/// all, including tensors freed meanwhile. The allocation beyond throws UserError with `message`.
/// For networks built by the configuration of a file, which may claim any size.
class TensorBudget {
 public:
  TensorBudget(uint64_t bytes, std::string message);
  ~TensorBudget();
  TensorBudget(const TensorBudget&) = delete;
  TensorBudget& operator=(const TensorBudget&) = delete;

 private:
  class Allocator;
  void take(uint64_t bytes);

  uint64_t left_;
  std::string message_;
  TensorBudget* outer_;  ///< budget around this one, inactive meanwhile
};

}  // namespace nsvq
