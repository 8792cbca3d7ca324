#include "nsvq/tokenizer/evaluate.h"

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/precision.h"
#include "nsvq/core/progress.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

namespace {

/// All ranks give up together; each would wait for the others' sums.
bool any_rank_stopped(Group* group, bool here) {
  if (!group || group->size() == 1) return here;
  const auto count = at::tensor({static_cast<int64_t>(here)}, at::kLong);
  group->sum({count});
  return count.item<int64_t>() > 0;
}

}  // namespace

std::map<std::string, double> evaluate(Tokenizer& tokenizer, Loader& loader, c10::Device device,
                                       MetricSet& metrics, const EvaluateOptions& options) {
  const torch::NoGradGuard no_grad;
  const AutocastCacheGuard cached_casts;
  auto count = at::zeros({}, at::kLong);
  auto lowest = at::zeros({}, at::TensorOptions(device).dtype(at::kLong));
  Progress progress(options.title, loader.batches_per_epoch(), "batches");
  loader.start(0);
  bool stopped = false;
  for (int64_t done = 0; auto batch = loader.next(); progress.update(++done)) {
    stopped = interrupted();
    if (stopped) break;
    const auto images = batch->images.to(device);
    const auto made = tokenizer->reconstruct_without_waiting(images);
    if (made.indices.numel() > 0) lowest = at::minimum(lowest, made.indices.min());
    const EvalBatch seen = {images, made.images, made.indices.clamp_min(0)};
    metrics.add(seen);
    if (options.on_batch) options.on_batch(seen, batch->indices);
    count += images.size(0);
  }
  if (any_rank_stopped(options.group, stopped)) throw Interrupted();
  progress.update(loader.batches_per_epoch());  // counts batches of broken images too
  progress.finish();
  throw_if_marked(lowest);

  if (options.group) options.group->sum({count});
  if (count.item<int64_t>() == 0) throw UserError("evaluation: no usable image in the source");
  if (options.group) options.group->sum(metrics.sums());
  auto values = metrics.values();
  values["images"] = count.item<double>();
  return values;
}

Image sample_grid(Tokenizer& tokenizer, const torch::Tensor& images) {
  const torch::NoGradGuard no_grad;
  const auto reconstructions = tokenizer->reconstruct(images).images;
  std::vector<std::vector<Image>> rows(2);
  for (int64_t i = 0; i < images.size(0); ++i) {
    rows[0].push_back(to_image(images[i]));
    rows[1].push_back(to_image(reconstructions[i]));
  }
  return make_grid(rows);
}

}  // namespace nsvq
