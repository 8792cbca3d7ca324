#include "nsvq/generation/sampling/token_sampler.h"

#include <algorithm>
#include <utility>

#include "nsvq/core/random.h"

namespace nsvq {

namespace {

constexpr int64_t kBatchOnCpu = 8;

}  // namespace

TokenSampler::TokenSampler(std::shared_ptr<Generator> generator, const GridShape& grid,
                           const SamplingConfig& sampling, c10::Device device, int64_t batch_size,
                           bool graphs)
    : generator_(std::move(generator)),
      grid_(grid),
      sampling_(sampling),
      device_(device),
      batch_size_(device.is_cpu() ? kBatchOnCpu : batch_size),
      graphs_(graphs) {}

torch::Tensor TokenSampler::sample(const GenerationRequest& request) {
  const torch::NoGradGuard no_grad;
  const auto count = request.indices.size(), batch = static_cast<size_t>(batch_size_);
  TORCH_CHECK(grid_.classes == 0 || request.labels.size() == count,
              "sample: ", request.labels.size(), " labels for ", count, " images");
  std::vector<torch::Tensor> parts;
  for (size_t first = 0; first < count; first += batch) {
    parts.push_back(sample_batch(request, first, std::min(first + batch, count)));
  }
  return at::cat(parts).view({-1, grid_.height, grid_.width});
}

/// Images [first, end) of a request. The batch is filled up with the last one.
torch::Tensor TokenSampler::sample_batch(const GenerationRequest& request, size_t first,
                                         size_t end) {
  const auto filled = [&](const std::vector<int64_t>& all) {
    std::vector<int64_t> own(all.begin() + static_cast<ptrdiff_t>(first),
                             all.begin() + static_cast<ptrdiff_t>(end));
    own.resize(static_cast<size_t>(batch_size_), own.back());
    return own;
  };
  constexpr uint64_t purpose = 0x746f6b656e73;  // apart from the draws of training
  TokenRequest batch;
  batch.seeds = image_seeds(request.seed, purpose, filled(request.indices)).to(device_);
  if (grid_.classes > 0) batch.labels = at::tensor(filled(request.labels), at::kLong).to(device_);
  if (request.given.defined()) {
    batch.given = request.given.to(device_).expand({batch_size_, -1}).contiguous();
  }
  batch.before_step = request.before_step;
  batch.graphs = graphs_;
  return generator_->sample(batch, sampling_).narrow(0, 0, static_cast<int64_t>(end - first));
}

}  // namespace nsvq
