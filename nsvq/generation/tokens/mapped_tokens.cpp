#include "nsvq/generation/tokens/mapped_tokens.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "nsvq/data/loader/batch_maker.h"

namespace nsvq {

namespace {

/// uint16 by way of int16, which has operators on every device.
torch::Tensor widened(const torch::Tensor& tokens, c10::Device device) {
  if (tokens.scalar_type() != at::kUInt16) {
    return tokens.to(device, /*non_blocking=*/true).to(at::kLong);
  }
  return tokens.view(at::kShort)
      .to(device, /*non_blocking=*/true)
      .to(at::kLong)
      .bitwise_and(0xffff);
}

}  // namespace

MappedTokens::MappedTokens(TokenSet set, const ToldClasses& told, const std::string& from,
                           const LoaderOptions& options)
    : set_(std::move(set)), labelled_(told.classes > 0), device_(options.device) {
  require_classes(set_.images.classes, set_.images.keys, told, from);
  int64_t images = 0;
  for (const auto& shard : set_.shards) ends_.push_back(images += shard.size(0));
  sampler_ = {images,       options.batch_size, /*shuffle=*/true,
              options.seed, options.rank,       options.world};
  require_a_batch(sampler_);
}

void MappedTokens::start(int64_t epoch, int64_t batch, int64_t used) {
  order_ = sampler_.order(epoch);
  next_ = batch;
  used_ = used;
}

/// Through pinned memory, from which a GPU copies while the host goes on.
torch::Tensor MappedTokens::on_device(const std::vector<int64_t>& numbers) const {
  auto all = at::empty({std::ssize(numbers)},
                       at::device(at::kCPU).dtype(at::kLong).pinned_memory(device_.is_cuda()));
  std::memcpy(all.data_ptr(), numbers.data(), all.nbytes());
  return all.to(device_, /*non_blocking=*/true);
}

std::optional<TensorBatch> MappedTokens::next() {
  const int64_t size = sampler_.batch_size, world = sampler_.world;
  const int64_t first = used_ + next_ * size * world;
  if (first + size * world > samples()) return std::nullopt;
  ++next_;
  auto shape = set_.shards.front().sizes().vec();
  shape[0] = size;
  const auto options = set_.shards.front().options().pinned_memory(device_.is_cuda());
  const auto rows = at::empty(shape, options);
  const auto bytes = rows.nbytes() / static_cast<size_t>(size);
  std::vector<int64_t> positions, labels;
  for (int64_t i = 0; i < size; ++i) {
    const int64_t image = order_.at(static_cast<size_t>(first + sampler_.rank + i * world));
    const auto shard = std::ranges::upper_bound(ends_, image) - ends_.begin();
    const int64_t row = image - (shard == 0 ? 0 : ends_[static_cast<size_t>(shard - 1)]);
    const auto* from =
        static_cast<const std::byte*>(set_.shards[static_cast<size_t>(shard)].data_ptr());
    std::memcpy(static_cast<std::byte*>(rows.data_ptr()) + static_cast<size_t>(i) * bytes,
                from + static_cast<size_t>(row) * bytes, bytes);
    positions.push_back(image);
    labels.push_back(set_.images.classes[static_cast<size_t>(image)]);
  }
  TensorBatch batch = {widened(rows, device_), on_device(positions)};
  if (labelled_) batch.push_back(on_device(labels));
  return batch;
}

}  // namespace nsvq
