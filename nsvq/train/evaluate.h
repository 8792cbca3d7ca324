#pragma once

#include <functional>
#include <map>
#include <string>

#include "nsvq/data/loader.h"
#include "nsvq/dist/group.h"
#include "nsvq/metrics/metric_set.h"
#include "nsvq/report/grid.h"
#include "nsvq/train/tokenizer.h"

namespace nsvq {

/// The loader that evaluation uses on a source: images in order, short side resized, centre crop,
/// delivered on `device`.
LoaderOptions evaluation_options(const Config& config, const Group& group,
                                 c10::Device device = at::kCPU);

/// The metrics that training watches, of a model over what the loader gives, and the number of
/// `images`. Throws UserError if that is nothing.
std::map<std::string, double> evaluate(Tokenizer& model, Loader& loader, Group& group,
                                       c10::Device device, const std::string& title);

/// The same with other metrics. `also` sees every batch of this rank. No batch is waited for: a
/// model that gives numbers that are not finite is found out at the end.
std::map<std::string, double> evaluate(Tokenizer& model, Loader& loader, Group& group,
                                       c10::Device device, const std::string& title,
                                       MetricSet& metrics,
                                       const std::function<void(const EvalBatch&)>& also = {});

/// Images [B, 3, H, W] above their reconstructions.
Image sample_grid(Tokenizer& model, const torch::Tensor& images);

}  // namespace nsvq
