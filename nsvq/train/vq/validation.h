#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "nsvq/data/loader/loader.h"
#include "nsvq/dist/group.h"
#include "nsvq/metrics/metric_set.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/tokenizer.h"
#include "nsvq/train/run_observer.h"

namespace nsvq {

/// Evaluations of the averaged model on data.val by train.metrics, and pictures of some of its
/// reconstructions.
class Validation : public RunObserver {
 public:
  /// `averaged` outlives it. Throws UserError for images that cannot be read, for an unknown
  /// metric, missing weights, and images that are too few or too small for one.
  Validation(const TokenizerConfig& config, Tokenizer& averaged, std::shared_ptr<Group> group,
             c10::Device device);

  int64_t images() const { return source_->size(); }
  /// The first `count` usable images, or all if there are fewer, [n, 3, H, W] on the CPU.
  torch::Tensor first_images(int64_t count) const;

  std::map<std::string, double> evaluate(const RunState& state) override;
  std::string evaluation_note(const std::map<std::string, double>& figures) const override;
  /// Once in a run, a line about the images by which its figures are judged (nsvq/runs/verdict.h).
  void evaluation_logged(Journal& journal) override;
  std::optional<Image> sample_picture() override;

  /// For checkpoints: keys best_psnr, best_epoch and described.
  nlohmann::json to_json() const;
  /// Throws UserError or json::exception for what no validation has written.
  void from_json(const nlohmann::json& all);
  /// Makes these keys those of a run that has no evaluation yet.
  static void forget(nlohmann::json& all);

 private:
  std::map<std::string, double> evaluate_and_describe();

  TokenizerConfig config_;
  Tokenizer& averaged_;
  std::shared_ptr<Group> group_;
  c10::Device device_;
  std::shared_ptr<const Source> source_;
  Loader loader_;
  torch::Tensor pictured_;  ///< [n, 3, H, W], the images of the sample grids
  MetricSet metrics_;       ///< their networks loaded
  double best_psnr_ = 0;    ///< of all evaluations
  int64_t best_epoch_ = 0;
  std::map<std::string, double> description_;  ///< of the images, after the first evaluation
  bool described_ = false;                     ///< it stands in the log
};

}  // namespace nsvq
