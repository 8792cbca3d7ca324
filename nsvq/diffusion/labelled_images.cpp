#include "nsvq/diffusion/labelled_images.h"

#include <utility>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/combined_sources.h"
#include "nsvq/diffusion/resident_batches.h"
#include "nsvq/recipe/loader_options.h"
#include "nsvq/train/run_setup.h"

namespace nsvq {

void require_classes(const Source& source, int64_t classes, const std::string& key) {
  if (classes == 0) return;
  for (int64_t i = 0; i < source.size(); ++i) {
    const int64_t label = source.label(i);
    if (label < 0) {
      throw UserError(
          "{}: image {} has no class, but diffusion.classes is {}; set diffusion.classes=0 or name "
          "images with classes (folders, or .cls files in tars)",
          key, quote(source.key(i)), classes);
    }
    if (label >= classes) {
      throw UserError("{}: image {} is of class {}, but diffusion.classes is {}", key,
                      quote(source.key(i)), label, classes);
    }
  }
}

std::shared_ptr<const Source> numbered_as(std::shared_ptr<const Source> source,
                                          const std::vector<std::string>& names) {
  if (names.empty() || source->classes().empty()) return source;  // numbers of .cls files
  return std::make_shared<NamedClasses>(std::move(source), names,
                                        "data.val: classes of the training data");
}

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
                               int64_t classes)
    : source_(std::move(source)),
      classes_(classes),
      step_samples_(options.batch_size * options.world),
      device_(options.device),
      loader_(source_, options) {
  require_classes(*source_, classes, "data.train");
}

std::optional<TensorBatch> LabelledImages::next() {
  const auto batch = loader_.next();
  if (!batch) return std::nullopt;
  return with_labels(*batch, *source_, classes_, device_);
}

std::unique_ptr<DiffusionBatches> make_diffusion_batches(const DiffusionConfig& config,
                                                         const LatentSpace& latents,
                                                         const Group& group, c10::Device device) {
  const auto options = training_loader_options(config, group, device);
  if (config.tokens.empty() && config.cached.empty()) {
    return std::make_unique<LabelledImages>(
        open_source_of("data.train", config.data.train, config.data), options, config.classes);
  }
  const auto shape = latents.shape(config.data.size, config.unet.stride());
  if (!config.tokens.empty()) {
    return std::make_unique<ResidentBatches>(
        read_tokens_to_learn(config.tokens, latents, shape, config.data.size), at::kLong,
        config.classes, "diffusion.tokens: " + config.tokens, options);
  }
  return std::make_unique<ResidentBatches>(
      read_latents_to_learn(config.cached, latents, shape, config.data.size), at::kBFloat16,
      config.classes, "diffusion.cached: " + config.cached, options);
}

}  // namespace nsvq
