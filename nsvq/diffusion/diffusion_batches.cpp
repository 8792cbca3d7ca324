#include "nsvq/diffusion/diffusion_batches.h"

#include <utility>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/combined_sources.h"
#include "nsvq/diffusion/latent_folder.h"
#include "nsvq/recipe/loader_options.h"
#include "nsvq/tokens/detokenize.h"
#include "nsvq/tokens/token_check.h"
#include "nsvq/train/run_setup.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

void check_classes(const ResidentBatches::Contents& contents, int64_t classes,
                   const std::string& from) {
  if (classes == 0) return;
  for (size_t i = 0; i < contents.classes.size(); ++i) {
    const int64_t own = contents.classes[i];
    if (own >= 0 && own < classes) continue;
    throw UserError("{}: image {} {}, but diffusion.classes is {}", from, quote(contents.keys[i]),
                    own < 0 ? "has no class" : fmt::format("is of class {}", own), classes);
  }
}

void require_grid(const std::string& from, const std::vector<int64_t>& found,
                  const std::vector<int64_t>& wanted, int64_t size) {
  if (found == wanted) return;
  throw UserError("{} has grids of {}x{}, but images of data.size {} have {}x{}", from, found[0],
                  found[1], size, wanted[0], wanted[1]);
}

}  // namespace

ResidentBatches::ResidentBatches(Contents contents, at::ScalarType type, int64_t classes,
                                 const std::string& from, const LoaderOptions& options)
    : type_(type) {
  check_classes(contents, classes, from);
  data_ = contents.data.to(options.device);
  if (classes > 0) labels_ = at::tensor(contents.classes, at::kLong).to(options.device);
  keys_ = std::move(contents.keys);
  class_names_ = std::move(contents.class_names);
  sampler_ = {data_.size(0), options.batch_size, /*shuffle=*/true,
              options.seed,  options.rank,       options.world};
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

ResidentBatches::Contents read_tokens_to_learn(const std::string& folder,
                                               const LatentSpace& latents,
                                               const std::vector<int64_t>& shape, int64_t size) {
  TokenManifest manifest;
  try {
    manifest = open_tokens(folder, latents.model().tokenizer, /*force=*/false);
  } catch (const UserError& error) {
    throw UserError("diffusion.tokens: {}", error.what());
  }
  const auto& settings = manifest.settings;
  require_grid("diffusion.tokens: " + folder, {settings.grid_height, settings.grid_width},
               {shape[1], shape[2]}, size);
  auto all = read_all_tokens(folder, manifest);
  return {all.tokens, std::move(all.classes), std::move(all.keys), std::move(all.class_names)};
}

ResidentBatches::Contents read_latents_to_learn(const std::string& folder,
                                                const LatentSpace& latents,
                                                const std::vector<int64_t>& shape, int64_t size) {
  const auto from = "diffusion.cached: " + folder;
  LatentManifest manifest;
  try {
    manifest = read_latent_manifest(folder);
  } catch (const UserError& error) {
    throw UserError("diffusion.cached: {}", error.what());
  }
  if (manifest.model_sha256 != latents.sha256()) {
    throw UserError(
        "{}: latents of another model than {}, by its weights; make them anew with "
        "`nsvq encode`",
        from, latents.model().file.string());
  }
  require_grid(from, {manifest.shape[1], manifest.shape[2]}, {shape[1], shape[2]}, size);
  ResidentBatches::Contents all;
  all.class_names = manifest.classes;
  std::vector<torch::Tensor> parts = {at::empty({0, shape[0], shape[1], shape[2]}, at::kBFloat16)};
  for (int64_t i = 0; i < manifest.shards; ++i) {
    const auto shard = read_latent_shard(fs::path(folder) / latent_shard_name(i), manifest.shape);
    parts.push_back(shard.latents);
    all.classes.insert(all.classes.end(), shard.classes.begin(), shard.classes.end());
    all.keys.insert(all.keys.end(), shard.keys.begin(), shard.keys.end());
  }
  all.data = at::cat(parts);
  if (all.data.size(0) != manifest.images) {
    throw UserError("{}: {} images, but its manifest says {}", from, all.data.size(0),
                    manifest.images);
  }
  return all;
}

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
    return std::make_unique<LabelledImages>(open_training_source(config.data), options,
                                            config.classes);
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
