#include "nsvq/cli/measure.h"

#include "nsvq/core/error.h"
#include "nsvq/tokenizer/evaluate.h"

namespace nsvq {

std::map<std::string, double> measure(ModelOnData& opened, const MetricChoice& choice,
                                      const std::string& data, const std::string& title,
                                      const std::function<void(const EvalBatch&)>& also) {
  MetricSet metrics(choice.names, {.conventions = choice.conventions,
                                   .codes = opened.session.codes(),
                                   .device = opened.session.device(),
                                   .reference = choice.reference});
  Loader loader(opened.source, opened.options);
  std::map<std::string, double> values;
  try {
    values = evaluate(opened.session.tokenizer(), loader, opened.session.device(), metrics,
                      {.title = title, .on_batch = also});
  } catch (const UserError& error) {
    // The loader knows the images by their own names alone.
    if (loader.broken() < opened.source->size()) throw;
    throw UserError("{}: {}", data, error.what());
  }
  require_all(choice, values);
  values["broken_images"] = static_cast<double>(loader.broken());
  return values;
}

}  // namespace nsvq
