#include "nsvq/train/vq/start_report.h"

#include <fmt/format.h>

#include "nsvq/metrics/metric_set.h"
#include "nsvq/nn/layers.h"
#include "nsvq/train/steps/lr_schedule.h"

namespace nsvq {

namespace {

std::string describe_codes(const QuantizerConfig& config, int64_t codes) {
  if (codes == 0) return "codes        none: a continuous autoencoder";
  const auto& are = quantizer_kind(config.type).codes_are;
  return fmt::format("codes        {}{}", codes, are.empty() ? "" : ", " + are);
}

}  // namespace

std::vector<std::string> StartReport::describe(int64_t total_steps) const {
  const int64_t codes = model_->quantizer->codes();
  const auto* adversary = objective_.adversary();
  std::vector<std::string> lines = {
      fmt::format("images       {} to train on, {} to evaluate on", batches_.samples(),
                  validation_.images()),
      fmt::format(
          "parameters   encoder {}, decoder {}, quantizer {}{}", parameter_count(*model_->encoder),
          parameter_count(*model_->decoder), parameter_count(*model_->quantizer),
          adversary ? fmt::format(", discriminator {}", parameter_count(adversary->module())) : ""),
      describe_codes(config_.quantizer, codes)};
  for (const auto& line : describe_weights(config_.train.metrics)) {
    lines.push_back("weights      " + line);
  }
  for (const auto& line : warnings(total_steps)) lines.push_back("note         " + line);
  return lines;
}

/// Phases and schedules that this budget never reaches, and first codes that do not fit
/// train.init_from.
std::vector<std::string> StartReport::warnings(int64_t total_steps) const {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& line) {
    if (!line.empty()) lines.push_back(line);
  };
  add(warning_of_freeze(total_steps));
  add(note_on_schedule("optimizer.schedule", config_.optimizer.schedule, total_steps));
  if (objective_.adversary()) {
    const int64_t start = config_.adversarial.start_step;
    add(note_on_schedule("adversarial.schedule", config_.optimizer.discriminator_schedule,
                         total_steps - start));
    if (start >= total_steps) {
      add(fmt::format("adversarial.start_step is {}, so the adversarial loss is not reached",
                      start));
    }
  }
  const auto& init = config_.quantizer.init;
  const bool of_the_model = init == "model" || init == "kmeans" || init == "data";
  if (!config_.train.init_from.empty() && model_->quantizer->codes() > 0 && !of_the_model) {
    add(
        fmt::format("codes start by quantizer.init {}, not from the latents of train.init_from, as "
                    "quantizer.init=kmeans has them",
                    init));
  }
  return lines;
}

std::string StartReport::warning_of_freeze(int64_t total_steps) const {
  const auto& schedule = config_.schedule;
  if (schedule.phases.front() != "stage1" || schedule.phases.size() == 1) return "";
  const bool by_epoch = schedule.freeze == "epoch";
  const int64_t first = by_epoch ? schedule.freeze_epoch : schedule.earliest_epoch;
  const bool late = first * schedule_.steps_per_epoch() >= total_steps;
  if (schedule.freeze != "never" && !late) return "";
  const auto why =
      schedule.freeze == "never"
          ? "schedule.freeze is never"
          : fmt::format("schedule.{} is {}", by_epoch ? "freeze_epoch" : "earliest_epoch", first);
  return fmt::format("stage1 lasts to the end: {}, so {} is not reached", why, schedule.phases[1]);
}

}  // namespace nsvq
