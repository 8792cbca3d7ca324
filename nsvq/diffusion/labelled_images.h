#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nsvq/data/loader/loader.h"
#include "nsvq/diffusion/diffusion_batches.h"

namespace nsvq {

/// Throws UserError, naming the key of the source and an image, unless every image has a class
/// below `classes`; nothing without classes.
void require_classes(const Source& source, int64_t classes, const std::string& key);

/// The images of data.val with classes numbered as those of the training data, `names`, which may
/// have more of them. Throws UserError for a class that these lack.
std::shared_ptr<const Source> numbered_as(std::shared_ptr<const Source> source,
                                          const std::vector<std::string>& names);

/// A loader's batch as DiffusionBatches have it.
TensorBatch with_labels(const Batch& batch, const Source& source, int64_t classes,
                        c10::Device device);

/// Images as training data.
class LabelledImages : public DiffusionBatches {
 public:
  LabelledImages(std::shared_ptr<const Source> source, const LoaderOptions& options,
                 int64_t classes);
  std::string name_of(int64_t position) const override { return source_->key(position); }
  std::vector<std::string> classes() const override { return source_->classes(); }
  int64_t batches_per_epoch() const override { return loader_.batches_per_epoch(); }
  int64_t samples() const override { return source_->size(); }
  int64_t step_samples() const override { return step_samples_; }
  void start(int64_t epoch, int64_t batch, int64_t used) override {
    loader_.start(epoch, batch, used);
  }
  std::optional<TensorBatch> next() override;

 private:
  std::shared_ptr<const Source> source_;
  int64_t classes_, step_samples_;
  c10::Device device_;
  Loader loader_;
};

}  // namespace nsvq
