#pragma once

#include <c10/core/Allocator.h>

#include <cstdint>
#include <memory>
#include <string>

namespace nsvq {

/// While it lives, the tensors that this thread makes on the CPU may take `bytes` in all, those
/// freed in between included; the one beyond throws UserError with `message`. For networks whose
/// sizes come from a file that may claim anything. One at a time.
class TensorBudget {
 public:
  TensorBudget(uint64_t bytes, std::string message);
  ~TensorBudget();
  TensorBudget(const TensorBudget&) = delete;
  TensorBudget& operator=(const TensorBudget&) = delete;

 private:
  class BudgetAllocator;

  c10::Allocator* before_;
  std::unique_ptr<BudgetAllocator> allocator_;
};

}  // namespace nsvq
