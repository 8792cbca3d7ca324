#include "nsvq/metrics/compare_images.h"

#include <algorithm>

#include "nsvq/core/error.h"
#include "nsvq/metrics/image_batches.h"
#include "nsvq/metrics/metric_set.h"

namespace nsvq {

namespace {

std::vector<Pair> pairs_of(const NamedSource& reference, const NamedSource& other,
                           const MetricChoice& choice) {
  const bool sets = std::all_of(choice.names.begin(), choice.names.end(), is_frechet);
  if (choice.reference && !sets) {
    throw UserError("{}: statistics are for Fréchet distances alone; the other metrics need images",
                    reference.spec);
  }
  return sets ? unpaired(reference.source.get(), *other.source) : pair_by_name(reference, other);
}

}  // namespace

std::map<std::string, double> compare_images(const NamedSource& reference, const NamedSource& other,
                                             const MetricChoice& choice, c10::Device device) {
  const auto pairs = pairs_of(reference, other, choice);
  MetricSet metrics(choice.names, {.conventions = choice.conventions,
                                   .codes = 0,
                                   .device = device,
                                   .reference = choice.reference});
  for_each_batch(
      "metrics", std::ssize(pairs),
      [&](int64_t i) { return load_pair(reference, other, pairs[i]); },
      [&](const EvalBatch& batch) { metrics.add(batch); });
  auto values = metrics.values();
  require_all(choice, values);
  values["images"] = static_cast<double>((reference.source ? reference : other).source->size());
  return values;
}

}  // namespace nsvq
