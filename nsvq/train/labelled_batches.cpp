#include "nsvq/train/labelled_batches.h"

#include <utility>

#include "nsvq/data/loader/batch_maker.h"

namespace nsvq {

TensorBatch with_labels(const Batch& batch, const Source& source, int64_t classes,
                        c10::Device device) {
  TensorBatch tensors = {batch.images, at::tensor(batch.indices, at::kLong).to(device)};
  if (classes == 0) return tensors;
  std::vector<int64_t> labels;
  for (const int64_t index : batch.indices) labels.push_back(source.label(index));
  tensors.push_back(at::tensor(labels, at::kLong).to(device));
  return tensors;
}

LabelledImages::LabelledImages(std::shared_ptr<const Source> source, const LoaderOptions& options,
                               const ToldClasses& told)
    : source_(std::move(source)),
      classes_(told.classes),
      step_samples_(options.batch_size * options.world),
      device_(options.device),
      loader_(source_, options) {
  require_classes(*source_, told, "data.train");
}

std::optional<TensorBatch> LabelledImages::next() {
  const auto batch = loader_.next();
  if (!batch) return std::nullopt;
  return with_labels(*batch, *source_, classes_, device_);
}

ResidentBatches::ResidentBatches(LabelledTensor contents, at::ScalarType type,
                                 const ToldClasses& told, const std::string& from,
                                 const LoaderOptions& options)
    : type_(type) {
  require_classes(contents.classes, contents.keys, told, from);
  data_ = contents.data.to(options.device);
  if (told.classes > 0) labels_ = at::tensor(contents.classes, at::kLong).to(options.device);
  keys_ = std::move(contents.keys);
  class_names_ = std::move(contents.class_names);
  sampler_ = {data_.size(0), options.batch_size, /*shuffle=*/true,
              options.seed,  options.rank,       options.world};
  require_a_batch(sampler_);
}

void ResidentBatches::start(int64_t epoch, int64_t batch, int64_t used) {
  order_ = at::tensor(sampler_.order(epoch), at::kLong).to(data_.device());
  next_ = batch;
  used_ = used;
}

std::optional<TensorBatch> ResidentBatches::next() {
  const int64_t size = sampler_.batch_size, world = sampler_.world;
  const int64_t first = used_ + next_ * size * world, end = first + size * world;
  if (end > samples()) return std::nullopt;
  ++next_;
  const auto positions = order_.slice(0, first + sampler_.rank, end, world);
  TensorBatch batch = {data_.index_select(0, positions).to(type_), positions.contiguous()};
  if (labels_.defined()) batch.push_back(labels_.index_select(0, positions));
  return batch;
}

}  // namespace nsvq
