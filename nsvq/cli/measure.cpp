#include "nsvq/cli/measure.h"

#include "nsvq/core/error.h"
#include "nsvq/train/evaluate.h"

namespace nsvq {

std::map<std::string, double> measure(ModelOnData& opened, const MetricChoice& choice, Group& group,
                                      const std::string& data, const std::string& title,
                                      const std::function<void(const EvalBatch&)>& also) {
  auto& tokenizer = opened.model.tokenizer;
  MetricSet metrics(choice.names, {.conventions = choice.conventions,
                                   .codes = tokenizer->quantizer->codes(),
                                   .device = opened.device,
                                   .reference = choice.reference});
  Loader loader(opened.source, opened.options);
  std::map<std::string, double> values;
  try {
    values = evaluate(tokenizer, loader, group, opened.device, title, metrics, also);
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
