#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "nsvq/cli/arguments/metric_arguments.h"
#include "nsvq/cli/sampling/sampled_model.h"
#include "nsvq/settings/sources.h"

namespace nsvq {

/// Against what samples are judged, and by which figures.
struct EvaluationArguments {
  int64_t count = 5000, limit = 0;
  Sources reference;  ///< images, or one file of statistics (.npz)
  MetricArguments metrics;
};

/// --count, --data, --limit, --metrics and the other options of metrics.
void declare_evaluation(CLI::App& app, EvaluationArguments& arguments);

/// A model to be judged.
struct JudgedModel {
  SampledModel sampled;
  bool of_training_images = false;  ///< data.train is what it was trained on
  std::string sampling;             ///< how it samples, for the title: "ddim, 50 steps"
  Json settings;                    ///< the same for the JSON
  int64_t classes = 0;              ///< that it knows
  std::string label = "all";        ///< the class of the samples
};

/// Compares samples with images as sets, on the ranks of a group. `open` is called once the
/// arguments have been found to be right.
void evaluate_samples(EvaluationArguments arguments, Group& group,
                      const std::function<JudgedModel()>& open);

}  // namespace nsvq
