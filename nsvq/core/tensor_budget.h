#pragma once

#include <cstdint>
#include <string>

namespace nsvq {

/// While it lives, the tensors that this thread makes on the CPU may take `bytes` in all, those
/// freed in between included; the one beyond throws UserError with `message`. For networks whose
/// sizes come from a file that may claim anything.
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
  TensorBudget* outer_;  ///< the one around it, which waits meanwhile
};

}  // namespace nsvq
