#include "nsvq/metrics/compare_images.h"

#include <algorithm>

#include "nsvq/core/error.h"
#include "nsvq/metrics/metric_set.h"

namespace nsvq {

namespace {

bool compares_sets(const MetricChoice& choice) {
  return std::all_of(choice.names.begin(), choice.names.end(), is_frechet);
}

std::vector<Pair> pairs_of(const NamedSource& reference, const NamedSource& other,
                           const MetricChoice& choice) {
  const bool sets = compares_sets(choice);
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
  values["images"] = static_cast<double>(other.source->size());
  const auto known = reference.source ? reference.source->size() : choice.reference->count;
  if (known > 0 && compares_sets(choice)) values["reference_images"] = static_cast<double>(known);
  warn_of_few_images(choice, values);
  return values;
}

}  // namespace nsvq
