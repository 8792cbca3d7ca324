#pragma once

#include <functional>
#include <map>
#include <string>

#include "nsvq/cli/metric_arguments.h"
#include "nsvq/cli/model_arguments.h"
#include "nsvq/metrics/metric.h"

namespace nsvq {

/// The chosen figures of a model on its images, with `images` and `broken_images`. `also` sees
/// every batch; `data` is what errors call the images.
std::map<std::string, double> measure(ModelOnData& opened, const MetricChoice& choice,
                                      const std::string& data, const std::string& title,
                                      const std::function<void(const EvalBatch&)>& also);

}  // namespace nsvq
