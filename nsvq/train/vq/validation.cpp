#include "nsvq/train/vq/validation.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/metrics/grey_picture.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/metrics/metric_set.h"
#include "nsvq/metrics/sets/image_sets.h"
#include "nsvq/recipe/loader_options.h"
#include "nsvq/tokenizer/evaluate.h"
#include "nsvq/train/journal.h"
#include "nsvq/train/vq/state_json.h"

namespace nsvq {

namespace {

LoaderOptions validation_options(const TokenizerConfig& config, const Group& group,
                                 c10::Device device) {
  auto options = inference_loader_options(config, device, group.size());
  options.rank = group.rank();
  options.world = group.size();
  return options;
}

/// The metrics of train.metrics with their networks; those of tokens only where there are codes.
MetricSet make_metrics(const TokenizerConfig& config, int64_t codes, int64_t images,
                       c10::Device device) {
  try {
    MetricChoice choice{config.train.metrics, {}, nullptr};
    if (codes == 0) choice = without_tokens(choice);
    MetricSet metrics(choice.names, {.conventions = {}, .codes = codes, .device = device});
    require_images(choice.names, images, "data.val");
    const auto has_network = [](const auto& name) { return !metric_kind(name).weights.empty(); };
    if (std::ranges::any_of(choice.names, has_network)) {  // a trial: some refuse small images
      const auto image = at::zeros({1, 3, config.data.size, config.data.size});
      metrics.add({image, image, at::zeros({1, 1, 1}, at::kLong)});
      metrics.reset();
    }
    return metrics;
  } catch (const UserError& error) {
    throw UserError("train.metrics: {}", error.what());
  }
}

}  // namespace

Validation::Validation(const TokenizerConfig& config, Tokenizer& averaged,
                       std::shared_ptr<Group> group, c10::Device device)
    : config_(config),
      averaged_(averaged),
      group_(std::move(group)),
      device_(device),
      source_(open_validation_source(config.data)),
      loader_(source_, validation_options(config, *group_, device)),
      pictured_(first_images(config.train.samples).to(device)),
      metrics_(make_metrics(config, averaged->quantizer->codes(), source_->size(), device)) {}

torch::Tensor Validation::first_images(int64_t count) const {
  auto options = inference_loader_options(config_, at::kCPU);  // equal on all ranks
  options.batch_size = count;
  Loader loader(source_, options);
  loader.start(0);
  const auto batch = loader.next();
  if (!batch) throw UserError("data.val: {}: no usable image", config_.data.val.text());
  return batch->images;
}

std::map<std::string, double> Validation::evaluate_and_describe() {
  GreyPicture grey(source_->size());
  auto tokens = at::zeros({}, at::kLong);
  const auto on_batch = [&](const EvalBatch& batch, const std::vector<int64_t>& positions) {
    grey.add(batch.images, positions);
    tokens += batch.indices.numel();
  };
  auto values = nsvq::evaluate(averaged_, loader_, device_, metrics_,
                               {.group = group_.get(), .on_batch = on_batch});
  group_->sum({grey.sums()});
  group_->sum({tokens});
  description_ = {{"grey_psnr", grey.psnr()}, {"images", values.at("images")}};
  if (const auto codes = averaged_->quantizer->codes(); codes > 0) {
    description_["codes"] = static_cast<double>(codes);
    description_["tokens"] = tokens.item<double>();
  }
  return values;
}

std::map<std::string, double> Validation::evaluate(const RunState& state) {
  const auto known = metrics_.image_statistics();
  metrics_.reset();
  metrics_.know_images(known);
  auto values = described_
                    ? nsvq::evaluate(averaged_, loader_, device_, metrics_, {.group = group_.get()})
                    : evaluate_and_describe();
  const auto psnr = values.find("psnr");
  if (psnr != values.end() && (psnr->second > best_psnr_ || best_epoch_ == 0)) {
    best_psnr_ = psnr->second;
    best_epoch_ = state.epoch;
  }
  return values;
}

std::string Validation::evaluation_note(const std::map<std::string, double>& figures) const {
  if (!figures.contains("psnr")) return "";
  return fmt::format("; best PSNR {:.2f} in epoch {}", best_psnr_, best_epoch_);
}

void Validation::evaluation_logged(Journal& journal) {
  if (!std::exchange(described_, true)) journal.record("validation", description_);
}

std::optional<Image> Validation::sample_picture() { return sample_grid(averaged_, pictured_); }

nlohmann::json Validation::to_json() const {
  return {{"best_psnr", best_psnr_}, {"best_epoch", best_epoch_}, {"described", described_}};
}

void Validation::from_json(const nlohmann::json& all) {
  best_psnr_ = number_or_nan(all.at("best_psnr"));
  best_epoch_ = task_count(all, "best_epoch");
  described_ = all.value("described", false);  // earlier versions wrote none
}

void Validation::forget(nlohmann::json& all) {
  all["best_psnr"] = 0;
  all["best_epoch"] = 0;
  all["described"] = false;
}

}  // namespace nsvq
