#include "nsvq/core/tensor_budget.h"

#include <c10/core/CPUAllocator.h>

#include <utility>

#include "nsvq/core/error.h"

namespace nsvq {

namespace {

thread_local TensorBudget* innermost = nullptr;

}  // namespace

/// Charges this thread's budget and calls torch's own allocator. It stays installed: a tensor keeps
/// a pointer to its allocator, to grow by it.
class TensorBudget::Allocator final : public c10::Allocator {
 public:
  static void install() {
    static Allocator* const allocator = [] {
      auto* made = new Allocator(c10::GetCPUAllocator());  // never freed, see above
      c10::SetCPUAllocator(made);
      return made;
    }();
    static_cast<void>(allocator);
  }

  c10::DataPtr allocate(size_t bytes) override {
    if (innermost) innermost->take(bytes);
    return below_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return below_->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    below_->copy_data(to, from, bytes);
  }

 private:
  explicit Allocator(c10::Allocator* below) : below_(below) {}

  c10::Allocator* below_;
};

TensorBudget::TensorBudget(uint64_t bytes, std::string message)
    : left_(bytes), message_(std::move(message)), outer_(innermost) {
  Allocator::install();
  innermost = this;
}

TensorBudget::~TensorBudget() { innermost = outer_; }

void TensorBudget::take(uint64_t bytes) {
  if (bytes > left_) throw UserError("{}", message_);
  left_ -= bytes;
}

}  // namespace nsvq
