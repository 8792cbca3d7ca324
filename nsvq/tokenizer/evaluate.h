#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "nsvq/data/images/grid.h"
#include "nsvq/data/loader/loader.h"
#include "nsvq/dist/group.h"
#include "nsvq/metrics/metric_set.h"
#include "nsvq/tokenizer/inference_session.h"
#include "nsvq/tokenizer/tokenizer.h"

namespace nsvq {

struct EvaluateOptions {
  std::string title = "evaluation";  ///< of the progress bar
  Group* group = nullptr;            ///< ranks over which sums are taken; null: this process alone
  /// Sees every batch of this rank, with its images' positions in the source.
  std::function<void(const EvalBatch&, const std::vector<int64_t>& indices)> on_batch = nullptr;
  /// What earlier measurements on the same images know of them; this one adds to it.
  ImageStatistics* known = nullptr;
};

/// The values of `metrics` for a model over what the loader gives, and the number of `images`.
/// Batches are given to a GPU without a host synchronisation, so a model with non-finite latents is
/// found at the end (c10::Error). Throws UserError if there is no usable image, and Interrupted
/// before the next batch once the process is asked to stop.
std::map<std::string, double> evaluate(Tokenizer& tokenizer, Loader& loader, c10::Device device,
                                       MetricSet& metrics, const EvaluateOptions& options = {});

/// Images [B, 3, H, W] above their reconstructions.
Image sample_grid(Tokenizer& tokenizer, const torch::Tensor& images);

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
