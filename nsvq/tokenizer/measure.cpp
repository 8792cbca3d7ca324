#include "nsvq/tokenizer/measure.h"

#include "nsvq/core/error.h"

namespace nsvq {

std::map<std::string, double> measure(InferenceSession& session, const MeasuredImages& images,
                                      const MetricChoice& choice, const EvaluateOptions& options) {
  for (const auto& name : choice.names) {
    if (!is_frechet(name) || images.source->size() >= 2) continue;
    throw UserError("{}: {} needs at least two images", images.name, name);
  }
  MetricSet metrics(choice.names, {.conventions = choice.conventions,
                                   .codes = session.codes(),
                                   .device = session.device(),
                                   .reference = choice.reference});
  Loader loader(images.source, images.options);
  std::map<std::string, double> values;
  try {
    values = evaluate(session.tokenizer(), loader, session.device(), metrics, options);
  } catch (const UserError& error) {
    // The loader knows the images by their own names alone.
    if (loader.broken() < images.source->size()) throw;
    throw UserError("{}: {}", images.name, error.what());
  }
  const auto broken = at::tensor({loader.broken()}, at::kLong);
  if (options.group) options.group->sum({broken});
  require_all(choice, values);
  if (choice.reference && choice.reference->count > 0) {
    values["reference_images"] = static_cast<double>(choice.reference->count);
  }
  warn_of_few_images(choice, values);
  values["broken_images"] = broken.item<double>();
  return values;
}

}  // namespace nsvq
