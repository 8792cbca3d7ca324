#include "nsvq/tokenizer/evaluate.h"

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/precision.h"
#include "nsvq/core/progress.h"
#include "nsvq/metrics/sets/image_sets.h"
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
  if (options.group) metrics.join(*options.group);
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

std::map<std::string, double> measure(InferenceSession& session, const MeasuredImages& images,
                                      const MetricChoice& choice, const EvaluateOptions& options) {
  require_images(choice.names, images.source->size(), images.name);
  MetricSet metrics(choice.names, {.conventions = choice.conventions,
                                   .codes = session.codes(),
                                   .device = session.device(),
                                   .reference = choice.reference});
  if (options.known) metrics.know_images(*options.known);
  Loader loader(images.source, images.options);
  std::map<std::string, double> values;
  try {
    values = evaluate(session.tokenizer(), loader, session.device(), metrics, options);
  } catch (const UserError& error) {
    // The loader knows the images by their own names alone.
    if (loader.broken() < images.source->size()) throw;
    throw UserError("{}: {}", images.name, error.what());
  }
  if (options.known) *options.known = metrics.image_statistics();
  const auto broken = at::tensor({loader.broken()}, at::kLong);
  if (options.group) options.group->sum({broken});
  require_all(choice, values);
  if (choice.reference && choice.reference->image_count() > 0) {
    values["reference_images"] = static_cast<double>(choice.reference->image_count());
  }
  warn_of_few_images(choice, values);
  values["broken_images"] = broken.item<double>();
  return values;
}

}  // namespace nsvq
