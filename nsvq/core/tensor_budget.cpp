#include "nsvq/core/tensor_budget.h"

#include <c10/core/CPUAllocator.h>

#include <thread>
#include <utility>

#include "nsvq/core/error.h"

namespace nsvq {

/// Counts, and leaves the rest to the allocator that was there: what it gave can be freed when the
/// budget is gone.
class TensorBudget::BudgetAllocator final : public c10::Allocator {
 public:
  BudgetAllocator(c10::Allocator* below, uint64_t bytes, std::string message)
      : below_(below), left_(bytes), message_(std::move(message)) {}

  c10::DataPtr allocate(size_t bytes) override {
    if (std::this_thread::get_id() == owner_) {
      if (bytes > left_) throw UserError("{}", message_);
      left_ -= bytes;
    }
    return below_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return below_->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    below_->copy_data(to, from, bytes);
  }

 private:
  c10::Allocator* below_;
  uint64_t left_;
  std::string message_;
  std::thread::id owner_ = std::this_thread::get_id();
};

TensorBudget::TensorBudget(uint64_t bytes, std::string message)
    : before_(c10::GetCPUAllocator()),
      allocator_(std::make_unique<BudgetAllocator>(before_, bytes, std::move(message))) {
  c10::SetCPUAllocator(allocator_.get());
}

TensorBudget::~TensorBudget() { c10::SetCPUAllocator(before_); }

}  // namespace nsvq
