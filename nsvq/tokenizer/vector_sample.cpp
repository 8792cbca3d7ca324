#include "nsvq/tokenizer/vector_sample.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/progress.h"

namespace nsvq {

torch::Tensor VectorSample::draw(const std::shared_ptr<const Source>& source,
                                 const LoaderOptions& options, c10::Device device) const {
  const torch::NoGradGuard no_grad;
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  std::vector<torch::Tensor> kept;
  int64_t images = 0, taken = 0;
  Loader loader(source, options);
  Progress progress(title, loader.batches_per_epoch(), "batches");
  loader.start(0);
  for (int64_t done = 0; auto batch = loader.next(); progress.update(++done)) {
    const auto vectors = vectors_of(batch->images.to(device));
    images += batch->images.size(0);
    const int64_t of_an_image = vectors.size(0) / batch->images.size(0);
    // The share of all images that are seen, so that the last ones count as the first.
    const double share = static_cast<double>(images) / static_cast<double>(source->size());
    const auto due = static_cast<int64_t>(share * static_cast<double>(most));
    const int64_t count = std::clamp<int64_t>(due - taken, 0, vectors.size(0));
    const bool all = of_an_image * source->size() <= most;
    taken += all ? vectors.size(0) : count;
    const auto order = at::randperm(vectors.size(0), generator).slice(0, 0, count).to(device);
    kept.push_back(all ? vectors : vectors.index_select(0, order));
  }
  progress.update(loader.batches_per_epoch());  // counts batches of broken images too
  progress.finish();
  if (taken == 0) throw UserError("{}: no usable image in the source", title);
  const auto result = at::cat(kept);
  if (!at::isfinite(result).all().item<bool>()) {
    throw UserError("{}: the network gives numbers that are not finite", title);
  }
  return result;
}

}  // namespace nsvq
