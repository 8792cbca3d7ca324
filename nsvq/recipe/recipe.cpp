#include "nsvq/recipe/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>

#include "nsvq/core/error.h"
#include "nsvq/losses/pixel.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/nn/options.h"
#include "nsvq/quantizers/quantizer.h"

namespace nsvq {

namespace {

void check_sizes(const Config& config) {
  const int64_t stride = config.model.stride(), size = config.data.size;
  if (size % stride == 0) return;
  throw UserError(
      "data.size {} is not a multiple of {}, the stride of {} levels (model.multipliers)", size,
      stride, config.model.multipliers.size());
}

void check_schedule(const ScheduleConfig& schedule) {
  const auto& phases = schedule.phases;
  for (auto phase = phases.begin(); phase != phases.end(); ++phase) {
    if (std::find(phases.begin(), phase, *phase) == phase) continue;
    throw UserError("schedule.phases names {} twice", *phase);
  }
  if (schedule.freeze == "epoch" && schedule.freeze_epoch < 1) {
    throw UserError("schedule.freeze is epoch, so schedule.freeze_epoch must name one, from 1 on");
  }
  if (schedule.latest_epoch > 0 && schedule.earliest_epoch > schedule.latest_epoch) {
    throw UserError("schedule.earliest_epoch is {}, after schedule.latest_epoch {}",
                    schedule.earliest_epoch, schedule.latest_epoch);
  }
  const auto stage2 = std::find(phases.begin(), phases.end(), "stage2");
  if (schedule.stage2_epochs == 0 && stage2 != phases.end() && stage2 + 1 != phases.end()) {
    throw UserError(
        "schedule.phases: stage2 lasts to the end of the budget, so {} is not reached; set "
        "schedule.stage2_epochs or name stage2 last",
        *(stage2 + 1));
  }
}

void check_lr_schedule(const std::string& section, const LrScheduleConfig& schedule) {
  const bool falls = schedule.shape == "linear" || schedule.shape == "cosine";
  if (!falls || schedule.steps == 0 || schedule.warmup_steps <= schedule.steps) return;
  throw UserError("{0}.warmup_steps is {1}, but {0}.steps, which includes them, is {2}", section,
                  schedule.warmup_steps, schedule.steps);
}

void check_keep_best(const Config& config) {
  const auto& metric = config.checkpoint.keep_best;
  const auto& metrics = config.train.metrics;
  const auto* kind = find_metric_kind(metric);
  if (kind && kind->input == MetricInput::tokens && !quantizer_kind(config.quantizer.type).tokens) {
    throw UserError("checkpoint.keep_best is {}, but quantizer {} has no tokens to measure", metric,
                    config.quantizer.type);
  }
  if (metric.empty() || std::find(metrics.begin(), metrics.end(), metric) != metrics.end()) return;
  throw UserError("checkpoint.keep_best is {}, which is not among train.metrics ({})", metric,
                  fmt::join(metrics, ", "));
}

}  // namespace

void check_settings(const Config& config) {
  check_model(config.model);
  check_sizes(config);
  check_schedule(config.schedule);
  check_keep_best(config);
  check_lr_schedule("optimizer.schedule", config.optimizer.schedule);
  check_lr_schedule("adversarial.schedule", config.optimizer.discriminator_schedule);
  if (config.schedule.commitment == "validation" && config.drift.images == 0) {
    throw UserError(
        "schedule.commitment is validation, so drift.images must say on how many images");
  }
  if (config.loss.of<L1LossConfig>().weight == 0 && config.loss.of<L2LossConfig>().weight == 0) {
    throw UserError(
        "loss.l1 and loss.l2 are both 0, so nothing asks for reconstruction; set one above 0");
  }
}

Config load_config(const std::string& path, const std::vector<std::string>& overrides) {
  Config config;
  tokenizer_options(config).load(path, overrides);
  return config;
}

Config parse_config(const std::string& text, const std::string& source) {
  Config config;
  tokenizer_options(config).parse(text, source);
  return config;
}

std::string to_yaml(const Config& config) {
  Config copy = config;  // a table binds to what it could change
  return tokenizer_options(copy).to_yaml();
}

std::vector<std::string> essential_differences(const Config& here, const Config& there) {
  Config ours = here, theirs = there;
  auto differences = tokenizer_options(ours).differences(tokenizer_options(theirs));
  // As a rule a meter alone; here its images decide about the freeze.
  const bool decides =
      here.schedule.freeze == "plateau" && here.schedule.commitment == "validation";
  if (decides && here.drift.images != there.drift.images) {
    differences.push_back(
        fmt::format("drift.images ({} here, {} there)", here.drift.images, there.drift.images));
  }
  return differences;
}

std::string config_reference() {
  Config defaults;
  std::string text = tokenizer_options(defaults).reference();
  text += "\nDefaults that depend on quantizer.type:\n";
  for (const auto& kind : quantizer_kinds()) {
    if (kind.defaults.empty()) continue;
    text += fmt::format("{:<12} {}\n", kind.name, fmt::join(kind.defaults, " "));
  }
  return text;
}

}  // namespace nsvq
