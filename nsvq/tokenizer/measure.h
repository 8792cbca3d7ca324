#pragma once

#include <map>
#include <memory>
#include <string>

#include "nsvq/metrics/metric_choice.h"
#include "nsvq/tokenizer/evaluate.h"
#include "nsvq/tokenizer/inference_session.h"

namespace nsvq {

/// Images to measure a model on.
struct MeasuredImages {
  std::string name;  ///< in errors
  std::shared_ptr<const Source> source;
  LoaderOptions options;  ///< images in order, as the model sees them
};

/// The chosen figures of a model, with `images` and `broken_images`, and `reference_images`
/// for statistics that say of how many they are. Throws UserError where weights
/// are missing, no image is usable or they are too few for a figure.
std::map<std::string, double> measure(InferenceSession& session, const MeasuredImages& images,
                                      const MetricChoice& choice,
                                      const EvaluateOptions& options = {});

}  // namespace nsvq
