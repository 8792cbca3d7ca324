#pragma once

#include <c10/core/Device.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/metrics/conventions.h"

namespace nsvq {

/// One batch as an evaluation sees it.
struct EvalBatch {
  torch::Tensor images;           ///< [B, 3, H, W] in [-1, 1]
  torch::Tensor reconstructions;  ///< [B, 3, H, W] in [-1, 1]
  torch::Tensor indices;          ///< [B, h, w] int64
};

struct Gaussian;
struct Reference;
class Group;
class InceptionFeatures;

/// A figure gathered over batches. What it keeps does not grow with their number, unless it says
/// so.
class Metric {
 public:
  virtual ~Metric() = default;

  /// Tensors of the batch may be on any device, and those that the metric does not use undefined.
  /// A batch without images adds nothing.
  virtual void add(const EvalBatch& batch) = 0;
  /// What adds up over batches, as CPU tensors to be summed over ranks in place. Their shapes do
  /// not depend on what was added.
  virtual std::vector<torch::Tensor> sums() = 0;
  /// Forgets all batches. The sums are the whole state of most metrics.
  virtual void reset();
  /// Gives each rank what all of them gathered.
  virtual void join(Group& group);
  /// Unscaled (dB, share, bits). nullopt until enough was added; NaN once a NaN was added.
  virtual std::optional<double> value() const = 0;
  /// The standard deviation over parts of the images, where the value is their mean.
  virtual std::optional<double> deviation() const { return std::nullopt; }

  /// What is known of the images by themselves, so that another measurement on the same images,
  /// of another model or later in training, need not measure them; null: nothing.
  virtual std::shared_ptr<const Gaussian> image_statistics() const { return nullptr; }
  /// Uses what an earlier measurement knew; the images of batches are left out from here on.
  virtual void know_images(std::shared_ptr<const Gaussian> /*statistics*/) {}
};

/// The inputs of a metric.
enum class MetricInput {
  pairs,   ///< images and their reconstructions
  tokens,  ///< indices
  sets,    ///< images and reconstructions as two sets: either may be missing in a batch
  made,    ///< reconstructions or samples as a set, without images to compare with
};

struct MetricOptions {
  Conventions conventions;
  int64_t codes = 0;              ///< size of the codebook; 0 where there are no tokens
  c10::Device device = at::kCPU;  ///< where networks go
  /// A file whose statistics Fréchet distances use instead of the images'.
  std::shared_ptr<const Reference> reference = nullptr;
  /// FID's network, where several metrics share it; null: each loads its own.
  std::shared_ptr<InceptionFeatures> inception = nullptr;
};

/// Which of two values of a figure is the better one.
enum class Better { higher, lower };

/// How tables and reports show a figure.
struct MetricDisplay {
  std::string title;  ///< in reports
  std::string chart;  ///< title of its chart; figures that give the same one share it
  std::string axis;   ///< label of the chart's axis
  std::string unit;   ///< behind the number in tables
  double scale = 1;   ///< factor of the number in tables: 100 for shares in per cent
  int decimals = 4;   ///< in tables
  Better better = Better::higher;
};

/// A value as tables show it, without its unit.
std::string format_figure(double value, const MetricDisplay& display);

/// A member of the family: its name, a line about it, and how to make one.
struct MetricKind {
  std::string name;                      ///< in recipes, on the command line, in logs and JSON
  std::vector<std::string> other_names;  ///< names that are understood too
  std::string summary;
  MetricDisplay display;
  MetricInput input;
  bool per_image = false;                 ///< also a figure of a single image
  std::vector<std::string> weights = {};  ///< files of the store (nsvq/nn/weights.h) it needs
  int64_t least_images = 1;               ///< of a set, below which there is no value
  /// The choices behind the figure, for outputs.
  std::function<std::string(const Conventions&)> choices;
  /// Throws UserError where weights are missing, saying how to get them.
  std::function<std::unique_ptr<Metric>(const MetricOptions&)> make;
};

std::vector<MetricKind> psnr_kinds();              // psnr and psnr_pooled
std::vector<MetricKind> ssim_kinds();              // ssim
std::vector<MetricKind> lpips_kinds();             // one for each network
std::vector<MetricKind> frechet_kinds();           // one for each feature extractor
std::vector<MetricKind> inception_score_kinds();   // is
std::vector<MetricKind> precision_recall_kinds();  // precision and recall
std::vector<MetricKind> usage_kinds();             // utilisation, perplexity and entropy

/// All members, in the order in which outputs list them.
const std::vector<MetricKind>& metric_kinds();
/// By its name or another one in use ("lpips", "rfid"); null if there is none.
const MetricKind* find_metric_kind(const std::string& name);
/// Throws UserError with the nearest name and those there are.
const MetricKind& metric_kind(const std::string& name);

/// Throws c10::Error if the images of a batch and their reconstructions are not [B, C, H, W] of one
/// shape.
void check_pair(const EvalBatch& batch);

}  // namespace nsvq
