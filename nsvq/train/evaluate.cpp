#include "nsvq/train/evaluate.h"

#include <algorithm>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/precision.h"
#include "nsvq/core/progress.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

namespace {

/// A CPU that computes needs its cores for that; a GPU has to be kept fed by them.
int loader_threads(const Config& config, const Group& group, c10::Device device) {
  if (config.data.threads > 0) return static_cast<int>(config.data.threads);
  constexpr int fewest = 2;
  if (device.is_cpu()) return fewest;
  return std::max(usable_cores() / group.size() - 2, fewest);
}

}  // namespace

LoaderOptions evaluation_options(const Config& config, const Group& group, c10::Device device) {
  LoaderOptions options;
  options.transform = {
      .size = static_cast<int>(config.data.size), .crop = Crop::center, .flip = false};
  options.batch_size = config.train.batch_size;
  options.shuffle = false;
  options.threads = loader_threads(config, group, device);
  options.prefetch = static_cast<int>(config.data.prefetch);
  options.on_error = config.data.on_error == "stop" ? OnError::stop : OnError::skip;
  options.rank = group.rank();
  options.world = group.size();
  options.device = device;
  return options;
}

std::map<std::string, double> evaluate(Tokenizer& model, Loader& loader, Group& group,
                                       c10::Device device, const std::string& title) {
  MetricSet metrics({"psnr", "psnr_pooled", "ssim", "utilisation", "perplexity"},
                    {.conventions = {}, .codes = model->quantizer->codes(), .device = device});
  return evaluate(model, loader, group, device, title, metrics);
}

std::map<std::string, double> evaluate(Tokenizer& model, Loader& loader, Group& group,
                                       c10::Device device, const std::string& title,
                                       MetricSet& metrics,
                                       const std::function<void(const EvalBatch&)>& also) {
  const torch::NoGradGuard no_grad;
  const KeptCasts kept_casts;
  auto count = at::zeros({}, at::kLong);
  auto lowest = at::zeros({}, at::TensorOptions(device).dtype(at::kLong));
  Progress progress(title, loader.batches_per_epoch(), "batches");
  loader.start(0);
  for (int64_t done = 0; auto batch = loader.next(); progress.update(++done)) {
    const auto images = batch->images.to(device);
    const auto found = model->encode_without_waiting(images);
    lowest = at::minimum(lowest, found.min());
    const auto indices = found.clamp_min(0);
    const EvalBatch seen = {images, model->decode(indices), indices};
    metrics.add(seen);
    if (also) also(seen);
    count += images.size(0);
  }
  progress.finish();
  throw_if_marked(lowest);

  group.sum({count});
  if (count.item<int64_t>() == 0) throw UserError("evaluation: no usable image in the source");
  group.sum(metrics.sums());
  auto values = metrics.values();
  values["images"] = count.item<double>();
  return values;
}

Image sample_grid(Tokenizer& model, const torch::Tensor& images) {
  const torch::NoGradGuard no_grad;
  const auto reconstructions = model->decode(model->encode(images));
  std::vector<std::vector<Image>> rows(2);
  for (int64_t i = 0; i < images.size(0); ++i) {
    rows[0].push_back(to_image(images[i]));
    rows[1].push_back(to_image(reconstructions[i]));
  }
  return make_grid(rows);
}

}  // namespace nsvq
