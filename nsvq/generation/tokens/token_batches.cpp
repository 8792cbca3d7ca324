#include "nsvq/generation/tokens/token_batches.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/generation/tokens/mapped_tokens.h"
#include "nsvq/generation/tokens/token_set.h"
#include "nsvq/recipe/loader_options.h"
#include "nsvq/train/network_task.h"
#include "nsvq/train/run_setup.h"

namespace nsvq {

namespace {

/// The grid of images of data.size by a tokenizer.
GridShape grid_of_images(const GenerationConfig& config, const TokenCodec& codec) {
  const int64_t size = config.data.size, stride = codec.stride();
  if (size % stride != 0) {
    throw UserError("data.size {} is not a multiple of {}, the pixels a token ({})", size, stride,
                    codec.name());
  }
  if (config.codes > 0 && config.codes != codec.codes()) {
    throw UserError("generator.codes is {}, but {} has {} codes", config.codes, codec.name(),
                    codec.codes());
  }
  return {size / stride, size / stride, codec.codes(), config.classes};
}

/// Tokens in memory, in order.
class TokensInOrder : public EvaluationBatches {
 public:
  TokensInOrder(LabelledTensor images, int64_t classes, int64_t batch_size, const Group& group,
                c10::Device device)
      : data_(images.data),
        labels_(classes > 0 ? at::tensor(images.classes, at::kLong) : torch::Tensor()),
        batch_(batch_size),
        rank_(group.rank()),
        world_(group.size()),
        device_(device) {}

  int64_t images() const override { return data_.size(0); }
  void start() override { next_ = rank_ * batch_; }
  std::optional<Batch> next() override {
    const int64_t first = next_, size = std::min(batch_, images() - first);
    if (size <= 0) return std::nullopt;
    next_ += world_ * batch_;
    Batch batch;
    batch.positions.resize(static_cast<size_t>(size));
    std::iota(batch.positions.begin(), batch.positions.end(), first);
    batch.tensors = {data_.narrow(0, first, size).to(device_, at::kLong),
                     at::arange(first, first + size, at::device(device_).dtype(at::kLong))};
    if (labels_.defined()) batch.tensors.push_back(labels_.narrow(0, first, size).to(device_));
    return batch;
  }

 private:
  torch::Tensor data_, labels_;
  int64_t batch_, rank_, world_, next_ = 0;
  c10::Device device_;
};

/// The images of data.val.
class ImagesInOrder : public EvaluationBatches {
 public:
  ImagesInOrder(std::shared_ptr<const Source> source, const LoaderOptions& options, int64_t classes)
      : source_(std::move(source)),
        classes_(classes),
        device_(options.device),
        loader_(source_, options) {}

  int64_t images() const override { return source_->size(); }
  void start() override { loader_.start(0); }
  std::optional<Batch> next() override {
    const auto batch = loader_.next();
    if (!batch) return std::nullopt;
    return Batch{with_labels(*batch, *source_, classes_, device_), batch->indices};
  }

 private:
  std::shared_ptr<const Source> source_;
  int64_t classes_;
  c10::Device device_;
  Loader loader_;
};

/// Classes of held-out tokens with the numbers of the training data, by their names where both have
/// any.
std::vector<int64_t> classes_numbered_as(const LabelledTensor& images,
                                         const std::vector<std::string>& names,
                                         const std::string& key) {
  auto classes = images.classes;
  if (names.empty() || images.class_names.empty()) return classes;
  for (auto& one : classes) {
    if (one < 0) continue;
    const auto& name = images.class_names.at(static_cast<size_t>(one));
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) {
      throw UserError("{}: class '{}' is none of those of the training data", key, name);
    }
    one = found - names.begin();
  }
  return classes;
}

}  // namespace

TrainingTokens open_training_tokens(const GenerationConfig& config, const TokenCodec* codec,
                                    const Group& group, c10::Device device) {
  const auto options = training_loader_options(config, group, device);
  if (config.tokens.empty()) {
    TORCH_CHECK(codec, "a generator: images are encoded by a tokenizer");
    const auto grid = grid_of_images(config, *codec);
    return {
        std::make_unique<LabelledImages>(open_training_source(config.data), options, config.told()),
        grid};
  }
  const auto files = training_tokens(config);
  auto set = read_token_set(files, codec);
  const auto grid = grid_of(set, config, files, codec);
  if (set.mapped()) {
    return {std::make_unique<MappedTokens>(std::move(set), config.told(),
                                           files.key + ": " + files.tokens, options),
            grid};
  }
  return {std::make_unique<ResidentBatches>(std::move(set.images), at::kLong, config.told(),
                                            files.key + ": " + files.tokens, options),
          grid};
}

std::unique_ptr<EvaluationBatches> open_evaluation_tokens(const GenerationConfig& config,
                                                          const TrainingTokens& training,
                                                          const TokenCodec* codec,
                                                          const Group& group, c10::Device device) {
  const auto& grid = training.grid;
  const auto names = training.batches->classes();
  const auto options = validation_loader_options(config, group, device);
  if (!config.val_tokens.empty()) {
    const auto files = validation_tokens(config);
    auto set = read_token_set(files, codec);
    require_grid(set, grid, files, training_data_key(config));
    set.images.classes = classes_numbered_as(set.images, names, files.key);
    require_classes(set.images.classes, set.images.keys, config.told(),
                    files.key + ": " + files.tokens);
    return std::make_unique<TokensInOrder>(std::move(set.images), config.classes,
                                           options.batch_size, group, device);
  }
  if (!codec) return nullptr;
  const auto images = grid_of_images(config, *codec);
  if (images.height != grid.height || images.width != grid.width) {
    throw UserError(
        "data.size {} gives images of data.val grids of {}x{}, but {} has {}x{}; set data.size={}",
        config.data.size, images.height, images.width, training_data_key(config), grid.height,
        grid.width, grid.width * codec->stride());
  }
  auto source = open_validation_source(config.data);
  if (config.classes > 0) source = numbered_as(std::move(source), names);
  require_classes(*source, config.told(), "data.val");
  return std::make_unique<ImagesInOrder>(std::move(source), options, config.classes);
}

}  // namespace nsvq
